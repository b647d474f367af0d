"""Which tokenizer lies in this folder?

Each kind writes one file of its own name, so the file says the kind.
"""

from __future__ import annotations

from pathlib import Path

from dragoman import part
from dragoman.errors import DataError
from dragoman.part import Choice
from dragoman.tokenizer.interface import Tokenizer

KINDS = ("sentencepiece", "words", "characters", "bytes", "marian")


def tokenizer_class(kind: str) -> type[Tokenizer]:
    """Import the tokenizer of this name."""
    return part.choose("tokenizer", Choice(name=kind), "tokenizer.kind", Tokenizer).cls


def load_tokenizer(folder: Path) -> Tokenizer:
    """Load whichever tokenizer the folder holds."""
    for kind in KINDS:
        cls = tokenizer_class(kind)
        if (folder / cls.file_name).exists():
            return cls.load(folder)
    raise DataError(f"{str(folder)!r} holds no tokenizer; type: dragoman prepare RECIPE")
