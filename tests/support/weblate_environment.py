"""Makes an environment with Weblate, for `weblate_client.py`.

    python3.11 tests/support/weblate_environment.py ENV 5.14.3     # the last one for Python 3.11
    python3.13 tests/support/weblate_environment.py ENV 2026.10.1  # needs Python 3.12 or newer

Dependencies that need system libraries and that the classes for machine translation do not import
are left out, so no compiler, database or other service is needed.
"""

import re
import subprocess
import sys
import venv

OMITTED = {"borgbackup", "tesserocr", "pygobject", "pycairo", "fedora-messaging"}
LIST_DEPENDENCIES = """
from importlib.metadata import requires
from packaging.requirements import Requirement
for line in requires("weblate"):
    requirement = Requirement(line)
    if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
        print(requirement.name, str(requirement).partition(";")[0].replace(" ", ""), sep="|")
"""


def main(folder, version):
    """Install Weblate without its dependencies, then those that are needed."""
    venv.create(folder, with_pip=True)
    python = f"{folder}/bin/python"

    def install(*requirements):
        command = [python, "-m", "pip", "install", "--quiet", "--prefer-binary", *requirements]
        subprocess.run(command, check=True)

    install("packaging")
    install("--no-deps", f"weblate=={version}")
    listed = subprocess.run(
        [python, "-c", LIST_DEPENDENCIES], check=True, capture_output=True, text=True
    )
    pairs = [line.split("|") for line in listed.stdout.splitlines()]
    needed = [
        requirement
        for name, requirement in pairs
        if re.sub(r"[-_.]+", "-", name).lower() not in OMITTED
    ]
    # Django imports the driver of its database, even if no database is used.
    install(*needed, "psycopg[binary]")


if __name__ == "__main__":
    main(*sys.argv[1:])
