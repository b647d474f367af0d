"""Which network does a recipe ask for?"""

from __future__ import annotations

from dragoman.model.convolutional import Convolutional
from dragoman.model.encoder_decoder import EncoderDecoder
from dragoman.model.initialisation import initialise
from dragoman.model.recurrent import Recurrent
from dragoman.model.transformer import Transformer
from dragoman.recipe import ModelRecipe, Recipe

_NETWORKS: dict[str, type[EncoderDecoder]] = {
    "transformer": Transformer,
    "recurrent": Recurrent,
    "convolutional": Convolutional,
}


def build_model(
    settings: ModelRecipe, source_vocabulary: int, target_vocabulary: int
) -> EncoderDecoder:
    """Build the network of these settings; its weights have no values yet."""
    return _NETWORKS[settings.architecture](settings, source_vocabulary, target_vocabulary)


def build_from_recipe(recipe: Recipe) -> EncoderDecoder:
    """Build the network that a recipe describes, with its first weights."""
    size = recipe.tokenizer.vocabulary_size
    model = build_model(recipe.model, size, size)
    initialise(model, recipe.seed)
    return model
