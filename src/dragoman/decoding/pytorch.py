"""How does PyTorch translate?

It knows every variant, on any device. Sentences of like length go through the search together;
answers come back in the order asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import nn

from dragoman.data.batch import collate
from dragoman.decoding.alignment import align
from dragoman.decoding.beam import Beam
from dragoman.decoding.engine import Answers, Engine, Hypothesis
from dragoman.decoding.greedy import Greedy
from dragoman.decoding.sample import Sample
from dragoman.decoding.search import Search, Searchable
from dragoman.model.position.learned import Learned
from dragoman.recipe import DecodingRecipe

PLACES = 4096
"""Of a batch, padding included: so many keep two cores busy, and more gain nothing."""


class PyTorch(Engine):
    """A model, or an ensemble of them, and the device it is on."""

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
        """Translate when the answers are asked for: here nothing runs beside."""
        return lambda: self._translate(sources, settings, prefixes, with_alignment)

    def _translate(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingRecipe,
        prefixes: Sequence[Sequence[int]] | None,
        with_alignment: bool,
    ) -> Answers:
        search = self.search(settings)
        # Another batch may change the last bit of a sum; alone, there is only one way to add.
        most = 0 if settings.reproducible else PLACES
        found: dict[int, list[Hypothesis]] = {}
        for rows in batches([len(each) for each in sources], most):
            batch = collate([sources[row] for row in rows], [[] for _ in rows])
            source, is_real = (torch.from_numpy(each).to(self.device) for each in batch[:2])
            asked = [prefixes[row] for row in rows] if prefixes else ()
            answers = search.run(self.model, source, is_real, asked)
            if with_alignment:
                answers = align(self.model, source, is_real, answers)
            found.update(zip(rows, answers, strict=True))
        return [found[row] for row in range(len(sources))]

    def search(self, settings: DecodingRecipe) -> Search:
        """The search that the settings name."""
        match settings.search:
            case "greedy":
                return Greedy(settings)
            case "sample":
                return Sample(settings, seed=self.seed)
            case "beam":
                return Beam(settings)


def most_places(model: nn.Module) -> int | None:
    """How many tokens the model can place; nothing where there is no end."""
    learned = [each for each in model.modules() if isinstance(each, Learned)]
    return min((each.table.num_embeddings for each in learned), default=None)


def batches(lengths: Sequence[int], places: int) -> Iterator[list[int]]:
    """Put rows of like length together, as many as fit, and one at least."""
    rows: list[int] = []
    for row in np.argsort(lengths, kind="stable").tolist():
        if rows and (len(rows) + 1) * (lengths[row] + 1) > places:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows
