"""The byte tokenizer: every byte of UTF-8 has its own id.

There is no training, no unknown token, and every text is restored exactly. But the sequences are
the longest of all tokenizers, and longer still for scripts whose characters take two, three or four
bytes (not in the lectures; one end of the scale of claim C18; ByT5, Xue et al., 2022, made this
approach popular). A reserved token is three bytes like any private-use character: the vocabulary
has no ids to reserve, and `has_span_tokens` is False.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from dragoman.errors import DataError, Mistake, RecipeError
from dragoman.tokenizer.interface import (
    SPECIAL,
    UNKNOWN,
    Tokenizer,
    explain_load_errors,
    language_token,
)

BYTES = 256


class _File(BaseModel):
    """The content of the file: only the languages, because nothing else is learned."""

    model_config = ConfigDict(extra="forbid", strict=True)

    languages: list[str]


def _readable(byte: int) -> str:
    """Return a visible ASCII character as itself, and any other byte as its number."""
    return chr(byte) if chr(byte).isascii() and chr(byte).isprintable() else f"<0x{byte:02X}>"


class Bytes(Tokenizer):
    """The bytes of UTF-8."""

    file_name: ClassVar[str] = "bytes.json"

    def __init__(self, languages: Sequence[str]) -> None:
        self._languages = list(languages)
        specials = [*SPECIAL, *map(language_token, languages)]
        self._first_byte = len(specials)
        self._pieces = [*specials, *map(_readable, range(BYTES))]
        self._ids = {piece: number for number, piece in enumerate(self._pieces)}
        if len(self._ids) != len(self._pieces):
            raise DataError("a language is listed twice")

    @property
    def size(self) -> int:
        """The number of ids, including the special ones."""
        return len(self._pieces)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Split texts into ids, without BEGIN and END."""
        try:
            return [[self._first_byte + byte for byte in text.encode()] for text in texts]
        except UnicodeEncodeError as error:
            raise DataError(
                "a text contains half a character (a lone surrogate, U+"
                f"{ord(error.object[error.start]):04X}), expected Unicode text"
            ) from None

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Join ids into texts; special ids are skipped, incomplete characters become �."""
        rows = ([token - self._first_byte for token in row] for row in ids)
        return [bytes(byte for byte in row if byte >= 0).decode(errors="replace") for row in rows]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return a readable form of each id."""
        return [self._pieces[token] for token in ids]

    def id_of(self, piece: str) -> int:
        """Return the id of a piece, for example of a language token; UNKNOWN if there is none."""
        return self._ids.get(piece, UNKNOWN)

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary_size: int, languages: Sequence[str]) -> Bytes:
        """Build the tokenizer; nothing is learned, and the texts are not read."""
        tokenizer = cls(list(dict.fromkeys(languages)))
        if vocabulary_size < tokenizer.size:
            what = f"found {vocabulary_size}, expected at least {tokenizer.size}: one id per byte"
            raise RecipeError([Mistake("tokenizer.vocabulary_size", what)])
        return tokenizer

    def save(self, folder: Path) -> None:
        """Write the tokenizer into an existing folder."""
        content = json.dumps({"languages": self._languages}, ensure_ascii=False) + "\n"
        (folder / self.file_name).write_bytes(content.encode())

    @classmethod
    def load(cls, folder: Path) -> Bytes:
        """Load a saved tokenizer."""
        path = folder / cls.file_name
        with explain_load_errors(path, "a list of languages"):
            return cls(_File.model_validate_json(path.read_bytes()).languages)
