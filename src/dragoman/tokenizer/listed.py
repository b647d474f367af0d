"""How does a tokenizer keep its vocabulary as a plain list?

Words and characters do: a JSON file of pieces, the most frequent first; what is not in it is
UNKNOWN.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from dragoman.errors import DataError, Mistake, RecipeError
from dragoman.tokenizer.interface import SPECIAL, UNKNOWN, Tokenizer, language_token


class _File(BaseModel):
    """What the file holds: after the special ids come the languages, then the pieces."""

    model_config = ConfigDict(extra="forbid", strict=True)

    languages: list[str]
    pieces: list[str]


class Listed(Tokenizer):
    """A vocabulary that is a plain list: the most frequent pieces of the training text."""

    def __init__(self, languages: Sequence[str], pieces: Sequence[str]) -> None:
        self._languages = list(languages)
        self._specials = [*SPECIAL, *map(language_token, languages)]
        self._all = [*self._specials, *pieces]
        self._ids = {piece: number for number, piece in enumerate(self._all)}
        if len(self._ids) != len(self._all) or "" in self._ids:
            raise DataError("a piece or a language is empty, or listed twice")
        self._texts = [*("" for _ in self._specials), *map(self.as_text, pieces)]

    @abstractmethod
    def cut(self, text: str) -> Iterable[str]:
        """Cut a text into pieces, known or not."""

    @abstractmethod
    def as_text(self, piece: str) -> str:
        """What the piece adds to a text."""

    @property
    def size(self) -> int:
        """How many ids there are, the special ones included."""
        return len(self._all)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Cut texts into ids, without `begin` and `end`."""
        return [[self._ids.get(piece, UNKNOWN) for piece in self.cut(text)] for text in texts]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Put texts together again; special ids say nothing."""
        return ["".join([self._texts[each] for each in row]) for row in ids]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Show each id as a person would read it."""
        return [self._all[each] for each in ids]

    def id_of(self, piece: str) -> int:
        """The id of a piece, a language token for example; UNKNOWN where there is none."""
        return self._ids.get(piece, UNKNOWN)

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary_size: int, languages: Sequence[str]) -> Self:
        """Keep the most frequent pieces; among equals, the first of the alphabet."""
        languages = list(dict.fromkeys(languages))
        empty = cls(languages, [])
        counts = Counter(chain.from_iterable(map(empty.cut, texts)))
        if not counts:
            raise DataError("there is no text to learn a vocabulary from")
        try:
            "".join(counts).encode()
        except UnicodeEncodeError:
            raise DataError("a text to learn a vocabulary from holds half a character") from None
        if vocabulary_size <= empty.size:
            what = f"found {vocabulary_size}, expected more than the {empty.size} special tokens"
            raise RecipeError([Mistake("tokenizer.vocabulary_size", what)])
        ranked = sorted(counts, key=lambda piece: (-counts[piece], piece))
        return cls(languages, ranked[: vocabulary_size - empty.size])

    def save(self, folder: Path) -> None:
        """Write the file into an existing folder."""
        pieces = self._all[len(self._specials) :]
        content = {"languages": self._languages, "pieces": pieces}
        written = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
        (folder / self.file_name).write_bytes(written.encode())

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read it again."""
        path = folder / cls.file_name
        try:
            content = _File.model_validate_json(path.read_bytes())
            return cls(content.languages, content.pieces)
        except FileNotFoundError:
            raise DataError(f"{path} does not exist; expected the vocabulary's file") from None
        except ValidationError as error:
            what = error.errors(include_url=False)[0]["msg"]
            raise DataError(
                f"{path}: {what}; expected a list of languages and a list of pieces"
            ) from None
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
