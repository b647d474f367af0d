"""Loads the tokenizer that a folder contains.

Each kind of tokenizer writes one file with its own name, so the file name identifies the kind.
"""

from __future__ import annotations

from pathlib import Path

from dragoman.errors import DataError
from dragoman.recipe import parts
from dragoman.recipe.parts import Choice
from dragoman.tokenizer.interface import Tokenizer

KINDS = ("sentencepiece", "words", "characters", "bytes", "marian")


def tokenizer_class(kind: str) -> type[Tokenizer]:
    """Import the tokenizer with this name."""
    return parts.choose("tokenizer", Choice(name=kind), "tokenizer.kind", Tokenizer).cls


def load_tokenizer(folder: Path) -> Tokenizer:
    """Load the tokenizer in the folder, of any kind."""
    for kind in KINDS:
        cls = tokenizer_class(kind)
        if (folder / cls.file_name).exists():
            return cls.load(folder)
    names = ", ".join(tokenizer_class(kind).file_name for kind in KINDS)
    raise DataError(
        f"{folder} contains no tokenizer, expected one of: {names}.\n"
        f"Prepare the data again; type: dragoman prepare RECIPE"
    )
