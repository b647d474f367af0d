"""How does a model become one that CTranslate2 runs?

CTranslate2 knows one Transformer with many switches. Each of our parts is said in its words:

    heads           whatever projects is a matrix and a bias; the part is asked for them
    similarity      a scaled dot product; cosine has the lengths of queries and keys taken first
    position        a table that is added to the words, or its own rotary and relative positions
    concatenated    the table is zero where the words are, and the words are zero where it is
    feed-forward    none: a network of zeros

What cannot be said is refused before (`capability/ctranslate2.py`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from ctranslate2.specs.common_spec import Activation
from ctranslate2.specs.transformer_spec import (
    TransformerDecoderSpec,
    TransformerEncoderSpec,
    TransformerSpec,
)
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.artifact import read_artifact
from dragoman.errors import Mistake, RecipeError, suggest
from dragoman.exporting.capability.ctranslate2 import obstacles
from dragoman.exporting.folder import Quantization, new_export
from dragoman.model.attention import CrossAttention, SelfAttention
from dragoman.model.blueprint import draw_blueprint
from dragoman.model.layer import FeedForwardSublayer
from dragoman.model.parts import Position, concatenate_heads, cut_heads
from dragoman.model.position.learned import Learned
from dragoman.model.position.rotary import Rotary
from dragoman.model.position.shaw import Shaw
from dragoman.model.position_entry import Added, Concatenated
from dragoman.model.similarity.cosine import Cosine
from dragoman.model.transformer import Decoder, Encoder, Transformer
from dragoman.recipe import ModelRecipe, Recipe
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import BEGIN, END, SPECIAL, UNKNOWN

READ = 1024
"""How many tokens of a text CTranslate2 reads, unless told otherwise."""

ABOVE_EPSILON = 64.0
"""What queries and keys are multiplied by where only their angle counts.

