"""Models have as many parameters as the equations say."""

import pytest
import torch

from dragoman.model.transformer import Transformer
from dragoman.recipe.files import load_recipe


def count(*recipe):
    with torch.device("meta"):
        settings = load_recipe(recipe[0], recipe[1:])
        size = settings.tokenizer.vocabulary_size
        return sum(
            weight.numel() for weight in Transformer(settings.model, size, size).parameters()
        )


def linear(inner, outer):
    return inner * outer + outer


def heads(kind, width, number):
    """Projections of queries, keys, values, and the output matrix, each with its bias."""
    chunk = width // number
    return {
        "bare": 0,
        "narrow": 3 * number * linear(chunk, chunk) + linear(width, width),
        "standard": 3 * number * linear(width, chunk) + linear(width, width),
        "wide": 3 * number * linear(width, width) + linear(number * width, width),
    }[kind]


def transformer(width, inner, number, layers, vocabulary, kind="standard"):
    """All parameters of a post-norm Transformer with one tied embedding."""
    norm = 2 * width
    attention = heads(kind, width, number)
    feed_forward = linear(width, inner) + linear(inner, width)
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return vocabulary * width + layers * (encoder_layer + decoder_layer)


def test_base_and_big_are_as_large_as_the_formula_says():
    base = transformer(512, 2048, 8, 6, 37000)
    big = transformer(1024, 4096, 16, 6, 37000)
    assert count("base") == base
    assert count("big") == big
    # The paper prints 65 M and 213 M for its own vocabulary.
    assert round(base / 1e6, 1) == 63.1
    assert round(big / 1e6, 1) == 214.2


@pytest.mark.parametrize("kind", ["bare", "narrow", "standard", "wide"])
def test_head_kinds_have_the_sizes_of_the_lectures(kind):
    expected = transformer(512, 2048, 8, 6, 37000, kind)
    assert count("base", f"model.head_kind={kind}") == expected


def test_narrow_heads_have_a_fraction_and_wide_heads_a_multiple_of_the_standard_weights():
    """[NLU]: k/h × k/h and k × k for each of h heads; the standard has k × k/h."""
    width, number = 512, 8
    biases = {"narrow": 4 * width, "standard": 4 * width, "wide": 3 * number * width + width}
    matrices = {kind: heads(kind, width, number) - biases[kind] for kind in biases}
    output = width * width
    assert matrices["standard"] - output == 3 * width * width
    assert matrices["narrow"] - output == (matrices["standard"] - output) // number
    assert matrices["wide"] == number * matrices["standard"]


def test_each_tied_embedding_saves_one_matrix():
    vocabulary = 37000 * 512
    assert count("base", "model.tied_embeddings=output") == count("base") + vocabulary
    assert count("base", "model.tied_embeddings=none") == count("base") + 2 * vocabulary


def test_pre_norm_has_one_more_norm_per_stack():
    assert count("base", "model.norm=pre") == count("base") + 2 * 2 * 512


def test_tiny_is_within_the_published_size():
    """Wu et al. (2021): about 2.6 M parameters with a vocabulary of 10,000."""
    tiny = count("tiny", "tokenizer.vocabulary_size=10000")
    assert 2.5e6 < tiny < 2.8e6
