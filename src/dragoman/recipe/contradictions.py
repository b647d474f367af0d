"""Settings of a recipe that are valid alone but impossible together.

Constraints of parts are checked in `fitting.py`, and by the parts in `model/resolve.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import Mistake

if TYPE_CHECKING:
    from dragoman.recipe.schema import ModelRecipe, Recipe


def contradictions(model: ModelRecipe) -> list[Mistake]:
    """Find contradictions in the model section."""
    if model.architecture != "transformer":
        return _contradictions_of_baselines(model)
    mistakes = []
    if model.cross_attention == "same_layer" and model.encoder_layers != model.decoder_layers:
        mistakes.append(
            Mistake(
                "model.cross_attention",
                f"same_layer needs as many encoder layers ({model.encoder_layers}) as decoder "
                f"layers ({model.decoder_layers}); make them equal, or choose last_layer",
            )
        )
    if model.position_entry == "concatenated" and model.position_features >= model.width:
        mistakes.append(
            Mistake(
                "model.position_features",
                f"found {model.position_features}, expected less than model.width "
                f"({model.width}): the rest is left for the token",
            )
        )
    return mistakes


def contradictions_of_adapters(recipe: Recipe) -> list[Mistake]:
    """Check what adapters cannot be combined with: they are trained beside frozen weights."""
    if recipe.adaptation.method != "adapters":
        return []
    training = recipe.training
    mistakes = []
    if not training.init_from:
        what = "adapters change a model that exists; set training.init_from to its folder"
        mistakes.append(Mistake("adaptation.method", what))
    if training.ema_decay:
        what = "adapters have no moving average, because a mean of factors is no mean of weights; "
        mistakes.append(Mistake("training.ema_decay", what + "set it to 0"))
    if training.parallel == "fsdp":
        what = "adapters are not sharded; set training.parallel: ddp"
        mistakes.append(Mistake("training.parallel", what))
    return mistakes


def contradictions_of_search(recipe: Recipe) -> list[Mistake]:
    """Check what a search needs of the model."""
    model = recipe.model
    has_attention = model.architecture != "recurrent" or model.recurrent.attention
    if recipe.decoding.coverage_penalty and not has_attention:
        what = (
            f"found {recipe.decoding.coverage_penalty:g}, but without attention no source position "
            "is covered; set it to 0, or train with model.recurrent.attention: true"
        )
        return [Mistake("decoding.coverage_penalty", what)]
    return []


def _contradictions_of_baselines(model: ModelRecipe) -> list[Mistake]:
    """Check the recurrent and convolutional baselines, which have few settings of their own."""
    is_halved = model.architecture == "recurrent" and model.recurrent.bidirectional
    if is_halved and model.width % 2:
        what = (
            f"found {model.width}, expected an even number: half of it reads forwards, half "
            "backwards; or set model.recurrent.bidirectional: false"
        )
        return [Mistake("model.width", what)]
    return []
