"""How does a gradient change the weights?

    lr(t) = peak · min(t / warmup, √(warmup / t))      (Vaswani et al., 2017, with its peak named)

AdamW (Loshchilov and Hutter, 2019) with the paper's moments. Decay pulls at matrices only, and is
none by default, which makes it the paper's Adam.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from dragoman.recipe import TrainingRecipe
from dragoman.shapes import Tensor

_BETAS = (0.9, 0.98)
_EPSILON = 1e-9
FIRST, SECOND = "exp_avg", "exp_avg_sq"
"""What PyTorch calls the moments."""


def learning_rate(settings: TrainingRecipe, step: int) -> float:
    """The rate of a step; the first is step 1."""
    rise = step / settings.warmup
    return float(settings.learning_rate * min(rise, rise**-0.5))


def build_optimizer(
    parameters: Mapping[str, nn.Parameter], settings: TrainingRecipe
) -> torch.optim.AdamW:
    """Build it with its moments in place, so that a checkpoint can be read into them."""
    matrices = [each for each in parameters.values() if each.ndim > 1]
    others = [each for each in parameters.values() if each.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=_BETAS, eps=_EPSILON, fused=True)
    for parameter in parameters.values():
        optimizer.state[parameter] = {
            "step": torch.zeros((), device=parameter.device),
            FIRST: torch.zeros_like(parameter),
            SECOND: torch.zeros_like(parameter),
        }
    return optimizer


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Let the next update be this large."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def set_updates(optimizer: torch.optim.Optimizer, updates: int) -> None:
    """Say how many updates the moments have seen."""
    for state in optimizer.state.values():
        state["step"].fill_(updates)


def shorten(parameters: Iterable[nn.Parameter], tokens: float, longest: float) -> float:
    """Divide summed gradients by their tokens and cut them to a length; give it before the cut.

    Where it is not finite, nothing is changed: such a gradient must not be used.
    """
    gradients = [each.grad for each in parameters if each.grad is not None]
    norm: Tensor = torch.nn.utils.get_total_norm(gradients)
    length = float(norm.full_tensor() if isinstance(norm, DTensor) else norm) / tokens
    if length < float("inf"):  # False for what is not a number, too.
        factor = min(1.0, longest / length) if longest and length else 1.0
        torch._foreach_mul_(gradients, factor / tokens)
    return length
