"""Removes training pairs whose text is also in a validation or test set that the recipe names.

Texts are compared without case, punctuation and white space. A pair leaks if its source or its
target is in one of these sets. The sets are small, so every worker keeps all their hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from unicodedata import normalize

from dragoman.corpus.filter import Filter, Pair
from dragoman.storage.files import atomic_write
from dragoman.storage.mirror import fetch

IN_A_TEST_SET = "in a test set"
"""The reason why such a pair is dropped."""
_HASH_BYTES = 12
_MIN_LETTERS = 8
"""Shorter texts ("Yes.") occur everywhere and are not a leak."""


class Leakage(Filter):
    """Drops pairs that a validation or test set contains."""

    def __init__(
        self, source: str, target: str, sources: frozenset[bytes], targets: frozenset[bytes]
    ) -> None:
        super().__init__(source, target)
        self.sources = sources
        self.targets = targets

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> Leakage:
        """Hash held-out pairs."""
        return cls("", "", *_hash_sides(pairs))

    def apply(self, pair: Pair) -> Pair | str:
        """Drop the pair if one of its sides is in a held-out set."""
        return IN_A_TEST_SET if self.contains(pair) else pair

    def contains(self, pair: Pair) -> bool:
        """Return whether one of the sides is in a held-out set."""
        return _hash(pair.source) in self.sources or _hash(pair.target) in self.targets

    @staticmethod
    def save(path: Path, pairs: Iterable[Pair]) -> None:
        """Write the hashes of held-out pairs: their number of sources, all sources, all targets."""
        sources, targets = _hash_sides(pairs)
        with atomic_write(path) as temporary:
            count = len(sources).to_bytes(8, "little")
            temporary.write_bytes(count + b"".join(sorted(sources)) + b"".join(sorted(targets)))

    @classmethod
    def load(cls, path: Path, source: str, target: str) -> Leakage:
        """Read the hashes that `save` wrote."""
        data = fetch(path).read_bytes()
        count = int.from_bytes(data[:8], "little")
        hashes = [data[start : start + _HASH_BYTES] for start in range(8, len(data), _HASH_BYTES)]
        return cls(source, target, frozenset(hashes[:count]), frozenset(hashes[count:]))


def _hash_sides(pairs: Iterable[Pair]) -> tuple[frozenset[bytes], frozenset[bytes]]:
    sides = [frozenset(map(_hash, side)) - {b""} for side in zip(*pairs, strict=True)]
    sources, targets = sides or (frozenset(), frozenset())
    return sources, targets


def _hash(text: str) -> bytes:
    """Hash the letters and digits of a text; return nothing if there are few of them."""
    letters = "".join(filter(str.isalnum, normalize("NFKC", text).casefold()))
    if len(letters) < _MIN_LETTERS:
        return b""
    return hashlib.blake2b(letters.encode(), digest_size=_HASH_BYTES).digest()
