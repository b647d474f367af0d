"""How does text become translated text?

Lines in are lines out, in their order, with the space round them. A line is spelled as the text
was from which the model learned. One that is too long for the model is cut into sentences and
joined again. A translation that runs in circles, or is much too long or short, is tried once more
under guard, and says so. Which engine does the work is decided when a model is loaded; CTranslate2
needs no torch.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman import sentences
from dragoman.decoding.engine import Answers, Hypothesis, length_limit
from dragoman.doubt import doubts, guarded
from dragoman.engines import EngineName, Served, serve
from dragoman.errors import DataError
from dragoman.sentences import Piece
from dragoman.spelling import respell
from dragoman.tokenizer.interface import UNKNOWN, language_token

_BLOCK = 512
"""Lines that are handed to the engine at once."""
_BLOCK_CHARACTERS = 100_000
"""Of a block, about: lines may be long."""
_AHEAD = 4
"""Blocks that are begun before the first is waited for."""
_TOKEN_CHARACTERS = 32
"""No text has so many for each of its tokens."""


@dataclass(frozen=True, slots=True)
class Translation:
    """A line, translated."""

    text: str
    score: float
    """The sum of the log-probabilities, made up for length; of pieces, the mean."""
    source_tokens: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    alignment: tuple[tuple[int, int], ...] = ()
    """Places of source and target tokens that belong together, where this was asked for."""
    flags: tuple[str, ...] = ()
    """`split`: in pieces; `repetition`, `length`: looks wrong; `retried`: translated twice."""
    alternatives: tuple[str, ...] = ()
    """Other texts, best first, where more than one was asked for and found."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A line, ready to be translated."""

    lead: str
    pieces: tuple[Piece, ...]
    trail: str


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines whose pieces are on their way."""

    lines: list[_Line]
    ids: list[list[int]]
    prefixes: list[list[int]] | None
    wait: Callable[[], Answers]


class Translator:
    """A model with its tokenizers, its settings and an engine."""

    def __init__(self, served: Served) -> None:
        self.engine = served.engine
        self.recipe = served.recipe
        self.settings = served.recipe.decoding
        self.source, self.target = served.tokenizers
        self.model_hash = served.model_hash
        self.quantization = served.quantization
        languages = served.recipe.languages
        self._gap = sentences.gap(languages.source, languages.target)
        self._is_spelled = any(step.name == "unicode" for step in served.recipe.corpus.steps)

    @classmethod
    def load(
        cls,
        folder: str | Path | Sequence[str | Path],
        settings: Sequence[str] = (),
        *,
        engine: EngineName = "auto",
        device: str = "cpu",
        threads: int = 0,
    ) -> Translator:
        """Load a run, an export of one, or several runs that translate together.

        Settings change those of the model folder, as `decoding.beam=1`.
        """
        folders = [folder] if isinstance(folder, str | Path) else folder
        return cls(serve([Path(each) for each in folders], settings, engine, device, threads))

    def translate(
        self,
        texts: Sequence[str],
        *,
        prefixes: Sequence[str] = (),
        language: str = "",
        with_alignment: bool = False,
    ) -> list[Translation]:
        """Translate lines; a line that holds a line end is refused, for lines in are lines out.

        A prefix is what a translation begins with, behind the space that its line begins with. A
        language is asked for by its token, of a model that has several.
        """
        if prefixes and len(prefixes) != len(texts):
            raise DataError(f"found {len(prefixes)} prefixes for {len(texts)} lines")
        return list(
            self.stream(texts, prefixes=prefixes, language=language, with_alignment=with_alignment)
        )

    def stream(
        self,
        lines: Iterable[str],
        *,
        prefixes: Iterable[str] = (),
        language: str = "",
        with_alignment: bool = False,
    ) -> Iterator[Translation]:
        """Translate lines as they come; some are read ahead, never all."""
        if isinstance(lines, str) or isinstance(prefixes, str):
            raise DataError("expected a list of lines; found one text: put it in [ ]")
        token = self._language(language)
        begun: collections.deque[_Block] = collections.deque()
        for block in _blocks(lines, prefixes):
            begun.append(self._begin(block, token, with_alignment))
            if len(begun) > _AHEAD:
                yield from self._finish(begun.popleft(), with_alignment)
        while begun:
            yield from self._finish(begun.popleft(), with_alignment)

    def ids(self, text: str, language: str = "") -> list[int]:
        """What the model is asked for a line that is not too long: its tokens, without the end."""
        _, body, _ = _frame("the line", text)
        (ids,) = self._encode([body])
        return [*self._language(language), *ids]

    def _language(self, language: str) -> list[int]:
        """The token that asks for a language, or none."""
        if not language:
            return []
        for name in (language_token(language), f">>{language}<<"):
            number = self.source.id_of(name)
            if number != UNKNOWN:
                return [number]
        raise DataError(f"the model has no token for the language {language!r}")

    def _begin(
        self, block: list[tuple[int, str, str]], token: list[int], with_alignment: bool
    ) -> _Block:
        framed = [_frame(f"line {number}", text) for number, text, _ in block]
        cut = self._cut([body for _, body, _ in framed if body], len(token))
        lines, ids, prefixes = [], [], []
        for (lead, body, trail), (number, _, prefix) in zip(framed, block, strict=True):
            pieces, cut_ids = next(cut) if body else ([], [])
            # What cannot be seen is kept, and not translated.
            lines.append(_Line(lead if pieces else lead + body, tuple(pieces), trail))
            ids += [[*token, *each] for each in cut_ids]
            if pieces:
                first = self._prefix(f"the prefix of line {number}", prefix, ids[-len(pieces)])
                prefixes += [first, *[[]] * (len(pieces) - 1)]
        asked = prefixes if any(prefixes) else None
        wait = self.engine.begin(ids, self.settings, asked, with_alignment=with_alignment)
        return _Block(lines, ids, asked, wait)

    def _prefix(self, name: str, text: str, source: list[int]) -> list[int]:
        """Encode what a translation begins with; it must be shorter than it may become."""
        if not text:
            return []
        _, body, _ = _frame(name, text)
        (ids,) = self.target.encode([body])
        limit = length_limit(len(source), self.settings)
        if len(ids) >= limit:
            raise DataError(
                f"{name} has {len(ids)} tokens, but a translation of its line, or of its first "
                f"sentence, may have {limit}; make decoding.extra_length larger"
            )
        return ids

    def _cut(self, bodies: list[str], extra: int) -> Iterator[tuple[list[Piece], list[list[int]]]]:
        """Encode bodies; one that is too long in pieces."""
        most = self.settings.longest - extra

        def measure(texts: Sequence[str]) -> list[int]:
            return [len(each) for each in self._encode(texts)]

        # A tokenizer needs much memory for a text without end, which is cut anyway.
        enough = most * _TOKEN_CHARACTERS
        encoded = self._encode([each[:enough] for each in bodies])
        for body, ids in zip(bodies, encoded, strict=True):
            if len(body) <= enough and len(ids) <= most:
                yield ([Piece(body, "")], [ids]) if ids else ([], [])
                continue
            pieces = sentences.fit(body, self.recipe.languages.source, measure, most)
            cut = zip(pieces, self._encode([each.text for each in pieces]), strict=True)
            seen = [(piece, each) for piece, each in cut if each]
            yield [piece for piece, _ in seen], [each for _, each in seen]

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Spell as the model's corpus was, and cut into tokens; none of what cannot be seen."""
        return self.source.encode([respell(each) for each in texts] if self._is_spelled else texts)

    def _finish(self, block: _Block, with_alignment: bool) -> Iterator[Translation]:
        """Wait for a block, try again what looks wrong, and put its lines together."""
        answers = block.wait()
        flags = [doubts(source, found[0]) for source, found in zip(block.ids, answers, strict=True)]
        again = [row for row, each in enumerate(flags) if each]
        if again and self.settings.retry:
            sources = [block.ids[row] for row in again]
            prefixes = [block.prefixes[row] for row in again] if block.prefixes else None
            second = self.engine.translate(
                sources, guarded(self.settings), prefixes, with_alignment=with_alignment
            )
            for row, found in zip(again, second, strict=True):
                if not doubts(block.ids[row], found[0]):
                    answers[row], flags[row] = found, ["retried"]
                else:
                    flags[row].append("retried")
        count = max((len(each) for each in answers), default=1)
        texts = [self._texts(answers, place) for place in range(count)]
        row = 0
        for line in block.lines:
            rows = range(row, row + len(line.pieces))
            row = rows.stop
            # Almost every line is one piece that has one answer.
            is_plain = len(rows) == 1 and len(answers[rows[0]]) == 1
            join = self._join_one if is_plain else self._join
            yield join(line, rows, block.ids, answers, flags, texts)

    def _texts(self, answers: Answers, place: int) -> list[str]:
        """Decode the answers at this place, or the last where there are fewer."""
        tokens = [found[min(place, len(found) - 1)].tokens for found in answers]
        return [_one_line(each) for each in self.target.decode(tokens)]

    def _join(
        self,
        line: _Line,
        rows: range,
        ids: list[list[int]],
        answers: Answers,
        flags: list[list[str]],
        texts: list[list[str]],
    ) -> Translation:
        if not rows:
            return Translation(line.lead + line.trail, 0.0)
        gaps = [*(piece.gap or self._gap for piece in line.pieces[:-1]), line.pieces[-1].gap]

        def text(place: int) -> str:
            said = (texts[place][row] + gap for row, gap in zip(rows, gaps, strict=True))
            return line.lead + "".join(said) + line.trail

        best = [answers[row][0] for row in rows]
        alignment: list[tuple[int, int]] = []
        source_start = target_start = 0
        for row, each in zip(rows, best, strict=True):
            pairs = enumerate(each.alignment)
            alignment += [(source_start + there, target_start + here) for here, there in pairs]
            source_start += len(ids[row])
            target_start += len(each.tokens)
        told = dict.fromkeys(itertools.chain(*(flags[row] for row in rows)))
        count = max(len(answers[row]) for row in rows)
        first, *others = dict.fromkeys(text(place) for place in range(count))
        return Translation(
            first,
            _mean_score(best),
            tuple(itertools.chain(*(self.source.pieces(ids[row]) for row in rows))),
            tuple(itertools.chain(*(self.target.pieces(each.tokens) for each in best))),
            tuple(alignment),
            ("split", *told) if len(rows) > 1 else tuple(told),
            tuple(others),
        )

    def _join_one(
        self,
        line: _Line,
        rows: range,
        ids: list[list[int]],
        answers: Answers,
        flags: list[list[str]],
        texts: list[list[str]],
    ) -> Translation:
        """Say what `_join` would say of one piece that has one answer, sooner."""
        row = rows[0]
        best = answers[row][0]
        return Translation(
            line.lead + texts[0][row] + line.pieces[0].gap + line.trail,
            best.score,
            tuple(self.source.pieces(ids[row])),
            tuple(self.target.pieces(best.tokens)),
            tuple([(there, here) for here, there in enumerate(best.alignment)]),
            tuple(flags[row]),
        )


