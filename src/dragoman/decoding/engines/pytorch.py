"""The PyTorch engine: it supports every variant of a model, on any device.

Sentences of similar length are searched together. Answers come back in input order. Several
threads may use one engine at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from dragoman.data.batch import collate
from dragoman.decoding.alignment import align
from dragoman.decoding.beam import Beam
from dragoman.decoding.engine import Answers, Engine, Hypothesis
from dragoman.decoding.greedy import Greedy
from dragoman.decoding.sample import Sample
from dragoman.decoding.search import Search, Searchable
from dragoman.recipe.schema import DecodingRecipe

BATCH_TOKENS = 4096
"""Maximum size of a batch, padding included. It keeps two cores busy; more is not faster."""


class PyTorch(Engine):
    """A model, or an ensemble of models, on a device."""

    name = "pytorch"

    def __init__(
        self, model: Searchable, device: torch.device | str = "cpu", *, seed: int = 1
    ) -> None:
        self.model = model
        self.device = torch.device(device)
        self.seed = seed

    def begin(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingRecipe,
        prefixes: Sequence[Sequence[int]] | None = None,
        *,
        with_alignment: bool = False,
    ) -> Callable[[], Answers]:
        """Translate when the returned function is called; nothing runs in the background."""
        return lambda: self._translate(sources, settings, prefixes, with_alignment)

    def _translate(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingRecipe,
        prefixes: Sequence[Sequence[int]] | None,
        with_alignment: bool,
    ) -> Answers:
        search = self.search(settings)
        # Other batches can change the last bit of a sum. Batches of one sentence always give the
        # same result.
        batch_tokens = 0 if settings.reproducible else BATCH_TOKENS
        nbest: dict[int, list[Hypothesis]] = {}
        for rows in batches([len(tokens) for tokens in sources], batch_tokens):
            batch = collate([sources[row] for row in rows], [[] for _ in rows])
            source, is_real = (torch.from_numpy(array).to(self.device) for array in batch[:2])
            batch_prefixes = [prefixes[row] for row in rows] if prefixes else ()
            answers = search.run(self.model, source, is_real, batch_prefixes)
            if with_alignment:
                answers = align(self.model, source, is_real, answers)
            nbest.update(zip(rows, answers, strict=True))
        return [nbest[row] for row in range(len(sources))]

    def search(self, settings: DecodingRecipe) -> Search:
        """Return the search that the settings name."""
        match settings.search:
            case "greedy":
                return Greedy(settings)
            case "sample":
                return Sample(settings, seed=self.seed)
            case "beam":
                return Beam(settings)


def batches(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Group rows of similar length into batches of at most `max_tokens`, or of one row."""
    rows: list[int] = []
    for row in np.argsort(lengths, kind="stable").tolist():
        if rows and (len(rows) + 1) * (lengths[row] + 1) > max_tokens:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows
