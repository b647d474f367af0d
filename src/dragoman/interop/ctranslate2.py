"""Export to CTranslate2: express every part of a model as a CTranslate2 Transformer.

CTranslate2 has one Transformer with many options. Each part is translated to its options:

    heads           projections are affine maps; matrix and bias are read off by probing the part
    similarity      scaled dot product; cosine uses the query and key normalization
    position        a table that is added to the embeddings, or built-in rotary and relative ones
    concatenated    the table is zero in the token features, the embedding in the position features
    feed-forward    `none` becomes a network of zeros

Parts that cannot be expressed are refused before (`compatibility/ctranslate2.py`).
"""

from __future__ import annotations

import copy
import shlex
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

from dragoman.artifact import Artifact, read_artifact
from dragoman.errors import ArtifactError, DataError, RecipeError, suggest
from dragoman.interop.compatibility.ctranslate2 import export_obstacles
from dragoman.interop.folder import FOLDER, Quantization, is_export, new_export, read_export
from dragoman.interop.model_card import model_card
from dragoman.interop.quantization import quantize
from dragoman.model.attention import CrossAttention, SelfAttention
from dragoman.model.layer import FeedForwardSublayer
from dragoman.model.parts import Position, concatenate_heads, split_heads
from dragoman.model.position.learned import Learned
from dragoman.model.position.rotary import Rotary
from dragoman.model.position.shaw import Shaw
from dragoman.model.position_entry import Added, Concatenated
from dragoman.model.resolve import resolve_parts
from dragoman.model.similarity.cosine import Cosine
from dragoman.model.transformer import Decoder, Encoder, Transformer
from dragoman.recipe.schema import ModelRecipe, Recipe
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import BEGIN, END, SPECIAL, UNKNOWN

DEFAULT_MAX_INPUT = 1024
"""Source tokens that CTranslate2 reads by default."""

ABOVE_EPSILON = 64.0
"""Factor on queries and keys for cosine similarity, where only their angle matters.

CTranslate2 adds the epsilon of its LayerNorms to the mean square, which would distort short
vectors. A power of two changes no mantissa bit, and this one stays in the range of float16.
"""

EMPTY_WIDTH = 8
"""Width of a feed-forward network of zeros; GPUs prefer multiples of eight."""

_ACTIVATION = {
    "relu": Activation.RELU,
    "gelu": Activation.GELU,
    "swish": Activation.SWISH,
    "swiglu": Activation.SWISH,
    "none": Activation.RELU,
}

Affine = tuple[Tensor, Tensor]
"""A matrix and a bias."""


def export(
    folder: Path,
    destination: Path,
    quantization: str = "float32",
    *,
    force: bool = False,
    trust_parts: bool = False,
) -> None:
    """Export a model folder, or raise with everything that CTranslate2 cannot express.

    An export of another model or quantization at `destination` is replaced only with `force`.
    """
    checked = check_quantization(quantization)
    artifact = read_artifact(folder, trust_parts)
    if not force:
        _check_replacement(artifact, destination, checked)
    write_export(artifact, destination, checked)


def write_export(
    artifact: Artifact, destination: Path, quantization: Quantization = "float32"
) -> None:
    """Write the export of an open model folder; an older export is replaced."""
    mistakes = export_obstacles(artifact.recipe)
    if mistakes:
        raise RecipeError(mistakes)
    model = artifact.model()
    assert isinstance(model, Transformer)  # `export_obstacles` refuses the others.
    max_positions = _max_positions(model, artifact.recipe)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    with new_export(
        destination,
        artifact.recipe,
        artifact.tokenizer,
        model_hash=artifact.model_hash,
        quantization=quantization,
        max_positions=max_positions,
        model_card=model_card(
            artifact, "ctranslate2", parameters=parameters, quantization=quantization
        ),
    ) as temporary:
        spec = _build_spec(model, artifact.recipe.model, max_positions)
        _register_vocabularies(spec, artifact.tokenizer)
        spec.validate()
        quantize(spec, quantization)
        spec.save(str(temporary))


def check_quantization(name: str) -> Quantization:
    """Return a known quantization, or raise with a suggestion."""
    known: tuple[Quantization, ...] = get_args(Quantization)
    for quantization in known:
        if name == quantization:
            return quantization
    raise DataError(f"found quantization {name!r}; {suggest(name, known)}")


