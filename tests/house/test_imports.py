"""Does `import dragoman` stay light, and `dragoman --help` quick?

Static contracts (import-linter) miss late imports, so a fresh interpreter is asked what it loaded.
"""

import resource
import subprocess
import sys

import pytest

LIST_MODULES = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"

# What the command line itself is made of; nothing else may load before it knows what to do.
COMMAND_LINE = {
    "annotated_doc",
    "attr",  # rich looks whether it is there
    "click",
    "markdown_it",
    "mdurl",
    "pygments",
    "rich",
    "shellingham",
    "typer",
    "typing_extensions",
}


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout


def foreign_modules(code):
    """The packages that this code loads, beyond Python itself and what it starts with."""
    loaded = set(run(f"{code}\n{LIST_MODULES}").strip().split("\n")[-1].split())
    ground = set(run(LIST_MODULES).split())
    return {
        name
        for name in loaded - ground - set(sys.stdlib_module_names) - {"dragoman"}
        if not name.startswith("_")
    }


def help_of(*words):
    return (
        "import sys\nfrom dragoman.cli import app\n"
        f"sys.argv = ['dragoman', *{words!r}, '--help']\n"
        "try:\n    app()\nexcept SystemExit as ended:\n    assert not ended.code"
    )


def test_import_dragoman_loads_nothing_else():
    assert foreign_modules("import dragoman") == set()


def test_help_loads_only_the_command_line():
    loaded = foreign_modules(help_of())
    assert "typer" in loaded, "the list must not be empty by mistake"
    assert loaded <= COMMAND_LINE


def test_help_of_a_command_loads_nothing_heavy():
    """typer itself asks pydantic about the types of a command's options."""
    assert not foreign_modules(help_of("show")) & {"torch", "numpy", "jaxtyping", "yaml"}


def test_a_recipe_is_read_without_torch():
    loaded = foreign_modules("import dragoman; dragoman.load_recipe('base', ['model.norm=pre'])")
    assert {"pydantic", "yaml"} <= loaded
    assert not loaded & {"torch", "numpy", "jaxtyping"}


@pytest.mark.parametrize(
    ("arguments", "limit"), [(["-c", "import dragoman"], 0.3), (["-m", "dragoman", "--help"], 0.6)]
)
def test_it_starts_quickly(arguments, limit):
    """Seconds of the processor, the best of a few: other tests run beside this one."""
    seconds = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < limit, seconds
