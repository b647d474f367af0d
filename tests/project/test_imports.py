"""`import dragoman` is fast and has no side effects; `dragoman --help` is fast.

import-linter does not see late imports, so these tests look into a new interpreter.
"""

import ast
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIST_MODULES = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"

# The packages of the command line itself; nothing else may be loaded before a command runs.
COMMAND_LINE = {
    "annotated_doc",
    "attr",  # rich tries to import it
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
    """The packages that this code loads, besides Python itself."""
    loaded = set(run(f"{code}\n{LIST_MODULES}").strip().split("\n")[-1].split())
    at_start = set(run(LIST_MODULES).split())
    return {
        name
        for name in loaded - at_start - set(sys.stdlib_module_names) - {"dragoman"}
        if not name.startswith("_")
    }


def help_of(*arguments):
    return (
        "import sys\nfrom dragoman.cli.app import app\n"
        f"sys.argv = ['dragoman', *{arguments!r}, '--help']\n"
        "try:\n    app()\nexcept SystemExit as ended:\n    assert not ended.code"
    )


def test_import_dragoman_loads_nothing_else():
    assert foreign_modules("import dragoman") == set()


def test_help_loads_only_the_command_line():
    loaded = foreign_modules(help_of())
    assert "typer" in loaded, "the list must not be empty by mistake"
    assert loaded <= COMMAND_LINE


def test_help_of_a_command_loads_nothing_heavy():
    """typer itself may import pydantic."""
    assert not foreign_modules(help_of("show")) & {"torch", "numpy", "jaxtyping", "yaml"}


def test_a_recipe_is_read_without_torch():
    loaded = foreign_modules("import dragoman; dragoman.load_recipe('base', ['model.norm=pre'])")
    assert {"pydantic", "yaml"} <= loaded
    assert not loaded & {"torch", "numpy", "jaxtyping"}


@pytest.mark.parametrize(
    ("arguments", "limit"), [(["-c", "import dragoman"], 0.3), (["-m", "dragoman", "--help"], 0.6)]
)
def test_the_start_is_fast(arguments, limit):
    """Processor seconds, the best of five, because other tests run at the same time."""
    seconds = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < limit, seconds


PROCESS_STATE = """
import os, signal, sys, threading, warnings

def process_state():
    return {
        "environment": dict(os.environ),
        "warning filters": list(warnings.filters),
        "signal handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "threads": threading.active_count(),
        "hooks": (sys.excepthook, sys.displayhook, threading.excepthook),
        "umask": os.umask(0o022),
        "folder": os.getcwd(),
    }
os.umask(0o022)
"""


def test_import_changes_nothing_in_the_process():
    run(
        f"{PROCESS_STATE}\nbefore = process_state()\nimport dragoman\n"
        "dragoman.load_recipe('base')\nassert process_state() == before"
    )


@pytest.mark.slow
def test_the_public_functions_change_nothing_in_the_process_when_they_are_loaded():
    """The imports of torch and numpy do, and `prepare` switches the telemetry of Daft off."""
    run(
        f"{PROCESS_STATE}\nimport dragoman\n"
        "import ctranslate2, jaxtyping, matplotlib, numpy, pyarrow, sacrebleu, safetensors.torch\n"
        "import torch, torch._dynamo, torch.utils.flop_counter, torch.nn.attention.flex_attention\n"
        "before, threads = process_state(), torch.get_num_threads()\n"
        "for name in set(dragoman.__all__) - {'prepare'}: getattr(dragoman, name)\n"
        "after = process_state()\n"
        "for name in before: assert after[name] == before[name], name\n"
        "assert torch.get_num_threads() == threads\n"
    )


def test_no_module_of_posix_systems_is_imported_when_a_file_is_loaded():
    """Windows is not supported, but only what needs such a module may fail there."""
    posix = {"crypt", "fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in getattr(node, "names", [])]
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            is_import = isinstance(node, ast.Import | ast.ImportFrom)
            assert not (is_import and posix & set(names)), path


def test_log_messages_are_silent_without_a_handler():
    code = "import dragoman, logging; logging.getLogger('dragoman.training').error('hidden')"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stderr == ""
