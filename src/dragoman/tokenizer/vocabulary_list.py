"""The base of the word and character tokenizers: a vocabulary that is a plain list.

The file is JSON with the pieces, the most frequent first. A piece that is not in the list is
UNKNOWN.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict

from dragoman.errors import DataError, Mistake, RecipeError
from dragoman.tokenizer.interface import (
    RESERVED_TOKENS,
    SPECIAL,
    UNKNOWN,
    Tokenizer,
    explain_load_errors,
    language_token,
)


class _File(BaseModel):
    """The content of the file: after the special ids come the languages, then the pieces."""

    model_config = ConfigDict(extra="forbid", strict=True)

    languages: list[str]
    pieces: list[str]


class VocabularyList(Tokenizer):
    """A vocabulary that is a plain list: the most frequent pieces of the training text."""

    reserved: ClassVar[tuple[str, ...]] = RESERVED_TOKENS
    """The pieces that every vocabulary begins with, whether the text contains them or not."""

    def __init__(self, languages: Sequence[str], pieces: Sequence[str]) -> None:
        self._languages = list(languages)
        self._specials = [*SPECIAL, *map(language_token, languages)]
        self._pieces = [*self._specials, *pieces]
        self._ids = {piece: number for number, piece in enumerate(self._pieces)}
        if len(self._ids) != len(self._pieces) or "" in self._ids:
            raise DataError("a piece or a language is empty, or listed twice")
        self._texts = [*("" for _ in self._specials), *map(self.as_text, pieces)]

    @abstractmethod
    def split(self, text: str) -> Iterable[str]:
        """Split a text into pieces, known or unknown."""

    @abstractmethod
    def as_text(self, piece: str) -> str:
        """Return what the piece adds to a text."""

    @property
    def size(self) -> int:
        """The number of ids, including the special ones."""
        return len(self._pieces)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Split texts into ids, without BEGIN and END."""
        return [[self._ids.get(piece, UNKNOWN) for piece in self.split(text)] for text in texts]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Join ids into texts; special ids are skipped."""
        return ["".join([self._texts[token] for token in row]) for row in ids]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return a readable form of each id."""
        return [self._pieces[token] for token in ids]

    def id_of(self, piece: str) -> int:
        """Return the id of a piece, for example of a language token; UNKNOWN if there is none."""
        return self._ids.get(piece, UNKNOWN)

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary_size: int, languages: Sequence[str]) -> Self:
        """Keep the most frequent pieces; pieces of equal frequency in alphabetical order."""
        languages = list(dict.fromkeys(languages))
        empty = cls(languages, cls.reserved)
        counts = Counter(chain.from_iterable(map(empty.split, texts)))
        if not counts:
            raise DataError("there is no text to learn a vocabulary from")
        try:
            "".join(counts).encode()
        except UnicodeEncodeError:
            raise DataError(
                "a text to learn a vocabulary from contains half a character (a lone surrogate)"
            ) from None
        if vocabulary_size <= empty.size:
            what = f"found {vocabulary_size}, expected more than the {empty.size} reserved tokens"
            raise RecipeError([Mistake("tokenizer.vocabulary_size", what)])
        learned = counts.keys() - set(cls.reserved)
        ranked = sorted(learned, key=lambda piece: (-counts[piece], piece))
        return cls(languages, [*cls.reserved, *ranked[: vocabulary_size - empty.size]])

    def save(self, folder: Path) -> None:
        """Write the tokenizer into an existing folder."""
        pieces = self._pieces[len(self._specials) :]
        content = {"languages": self._languages, "pieces": pieces}
        text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
        (folder / self.file_name).write_bytes(text.encode())

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load a saved tokenizer."""
        path = folder / cls.file_name
        with explain_load_errors(path, "a list of languages and a list of pieces"):
            content = _File.model_validate_json(path.read_bytes())
            return cls(content.languages, content.pieces)
