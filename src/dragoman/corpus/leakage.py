"""Does a training pair repeat what the model will be tested on?

Compared without case, punctuation and white space; a pair leaks when either side stands in a
development or test set. The sets are small, so every worker holds their hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from unicodedata import normalize

from dragoman.corpus.cleaning import Pair, Step
from dragoman.durable import new_file

_HASH_BYTES = 12
_TRIVIAL = 8
"""So few letters and digits can be the same by chance: "Yes." is no leak."""


class Leakage(Step):
    """Drops what a declared test set already holds."""

    def __init__(
        self, source: str, target: str, sources: frozenset[bytes], targets: frozenset[bytes]
    ) -> None:
        super().__init__(source, target)
        self.sources = sources
        self.targets = targets

    def apply(self, pair: Pair) -> Pair | str:
        """Look both sides up."""
        if _mark(pair.source) in self.sources or _mark(pair.target) in self.targets:
            return "in a test set"
        return pair

    @staticmethod
    def save(path: Path, pairs: Iterable[Pair]) -> None:
        """Write the marks of these test pairs: one hash after the other, sources first."""
        listed = list(pairs)
        sides = [{_mark(text) for text in side} - {b""} for side in zip(*listed, strict=True)]
        sources, targets = sides or (set(), set())
        with new_file(path) as temporary:
            head = len(sources).to_bytes(8, "little")
            temporary.write_bytes(head + b"".join(sorted(sources)) + b"".join(sorted(targets)))

    @classmethod
    def load(cls, path: Path, source: str, target: str) -> Leakage:
        """Read them."""
        data = path.read_bytes()
        count = int.from_bytes(data[:8], "little")
        marks = [data[at : at + _HASH_BYTES] for at in range(8, len(data), _HASH_BYTES)]
        return cls(source, target, frozenset(marks[:count]), frozenset(marks[count:]))


def _mark(text: str) -> bytes:
    letters = "".join(filter(str.isalnum, normalize("NFKC", text).casefold()))
    if len(letters) < _TRIVIAL:
        return b""
    return hashlib.blake2b(letters.encode(), digest_size=_HASH_BYTES).digest()
