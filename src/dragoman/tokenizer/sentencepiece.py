"""How does text of any kind become pieces of a learned vocabulary, and come back unchanged?

Byte-pair encoding (Sennrich et al., 2016; seed 003): begin with characters; of all neighbours,
join the pair that is most frequent in the training text, and call it a new piece; again, until
the vocabulary is full. A text is cut by the same joints, in the order they were learned. A
character outside the vocabulary is spelled by its UTF-8 bytes, so nothing is ever unknown.

The work is done by the library SentencePiece (Kudo and Richardson, 2018). What is added here is a
promise: decode(encode(text)) == text, for every text. Nothing is normalised, no space is lost.
SentencePiece writes a space as ▁ (U+2581), and so a text that holds this very sign would come
back with a space in its place. Here such a sign is spelled by its bytes, which SentencePiece
decodes as the sign. (The trainer still reads it as a space: it is too rare to learn from.)
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
from dragoman.tokenizer.interface import BEGIN, END, PADDING, UNKNOWN, Tokenizer, language_token

with warnings.catch_warnings():
    # Making its types warns; where warnings are errors, the types are not made, and their first
    # use ends the process.
    warnings.simplefilter("ignore", DeprecationWarning)
    import sentencepiece as library


@atexit.register
def _let_it_end() -> None:
    """Ignore it to the end: a last type is made when Python is half gone.

    By then it knows only the filters that were used last, so they are used once more.
    """
    warnings.simplefilter("ignore", DeprecationWarning)
    warnings.warn("", DeprecationWarning, stacklevel=1)


SPACE_MARK = "▁"
"""How SentencePiece writes a space, and the start of a text."""

CHARACTER_COVERAGE = 0.9999
"""The share of the training text whose characters get a piece of their own; the rest are bytes."""

ERRORS_ONLY = 2
"""SentencePiece's log level: it reports every thousand sentences otherwise."""

PROBE = " ﬁ  \t▅\U0010fffd "
"""Comes back changed if a model normalises, drops spaces, or cannot spell by bytes."""

MOST_WORDS = 200_000
"""Words whose pieces are remembered, about; then they are forgotten."""

LONGEST_WORD = 64
"""Letters of a word that is worth remembering."""

TOO_SMALL = re.compile(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)")


def byte_piece(byte: int) -> str:
    """How SentencePiece names a byte."""
    return f"<0x{byte:02X}>"


