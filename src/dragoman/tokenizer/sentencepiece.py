"""Byte-pair encoding with the SentencePiece library; every text is restored unchanged.

Byte-pair encoding (Sennrich et al., 2016; [APPLY-DL]): start with characters; merge the pair of
neighbors that is most frequent in the training text into a new piece; repeat until the vocabulary
is full. A text is split by the same merges, in the order in which they were learned; in
`byte_pair_encoding.py` each step can be read. A character outside the vocabulary is encoded by its
UTF-8 bytes, so nothing is ever unknown.

The library SentencePiece (Kudo and Richardson, 2018) does the work. This module adds a guarantee:
decode(encode(text)) == text for every text. Nothing is normalized, and no space is lost.
SentencePiece writes a space as ▁ (U+2581), so a text that contains this character would come back
with a space instead. Here the character is encoded by its bytes, which SentencePiece decodes
correctly. (The trainer still reads it as a space: it is too rare to matter.)
"""

from __future__ import annotations

import atexit
import io
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from dragoman.errors import DataError, Mistake, RecipeError
from dragoman.tokenizer.byte_pair_encoding import SPACE_MARK
from dragoman.tokenizer.interface import (
    BEGIN,
    END,
    PADDING,
    RESERVED_TOKENS,
    UNKNOWN,
    BpeVocabulary,
    Tokenizer,
    explain_load_errors,
    language_token,
)

with warnings.catch_warnings():
    # The library warns while it creates its types. If warnings are errors, the types are not
    # created, and their first use ends the process.
    warnings.simplefilter("ignore", DeprecationWarning)
    import sentencepiece as library


@atexit.register
def _ignore_warnings_at_exit() -> None:
    """Ignore the same warning at exit, when the library creates one more type.

    At that time, Python only knows the filters that were used last, so they are used once more.
    """
    warnings.simplefilter("ignore", DeprecationWarning)
    warnings.warn("", DeprecationWarning, stacklevel=1)


CHARACTER_COVERAGE = 0.9999
"""The share of the training text whose characters get their own piece; the rest become bytes."""

ERRORS_ONLY = 2
"""The log level of SentencePiece; with a lower one it reports every thousand sentences."""

PROBE = " ﬁ  \t▅\U0010fffd "
"""A model that normalizes, drops spaces or has no bytes changes this text."""

CACHED_WORDS = 200_000
"""The approximate number of words in the cache before it is cleared."""

MAX_CACHED_WORD_LENGTH = 64
"""Texts with longer words are not cached."""

TOO_SMALL = re.compile(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)")


def byte_piece(byte: int) -> str:
    """Return the name of a byte in SentencePiece."""
    return f"<0x{byte:02X}>"


