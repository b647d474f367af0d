"""The alignment check finds shifted lines, and reports nothing for aligned text."""

from __future__ import annotations

import random
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from dragoman.corpus.alignment import Shift, find_shift
from dragoman.corpus.readers.lines import Lines
from dragoman.corpus.readers.tsv import Tsv
from dragoman.corpus.row import Reject, Row
from support.sets import first_quick
from support.shared_data import shared_data

BEGIN = 5_000
CORPORA = ["multi30k", "europarl", "tatoeba", "enja-small"]


@cache
def pairs_of(name: str, folder: Path) -> list[tuple[str, str]]:
    if name == "multi30k":
        rows = Lines("en", "de").read(
            [folder / f"multi30k/train.{code}.gz" for code in ("en", "de")]
        )
    elif name == "europarl":
        rows = Lines("en", "de").read(
            [folder / f"europarl/train.2005-2010.{code}.bz2" for code in ("en", "de")]
        )
    elif name == "tatoeba":
        rows = Tsv("en", "de").read([folder / "tatoeba/deu.txt.gz"])
    else:
        rows = Lines("en", "ja").read(
            [folder / f"enja-small/train.{code}.gz" for code in ("en", "ja")]
        )
    return [(row.source, row.target) for row in islice(rows, 15_000) if isinstance(row, Row)]


def rows_of(pairs: list[tuple[str, str]]) -> list[Row]:
    return [Row(number, *pair) for number, pair in enumerate(pairs, 1)]


def shifted(pairs: list[tuple[str, str]], shift: int) -> list[Row]:
    """Move the targets from BEGIN on by `shift` lines, as an extra or a missing line does."""
    sources, targets = map(list, zip(*pairs, strict=True))
    if shift > 0:
        targets[BEGIN:BEGIN] = targets[:shift]
    else:
        del targets[BEGIN : BEGIN - shift]
    return rows_of(list(zip(sources, targets, strict=False)))


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
def test_aligned_text_has_no_shift(name):
    assert find_shift(rows_of(pairs_of(name, shared_data()))) is None


@pytest.mark.parametrize("name", first_quick(CORPORA))
@pytest.mark.parametrize("shift", [1, -1, 3])
def test_a_shift_is_found_where_it_begins(name, shift):
    detected = find_shift(shifted(pairs_of(name, shared_data()), shift))
    assert detected is not None
    assert detected.shift == shift
    assert abs(detected.number - BEGIN) <= 300


def artificial_pairs(count: int) -> list[tuple[str, str]]:
    rng = random.Random(7)
    pairs = []
    for _ in range(count):
        words = rng.randint(3, 30)
        pairs.append(("word " * words, "Wort " * max(1, words + rng.randint(-3, 3))))
    return pairs


def test_a_shift_from_the_first_line_is_found():
    sources, targets = zip(*artificial_pairs(1_000), strict=True)
    detected = find_shift(rows_of(list(zip(sources[1:], targets[:-1], strict=True))))
    assert detected is not None
    assert detected.shift == 1
    assert detected.number < 30


def test_rejects_and_empty_lines_neither_hide_nor_cause_a_shift():
    rows: list[Row | Reject] = list(rows_of(artificial_pairs(8_000)))
    for number in range(3, 8_000, 11):
        rows[number - 1] = Reject(number, "not UTF-8")
    for number in range(5, 8_000, 13):
        rows[number - 1] = Row(number, "", "")
    assert find_shift(rows) is None
    later: list[Row | Reject] = list(shifted(artificial_pairs(8_000), 2))
    for number in range(3, len(later), 11):
        later[number - 1] = Reject(number, "not UTF-8")
    detected = find_shift(later)
    assert isinstance(detected, Shift)
    assert detected.shift == 2
    assert abs(detected.number - BEGIN) <= 300


def test_text_without_features_has_no_shift():
    assert find_shift(Row(number, "same", "gleich") for number in range(1, 5_000)) is None
    assert find_shift([]) is None
