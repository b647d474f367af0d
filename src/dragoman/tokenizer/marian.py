"""The tokenizer of an imported Marian model, such as those of OPUS-MT.

A SentencePiece model splits the text, and a list of pieces gives the ids. The list was collected
from split text, often of both languages. So it contains pieces that this SentencePiece model never
produces, and it may lack some that it does; those are UNKNOWN (Tiedemann and Thottingal, 2020; not
in the lectures). In a model with several target languages, a token at the very beginning of the
text selects the language: `>>deu<< A text.`

It splits like MarianTokenizer of transformers, with three differences: text that spells a special
token stays text, and so does `>>this<<` at the beginning if it is not in the list; and the reserved
tokens are pieces, if they were added with `reserve_tokens`.

The tokenizer comes with an imported model and cannot be trained.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from pydantic import BaseModel, ConfigDict

from dragoman.errors import DataError, Mistake, RecipeError
from dragoman.tokenizer.interface import (
    RESERVED_TOKENS,
    SPECIAL,
    UNKNOWN,
    Tokenizer,
    explain_load_errors,
)

# The library is imported in sentencepiece.py, which suppresses the warnings of the import.
from dragoman.tokenizer.sentencepiece import library  # type: ignore[attr-defined]

OPENING, CLOSING = ">>", "<<"
"""The first and the last characters of a language token."""

_USER_DEFINED = 4
"""SentencePiece's type of a piece that is never merged with its neighbors or normalized."""


class _File(BaseModel):
    """The content of the file: the pieces in the order of their ids, and the model as base64."""

    model_config = ConfigDict(
        extra="forbid", strict=True, ser_json_bytes="base64", val_json_bytes="base64"
    )

    pieces: list[str]
    sentencepiece: bytes


class Marian(Tokenizer):
    """A list of pieces, and a SentencePiece model that splits text into them."""

    file_name: ClassVar[str] = "marian.json"
    needs_language: ClassVar[bool] = True

    def __init__(self, model: bytes, pieces: Sequence[str]) -> None:
        self.model = model
        self._library = _load_library(model)
        self._pieces = list(pieces)
        self._ids = {piece: number for number, piece in enumerate(pieces)}
        if len(self._ids) != len(self._pieces) or tuple(pieces[: len(SPECIAL)]) != SPECIAL:
            raise DataError(
                f"the pieces do not begin with {' '.join(SPECIAL)}, or one is listed twice"
            )
        self._text_ids = {piece: self._ids[piece] for piece in pieces[len(SPECIAL) :]}
        self._language_pieces = {
            piece: number for piece, number in self._text_ids.items() if language_code(piece)
        }
        self._skipped = {*range(len(SPECIAL)), *self._language_pieces.values()}

    @property
    def size(self) -> int:
        """The number of ids, including the special ones."""
        return len(self._pieces)

    @property
    def known_share(self) -> float:
        """The share of the SentencePiece model's own pieces that are in the list."""
        model = self._library
        pieces = [model.id_to_piece(number) for number in range(len(model))]
        return sum(piece in self._ids for piece in pieces) / len(pieces)

    @property
    def language_ids(self) -> dict[str, int]:
        """The ids of the tokens that select a target language, by language code."""
        return {language_code(piece): number for piece, number in self._language_pieces.items()}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Split texts into ids, without BEGIN and END."""
        separated = [self._separate_language(text) for text in texts]
        try:
            rows = self._library.encode(
                [text for _, text in separated], out_type=str, num_threads=self.threads
            )
        except TypeError:
            raise DataError(
                "a text is not a string, or contains half a character (a lone surrogate)"
            ) from None
        return [
            language + [self._text_ids.get(piece, UNKNOWN) for piece in row]
            for (language, _), row in zip(separated, rows, strict=True)
        ]

    def _separate_language(self, text: str) -> tuple[list[int], str]:
        """Separate the language token at the beginning of a text, if there is one."""
        before, closing, after = text.partition(CLOSING)
        language = self._language_pieces.get(before + closing)
        return ([], text) if language is None else ([language], after)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Join ids into texts; special ids and language tokens are skipped."""
        rows = ([self._pieces[token] for token in row if token not in self._skipped] for row in ids)
        return [self._library.decode(row).strip() if row else "" for row in rows]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return a readable form of each id; ▁ is a space."""
        return [self._pieces[token] for token in ids]

    def id_of(self, piece: str) -> int:
        """Return the id of a piece, for example of a language token; UNKNOWN if there is none."""
        return self._ids.get(piece, UNKNOWN)

    @classmethod
    def train(
        cls, texts: Iterable[str], vocabulary_size: int, languages: Sequence[str]
    ) -> NoReturn:
        """Refuse: this tokenizer cannot be trained."""
        what = (
            "found marian, which comes with an imported model and cannot be trained; set "
            "tokenizer.init_from to that model, or choose sentencepiece"
        )
        raise RecipeError([Mistake("tokenizer.kind", what)])

    def save(self, folder: Path) -> None:
        """Write the tokenizer into an existing folder."""
        content = _File(pieces=self._pieces, sentencepiece=self.model)
        (folder / self.file_name).write_bytes(content.model_dump_json(indent=1).encode() + b"\n")

    @classmethod
    def load(cls, folder: Path) -> Marian:
        """Load a saved tokenizer."""
        path = folder / cls.file_name
        with explain_load_errors(path, "pieces and a SentencePiece model"):
            content = _File.model_validate_json(path.read_bytes())
            return cls(content.sentencepiece, content.pieces)


def reserve_tokens(model: bytes) -> bytes:
    """Add the reserved tokens to a SentencePiece model; other texts are split as before.

    The file is a Protocol Buffers message, and its field 1 is the list of pieces. Elements of a
    list may stand anywhere in the message, so new pieces are appended to the file.
    """
    processor = _load_library(model)
    unknown = processor.unk_id()
    missing = [token for token in RESERVED_TOKENS if processor.piece_to_id(token) == unknown]
    for token in missing:
        text = token.encode()
        # The fields of a piece: 1 = its text, 2 = its score (a float32), 3 = its type.
        fields = b"\x0a" + bytes([len(text)]) + text + b"\x15" + struct.pack("<f", 0.0)
        fields += b"\x18" + bytes([_USER_DEFINED])
        model += b"\x0a" + bytes([len(fields)]) + fields
    return model


def language_code(piece: str) -> str:
    """Return the code of a language token: `deu` for `>>deu<<`; empty for other pieces."""
    is_language = piece.startswith(OPENING) and piece.endswith(CLOSING)
    return piece[len(OPENING) : -len(CLOSING)] if is_language else ""


def _load_library(model: bytes) -> Any:
    processor = library.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise DataError(
            f"this is not a SentencePiece model, or it is damaged ({error}); copy it again"
        ) from None
    return processor
