"""Join the translated pieces of a line: text, score, tokens and alignment."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dragoman.decoding.engine import Answers, Hypothesis
from dragoman.inference.lines import SplitLine
from dragoman.tokenizer.interface import Tokenizer


@dataclass(frozen=True, slots=True)
class Translation:
    """The translation of one line."""

    text: str
    score: float
    """Length-normalized log-probability; for a split line, the mean weighted by length."""
    source_tokens: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    alignment: tuple[tuple[int, int], ...] = ()
    """Pairs (source position, target position) of aligned tokens, if requested."""
    flags: tuple[str, ...] = ()
    """`split`: translated in pieces; `repetition`, `length`: degenerate; `retried`: translated
    a second time."""
    alternatives: tuple[str, ...] = ()
    """Further translations, best first, if `num_hypotheses` is more than 1."""


@dataclass(frozen=True, slots=True)
class BlockResult:
    """The answers for all pieces of a block of lines."""

    ids: list[list[int]]
    """Source tokens of each piece."""
    answers: Answers
    flags: list[list[str]]
    texts: list[list[str]]
    """Texts by rank of the hypothesis, and then by piece."""


@dataclass(frozen=True, slots=True)
class Joiner:
    """Joins pieces; `gap` separates sentences where only the target language has spaces."""

    source: Tokenizer
    target: Tokenizer
    gap: str

    def join(self, lines: Sequence[SplitLine], result: BlockResult) -> Iterator[Translation]:
        """Yield one translation per line."""
        row = 0
        for line in lines:
            rows = range(row, row + len(line.pieces))
            row = rows.stop
            # Almost every line is one piece with one hypothesis.
            is_simple = len(rows) == 1 and len(result.answers[rows[0]]) == 1
            join = self.join_one if is_simple else self.join_pieces
            yield join(line, rows, result)

    def join_pieces(self, line: SplitLine, rows: range, result: BlockResult) -> Translation:
        """Join any number of pieces, with any number of hypotheses."""
        if not rows:
            return Translation(line.leading + line.trailing, 0.0)
        gaps = [*(piece.gap or self.gap for piece in line.pieces[:-1]), line.pieces[-1].gap]

        def text(rank: int) -> str:
            pieces = (result.texts[rank][row] + gap for row, gap in zip(rows, gaps, strict=True))
            return line.leading + "".join(pieces) + line.trailing

        best = [result.answers[row][0] for row in rows]
        alignment: list[tuple[int, int]] = []
        source_start = target_start = 0
        for row, hypothesis in zip(rows, best, strict=True):
            alignment += [
                (source_start + source, target_start + target)
                for target, source in enumerate(hypothesis.alignment)
            ]
            source_start += len(result.ids[row])
            target_start += len(hypothesis.tokens)
        flags = dict.fromkeys(itertools.chain(*(result.flags[row] for row in rows)))
        ranks = max(len(result.answers[row]) for row in rows)
        first, *others = dict.fromkeys(text(rank) for rank in range(ranks))
        return Translation(
            first,
            _mean_score(best),
            tuple(itertools.chain(*(self.source.pieces(result.ids[row]) for row in rows))),
            tuple(itertools.chain(*(self.target.pieces(one.tokens) for one in best))),
            tuple(alignment),
            ("split", *flags) if len(rows) > 1 else tuple(flags),
            tuple(others),
        )

    def join_one(self, line: SplitLine, rows: range, result: BlockResult) -> Translation:
        """Do the same as `join_pieces` for one piece with one hypothesis, faster."""
        row = rows[0]
        best = result.answers[row][0]
        return Translation(
            line.leading + result.texts[0][row] + line.pieces[0].gap + line.trailing,
            best.score,
            tuple(self.source.pieces(result.ids[row])),
            tuple(self.target.pieces(best.tokens)),
            tuple([(source, target) for target, source in enumerate(best.alignment)]),
            tuple(result.flags[row]),
        )


def _mean_score(hypotheses: Sequence[Hypothesis]) -> float:
    """Mean over the pieces of a line, weighted by their length with the end token."""
    weights = [len(hypothesis.tokens) + 1 for hypothesis in hypotheses]
    pairs = zip(hypotheses, weights, strict=True)
    return sum(hypothesis.score * weight for hypothesis, weight in pairs) / sum(weights)
