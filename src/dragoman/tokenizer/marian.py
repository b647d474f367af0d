"""How does a model that was made with Marian, as those of OPUS-MT, cut its text?

A SentencePiece model cuts, and a list of words gives the ids: the list was gathered from cut text,
often of both languages, so it has words that this model never cuts, and may lack some that it does;
those are UNKNOWN (Tiedemann and Thottingal, 2020; not in the lectures). A model with several target
languages is told the one by a word at the very beginning: `>>deu<< A text.`

It cuts as transformers' MarianTokenizer, but for two things. Text that spells a special token is
text; and so is `>>this<<` at the beginning, where it is not a word of the list.

It comes with a model that is imported, and learns nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError

from dragoman.errors import DataError, Mistake, RecipeError
from dragoman.tokenizer.interface import SPECIAL, UNKNOWN, Tokenizer
from dragoman.tokenizer.sentencepiece import library  # type: ignore[attr-defined]

# The library is imported there, with the care it needs.

OPENING, CLOSING = ">>", "<<"
"""What a language's word begins and ends with."""


class _File(BaseModel):
    """What the file holds: the words by their ids, and the model as base64."""

    model_config = ConfigDict(
        extra="forbid", strict=True, ser_json_bytes="base64", val_json_bytes="base64"
    )

    pieces: list[str]
    sentencepiece: bytes


class Marian(Tokenizer):
    """A list of words, and a SentencePiece model that cuts text into them."""

    file_name: ClassVar[str] = "marian.json"

    def __init__(self, model: bytes, pieces: Sequence[str]) -> None:
        self.model = model
        self._library = _read(model)
        self._pieces = list(pieces)
        self._ids = {piece: number for number, piece in enumerate(pieces)}
        if len(self._ids) != len(self._pieces) or tuple(pieces[: len(SPECIAL)]) != SPECIAL:
            raise DataError(
                f"the words do not begin with {' '.join(SPECIAL)}, or one is there twice"
            )
        self._text = {piece: self._ids[piece] for piece in pieces[len(SPECIAL) :]}
        self._languages = {piece: self._text[piece] for piece in self._text if _is_language(piece)}
        self._silent = {*range(len(SPECIAL)), *self._languages.values()}

    @property
    def size(self) -> int:
        """How many ids there are, the special ones included."""
        return len(self._pieces)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Cut texts into ids, without `begin` and `end`."""
        parted = [self._part(text) for text in texts]
        try:
            cuts = self._library.encode(
                [text for _, text in parted], out_type=str, num_threads=self.threads
            )
        except TypeError:
            raise DataError(
                "a text is no text, or holds half a character (a lone surrogate)"
            ) from None
        return [
            language + [self._text.get(piece, UNKNOWN) for piece in cut]
            for (language, _), cut in zip(parted, cuts, strict=True)
        ]

    def _part(self, text: str) -> tuple[list[int], str]:
        """Take the language's word from the beginning of a text, where there is one."""
        before, closing, after = text.partition(CLOSING)
        language = self._languages.get(before + closing)
        return ([], text) if language is None else ([language], after)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Put texts together again; special ids and languages say nothing."""
        rows = ([self._pieces[each] for each in row if each not in self._silent] for row in ids)
        return [self._library.decode(row).strip() if row else "" for row in rows]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Show each id as a person would read it; ▁ is a space."""
        return [self._pieces[each] for each in ids]

    def id_of(self, piece: str) -> int:
        """The id of a piece, a language's word for example; UNKNOWN where there is none."""
        return self._ids.get(piece, UNKNOWN)

    @classmethod
    def train(
        cls, texts: Iterable[str], vocabulary_size: int, languages: Sequence[str]
    ) -> NoReturn:
        """Refuse: there is nothing that could be learned."""
        what = (
            "found marian, which comes with an imported model and learns nothing; name that model "
            "in tokenizer.start_from, or choose sentencepiece"
        )
        raise RecipeError([Mistake("tokenizer.kind", what)])

    def save(self, folder: Path) -> None:
        """Write the file into an existing folder."""
        content = _File(pieces=self._pieces, sentencepiece=self.model)
        (folder / self.file_name).write_bytes(content.model_dump_json(indent=1).encode() + b"\n")

    @classmethod
    def load(cls, folder: Path) -> Marian:
        """Read it again."""
        path = folder / cls.file_name
        try:
            content = _File.model_validate_json(path.read_bytes())
            return cls(content.sentencepiece, content.pieces)
        except FileNotFoundError:
            raise DataError(f"{path} does not exist; expected the vocabulary's file") from None
        except ValidationError as error:
            what = error.errors(include_url=False)[0]["msg"]
            raise DataError(f"{path}: {what}; expected words and a SentencePiece model") from None
        except DataError as error:
            raise DataError(f"{path}: {error}") from None


def _is_language(piece: str) -> bool:
    return piece.startswith(OPENING) and piece.endswith(CLOSING)


def _read(model: bytes) -> Any:
    found = library.SentencePieceProcessor()
    try:
        found.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise DataError(
            f"this is not a SentencePiece model, or it is damaged ({error}); copy it again"
        ) from None
    return found
