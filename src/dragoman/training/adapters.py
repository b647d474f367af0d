"""Low-rank adapters (LoRA): train a small change of each matrix, and keep the matrix itself.

    W' = W + (α/r) · B · A       A: r × inputs, B: outputs × r       Hu et al., 2021;
                                                                     not in the lectures

W is frozen. A begins with random numbers and B with zeros, so the first W' is W, to the bit. Every
linear map inside the layers gets an adapter: attention and feed-forward. Embeddings, norms and
biases stay as they are.

The model computes with W' itself, which is a parametrization of the weight (PyTorch's term). So
merging changes nothing: the merged model has the same W', to the bit, and the size and the speed of
its parent. The price is that a backward pass computes the gradient of W' and is hardly cheaper than
that of full fine-tuning; gradients and moments take less memory.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils import parametrize

from dragoman.errors import Mistake, RecipeError
from dragoman.model.encoder_decoder import EncoderDecoder
from dragoman.model.initialization import generator_for
from dragoman.shapes import Float, Tensor

ALPHA = 32.0
"""α. The change does not grow with the rank, so the same learning rate fits all ranks."""


class Adapter(nn.Module):
    """The change of one matrix: (α/r) · B · A."""

    def __init__(self, outputs: int, inputs: int, rank: int) -> None:
        super().__init__()
        self.scale = ALPHA / rank
        self.a = nn.Parameter(torch.empty(rank, inputs))
        self.b = nn.Parameter(torch.zeros(outputs, rank))

    def initialize(self, generator: torch.Generator) -> None:
        """Draw A so that A · x is as large as x; B is zero."""
        nn.init.normal_(self.a, std=self.a.shape[1] ** -0.5, generator=generator)
        nn.init.zeros_(self.b)

    def forward(self, weight: Float[Tensor, "O I"]) -> Float[Tensor, "O I"]:
        """Return the changed weight."""
        # Not in 16 bits: the trained weight must be the merged one.
        with torch.autocast(weight.device.type, enabled=False):
            return weight + self.scale * (self.b @ self.a)


def add_adapters(model: EncoderDecoder, rank: int, seed: int) -> None:
    """Freeze the model, and give an adapter to every linear map inside its layers.

    The numbers of an adapter depend on the seed and on its name only.
    """
    inside_layers = {id(module) for layer in model.layers for module in layer.modules()}
    linear_maps = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and id(module) in inside_layers
    }
    if not linear_maps:
        what = "no layer of this model has a linear map that could get an adapter; choose full"
        raise RecipeError([Mistake("adaptation.method", what)])
    model.requires_grad_(False)
    for name, linear in linear_maps.items():
        adapter = Adapter(linear.out_features, linear.in_features, rank)
        adapter.initialize(generator_for(seed, f"{name}.adapter"))
        parametrize.register_parametrization(linear, "weight", adapter.to(linear.weight.device))


def plain_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights by their names in a model without adapters; adapters are merged."""
    weights: dict[str, Tensor] = {}
    with torch.no_grad():
        for path, module in model.named_modules():
            if isinstance(module, Adapter | parametrize.ParametrizationList):
                continue
            names = [name for name, value in module._parameters.items() if value is not None]
            if parametrize.is_parametrized(module, "weight"):
                names.append("weight")
            for name in names:
                weights[f"{path}.{name}".lstrip(".")] = getattr(module, name).detach()
    return weights
