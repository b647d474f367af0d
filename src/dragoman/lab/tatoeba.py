"""Text of Tatoeba for the lab: short everyday sentences, and simple ones joined to long lines.

Tatoeba has enough pairs to study the size of a text. Several sentences of frequent words in one
line are long and still easy, so length can be studied apart from difficulty.
"""

from __future__ import annotations

import gzip
import os
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from dragoman.errors import DataError
from dragoman.lab.translation_runs import Pairs, ParallelText

_VALIDATION, _TEST = 500, 1_500
JOINED = (1, 2, 3, 4)
"""How many sentences are joined."""
_JOINED_VALIDATION, _JOINED_TEST = 300, 600
FREQUENT_WORDS = (500, 750)
"""English and German words of the joined sentences; German has more forms of each word."""


def tatoeba() -> ParallelText:
    """Everyday sentences, English to German, in shuffled order."""
    return _split("tatoeba", _read_pairs(), _VALIDATION, _TEST)


def joined_tatoeba() -> ParallelText:
    """Lines of one to four sentences of frequent words, English to German.

    A training line has a random number of sentences, and each sentence is in one line; lines of
    each number have about as many sentences in total. The test has the same sentences once for each
    number, so only the length of a line differs.
    """
    simple = _select_simple(list(_read_pairs()))
    text = _split("tatoeba-joined", simple, _JOINED_VALIDATION, _JOINED_TEST)
    numbers = random.Random(1)  # noqa: S311  (nothing secret)
    weights = [1 / number for number in JOINED]
    pairs, train = iter(text.train), []
    while line := list(islice(pairs, *numbers.choices(JOINED, weights))):
        train.append(_join(line))
    return ParallelText(
        text.name,
        tuple(train),
        tuple(_join_all(text.validation)),
        tuple(_join_all(text.test)),
    )


def _split(name: str, pairs: Iterable[tuple[str, str]], validation: int, test: int) -> ParallelText:
    """Shuffle and hold out pairs.

    Validation and test have different English sentences, and the training text has none of their
    sentences in either language.
    """
    translations: dict[str, list[str]] = {}
    for source, target in pairs:
        translations.setdefault(source, []).append(target)
    sources = list(translations)
    random.Random(1).shuffle(sources)  # noqa: S311
    held_out = [(source, translations[source][0]) for source in sources[: validation + test]]
    known = {target for source, _ in held_out for target in translations[source]}
    train = [
        (source, target)
        for source in sources[len(held_out) :]
        for target in translations[source]
        if target not in known
    ]
    random.Random(1).shuffle(train)  # noqa: S311
    return ParallelText(
        name, tuple(train), tuple(held_out[:validation]), tuple(held_out[validation:])
    )


def _select_simple(pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The pairs whose words are all among the most frequent ones of their language."""
    frequent = [
        {word for word, _ in Counter(_words(sentences)).most_common(count)}
        for sentences, count in zip(zip(*pairs, strict=True), FREQUENT_WORDS, strict=True)
    ]
    for pair in pairs:
        if all(
            words.issuperset(_words([side])) for side, words in zip(pair, frequent, strict=True)
        ):
            yield pair


def _words(sentences: Iterable[str]) -> Iterator[str]:
    for sentence in sentences:
        yield from re.findall(r"\w+|[^\w\s]", sentence.lower())


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
