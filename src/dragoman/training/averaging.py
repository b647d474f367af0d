"""Averaged weights: an exponential moving average (EMA), and the mean of several checkpoints.

    a ← d · a + (1 − d) · w        d = min(decay, t / (t + 50)) after update t

Averages generalize better than the last weights alone. The mean of the last checkpoints is from
Vaswani et al. (2017), section 6.1.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import nn

from dragoman.shapes import Tensor


class ExponentialMovingAverage:
    """The moving average of all parameters.

    The decay is smaller at first, so that the initial weights are soon forgotten.
    """

    _WARMUP = 50

    def __init__(self, parameters: Mapping[str, nn.Parameter], decay: float) -> None:
        self.decay = decay
        self.parameters = list(parameters.values())
        self.weights = {name: value.detach().clone() for name, value in parameters.items()}

    def update(self, updates: int) -> None:
        """Add the current weights to the average, after this many updates."""
        decay = min(self.decay, updates / (updates + self._WARMUP))
        weights: list[Tensor] = [parameter.detach() for parameter in self.parameters]
        torch._foreach_lerp_(list(self.weights.values()), weights, 1 - decay)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Use the averaged weights in the model inside a `with` block."""
        saved = [parameter.detach().clone() for parameter in self.parameters]
        self._copy_into_model(self.weights.values())
        try:
            yield
        finally:
            self._copy_into_model(saved)

    def _copy_into_model(self, weights: Iterable[Tensor]) -> None:
        with torch.no_grad():
            for parameter, weight in zip(self.parameters, weights, strict=True):
                parameter.copy_(weight)


def mean_of(checkpoints: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of weights that are read one checkpoint after the other."""
    total: dict[str, Tensor] = {}
    count = 0
    for weights in checkpoints:
        count += 1
        for name, weight in weights.items():
            total[name] = total[name] + weight.double() if name in total else weight.double()
    return {name: (weight / count).float() for name, weight in total.items()}
