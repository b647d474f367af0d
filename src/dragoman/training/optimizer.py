"""Learning rate schedules, the optimizers, and gradient clipping.

    lr(t) = peak · min(t / warmup, √(warmup / t))                     `schedule: inverse_sqrt`
    lr(t) = peak · min(t / warmup, (T + 1 − t) / (T + 1 − warmup))    `schedule: linear`, T = steps

The first schedule is that of Vaswani et al. (2017), with the peak as a setting. The optimizer is
AdamW (Loshchilov and Hutter, 2019) with the betas of Vaswani et al.; weight decay applies to
matrices only, and is 0 by default, which makes it their Adam. With `optimizer: muon` the matrices
inside layers are updated by Muon (`muon.py`); embeddings, norms and biases stay with Adam.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from dragoman.recipe.schema import TrainingRecipe
from dragoman.shapes import Tensor
from dragoman.training.muon import MOMENTUM, Muon

_BETAS = (0.9, 0.98)
_EPSILON = 1e-9
FIRST, SECOND = "exp_avg", "exp_avg_sq"
"""The names that `torch.optim.AdamW` uses for the moments."""
_CHECKPOINT_NAMES = {FIRST: "first_moment", SECOND: "second_moment", MOMENTUM: "momentum"}


def learning_rate(settings: TrainingRecipe, step: int) -> float:
    """Return the learning rate of a step; the first step is 1."""
    warmup = step / settings.warmup_steps
    if settings.schedule == "linear":
        # The last step still has a rate above 0. If warm-up is longer than the run, the rate rises
        # to the end.
        decay = (settings.steps - step + 1) / max(settings.steps - settings.warmup_steps + 1, 1)
        return float(settings.learning_rate * max(min(warmup, decay), 0.0))
    return float(settings.learning_rate * min(warmup, warmup**-0.5))


def build_optimizers(
    parameters: Mapping[str, nn.Parameter],
    settings: TrainingRecipe,
    matrices: Iterable[nn.Parameter] = (),
) -> list[torch.optim.Optimizer]:
    """Build the optimizers with their moments, so that a checkpoint can be loaded into them.

    With `optimizer: muon`, Muon updates `matrices` and Adam updates the other parameters.
    """
    muon_ids = {id(matrix) for matrix in matrices} if settings.optimizer == "muon" else set()
    for_muon = [value for value in parameters.values() if id(value) in muon_ids]
    for_adam = [value for value in parameters.values() if id(value) not in muon_ids]
    groups = [
        {
            "params": [value for value in for_adam if value.ndim > 1],
            "weight_decay": settings.weight_decay,
        },
        {"params": [value for value in for_adam if value.ndim <= 1], "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups, lr=0.0, betas=_BETAS, eps=_EPSILON, fused=True)
    for parameter in for_adam:
        adam.state[parameter] = {
            "step": torch.zeros((), device=parameter.device),
            FIRST: torch.zeros_like(parameter),
            SECOND: torch.zeros_like(parameter),
        }
    return [adam, Muon(for_muon, settings.weight_decay)] if for_muon else [adam]


def moments(
    optimizers: Sequence[torch.optim.Optimizer], parameters: Mapping[str, nn.Parameter]
) -> dict[str, Tensor]:
    """Return all tensors of the optimizers, by their names in a checkpoint."""
    return {
        f"{checkpoint_name}.{name}": optimizer.state[parameter][key]
        for name, parameter in parameters.items()
        for optimizer in optimizers
        if parameter in optimizer.state
        for key, checkpoint_name in _CHECKPOINT_NAMES.items()
        if key in optimizer.state[parameter]
    }


def set_learning_rate(optimizers: Iterable[torch.optim.Optimizer], rate: float) -> None:
    """Set the learning rate of the next update."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate


def set_updates(optimizers: Iterable[torch.optim.Optimizer], updates: int) -> None:
    """Set the number of updates that the moments include (for Adam's bias correction)."""
    for optimizer in optimizers:
        for state in optimizer.state.values():
            if "step" in state:
                state["step"].fill_(updates)


def clip_grad_norm(parameters: Iterable[nn.Parameter], tokens: float, max_norm: float) -> float:
    """Divide summed gradients by the tokens, clip their norm, and return the norm before clipping.

    If the norm is not finite, the gradients stay as they are and must not be used.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    total: Tensor = torch.nn.utils.get_total_norm(gradients)
    norm = float(total.full_tensor() if isinstance(total, DTensor) else total) / tokens
    if norm < float("inf"):  # Also False for NaN.
        factor = min(1.0, max_norm / norm) if max_norm and norm else 1.0
        torch._foreach_mul_(gradients, factor / tokens)
    return norm