class SentencePiece(Tokenizer):
    """Byte-pair encoding, with bytes for rare characters."""

    file_name: ClassVar[str] = "tokenizer.model"

    threads: int = 1
    """The number of threads that encode and decode; set it on the tokenizer."""

    def __init__(self, model: bytes) -> None:
        self._model = model
        self._library = _load_library(model)
        self._pieces: list[str] = self._library.id_to_piece(list(range(len(self._library))))
        self._mark_bytes = [self.id_of(byte_piece(byte)) for byte in SPACE_MARK.encode()]
        self._without_prefix: Any = None
        text_pieces = self.text_pieces()
        self._texts: list[str | None] = [
            piece.replace(SPACE_MARK, " ") if piece in text_pieces else None
            for piece in self._pieces
        ]
        for number in range(self.size):
            if self._library.is_control(number):
                self._texts[number] = ""
        # If no piece crosses a word boundary, a word is always split in the same way.
        self._is_by_words = not any(SPACE_MARK in piece[1:] for piece in text_pieces)
        self._words: dict[str, list[int]] = {}

    @property
    def size(self) -> int:
        """The number of ids, including the special ones."""
        return len(self._pieces)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Split texts into ids, without BEGIN and END; words that occur again are cached."""
        texts = list(texts)
        if not self._is_by_words:
            return self.encode_with_library(texts)
        words = [text.split(" ") for text in texts]
        uncached = [row for row, text in enumerate(texts) if not _is_cacheable(text, words[row])]
        for row in uncached:
            words[row] = []
        try:
            cache = self._cache_words(words)
        except DataError:
            _refuse_half_characters(texts)  # It names the text, and not one of its words.
            raise
        rows = [[token for word in text_words for token in cache[word]] for text_words in words]
        if uncached:
            encoded = self.encode_with_library([texts[row] for row in uncached])
            for row, ids in zip(uncached, encoded, strict=True):
                rows[row] = ids
        return rows

    def _cache_words(self, texts: list[list[str]]) -> dict[str, list[int]]:
        """Add the ids of new words to the cache.

        A full cache is replaced and not cleared, because other threads may still read it.
        """
        cache = self._words if len(self._words) <= CACHED_WORDS else {}
        new = list({word for words in texts for word in words}.difference(cache))
        cache.update(zip(new, self.encode_with_library(new), strict=True))
        self._words = cache
        return cache

    def encode_with_library(self, texts: list[str]) -> list[list[int]]:
        """Split texts into ids without the cache: the reference for `encode`."""
        try:
            rows: list[list[int]] = self._library.encode(texts, num_threads=self.threads)
        except TypeError:
            _refuse_half_characters(texts)
            raise
        for row, text in enumerate(texts):
            if SPACE_MARK in text:
                rows[row] = self._encode_with_mark(text)
        return rows

    def _encode_with_mark(self, text: str) -> list[int]:
        """Encode each ▁ by its bytes, and the text between them normally."""
        if self._without_prefix is None:
            processor = _load_library(self._model)
            processor.override_normalizer_spec(add_dummy_prefix=False)
            self._without_prefix = processor
        first, *rest = text.split(SPACE_MARK)
        # A text begins with a space mark, even if it is empty before the first ▁.
        ids: list[int] = self._library.encode(first) or [self.id_of(SPACE_MARK)]
        for part in rest:
            ids += self._mark_bytes
            ids += self._without_prefix.encode(part)
        return ids

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Join ids into texts; special ids are skipped."""
        return [self._join(row) for row in ids]

    def _join(self, ids: Sequence[int]) -> str:
        text_of: Any = self._texts.__getitem__
        try:
            return "".join(map(text_of, ids)).removeprefix(" ")
        except TypeError:  # Some ids are bytes, which the library joins.
            return self.decode_with_library([ids])[0]

    def decode_with_library(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Join ids into texts with the library only: the reference for `decode`."""
        rows = [list(row) for row in ids]
        # The library takes an empty list for a single empty text.
        texts: list[str] = self._library.decode(rows, num_threads=self.threads) if rows else []
        return texts

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return a readable form of each id; ▁ is a space."""
        return list(map(self._pieces.__getitem__, ids))

    def id_of(self, piece: str) -> int:
        """Return the id of a piece, for example of a language token; UNKNOWN if there is none."""
        number: int = self._library.piece_to_id(piece)
        return number

    def text_pieces(self) -> dict[str, int]:
        """Return the ids of all text pieces: reserved tokens, merges as learned, characters."""
        is_other = [self._library.is_control, self._library.is_unknown, self._library.is_byte]
        return {
            piece: number
            for number, piece in enumerate(self._pieces)
            if not any(check(number) for check in is_other)
        }

    def bpe_vocabulary(self) -> BpeVocabulary:
        """Return the merges of byte-pair encoding."""
        byte_ids = tuple(self.id_of(byte_piece(byte)) for byte in range(256))
        return BpeVocabulary(self.text_pieces(), SPACE_MARK, byte_ids)

    @classmethod
    def train(
        cls, texts: Iterable[str], vocabulary_size: int, languages: Sequence[str]
    ) -> SentencePiece:
        """Learn a vocabulary of at most this size; a small text may give a smaller one."""
        model = io.BytesIO()
        try:
            library.SentencePieceTrainer.train(
                sentence_iterator=iter(texts),
                model_writer=model,
                model_type="bpe",
                vocab_size=vocabulary_size,
                hard_vocab_limit=False,  # A small text gives a small vocabulary, not an error.
                byte_fallback=True,
                character_coverage=CHARACTER_COVERAGE,
                required_chars=SPACE_MARK,
                pad_id=PADDING,
                unk_id=UNKNOWN,
                bos_id=BEGIN,
                eos_id=END,
                unk_surface="",
                # Control symbols: a text that spells one stays text.
                control_symbols=[language_token(language) for language in dict.fromkeys(languages)],
                # These are text, but never merged with their neighbors.
                user_defined_symbols=list(RESERVED_TOKENS),
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                max_sentence_length=2**30,  # The largest allowed; longer lines would be skipped.
                num_threads=1,  # The number is written into the file.
                minloglevel=ERRORS_ONLY,
            )
        except SystemError as error:  # Raised when the iterator of texts fails.
            raise (error.__cause__ or error) from None
        except RuntimeError as error:
            raise _explain(error, vocabulary_size) from None
        return cls(model.getvalue())

    def save(self, folder: Path) -> None:
        """Write the tokenizer into an existing folder."""
        (folder / self.file_name).write_bytes(self._model)

    @classmethod
    def load(cls, folder: Path) -> SentencePiece:
        """Load a saved tokenizer."""
        path = folder / cls.file_name
        with explain_load_errors(path, "a SentencePiece model"):
            return cls(path.read_bytes())


def _load_library(model: bytes) -> Any:
    """Load the model with the library, if it looks like a file that `train` has written."""
    _check_frame(model)
    processor = library.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
        specials = (
            processor.pad_id(),
            processor.unk_id(),
            processor.bos_id(),
            processor.eos_id(),
        )
        is_ours = specials == (PADDING, UNKNOWN, BEGIN, END)
        is_ours = is_ours and processor.decode(processor.encode(PROBE)) == PROBE
        processor.id_to_piece(list(range(len(processor))))  # Fails if a piece is not UTF-8.
    except (RuntimeError, ValueError, IndexError) as error:
        raise DataError(
            f"this is not a SentencePiece model, or it is damaged ({error}); copy it again"
        ) from None
    if not is_ours:
        raise DataError(
            "this SentencePiece model was not made by Dragoman: it changes text, or its special "
            f"ids are not {PADDING}, {UNKNOWN}, {BEGIN}, {END}; prepare the data again"
        )
    return processor


def _check_frame(model: bytes) -> None:
    """Check the outer structure of the file: pieces and settings, each with its length.

    The file is a Protocol Buffers message. Each field begins with one byte, eight times the number
    of the field plus two ("bytes follow"), and the length of the field, seven bits per byte, the
    lowest bits first.
    """
    fields, position = set(), 0
    while position < len(model):
        tag, position, length, shift = model[position], position + 1, 0, 0
        while position < len(model) and model[position] >= 128:
            length |= (model[position] & 127) << shift
            position, shift = position + 1, shift + 7
        if position < len(model):
            length, position = length | model[position] << shift, position + 1
        if tag & 7 != 2 or shift > 28 or position + length > len(model):
            break
        fields.add(tag >> 3)
        position += length
    # 1 = the pieces, 2 = the settings of the trainer, 3 = the settings of the normalizer.
    if position != len(model) or not {1, 2, 3} <= fields:
        raise DataError("this is not a SentencePiece model, or its end is missing; copy it again")


def _explain(error: RuntimeError, vocabulary_size: int) -> Exception:
    """Turn an error of the library into one that says what to change, if it is known."""
    message = str(error)
    if too_small := TOO_SMALL.search(message):
        what = (
            f"found {vocabulary_size}, expected at least {too_small[1]}: every byte, every "
            f"language, each of the {len(RESERVED_TOKENS)} reserved tokens and every frequent "
            "character of the text needs an id"
        )
        return RecipeError([Mistake("tokenizer.vocabulary_size", what)])
    if "sentences_.empty()" in message:
        return DataError("there is no text to learn a vocabulary from")
    if "Not a string" in message:
        return DataError(
            "a text to learn a vocabulary from is not a string, or contains half a character (a "
            "lone surrogate)"
        )
    return error


def _is_cacheable(text: str, words: list[str]) -> bool:
    """Whether a text consists of words of normal length with one space between them."""
    is_plain = "" not in words and SPACE_MARK not in text
    return is_plain and max(map(len, words)) <= MAX_CACHED_WORD_LENGTH


def _refuse_half_characters(texts: Sequence[str]) -> None:
    for row, text in enumerate(texts):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"text {row} contains half a character (a lone surrogate, U+"
                f"{ord(text[error.start]):04X}) at position {error.start}, expected Unicode text"
            ) from None