CTranslate2 adds to a mean square the same small number as in its LayerNorms, which short vectors
would feel. A power of two changes no digit, and this one leaves 16 bits their range.
"""

EMPTY_WIDTH = 8
"""Of a feed-forward network that does nothing; GPUs like multiples of eight."""

_NONLINEARITY = {
    "relu": Activation.RELU,
    "gelu": Activation.GELU,
    "swish": Activation.SWISH,
    "swiglu": Activation.SWISH,
    "none": Activation.RELU,
}

Affine = tuple[Tensor, Tensor]
"""A matrix and a bias."""


def export(folder: Path, destination: Path, quantization: str = "float32") -> None:
    """Turn a model folder into one that CTranslate2 opens, or say all that stands against it."""
    known = get_args(Quantization)
    if quantization not in known:
        what = f"found {quantization!r}; {suggest(quantization, known)}"
        raise RecipeError([Mistake("quantization", what)])
    artifact = read_artifact(folder)
    # How to search is asked again whenever the model is used.
    found = [each for each in obstacles(artifact.recipe) if not each.path.startswith("decoding.")]
    if found:
        raise RecipeError(found)
    model = artifact.model()
    assert isinstance(model, Transformer)  # Else something stood against it.
    longest = _longest(model, artifact.recipe)
    facts = {"quantization": quantization, "longest": longest, "model": artifact.model_hash}
    with new_export(destination, artifact.recipe, artifact.tokenizer, **facts) as temporary:
        spec = _describe(model, artifact.recipe.model, longest)
        _name_words(spec, artifact.tokenizer)
        spec.validate()
        spec.optimize(quantization=quantization)
        spec.save(str(temporary))


def _longest(model: Transformer, recipe: Recipe) -> int | None:
    """How many places a table must have; no number where there is no table.

    Twice the longest text that may come in, for a translation can be longer than its source.
    """
    position = model.encoder.positions[0]
    if isinstance(position, Rotary | Shaw):
        return None
    if isinstance(position, Added | Concatenated) and isinstance(position.vectors, Learned):
        return position.vectors.table.num_embeddings
    return 2 * max(READ, recipe.corpus.longest, recipe.decoding.longest)


def _name_words(spec: TransformerSpec, tokenizer: Path) -> None:
    """Give the vocabularies, and say how a sentence is framed (as `data/batch.py` does it)."""
    source, target = load_tokenizer(tokenizer / "source"), load_tokenizer(tokenizer / "target")
    # Every tokenizer makes sure that no two of its pieces are the same.
    spec.register_source_vocabulary(source.pieces(range(source.size)))
    spec.register_target_vocabulary(target.pieces(range(target.size)))
    spec.config.unk_token = SPECIAL[UNKNOWN]
    spec.config.bos_token = spec.config.decoder_start_token = SPECIAL[BEGIN]
    spec.config.eos_token = SPECIAL[END]
    spec.config.add_source_bos = False
    spec.config.add_source_eos = True


def _describe(model: Transformer, settings: ModelRecipe, longest: int | None) -> TransformerSpec:
    """Say the whole model in CTranslate2's words."""
    size, position = draw_blueprint(settings).head_size, model.encoder.positions[0]
    switches: dict[str, Any] = {
        "num_heads": settings.head_count,
        "head_dim": size,
        "pre_norm": settings.norm == "pre",
        "activation": _NONLINEARITY[settings.feed_forward],
        "ffn_glu": settings.feed_forward == "swiglu",
        "qk_norm": settings.similarity.name == "cosine",
        "relative_position": isinstance(position, Shaw),
    }
    if isinstance(position, Rotary):
        switches |= {"rotary_dim": size, "rotary_base": position.base, "rotary_interleave": True}
    spec = TransformerSpec(
        TransformerEncoderSpec(settings.encoder_layers, **switches),
        # Who asks for attention gets the mean of all heads of the last layer.
        TransformerDecoderSpec(
            settings.decoder_layers, alignment_heads=settings.head_count, **switches
        ),
    )
    _fill_stack(spec.encoder, model.encoder, settings, longest)
    _fill_stack(spec.decoder, model.decoder, settings, longest)
    source, target = model.source_embedding, model.target_embedding or model.source_embedding
    output = model.output
    spec.encoder.embeddings[0].weight = _wide(source.weight, settings.width)
    spec.decoder.embeddings.weight = _wide(target.weight, settings.width)
    matrix = target.weight if output.weight is None else output.weight
    spec.decoder.projection.weight = _wide(matrix, settings.width)
    if output.bias is not None:
        spec.decoder.projection.bias = _array(output.bias)
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = source.scale
    spec.config.layer_norm_epsilon = nn.LayerNorm(settings.width).eps
    return spec


def _fill_stack(
    spec: Any, stack: Encoder | Decoder, settings: ModelRecipe, longest: int | None
) -> None:
    layers: Any = stack.layers
    positions: Any = stack.positions
    if longest is not None:
        spec.position_encodings.encodings = _array(_table(positions[0], settings, longest))
    if settings.norm == "pre":
        _fill_norm(spec.layer_norm, stack.norm)
    for part, layer, position in zip(spec.layer, layers, positions, strict=True):
        last = part.self_attention
        _fill_attention(last, layer.self_attention, settings)
        _fill_norm(last.layer_norm, layer.self_residual.norm)
        if isinstance(position, Shaw):
            last.relative_position_keys = _array(position.keys.weight)
            last.relative_position_values = _array(position.values.weight)
        if isinstance(stack, Decoder):
            last = part.attention
            _fill_attention(last, layer.cross_attention, settings)
            _fill_norm(last.layer_norm, layer.cross_residual.norm)
        if isinstance(layer.feed_forward, FeedForwardSublayer):
            _fill_feed_forward(part.ffn, layer.feed_forward)
        else:
            _fill_with_nothing(part.ffn, last.layer_norm, settings)


def _table(position: Position, settings: ModelRecipe, places: int) -> Tensor:
    """What the positions add to words of nothing but zeros."""
    words = torch.zeros(1, places, settings.width)
    if isinstance(position, Concatenated):
        words = words[..., : position.word_features]
    table = position.enter(words, 0)[0]
    # Under pre-norm whoever reads takes the mean away. Done here, it costs no digits, which is
    # felt where positions are large numbers: CTranslate2 sums squares.
    return table - table.mean(dim=-1, keepdim=True) if settings.norm == "pre" else table


