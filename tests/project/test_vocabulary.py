"""The code and the documentation use the field's vocabulary."""

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = sorted([*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("bench/*.py")])
TEXTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("recipes/*.yaml"),
        *ROOT.glob("src/**/*.yaml"),
        *ROOT.glob("src/**/*.html"),
        *ROOT.glob("src/**/*.js"),
    ]
)
VAGUE = {"each", "found", "told"}
"""Names of locals that do not say what they hold."""
MOST_VAGUE = 50
OLD_WORDS = re.compile(
    r"\b(?:reckon(?:ed|s|ing)?|rivals?|pupils?|thrice|bouts?|whoever|seeds? 00[0-4]"
    r"|tokenis\w+|normalis\w+|initialis\w+|optimis(?:e|ed|er|ers|ing|ation)|serialis\w+"
    r"|development (?:set|text|corpus|data))\b",
    re.IGNORECASE,
)
"""Words that have a better one: estimated, baseline, model, validation set, American spelling."""
LIMIT = 400
"""Lines of a source file; the demo grammar is longer."""


def names(path):
    """All names that a file binds or reads, with how often."""
    counts = Counter()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            counts[node.id] += 1
        elif isinstance(node, ast.arg):
            counts[node.arg] += 1
    return counts


def prose(path):
    """The comments and strings of a Python file, or all of another one."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    kinds = (tokenize.COMMENT, tokenize.STRING)
    return "\n".join(token.string for token in tokens if token.type in kinds)


def test_locals_say_what_they_hold():
    counts = Counter()
    for path in PYTHON:
        for name, count in names(path).items():
            if name in VAGUE:
                counts[path.relative_to(ROOT)] += count
    assert counts.total() < MOST_VAGUE, counts.most_common(20)


@pytest.mark.parametrize("kind", ["python", "texts"])
def test_old_words_do_not_come_back(kind):
    paths = PYTHON if kind == "python" else TEXTS
    lines = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in paths
        if path != Path(__file__)
        for match in OLD_WORDS.finditer(prose(path))
    ]
    assert not lines, "\n".join(lines)


def test_source_files_are_short():
    counts = {
        path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines())
        for path in ROOT.glob("src/**/*.py")
        if path.name != "demo.py"
    }
    assert not {path: count for path, count in counts.items() if count > LIMIT}


def test_the_package_root_has_few_modules():
    modules = sorted(path.name for path in (ROOT / "src" / "dragoman").glob("*.py"))
    assert modules == ["__init__.py", "__main__.py", "artifact.py", "errors.py", "shapes.py"]
