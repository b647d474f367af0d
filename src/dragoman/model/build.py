"""Building the network that a recipe describes."""

from __future__ import annotations

from dragoman.model.convolutional import Convolutional
from dragoman.model.encoder_decoder import EncoderDecoder
from dragoman.model.initialization import initialize
from dragoman.model.recurrent import Recurrent
from dragoman.model.transformer import Transformer
from dragoman.recipe.schema import ModelRecipe, Recipe

_ARCHITECTURES: dict[str, type[EncoderDecoder]] = {
    "transformer": Transformer,
    "recurrent": Recurrent,
    "convolutional": Convolutional,
}


def build_model(
    settings: ModelRecipe, source_vocabulary: int, target_vocabulary: int
) -> EncoderDecoder:
    """Build the network of these settings. Its weights are not initialized."""
    return _ARCHITECTURES[settings.architecture](settings, source_vocabulary, target_vocabulary)


def build_from_recipe(recipe: Recipe) -> EncoderDecoder:
    """Build the network of a recipe and initialize its weights."""
    size = recipe.tokenizer.vocabulary_size
    model = build_model(recipe.model, size, size)
    initialize(model, recipe.seed)
    return model
