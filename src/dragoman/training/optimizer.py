"""How does a gradient change the weights?

    lr(t) = peak · min(t / warmup, √(warmup / t))      (Vaswani et al., 2017, with its peak named)
    lr(t) = peak · min(t / warmup, (T − t) / (T − warmup))      with `schedule: linear`, T steps

AdamW (Loshchilov and Hutter, 2019) with the paper's moments. Decay pulls at matrices only, and is
none by default, which makes it the paper's Adam. With `optimizer: muon` the matrices inside layers
are left to `muon.py`; words, norms and biases stay with Adam.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from dragoman.recipe import TrainingRecipe
from dragoman.shapes import Tensor
from dragoman.training.muon import MOMENTUM, Muon

_BETAS = (0.9, 0.98)
_EPSILON = 1e-9
FIRST, SECOND = "exp_avg", "exp_avg_sq"
"""What PyTorch calls the moments."""
_STORED = {FIRST: "first_moment", SECOND: "second_moment", MOMENTUM: "momentum"}
"""What a checkpoint calls them."""


def learning_rate(settings: TrainingRecipe, step: int) -> float:
    """The rate of a step; the first is step 1."""
    rise = step / settings.warmup
    if settings.schedule == "linear":
        # The last step still moves; a warm-up longer than the run is all there is.
        left = (settings.steps - step + 1) / max(settings.steps - settings.warmup + 1, 1)
        return float(settings.learning_rate * max(min(rise, left), 0.0))
    return float(settings.learning_rate * min(rise, rise**-0.5))


def build_optimizers(
    parameters: Mapping[str, nn.Parameter], settings: TrainingRecipe
) -> list[torch.optim.Optimizer]:
    """Build them with their moments in place, so that a checkpoint can be read into them."""
    whole = [
        each
        for name, each in parameters.items()
        if settings.optimizer == "muon" and _is_of_a_layer(name, each)
    ]
    moved = {id(each) for each in whole}
    rest = [each for each in parameters.values() if id(each) not in moved]
    groups = [
        {"params": [each for each in rest if each.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [each for each in rest if each.ndim <= 1], "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups, lr=0.0, betas=_BETAS, eps=_EPSILON, fused=True)
    for parameter in rest:
        adam.state[parameter] = {
            "step": torch.zeros((), device=parameter.device),
            FIRST: torch.zeros_like(parameter),
            SECOND: torch.zeros_like(parameter),
        }
    return [adam, Muon(whole, settings.weight_decay)] if whole else [adam]


def _is_of_a_layer(name: str, parameter: nn.Parameter) -> bool:
    """Whether it maps features to features: no table of words or places, no row of scores."""
    is_table = name.endswith("table.weight")
    return ".layers." in name and parameter.ndim == 2 and min(parameter.shape) > 1 and not is_table


def moments(
    optimizers: Sequence[torch.optim.Optimizer], parameters: Mapping[str, nn.Parameter]
) -> dict[str, Tensor]:
    """All that optimizers remember, by the names that a checkpoint gives it."""
    return {
        f"{stored}.{name}": optimizer.state[parameter][key]
        for name, parameter in parameters.items()
        for optimizer in optimizers
        if parameter in optimizer.state
        for key, stored in _STORED.items()
        if key in optimizer.state[parameter]
    }


def set_learning_rate(optimizers: Iterable[torch.optim.Optimizer], rate: float) -> None:
    """Let the next update be this large."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate


def set_updates(optimizers: Iterable[torch.optim.Optimizer], updates: int) -> None:
    """Say how many updates the moments have seen."""
    for optimizer in optimizers:
        for state in optimizer.state.values():
            if "step" in state:
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
