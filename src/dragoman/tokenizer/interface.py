"""The interface of a tokenizer: text to ids and back.

Every vocabulary begins with the same four special ids, followed by the language tokens. Ordinary
text never produces one of these ids.

Every vocabulary that is learned also contains the reserved tokens. They are private-use characters
of Unicode: a program puts them into a text in place of spans that must not be translated, around
terms, or before a back-translated source. Each is one id, never merged with its neighbors, and it
is text: decoding returns it. The byte tokenizer has nothing to reserve. `dragoman import` adds them
to the tokenizer of a Marian model, which has not learned them yet. Tokenizers of older versions
have none, or only some of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import ValidationError

from dragoman.errors import DataError

PADDING, UNKNOWN, BEGIN, END = range(4)
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")

SPAN_TOKENS = tuple(map(chr, range(0xE000, 0xE010)))
"""Each stands for one protected span; the first span of a text is the first token."""

TERM_TOKENS = TERM_START, TERM_SEPARATOR, TERM_END = tuple(map(chr, range(0xE010, 0xE013)))
"""Around a term and its translation: start, source term, separator, target term, end."""

BACK_TRANSLATION_TOKEN = chr(0xE013)
"""Before a source text that a model wrote (tagged back-translation, Caswell et al., 2019)."""

RESERVED_TOKENS = (*SPAN_TOKENS, *TERM_TOKENS, BACK_TRANSLATION_TOKEN)
"""Private-use characters that every learned vocabulary contains."""


def language_token(language: str) -> str:
    """Return the token that requests a target language: `<2de>`."""
    return f"<2{language}>"


def annotated_term(source: str, target: str) -> str:
    """Return a term of a source text with the translation that it must have."""
    return f"{TERM_START}{source}{TERM_SEPARATOR}{target}{TERM_END}"


@dataclass(frozen=True, slots=True)
class BpeVocabulary:
    """What byte-pair encoding has learned, for BPE-dropout."""

    pieces: dict[str, int]
    """The ids of all text pieces. A merge that was learned earlier has a lower id."""
    space: str
    """The piece for a space and for the beginning of a text."""
    byte_ids: tuple[int, ...]
    """The ids of the 256 bytes, for characters without a piece."""


class Tokenizer(ABC):
    """A vocabulary, and how text is split into it."""

    file_name: ClassVar[str]
    """The name of the single file in a folder that contains the tokenizer."""
    threads: int = 1
    """The number of threads that encode a batch; some tokenizers ignore it."""
    needs_language: ClassVar[bool] = False
    """Whether a source text must begin with a language token, if the vocabulary has any."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of ids, including the special ones."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Split texts into ids, without BEGIN and END."""

    @abstractmethod
    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Join ids into texts; special ids are skipped."""

    @abstractmethod
    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return a readable form of each id."""

    @abstractmethod
    def id_of(self, piece: str) -> int:
        """Return the id of a piece, for example of a language token; UNKNOWN if there is none."""

    @property
    def language_ids(self) -> dict[str, int]:
        """The ids of the tokens that select a target language, by language code."""
        ids = {}
        for number in range(len(SPECIAL), self.size):
            (piece,) = self.pieces([number])
            code = piece[2:-1]
            if piece != language_token(code):
                break
            ids[code] = number
        return ids

    @property
    def has_span_tokens(self) -> bool:
        """Whether the vocabulary contains the span tokens.

        Whether a model has learned them is said by its recipe (`corpus.span_augmentation`).
        """
        return self._has_tokens(SPAN_TOKENS)

    @property
    def has_back_translation_token(self) -> bool:
        """Whether the vocabulary contains the token of tagged back-translation."""
        return self._has_tokens((BACK_TRANSLATION_TOKEN,))

    def _has_tokens(self, tokens: Sequence[str]) -> bool:
        """Return whether each token is exactly one id, possibly after the piece for a space."""
        # The piece that begins every text is the part that two tokens have in common.
        rows = self.encode(tokens)
        prefix = rows[0][:-1]
        is_single = all(row[:-1] == prefix and UNKNOWN not in row for row in rows)
        return is_single and len(prefix) <= 1 and len({row[-1] for row in rows}) == len(rows)

    def bpe_vocabulary(self) -> BpeVocabulary | None:
        """Return the merges of byte-pair encoding; None if this tokenizer has none."""
        return None

    @classmethod
    @abstractmethod
    def train(
        cls, texts: Iterable[str], vocabulary_size: int, languages: Sequence[str]
    ) -> Tokenizer:
        """Learn a vocabulary of at most this size, with a token for each language."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the tokenizer into an existing folder."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Tokenizer:
        """Load a saved tokenizer."""


@contextmanager
def explain_load_errors(path: Path, expected: str) -> Iterator[None]:
    """Turn errors while loading a tokenizer file into a `DataError` that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(
            f"{path} does not exist, expected the file of the tokenizer; copy the folder again"
        ) from None
    except ValidationError as error:
        message = error.errors(include_url=False)[0]["msg"]
        raise DataError(f"{path}: {message}; expected {expected}") from None
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