class SentencePiece(Tokenizer):
    """Byte-pair encoding with bytes for what is rare."""

    file_name: ClassVar[str] = "tokenizer.model"

    threads: int = 1
    """How many threads cut and join texts; set it on the tokenizer."""

    def __init__(self, model: bytes) -> None:
        self._model = model
        self._library = _read(model)
        self._pieces: list[str] = self._library.id_to_piece(list(range(len(self._library))))
        self._mark_bytes = [self.id_of(byte_piece(byte)) for byte in SPACE_MARK.encode()]
        self._middle: Any = None
        is_text = self.learned()
        self._texts: list[str | None] = [
            piece.replace(SPACE_MARK, " ") if piece in is_text else None for piece in self._pieces
        ]
        for number in range(self.size):
            if self._library.is_control(number):
                self._texts[number] = ""
        # No piece goes on from one word to the next, so a word is always cut in the same way.
        self._is_by_words = not any(SPACE_MARK in piece[1:] for piece in is_text)
        self._words: dict[str, list[int]] = {}

    @property
    def size(self) -> int:
        """How many ids there are, the special ones included."""
        return len(self._pieces)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Cut texts into ids, without `begin` and `end`; a word that is met again costs little."""
        texts = list(texts)
        if not self._is_by_words:
            return self.encode_plainly(texts)
        words = [text.split(" ") for text in texts]
        strange = [row for row, each in enumerate(words) if _is_strange(texts[row], each)]
        for row in strange:
            words[row] = []
        known = self._learn_words(words)
        found = [[number for word in each for number in known[word]] for each in words]
        if strange:
            plain = self.encode_plainly([texts[row] for row in strange])
            for row, each in zip(strange, plain, strict=True):
                found[row] = each
        return found

    def _learn_words(self, texts: list[list[str]]) -> dict[str, list[int]]:
        """Remember how each of these words is cut; a memory that is full is left to its readers."""
        known = self._words if len(self._words) <= MOST_WORDS else {}
        new = list({word for words in texts for word in words}.difference(known))
        known.update(zip(new, self.encode_plainly(new), strict=True))
        self._words = known
        return known

    def encode_plainly(self, texts: list[str]) -> list[list[int]]:
        """Cut texts into ids by the library alone; what `encode` does faster."""
        try:
            found: list[list[int]] = self._library.encode(texts, num_threads=self.threads)
        except TypeError:
            _refuse_half_characters(texts)
            raise
        for row, text in enumerate(texts):
            if SPACE_MARK in text:
                found[row] = self._encode_with_mark(text)
        return found

    def _encode_with_mark(self, text: str) -> list[int]:
        """Spell each ▁ by its bytes, and cut what stands between them."""
        if self._middle is None:
            middle = _read(self._model)
            middle.override_normalizer_spec(add_dummy_prefix=False)
            self._middle = middle
        first, *rest = text.split(SPACE_MARK)
        # A text begins with a space mark, also where nothing stands before the first ▁.
        ids: list[int] = self._library.encode(first) or [self.id_of(SPACE_MARK)]
        for part in rest:
            ids += self._mark_bytes
            ids += self._middle.encode(part)
        return ids

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Put texts together again; special ids say nothing."""
        return [self._join(row) for row in ids]

    def _join(self, ids: Sequence[int]) -> str:
        text_of: Any = self._texts.__getitem__
        try:
            return "".join(map(text_of, ids)).removeprefix(" ")
        except TypeError:  # Some are bytes, which the library puts together.
            return self.decode_plainly([ids])[0]

    def decode_plainly(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Put texts together by the library alone; what `decode` does faster."""
        rows = [list(row) for row in ids]
        # The library takes an empty list for a single, empty text.
        texts: list[str] = self._library.decode(rows, num_threads=self.threads) if rows else []
        return texts

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Show each id as a person would read it; ▁ is a space."""
        return list(map(self._pieces.__getitem__, ids))

    def id_of(self, piece: str) -> int:
        """The id of a piece, a language token for example; UNKNOWN where there is none."""
        found: int = self._library.piece_to_id(piece)
        return found

    def learned(self) -> dict[str, int]:
        """The ids of all pieces of text: merges in the order of learning, then characters."""
        is_other = [self._library.is_control, self._library.is_unknown, self._library.is_byte]
        return {
            piece: number
            for number, piece in enumerate(self._pieces)
            if not any(each(number) for each in is_other)
        }

    @classmethod
    def train(
        cls, texts: Iterable[str], vocabulary_size: int, languages: Sequence[str]
    ) -> SentencePiece:
        """Learn a vocabulary of at most this size; a small text may have no more to learn."""
        written = io.BytesIO()
        try:
            library.SentencePieceTrainer.train(
                sentence_iterator=iter(texts),
                model_writer=written,
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
                # Control symbols: text that spells one is text.
                control_symbols=[language_token(each) for each in dict.fromkeys(languages)],
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                max_sentence_length=2**30,  # The largest allowed; longer lines would be skipped.
                num_threads=1,  # The number is written into the file.
                minloglevel=ERRORS_ONLY,
            )
        except SystemError as error:  # Raised while it asked for the next text.
            raise (error.__cause__ or error) from None
        except RuntimeError as error:
            raise _explained(error, vocabulary_size) from None
        return cls(written.getvalue())

    def save(self, folder: Path) -> None:
        """Write the file into an existing folder."""
        (folder / self.file_name).write_bytes(self._model)

    @classmethod
    def load(cls, folder: Path) -> SentencePiece:
        """Read it again."""
        path = folder / cls.file_name
        try:
            return cls(path.read_bytes())
        except FileNotFoundError:
            raise DataError(f"{path} does not exist; expected the vocabulary's file") from None
        except DataError as error:
            raise DataError(f"{path}: {error}") from None


def _read(model: bytes) -> Any:
    """Give the bytes to the library, if they look like a file that `train` has written."""
    _check_frame(model)
    found = library.SentencePieceProcessor()
    try:
        found.LoadFromSerializedProto(model)
        specials = (found.pad_id(), found.unk_id(), found.bos_id(), found.eos_id())
        is_ours = specials == (PADDING, UNKNOWN, BEGIN, END)
        is_ours = is_ours and found.decode(found.encode(PROBE)) == PROBE
        found.id_to_piece(list(range(len(found))))  # Fails where a piece is not UTF-8.
    except (RuntimeError, ValueError, IndexError) as error:
        raise DataError(
            f"this is not a SentencePiece model, or it is damaged ({error}); copy it again"
        ) from None
    if not is_ours:
        raise DataError(
            "this SentencePiece model was not made by Dragoman: it changes text, or has other "
            f"special ids than {PADDING}, {UNKNOWN}, {BEGIN}, {END}; prepare the data again"
        )
    return found


def _check_frame(model: bytes) -> None:
    """Check the outermost frame: pieces, then settings, each with its length, and no more.

    The file is a message of Protocol Buffers. Each field opens with a byte, eight times its
    number plus two for "bytes follow", and their count, seven bits a byte, the lowest first.
    """
    seen, place = set(), 0
    while place < len(model):
        tag, place, length, shift = model[place], place + 1, 0, 0
        while place < len(model) and model[place] >= 128:
            length, place, shift = length | (model[place] & 127) << shift, place + 1, shift + 7
        if place < len(model):
            length, place = length | model[place] << shift, place + 1
        if tag & 7 != 2 or shift > 28 or place + length > len(model):
            break
        seen.add(tag >> 3)
        place += length
    if place != len(model) or not {1, 2, 3} <= seen:  # The pieces, how trained, how normalised.
        raise DataError("this is not a SentencePiece model, or its end is missing; copy it again")


def _explained(error: RuntimeError, vocabulary_size: int) -> Exception:
    """Say it to a person, where it is a person's mistake."""
    message = str(error)
    if too_small := TOO_SMALL.search(message):
        what = (
            f"found {vocabulary_size}, expected at least {too_small[1]}: every byte, every "
            "language and every usual character of the text needs a place"
        )
        return RecipeError([Mistake("tokenizer.vocabulary_size", what)])
    if "sentences_.empty()" in message:
        return DataError("there is no text to learn a vocabulary from")
    if "Not a string" in message:
        return DataError("a text to learn a vocabulary from is no text, or holds half a character")
    return error


def _is_strange(text: str, words: list[str]) -> bool:
    """Whether a text is more than words with one space between them."""
    return "" in words or SPACE_MARK in text or max(map(len, words)) > LONGEST_WORD


def _refuse_half_characters(texts: Sequence[str]) -> None:
    for row, text in enumerate(texts):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"text {row} holds half a character (a lone surrogate, U+"
                f"{ord(text[error.start]):04X}) at place {error.start}; it is not Unicode text"
            ) from None
