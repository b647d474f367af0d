"""The digest of the code that measures a claim: what changes it, what does not, and whether the
committed findings were measured with today's code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from dragoman.lab import digest
from dragoman.lab.catalog import list_claims
from dragoman.lab.digest import measurement_code
from dragoman.lab.finding import read_finding

LAB = Path(digest.__file__).parent
STORED = sorted((Path(__file__).parents[2] / "docs" / "lab").glob("c*.json"))

CLAIM = "dragoman.lab.claims.c19_relative_position"
TRAINING = "dragoman.lab.training"
TASK = "dragoman.lab.task"


@pytest.fixture(autouse=True)
def _empty_caches() -> Iterator[None]:
    _clear_caches()
    yield
    _clear_caches()


def _clear_caches() -> None:
    digest._read.cache_clear()
    measurement_code.cache_clear()


def digest_after(
    module: str, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The digest of the claim if one piece of a module had another text."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    text = Path(spec.origin).read_text(encoding="utf-8")
    assert text.count(old) == 1, "the test must change exactly one place"
    edited = tmp_path / "edited.py"
    edited.write_text(text.replace(old, new), encoding="utf-8")

    def find(name: str) -> object:
        return SimpleNamespace(origin=str(edited)) if name == module else find_spec(name)

    monkeypatch.setattr(digest, "find_spec", find)
    _clear_caches()
    return measurement_code(CLAIM).digest


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        (CLAIM, "_LENGTH = 8, 4, 20", "_LENGTH = 8, 4, 21"),
        (CLAIM, '"position": "rotary"', '"position": "none"'),
        (CLAIM, "else 1200", "else 1300"),
        (CLAIM, "source, target = [_WORDS]", "source, target = [0]"),
        (TRAINING, "betas=(0.9, 0.98)", "betas=(0.9, 0.99)"),
        (TRAINING, "    warmup_steps: int = 50", "    warmup_steps: int = 60"),
        (TRAINING, '    "norm": "pre",', '    "norm": "post",'),  # Used by a function it calls.
        (TASK, "FIRST = len(SPECIAL)", "FIRST = 1 + len(SPECIAL)"),
    ],
)
def test_another_measurement_changes_the_digest(
    module: str, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = measurement_code(CLAIM).digest
    assert digest_after(module, old, new, tmp_path, monkeypatch) != before


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        (CLAIM, '"""Train at the first positions, test at all."""', '"""Other words."""'),
        (CLAIM, '"""C19: relative', '"""C19: whether relative'),
        (CLAIM, "_LAST_TRAINED = 7\n", "_LAST_TRAINED = 7  # A comment.\n"),
        (CLAIM, '"Supported if all except', '"Supported if most except'),  # The criterion.
        (CLAIM, "_LEARNED = 0.9", "_LEARNED = 0.8"),  # Only the criterion uses it here.
        (CLAIM, "is_partly_supported=is_better", "is_partly_supported=is_learned"),
        (CLAIM, "axes.set_ylim(-0.05, 1.15)", "axes.set_ylim(0, 1)"),
        (CLAIM, '"naive": "the number t"', '"naive": "the index"'),
        (TRAINING, '"""Train in place; return', '"""Train it in place; return'),
        (TRAINING, "# For dropout.", "# For the dropout."),
        # A function of the module that the claim does not use.
        (TRAINING, 'f"unseen {seed} {length}"', 'f"new {seed} {length}"'),
        ("dragoman.lab.style", 'GRAY = "#8a8f98"', 'GRAY = "#000000"'),
    ],
)
def test_another_text_criterion_or_figure_does_not_change_the_digest(
    module: str, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = measurement_code(CLAIM).digest
    assert digest_after(module, old, new, tmp_path, monkeypatch) == before


def test_the_settings_are_the_constants_as_written() -> None:
    settings = measurement_code(CLAIM).settings
    assert settings["_LENGTH"] == "20"
    assert "_LAST_TRAINED" in settings
    assert "_LEARNED" not in settings


def test_every_claim_has_its_own_digest() -> None:
    digests = {measurement_code(entry.module).digest for entry in list_claims().values()}
    assert len(digests) == len(list_claims())
    assert all(len(one) == 16 and int(one, 16) >= 0 for one in digests)


def test_every_constant_of_the_lab_is_seen() -> None:
    """An assignment that the digest does not understand would be left out silently."""
    for path in sorted(LAB.rglob("*.py")):
        parts = path.relative_to(LAB).with_suffix("").parts
        if path.name == "__init__.py":
            continue
        seen = digest._read(".".join(("dragoman", "lab", *parts))).definitions
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in targets:
                for leaf in ast.walk(target):
                    if isinstance(leaf, ast.Name):
                        assert leaf.id in seen, f"{path.name}: {leaf.id}"


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_committed_finding_is_measured_with_the_code_of_today(path: Path) -> None:
    finding = read_finding(path)
    assert not finding.is_outdated, f"measure it again with: {finding.command}"
    assert finding.settings == measurement_code(list_claims()[finding.number].module).settings