def _check_replacement(artifact: Artifact, destination: Path, quantization: Quantization) -> None:
    """Refuse to replace an export of another model, or with another quantization."""
    if not is_export(destination):
        return
    try:
        facts = read_export(destination).facts
    except ArtifactError:
        return  # A damaged export is of no use.
    # The export inside the run belongs to an earlier state of this run.
    is_inside = destination.resolve() == (artifact.folder / FOLDER).resolve()
    is_same_model = is_inside or facts.model == artifact.model_hash
    if is_same_model and facts.quantization == quantization:
        return
    model = "the same model" if is_same_model else "another model"
    raise ArtifactError(
        f"{str(destination)!r} already holds an export of {model} with quantization "
        f"{facts.quantization}; expected a new folder. To replace it, type: dragoman export "
        f"{shlex.quote(str(artifact.folder))} --quantization {quantization} "
        f"-o {shlex.quote(str(destination))} --force"
    )


def _max_positions(model: Transformer, recipe: Recipe) -> int | None:
    """Number of rows of the position table; None if there is no table.

    Twice the longest source, because a translation can be longer than its source.
    """
    position = model.encoder.positions[0]
    if isinstance(position, Rotary | Shaw):
        return None
    if isinstance(position, Added | Concatenated) and isinstance(position.vectors, Learned):
        return position.vectors.table.num_embeddings
    longest = max(DEFAULT_MAX_INPUT, recipe.corpus.max_tokens, recipe.decoding.max_source_tokens)
    return 2 * longest


def _register_vocabularies(spec: TransformerSpec, tokenizer: Path) -> None:
    """Register both vocabularies and the special tokens of a sentence (as `data/batch.py`)."""
    source, target = load_tokenizer(tokenizer / "source"), load_tokenizer(tokenizer / "target")
    # Tokenizers guarantee that their pieces are unique.
    spec.register_source_vocabulary(source.pieces(range(source.size)))
    spec.register_target_vocabulary(target.pieces(range(target.size)))
    spec.config.unk_token = SPECIAL[UNKNOWN]
    spec.config.bos_token = spec.config.decoder_start_token = SPECIAL[BEGIN]
    spec.config.eos_token = SPECIAL[END]
    spec.config.add_source_bos = False
    spec.config.add_source_eos = True


def _build_spec(
    model: Transformer, settings: ModelRecipe, max_positions: int | None
) -> TransformerSpec:
    """Express the whole model as a CTranslate2 specification."""
    head_size, position = resolve_parts(settings).head_size, model.encoder.positions[0]
    options: dict[str, Any] = {
        "num_heads": settings.heads,
        "head_dim": head_size,
        "pre_norm": settings.norm == "pre",
        "activation": _ACTIVATION[settings.feed_forward],
        "ffn_glu": settings.feed_forward == "swiglu",
        "qk_norm": settings.similarity.name == "cosine",
        "relative_position": isinstance(position, Shaw),
    }
    if isinstance(position, Rotary):
        options |= {
            "rotary_dim": head_size,
            "rotary_base": position.base,
            "rotary_interleave": True,
        }
    spec = TransformerSpec(
        TransformerEncoderSpec(settings.encoder_layers, **options),
        # Returned attention is the mean of all heads of the last layer.
        TransformerDecoderSpec(settings.decoder_layers, alignment_heads=settings.heads, **options),
    )
    _fill_stack(spec.encoder, model.encoder, settings, max_positions)
    _fill_stack(spec.decoder, model.decoder, settings, max_positions)
    source, target = model.source_embedding, model.target_embedding or model.source_embedding
    output = model.output
    spec.encoder.embeddings[0].weight = _pad_features(source.weight, settings.width)
    spec.decoder.embeddings.weight = _pad_features(target.weight, settings.width)
    projection = target.weight if output.weight is None else output.weight
    spec.decoder.projection.weight = _pad_features(projection, settings.width)
    if output.bias is not None:
        spec.decoder.projection.bias = _array(output.bias)
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = source.scale
    spec.config.layer_norm_epsilon = nn.LayerNorm(settings.width).eps
    return spec


def _fill_stack(
    spec: Any, stack: Encoder | Decoder, settings: ModelRecipe, max_positions: int | None
) -> None:
    layers: Any = stack.layers
    positions: Any = stack.positions
    if max_positions is not None:
        table = _position_table(positions[0], settings, max_positions)
        spec.position_encodings.encodings = _array(table)
    if settings.norm == "pre":
        _fill_norm(spec.layer_norm, stack.norm)
    for layer_spec, layer, position in zip(spec.layer, layers, positions, strict=True):
        last = layer_spec.self_attention
        _fill_attention(last, layer.self_attention, settings)
        _fill_norm(last.layer_norm, layer.self_residual.norm)
        if isinstance(position, Shaw):
            last.relative_position_keys = _array(position.keys.weight)
            last.relative_position_values = _array(position.values.weight)
        if isinstance(stack, Decoder):
            last = layer_spec.attention
            _fill_attention(last, layer.cross_attention, settings)
            _fill_norm(last.layer_norm, layer.cross_residual.norm)
        if isinstance(layer.feed_forward, FeedForwardSublayer):
            _fill_feed_forward(layer_spec.ffn, layer.feed_forward)
        else:
            _fill_with_zeros(layer_spec.ffn, last.layer_norm, settings)


