"""What is a search, and what does it search over?

A search is a generator of steps. Each step shows the hypotheses of every sentence as they stand,
best first; the last step is the answer. So a search can be watched, stopped, or simply run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from dragoman.shapes import Bool, Float, Int, Tensor


@runtime_checkable
class EncoderDecoder(Protocol):
    """What a model must be able to do to be searched."""

    def encode(self, source: Tensor, is_real: Tensor) -> Any:
        """Read the source."""

    def decode(self, target: Tensor, memory: Any, cache: Any) -> tuple[Tensor, Any]:
        """Score what follows the target, given what the cache remembers before it."""


class Step(NamedTuple):
    """All hypotheses after one more token."""

    tokens: Int[Tensor, "B K T"]
    """From the first token after `begin` on; behind its end, a hypothesis repeats `end`."""
    scores: Float[Tensor, "B K"]
    """The sum of the log-probabilities of its tokens, the end included."""
    is_ended: Bool[Tensor, "B K"]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A translation in tokens."""

    tokens: tuple[int, ...]
    """Without `begin` and `end`."""
    score: float
    is_ended: bool
    """False when the length limit cut it."""


class Search(ABC):
    """Looks for the best target; `begin` and `end` are the tokens that frame one."""

    def __init__(self, begin: int, end: int, extra_length: int) -> None:
        self.begin = begin
        self.end = end
        self.extra_length = extra_length

    @abstractmethod
    def steps(
        self, model: EncoderDecoder, source: Int[Tensor, "B S"], is_real: Bool[Tensor, "B S"]
    ) -> Iterator[Step]:
        """Search, one token at a time."""

    def run(
        self, model: EncoderDecoder, source: Int[Tensor, "B S"], is_real: Bool[Tensor, "B S"]
    ) -> list[list[Hypothesis]]:
        """Search to the end; for each sentence its hypotheses, best first."""
        if len(source) == 0:
            return []
        *_, last = self.steps(model, source, is_real)
        return self.read(last)

    def read(self, step: Step) -> list[list[Hypothesis]]:
        """Turn a step into hypotheses."""
        return [
            [
                Hypothesis(tuple(self._body(row)), score, ended)
                for row, score, ended in zip(rows, scores, ends, strict=True)
            ]
            for rows, scores, ends in zip(
                step.tokens.tolist(), step.scores.tolist(), step.is_ended.tolist(), strict=True
            )
        ]

    def _body(self, row: list[int]) -> list[int]:
        return row[: row.index(self.end)] if self.end in row else row
