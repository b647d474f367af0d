"""Which weights are better than the last ones?

Those of many moments together: a moving average that follows each update, or the mean of several
checkpoints at the end (Vaswani et al., 2017, section 6.1).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import nn

from dragoman.shapes import Tensor


class MovingAverage:
    """Follows the weights:  a ← d · a + (1 − d) · w,  d growing from small to its value.

    While a run is young its first weights would weigh too much, so d = min(decay, t / (t + 50)).
    """

    _YOUTH = 50

    def __init__(self, parameters: Mapping[str, nn.Parameter], decay: float) -> None:
        self.decay = decay
        self.parameters = list(parameters.values())
        self.weights = {name: each.detach().clone() for name, each in parameters.items()}

    def follow(self, updates: int) -> None:
        """Take in the weights after this many updates."""
        decay = min(self.decay, updates / (updates + self._YOUTH))
        weights: list[Tensor] = [each.detach() for each in self.parameters]
        torch._foreach_lerp_(list(self.weights.values()), weights, 1 - decay)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Put the averaged weights into the model for a while."""
        kept = [each.detach().clone() for each in self.parameters]
        self._put(self.weights.values())
        try:
            yield
        finally:
            self._put(kept)

    def _put(self, weights: Iterable[Tensor]) -> None:
        with torch.no_grad():
            for parameter, weight in zip(self.parameters, weights, strict=True):
                parameter.copy_(weight)


def mean_of(reads: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of weights that are read one after the other."""
    total: dict[str, Tensor] = {}
    count = 0
    for weights in reads:
        count += 1
        for name, each in weights.items():
            total[name] = total[name] + each.double() if name in total else each.double()
    return {name: (each / count).float() for name, each in total.items()}
