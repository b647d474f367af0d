"""Write docs/licenses.md: the license of every package that an extra installs.

    python -m docs_build.licenses

The packages are those of the environment in which this runs; install `.[all,cluster,otel]` first.
`tests/project/test_licenses.py` compares the page with the metadata of the installed packages.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licenses.md"
CORE = "core"
"""Stands for an installation without extras."""
_SHORT = 80
"""A longer entry of the old field `License` is the text of a license, not its name."""
_CLASSIFIER = "License :: OSI Approved :: "
_OPENINGS = {"Apache License": "Apache-2.0", "MIT License": "MIT", "BSD 3-Clause": "BSD-3-Clause"}
"""First lines of license texts."""
_IDENTIFIERS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
}
"""One name for one license: old metadata use several. "BSD" does not say which of them."""
_UNDECLARED = {"sentencepiece": "Apache-2.0"}
"""Packages whose metadata do not name a license; their repositories do."""
_STRONG_COPYLEFT = re.compile(
    r"(?<![\w-])A?GPL|GNU (?:Affero )?General Public|(?<!\w)(?:SSPL|Server Side Public)"
)
_TOP = """\
# Licenses of dependencies

Dragoman has the Apache-2.0 license. This page lists every package that an extra installs, directly
or through another package, with the license that the package declares; *core* is an installation
without extras. `docs_build/licenses.py` wrote it from the metadata of the packages, on Linux.

{verdict} A test fails if that changes. MPL-2.0 (weak copyleft) asks only that changes of its own
files stay open.

Not in the table:

- The usual build of PyTorch for Linux also installs the CUDA libraries of NVIDIA, which have a
  proprietary license. The build for CPUs does not.
- A wheel can contain compiled libraries of others, with licenses of their own. The license files
  inside each package say which.
- The tools of developers (the dependency groups in `pyproject.toml`) are not installed for users.
  `make sbom` writes the bill of materials of one installation, with versions.

| package | license | extras |
|---|---|---|
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")


def page() -> str:
    """Return the page, from the packages that are installed here."""
    extras: dict[str, list[str]] = {}
    for extra in (CORE, *requirements()):
        for name in closure(extra):
            extras.setdefault(name, []).append(extra)
    licenses = {name: license_of(distribution(name)) for name in sorted(extras)}
    strong = [name for name, license_name in licenses.items() if is_strong_copyleft(license_name)]
    verdict = f"Strong copyleft (GPL, AGPL): {', '.join(strong) or 'none'}."
    rows = (f"| {name} | {licenses[name]} | {_extras_cell(extras[name])} |" for name in licenses)
    return _TOP.format(verdict=verdict) + "\n".join(rows) + "\n"


def _extras_cell(extras: list[str]) -> str:
    return CORE if CORE in extras else ", ".join(extras)


def requirements() -> dict[str, list[str]]:
    """Return the requirements of each extra, as in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return extras


def closure(extra: str) -> set[str]:
    """Return the names of all packages that an extra installs here."""
    if extra == CORE:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        lines = project["dependencies"]
    else:
        lines = requirements()[extra]
    seen: set[Requirement] = set()
    waiting = [Requirement(line) for line in lines]
    while waiting:
        requirement = waiting.pop()
        if requirement not in seen:
            seen.add(requirement)
            waiting += _required_by(requirement)
    return {canonicalize_name(requirement.name) for requirement in seen} - {"dragoman"}


def _required_by(requirement: Requirement) -> Iterator[Requirement]:
    """Yield what an installed package requires on this system, with the extras that are named."""
    if requirement.name == "dragoman":
        lines = [line for extra in requirement.extras for line in requirements()[extra]]
    else:
        try:
            lines = distribution(requirement.name).requires or []
        except PackageNotFoundError:
            return
    for line in lines:
        below = Requirement(line)
        environments = [{"extra": extra} for extra in ("", *requirement.extras)]
        if below.marker is None or any(map(below.marker.evaluate, environments)):
            yield below


def license_of(package: Distribution) -> str:
    """Return the license that a package declares: expression, short name, classifier or text."""
    metadata = package.metadata
    if expression := metadata.get("License-Expression"):
        return expression
    named = (metadata.get("License") or "").strip()
    if named and len(named) <= _SHORT and "\n" not in named:
        return _IDENTIFIERS.get(named, named)
    classifiers = metadata.get_all("Classifier") or []
    approved = [line.removeprefix(_CLASSIFIER) for line in classifiers if _CLASSIFIER in line]
    if approved:
        return ", ".join(_IDENTIFIERS.get(line, line) for line in approved)
    for name in metadata.get_all("License-File") or []:
        text = package.read_text(f"licenses/{name}") or package.read_text(name) or ""
        for opening, identifier in _OPENINGS.items():
            if text.strip().startswith(opening):
                return identifier
    return _UNDECLARED.get(canonicalize_name(metadata["Name"]), "not declared")


def is_strong_copyleft(license_name: str) -> bool:
    """Return whether a license covers programs that use the package; the LGPL and MPL do not."""
    return _STRONG_COPYLEFT.search(license_name) is not None


if __name__ == "__main__":
    main()
