"""What if every character had its own id?

The vocabulary is the characters of the training text, the most frequent first; others are
UNKNOWN, and lost. Few ids and few unknowns, but long sequences, and attention pays for length
squared: the other end of the scale on which byte-pair encoding stands (seed 003, claim C18).
"""

from __future__ import annotations

from typing import ClassVar

from dragoman.tokenizer.listed import Listed


class Characters(Listed):
    """Single characters, the space among them."""

    file_name: ClassVar[str] = "characters.json"

    def cut(self, text: str) -> str:
        """A text is a sequence of characters already."""
        return text

    def as_text(self, piece: str) -> str:
        """A character is its own text."""
        return piece
