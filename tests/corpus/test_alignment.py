"""Is a shift of lines found, and is nothing found where there is none?"""

from __future__ import annotations

import random
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from dragoman.corpus.alignment import Shift, find_shift
from dragoman.corpus.format.lines import Lines
from dragoman.corpus.format.tsv import Tsv
from dragoman.corpus.row import Reject, Row
from shared_data import shared_data

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
    """Let targets from BEGIN on stand `shift` lines further down, as an extra line would."""
    sources, targets = map(list, zip(*pairs, strict=True))
    if shift > 0:
        targets[BEGIN:BEGIN] = targets[:shift]
    else:
        del targets[BEGIN : BEGIN - shift]
    return rows_of(list(zip(sources, targets, strict=False)))


@pytest.mark.parametrize("name", CORPORA)
def test_aligned_text_is_left_alone(name):
    assert find_shift(rows_of(pairs_of(name, shared_data()))) is None


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("shift", [1, -1, 3])
def test_a_shift_is_found_where_it_begins(name, shift):
    found = find_shift(shifted(pairs_of(name, shared_data()), shift))
    assert found is not None
    assert found.shift == shift
    assert abs(found.number - BEGIN) <= 300


def invented(count: int) -> list[tuple[str, str]]:
    chance = random.Random(7)
    pairs = []
    for _ in range(count):
        words = chance.randint(3, 30)
        pairs.append(("word " * words, "Wort " * max(1, words + chance.randint(-3, 3))))
    return pairs


def test_a_file_shifted_from_its_first_line_on():
    sources, targets = zip(*invented(1_000), strict=True)
    found = find_shift(rows_of(list(zip(sources[1:], targets[:-1], strict=True))))
    assert found is not None
    assert found.shift == 1
    assert found.number < 30


def test_rejects_and_empty_lines_neither_hide_nor_make_a_shift():
    rows: list[Row | Reject] = list(rows_of(invented(8_000)))
    for number in range(3, 8_000, 11):
        rows[number - 1] = Reject(number, "not UTF-8")
    for number in range(5, 8_000, 13):
        rows[number - 1] = Row(number, "", "")
    assert find_shift(rows) is None
    later: list[Row | Reject] = list(shifted(invented(8_000), 2))
    for number in range(3, len(later), 11):
        later[number - 1] = Reject(number, "not UTF-8")
    found = find_shift(later)
    assert isinstance(found, Shift)
    assert found.shift == 2
    assert abs(found.number - BEGIN) <= 300


def test_text_that_says_nothing_raises_no_alarm():
    assert find_shift(Row(number, "same", "gleich") for number in range(1, 5_000)) is None
    assert find_shift([]) is None
