"""The interface of searches, and of the models that they search.

A search is a generator of steps. Each step holds the current hypotheses of every sentence; the last
step holds the result. So a search can be displayed, stopped, or just run to its end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch

from dragoman.decoding.engine import Answers, Hypothesis, length_limit
from dragoman.decoding.logits_processor import LogitsProcessor
from dragoman.model.cache import Cache, Memory
from dragoman.recipe.schema import DecodingRecipe
from dragoman.shapes import Bool, Float, Int, Tensor
from dragoman.tokenizer.interface import BEGIN, END


@runtime_checkable
class Searchable(Protocol):
    """What a search needs of a model."""

    def encode(self, source: Tensor, is_real: Tensor) -> Memory:
        """Encode the source."""

    def decode(self, target: Tensor, memory: Memory, cache: Cache | None) -> tuple[Tensor, Cache]:
        """Score what follows the target; the cache holds the tokens before the target.

        Neighboring rows of the target may share one row of the memory.
        """


class Candidates(NamedTuple):
    """The best hypotheses that are one token longer: for each sentence, best first."""

    scores: Float[Tensor, "B C"]
    rows: Int[Tensor, "B C"]
    """The row of the hypothesis that each candidate extends."""
    tokens: Int[Tensor, "B C"]

    def select(self, sentences: Int[Tensor, " K"]) -> Candidates:
        """Return the candidates of these sentences."""
        return Candidates(self.scores[sentences], self.rows[sentences], self.tokens[sentences])


@dataclass(frozen=True, slots=True)
class SearchStep:
    """All hypotheses after one more token."""

    tokens: Int[Tensor, "N T"]
    """The hypotheses that continue, without `begin`."""
    scores: Float[Tensor, " N"]
    """The sum of the log-probabilities of their tokens."""
    sentences: tuple[int, ...]
    """The sentence of each hypothesis."""
    done: tuple[tuple[Hypothesis, ...], ...]
    """For each sentence the complete hypotheses, best first."""
    considered: Candidates | None = None
    """The candidates of this step, if the search compares several. It covers the sentences that
    were not done before the step; `rows` are those of the step before."""


class Search(ABC):
    """Searches for the best target; `begin` and `end` are its first and last token."""

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
    ) -> Iterator[SearchStep]:
        """Search, one token at a time; each translation starts with its prefix, if given."""

    def run(
        self,
        model: Searchable,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        prefixes: Sequence[Sequence[int]] = (),
    ) -> Answers:
        """Search to the end; return the hypotheses of each sentence, best first."""
        if len(source) == 0:
            return []
        *_, last = self.steps(model, source, is_real, prefixes)
        return [list(nbest[: self.settings.num_hypotheses]) for nbest in last.done]

    def normalize(self, score: float, length: int) -> float:
        """Normalize the score of a translation by its length, the end token included.

        Every token lowers the score, so short translations would win without this.
            power:  score / lengthᵅ               as in CTranslate2 and transformers
            gnmt:   score / ((5 + length) / 6)ᵅ   Wu et al., 2016
        """
        base = length if self.settings.length_normalization == "power" else (5 + length) / 6
        return float(score / base**self.settings.length_penalty)

    def _limits(self, is_real: Bool[Tensor, "B S"]) -> list[int]:
        """Return the length limit of each translation; the source's end token does not count."""
        return [length_limit(length - 1, self.settings) for length in is_real.sum(dim=1).tolist()]

    def _logits_processor(
        self, prefixes: Sequence[Sequence[int]], device: torch.device
    ) -> LogitsProcessor:
        return LogitsProcessor(self.settings, self.end, prefixes, device)

    def _hypothesis(self, tokens: list[int], score: float, penalty: float = 0.0) -> Hypothesis:
        """Build the complete hypothesis: ended by the end token, or cut off by the limit.

        The penalty is added to the score after length normalization.
        """
        is_finished = tokens[-1] == self.end
        body = tuple(tokens[:-1] if is_finished else tokens)
        return Hypothesis(body, self.normalize(score, len(tokens)) + penalty, is_finished)