def _fill_attention(
    spec: Any, attention: SelfAttention | CrossAttention, settings: ModelRecipe
) -> None:
    heads = copy.deepcopy(attention.heads).double()
    width, count = settings.width, settings.head_count
    size = heads.head_size(width, count)
    similarity = attention.attention.similarity
    product = similarity.as_dot_product(*torch.ones(2, 1, 1, 1, size))
    assert product is not None, "what is served is a dot product"
    query = _ask(lambda x: concatenate_heads(heads.queries(x)), width)
    key = _ask(lambda x: concatenate_heads(heads.keys_values(x)[0]), width)
    value = _ask(lambda x: concatenate_heads(heads.keys_values(x)[1]), width)
    output = _ask(lambda x: heads.join(cut_heads(x, count)), count * size)
    spec.queries_scale = product.scale
    if isinstance(similarity, Cosine):
        query, key = ((ABOVE_EPSILON * each[0], ABOVE_EPSILON * each[1]) for each in (query, key))
        # Its norm leaves vectors of length √d.
        spec.queries_scale = product.scale / size
        spec.q_norm.gamma = spec.k_norm.gamma = np.ones(size, dtype=np.float32)
    if isinstance(attention, SelfAttention):
        maps = [_stack(query, key, value), output]
    else:
        maps = [query, _stack(key, value), output]
    for linear, each in zip(spec.linear, maps, strict=True):
        _fill_linear(linear, *each)


def _ask(function: Callable[[Tensor], Tensor], size: int) -> Affine:
    """Find matrix and bias of an affine map: what it makes of nothing, and of each feature.

    In float64, where adding a bias and taking it away again loses no digit of a float32.
    """
    nothing = torch.zeros(1, 1, size, dtype=torch.float64)
    bias = function(nothing)[0, 0]
    columns = function(torch.eye(size, dtype=torch.float64).unsqueeze(0))[0] - bias
    return columns.T, bias


def _stack(*maps: Affine) -> Affine:
    matrices, biases = zip(*maps, strict=True)
    return torch.cat(matrices), torch.cat(biases)


def _fill_feed_forward(spec: Any, sublayer: FeedForwardSublayer) -> None:
    network = sublayer.network
    _fill_norm(spec.layer_norm, sublayer.residual.norm)
    _fill_linear(spec.linear_0, network.expand.weight, network.expand.bias)
    if network.gate is not None:
        _fill_linear(spec.linear_0_noact, network.gate.weight, network.gate.bias)
    _fill_linear(spec.linear_1, network.contract.weight, network.contract.bias)


def _fill_with_nothing(spec: Any, before: Any, settings: ModelRecipe) -> None:
    """Fill a feed-forward network that changes nothing.

    Under post-norm its norm cannot be left out. Norming twice is norming once, so the first norm
    does only that, and the second brings the weights of the first.
    """
    width = settings.width
    _fill_linear(spec.linear_0, torch.zeros(EMPTY_WIDTH, width), torch.zeros(EMPTY_WIDTH))
    _fill_linear(spec.linear_1, torch.zeros(width, EMPTY_WIDTH), torch.zeros(width))
    neutral = nn.LayerNorm(width)
    _fill_norm(spec.layer_norm, neutral)
    if settings.norm == "post":
        spec.layer_norm.gamma, before.gamma = before.gamma, spec.layer_norm.gamma
        spec.layer_norm.beta, before.beta = before.beta, spec.layer_norm.beta


def _fill_norm(spec: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm)
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _fill_linear(spec: Any, weight: Tensor, bias: Tensor) -> None:
    spec.weight, spec.bias = _array(weight), _array(bias)


def _wide(weight: Tensor, width: int) -> Any:
    """A matrix of words, with zeros for the features that belong to positions."""
    return _array(F.pad(weight, (0, width - weight.shape[1])))


def _array(tensor: Tensor) -> Any:
    """An array of its own: CTranslate2 quantizes in place."""
    return tensor.detach().float().numpy(force=True).copy()
