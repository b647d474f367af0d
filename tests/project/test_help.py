"""Every help page fits in 80 columns, has examples, and shows no names of Python types."""

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from dragoman.cli.app import app


def command_paths(command, path=()):
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from command_paths(inner, (*path, name))


PATHS = list(command_paths(get_command(app)))


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_a_help_page_is_readable(path):
    shown = CliRunner().invoke(app, [*path, "--help"], prog_name="dragoman")
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    assert lines[0].startswith("Usage: dragoman " + " ".join(path))
    assert max(map(len, lines)) <= 80
    for type_name in ("<bool>", "<str>", "<path>", "list[", "<int"):
        assert type_name not in shown.output
    is_group = path in {other[:-1] for other in PATHS if other}
    if not is_group:
        examples = shown.output.partition("Examples:\n")[2].splitlines()
        expected = "  " + " ".join(("dragoman", *path))
        assert sum(line.startswith(expected) for line in examples) >= 2


def test_without_arguments_the_help_is_shown():
    shown = CliRunner().invoke(app, [], prog_name="dragoman")
    assert "Usage: dragoman COMMAND" in shown.output
