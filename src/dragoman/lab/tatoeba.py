"""Text of Tatoeba for the lab: short everyday sentences, and the same sentences joined.

Tatoeba has enough pairs to study the size of a text. Its sentences are short and easy; several of
them in one line are long and still easy, so length can be studied apart from difficulty.
"""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from dragoman.errors import DataError
from dragoman.lab.translation_runs import Pairs, ParallelText

_VALIDATION, _TEST = 500, 1_500
JOINED = (1, 2, 3, 4, 5, 6)
"""How many sentences are joined."""
_JOINED_VALIDATION, _JOINED_TEST = 300, 600


def tatoeba() -> ParallelText:
    """Everyday sentences, English to German, in shuffled order.

    Validation and test have different English sentences, and the training text has none of their
    sentences in either language.
    """
    translations: dict[str, list[str]] = {}
    for source, target in _read_pairs():
        translations.setdefault(source, []).append(target)
    sources = list(translations)
    random.Random(1).shuffle(sources)  # noqa: S311  (nothing secret)
    held_out = _VALIDATION + _TEST
    pairs = [(source, translations[source][0]) for source in sources[:held_out]]
    known = {target for source in sources[:held_out] for target in translations[source]}
    train = [
        (source, target)
        for source in sources[held_out:]
        for target in translations[source]
        if target not in known
    ]
    random.Random(1).shuffle(train)  # noqa: S311
    return ParallelText(
        "tatoeba", tuple(train), tuple(pairs[:_VALIDATION]), tuple(pairs[_VALIDATION:])
    )


def joined_tatoeba() -> ParallelText:
    """Lines of one to six sentences, English to German.

    A training line has a random number of sentences, and each sentence is in one line. The test
    has the same sentences once for each number, so only the length of a line differs.
    """
    text = tatoeba()
    numbers = random.Random(1)  # noqa: S311
    pairs, train = iter(text.train), []
    while line := list(islice(pairs, numbers.choice(JOINED))):
        train.append(_join(line))
    return ParallelText(
        "tatoeba-joined",
        tuple(train),
        tuple(_join_all(text.validation[:_JOINED_VALIDATION])),
        tuple(_join_all(text.test[:_JOINED_TEST])),
    )


def joined_test_rows() -> dict[int, range]:
    """The rows of the joined test text that have one sentence, two sentences and so on."""
    rows, start = {}, 0
    for count in JOINED:
        rows[count] = range(start, start + _JOINED_TEST // count)
        start = rows[count].stop
    return rows


def _join_all(pairs: Pairs) -> Iterator[tuple[str, str]]:
    """All sentences in lines of one, then all in lines of two, and so on."""
    for count in JOINED:
        for start in range(0, len(pairs), count):
            yield _join(pairs[start : start + count])


def _join(pairs: Sequence[tuple[str, str]]) -> tuple[str, str]:
    source, target = (" ".join(sentences) for sentences in zip(*pairs, strict=True))
    return source, target


def _read_pairs() -> Iterator[tuple[str, str]]:
    path = Path(os.environ.get("DRAGOMAN_DATA") or "data") / "tatoeba" / "deu.txt.gz"
    if not path.is_file():
        raise DataError(
            f"there is no file {str(path)!r}; the full size of this claim trains on Tatoeba: set "
            "DRAGOMAN_DATA to the folder that contains tatoeba/deu.txt.gz, or run the claim with "
            "--quick"
        )
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        source, target, *_ = line.split("\t")
        yield source, target