def _position_table(position: Position, settings: ModelRecipe, max_positions: int) -> Tensor:
    """Compute what the positions add to embeddings of zeros."""
    embeddings = torch.zeros(1, max_positions, settings.width)
    if isinstance(position, Concatenated):
        embeddings = embeddings[..., : position.word_features]
    table = position.apply_to_input(embeddings, 0)[0]
    # Under pre-norm, the LayerNorm subtracts the mean. Subtracting it here loses no precision,
    # which matters where positions are large numbers: CTranslate2 sums squares.
    return table - table.mean(dim=-1, keepdim=True) if settings.norm == "pre" else table


def _fill_attention(
    spec: Any, attention: SelfAttention | CrossAttention, settings: ModelRecipe
) -> None:
    heads = copy.deepcopy(attention.heads).double()
    width, count = settings.width, settings.heads
    size = heads.head_size(width, count)
    similarity = attention.attention.similarity
    product = similarity.as_dot_product(*torch.ones(2, 1, 1, 1, size))
    assert product is not None, "`export_obstacles` refuses every other similarity"
    query = _probe(lambda x: concatenate_heads(heads.queries(x)), width)
    key = _probe(lambda x: concatenate_heads(heads.keys_values(x)[0]), width)
    value = _probe(lambda x: concatenate_heads(heads.keys_values(x)[1]), width)
    output = _probe(lambda x: heads.join(split_heads(x, count)), count * size)
    spec.queries_scale = product.scale
    if isinstance(similarity, Cosine):
        query, key = (
            (ABOVE_EPSILON * matrix, ABOVE_EPSILON * bias) for matrix, bias in (query, key)
        )
        # CTranslate2's normalization gives vectors of length √d, not 1.
        spec.queries_scale = product.scale / size
        spec.q_norm.gamma = spec.k_norm.gamma = np.ones(size, dtype=np.float32)
    if isinstance(attention, SelfAttention):
        maps = [_stack(query, key, value), output]
    else:
        maps = [query, _stack(key, value), output]
    for linear, (matrix, bias) in zip(spec.linear, maps, strict=True):
        _fill_linear(linear, matrix, bias)


def _probe(function: Callable[[Tensor], Tensor], size: int) -> Affine:
    """Find matrix and bias of an affine map: f(0) = b and f(eᵢ) − b = column i of the matrix.

    In float64, where adding and subtracting a bias loses no digit of a float32.
    """
    zero = torch.zeros(1, 1, size, dtype=torch.float64)
    bias = function(zero)[0, 0]
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


def _fill_with_zeros(spec: Any, previous_norm: Any, settings: ModelRecipe) -> None:
    """Fill a feed-forward network that outputs zero.

    Under post-norm, its LayerNorm cannot be left out. Normalizing twice is the same as once, so
    the previous norm gets neutral weights, and this norm gets the weights of the previous one.
    """
    width = settings.width
    _fill_linear(spec.linear_0, torch.zeros(EMPTY_WIDTH, width), torch.zeros(EMPTY_WIDTH))
    _fill_linear(spec.linear_1, torch.zeros(width, EMPTY_WIDTH), torch.zeros(width))
    neutral = nn.LayerNorm(width)
    _fill_norm(spec.layer_norm, neutral)
    if settings.norm == "post":
        own = spec.layer_norm
        own.gamma, previous_norm.gamma = previous_norm.gamma, own.gamma
        own.beta, previous_norm.beta = previous_norm.beta, own.beta


def _fill_norm(spec: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm)
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _fill_linear(spec: Any, weight: Tensor, bias: Tensor) -> None:
    spec.weight, spec.bias = _array(weight), _array(bias)


def _pad_features(weight: Tensor, width: int) -> Any:
    """Pad an embedding matrix with zeros for the features that belong to positions."""
    return _array(F.pad(weight, (0, width - weight.shape[1])))


def _array(tensor: Tensor) -> Any:
    """Copy a tensor to a new array: CTranslate2 quantizes in place."""
    return tensor.detach().float().numpy(force=True).copy()
