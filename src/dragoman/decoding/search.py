"""What is a search, and what does it search over?

A search is a generator of steps. Each step shows the hypotheses of every sentence as they stand;
the last step is the answer. So a search can be watched, stopped, or simply run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch

from dragoman.decoding.engine import Answers, Hypothesis, length_limit
from dragoman.decoding.guard import Guard
from dragoman.recipe import DecodingRecipe
from dragoman.shapes import Bool, Float, Int, Tensor
from dragoman.tokenizer.interface import BEGIN, END


@runtime_checkable
class Searchable(Protocol):
    """What a model must be able to do to be searched.

    Memory and cache are values with a method `reorder`, which takes rows in any order: of the
    memory, sentences; of the cache, hypotheses, and the sentences that they belong to.
    """

    def encode(self, source: Tensor, is_real: Tensor) -> Any:
        """Read the source."""

    def decode(self, target: Tensor, memory: Any, cache: Any) -> tuple[Tensor, Any]:
        """Score what follows the target, given what the cache remembers before it.

        The target may have several rows for each of the memory's: they share that source.
        """


class Candidates(NamedTuple):
    """The best beginnings that are one token longer, for each sentence, best first."""

    scores: Float[Tensor, "B C"]
    rows: Int[Tensor, "B C"]
    """Which beginning each of them goes on from."""
    tokens: Int[Tensor, "B C"]


@dataclass(frozen=True, slots=True)
class Step:
    """All hypotheses after one more token."""

    tokens: Int[Tensor, "N T"]
    """Those that go on, from the first token after `begin`."""
    scores: Float[Tensor, " N"]
    """The sum of the log-probabilities of their tokens."""
    sentences: tuple[int, ...]
    """Which sentence each of them belongs to."""
    done: tuple[tuple[Hypothesis, ...], ...]
    """For each sentence those that are complete, best first."""
    considered: Candidates | None = None
    """What these were chosen from, where a search compares beginnings: for each sentence that went
    on until now, with the rows of the step before."""


class Search(ABC):
    """Looks for the best target; `begin` and `end` are the tokens that frame one."""

    def __init__(self, settings: DecodingRecipe, begin: int = BEGIN, end: int = END) -> None:
        self.settings = settings
        self.begin = begin
        self.end = end

    @abstractmethod
    def steps(
        self,
        model: Searchable,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        prefixes: Sequence[Sequence[int]] = (),
    ) -> Iterator[Step]:
        """Search, one token at a time; a translation begins with its prefix, if there are any."""

    def run(
        self,
        model: Searchable,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        prefixes: Sequence[Sequence[int]] = (),
    ) -> Answers:
        """Search to the end; for each sentence its hypotheses, best first."""
        if len(source) == 0:
            return []
        *_, last = self.steps(model, source, is_real, prefixes)
        return [list(each[: self.settings.hypotheses]) for each in last.done]

    def normalise(self, score: float, length: int) -> float:
        """Make up for the length of a translation, in which its end counts.

        Every token costs probability, so without this short ones win.
            power:  score / lengthᵅ               (as CTranslate2 and transformers have it)
            gnmt:   score / ((5 + length) / 6)ᵅ   (Wu et al., 2016)
        """
        counted = length if self.settings.length_form == "power" else (5 + length) / 6
        return float(score / counted**self.settings.length_penalty)

    def _limits(self, is_real: Bool[Tensor, "B S"]) -> list[int]:
        """How long each translation may become; the source's end is not counted."""
        return [length_limit(each - 1, self.settings) for each in is_real.sum(dim=1).tolist()]

    def _guard(self, prefixes: Sequence[Sequence[int]], device: torch.device) -> Guard:
        return Guard(self.settings, self.end, prefixes, device)

    def _hypothesis(self, tokens: list[int], score: float) -> Hypothesis:
        """Complete a hypothesis: at its end, or where the limit cuts it."""
        is_ended = tokens[-1] == self.end
        body = tuple(tokens[:-1] if is_ended else tokens)
        return Hypothesis(body, self.normalise(score, len(tokens)), is_ended)
