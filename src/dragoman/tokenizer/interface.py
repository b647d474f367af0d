"""What must a tokenizer be able to do?

Text in, ids out, and back. Every tokenizer begins with the same four ids, then the language
tokens; ordinary text can never produce one of these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

PADDING, UNKNOWN, BEGIN, END = range(4)
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")


def language_token(language: str) -> str:
    """The token that asks for a target language: `<2de>`."""
    return f"<2{language}>"


class Tokenizer(ABC):
    """A vocabulary and the way text is cut into it."""

    file_name: ClassVar[str]
    """The one file, in a folder, that holds all of it."""
    threads: int = 1
    """How many may encode a batch at once; a kind that cannot share the work does not."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many ids there are, the special ones included."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Cut texts into ids, without `begin` and `end`."""

    @abstractmethod
    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Put texts together again; special ids say nothing."""

    @abstractmethod
    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Show each id as a person would read it."""

    @abstractmethod
    def id_of(self, piece: str) -> int:
        """The id of a piece, a language token for example; UNKNOWN where there is none."""

    @classmethod
    @abstractmethod
    def train(
        cls, texts: Iterable[str], vocabulary_size: int, languages: Sequence[str]
    ) -> Tokenizer:
        """Learn a vocabulary of at most this size, with a token for each language."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the file into an existing folder."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Tokenizer:
        """Read it again."""
