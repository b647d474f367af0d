"""The character tokenizer: every character has its own id.

The vocabulary contains the characters of the training text, the most frequent first. Other
characters become UNKNOWN and are lost. There are few ids and few unknowns, but the sequences are
long, and attention costs the square of the length: the opposite end of the scale from words, with
byte-pair encoding between them ([APPLY-DL], claim C18).
"""

from __future__ import annotations

from typing import ClassVar

from dragoman.tokenizer.vocabulary_list import VocabularyList


class Characters(VocabularyList):
    """Single characters, including the space."""

    file_name: ClassVar[str] = "characters.json"

    def split(self, text: str) -> str:
        """Return the text itself: it is a sequence of characters."""
        return text

    def as_text(self, piece: str) -> str:
        """Return the character itself."""
        return piece
