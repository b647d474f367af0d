"""The steps of `dragoman demo` that no other command has: its corpus and its score."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from dragoman.corpus.files import read_lines
from dragoman.inference.translator import Translator
from dragoman.workflow.initialization import RECIPE, init_demo

SENTENCE = "The train leaves at half past two."
"""Translated and explained if the user types nothing."""
_EXAMPLES = 3
_LONG_EXAMPLE = 30
"""Characters; a number alone does not show what the task is."""


class ExactMatch(NamedTuple):
    """How many of the unseen test items are translated without any mistake."""

    exact: int
    total: int


def make_corpus(folder: Path) -> Path:
    """Write the demo corpus and its recipe, unless they exist; return the recipe."""
    recipe = folder / RECIPE
    return recipe if recipe.exists() else init_demo(folder)


def examples(folder: Path) -> list[tuple[str, str]]:
    """Return a few sentences of the demo corpus, with their translations."""
    pairs = zip(_lines(folder / "test.en"), _lines(folder / "test.de"), strict=True)
    return [pair for pair in pairs if len(pair[0]) > _LONG_EXAMPLE][:_EXAMPLES]


def score(run: Path, folder: Path) -> ExactMatch:
    """Translate the test items of the demo corpus, and count the exact matches."""
    sources, references = _lines(folder / "test.en"), _lines(folder / "test.de")
    with Translator.load(run) as translator:
        translations = translator.translate(sources)
    exact = sum(
        translation.text == reference
        for translation, reference in zip(translations, references, strict=True)
    )
    return ExactMatch(exact, len(references))


def _lines(path: Path) -> list[str]:
    return [str(line) for _, line in read_lines(path)]
