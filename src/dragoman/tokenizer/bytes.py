"""What if nothing were learned, and every byte of UTF-8 had its own id?

No training, nothing unknown, every text comes back as it was; but the longest sequences of all,
longer still for scripts whose characters are two, three or four bytes (not in the lectures; the
end of the scale of claim C18. ByT5, Xue et al., 2022, is the model that made it popular).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from dragoman.errors import DataError, Mistake, RecipeError
from dragoman.tokenizer.interface import SPECIAL, UNKNOWN, Tokenizer, language_token

BYTES = 256


class _File(BaseModel):
    """What the file holds: the languages, and nothing else, for nothing else is learned."""

    model_config = ConfigDict(extra="forbid", strict=True)

    languages: list[str]


def _shown(byte: int) -> str:
    """A visible sign of ASCII as itself, any other byte by its number."""
    return chr(byte) if chr(byte).isascii() and chr(byte).isprintable() else f"<0x{byte:02X}>"


class Bytes(Tokenizer):
    """The bytes of UTF-8."""

    file_name: ClassVar[str] = "bytes.json"

    def __init__(self, languages: Sequence[str]) -> None:
        self._languages = list(languages)
        specials = [*SPECIAL, *map(language_token, languages)]
        self._first = len(specials)
        self._pieces = [*specials, *map(_shown, range(BYTES))]
        self._ids = {piece: number for number, piece in enumerate(self._pieces)}
        if len(self._ids) != len(self._pieces):
            raise DataError("a language is listed twice")

    @property
    def size(self) -> int:
        """How many ids there are, the special ones included."""
        return len(self._pieces)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Cut texts into ids, without `begin` and `end`."""
        try:
            return [[self._first + byte for byte in text.encode()] for text in texts]
        except UnicodeEncodeError as error:
            raise DataError(
                "a text holds half a character (a lone surrogate, U+"
                f"{ord(error.object[error.start]):04X}); it is not Unicode text"
            ) from None

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Put texts together again; special ids say nothing, broken characters are �."""
        rows = ([each - self._first for each in row if each >= self._first] for row in ids)
        return [bytes(row).decode(errors="replace") for row in rows]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Show each id as a person would read it."""
        return [self._pieces[each] for each in ids]

    def id_of(self, piece: str) -> int:
        """The id of a piece, a language token for example; UNKNOWN where there is none."""
        return self._ids.get(piece, UNKNOWN)

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary_size: int, languages: Sequence[str]) -> Bytes:
        """Learn nothing; the texts are not read."""
        made = cls(list(dict.fromkeys(languages)))
        if vocabulary_size < made.size:
            what = f"found {vocabulary_size}, expected at least {made.size}, one for each byte"
            raise RecipeError([Mistake("tokenizer.vocabulary_size", what)])
        return made

    def save(self, folder: Path) -> None:
        """Write the file into an existing folder."""
        written = json.dumps({"languages": self._languages}, ensure_ascii=False) + "\n"
        (folder / self.file_name).write_bytes(written.encode())

    @classmethod
    def load(cls, folder: Path) -> Bytes:
        """Read it again."""
        path = folder / cls.file_name
        try:
            return cls(_File.model_validate_json(path.read_bytes()).languages)
        except FileNotFoundError:
            raise DataError(f"{path} does not exist; expected the vocabulary's file") from None
        except ValidationError as error:
            what = error.errors(include_url=False)[0]["msg"]
            raise DataError(f"{path}: {what}; expected a list of languages") from None
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