def _blocks(lines: Iterable[str], prefixes: Iterable[str]) -> Iterator[list[tuple[int, str, str]]]:
    """Gather numbered lines with their prefixes, so many that an engine is kept busy."""
    block: list[tuple[int, str, str]] = []
    characters = 0
    asked = itertools.chain(prefixes, itertools.repeat(""))
    for number, (text, prefix) in enumerate(zip(lines, asked, strict=False), start=1):
        block.append((number, text, prefix))
        characters += len(text)
        if len(block) >= _BLOCK or characters >= _BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def _frame(name: str, text: str) -> tuple[str, str, str]:
    """Part a line from the space round it; a text that is no line, or no text, is refused."""
    if "\n" in text:
        raise DataError(f"{name} holds a line end; lines in are lines out: split it first")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        found = f"U+{ord(text[error.start]):04X}"
        raise DataError(
            f"{name} is not text: half a character ({found}, a lone surrogate) at place "
            f"{error.start + 1}; read the file as UTF-8"
        ) from None
    behind = text.lstrip()
    body = behind.rstrip()
    return text[: len(text) - len(behind)], body, behind[len(body) :]


def _one_line(text: str) -> str:
    """A model may write anything; a line has no line end, and keeps to its own space."""
    return text.replace("\n", " ").strip()


def _mean_score(answers: Sequence[Hypothesis]) -> float:
    """The mean over the pieces of a line, each as heavy as it is long."""
    weights = [len(each.tokens) + 1 for each in answers]
    total = sum(each.score * weight for each, weight in zip(answers, weights, strict=True))
    return total / sum(weights)
