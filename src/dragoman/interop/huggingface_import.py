"""Import from Hugging Face: convert a Marian model, for example of OPUS-MT, to a run.

    config.json, model.safetensors, source.spm, target.spm, vocab.json
    (and target_vocab.json, generation_config.json, tokenizer_config.json)

The network is the same, so its weights are only renamed. The vocabulary is reordered, because ours
begins with padding, unknown, begin and end. Marian has no begin token: its decoder starts with the
padding token, which is excluded before the softmax. So our begin token gets the padding's
embedding, and the output bias excludes both.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from pydantic import BaseModel, NonNegativeInt, PositiveInt, TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file

from dragoman.artifact import begin_artifact, finish_artifact
from dragoman.errors import ArtifactError, DataError
from dragoman.interop.huggingface import huggingface_name
from dragoman.model.transformer import Transformer
from dragoman.recipe.mistakes import mistakes_in
from dragoman.recipe.schema import Amount, Rate, Recipe, is_language_code
from dragoman.shapes import Tensor
from dragoman.storage.files import atomic_folder
from dragoman.tokenizer.interface import SPECIAL
from dragoman.tokenizer.marian import Marian

FORBIDDEN_BIAS = -1e3
"""Output bias of a token that is never produced: finite, so that training works, and so low that
training never raises it enough to matter."""

_FILES = ("config.json", "source.spm", "target.spm", "vocab.json", "model.safetensors")
_VOCABULARY_SIDE = {
    "source_embedding.weight": 0,
    "target_embedding.weight": 1,
    "output.weight": 1,
    "output.bias": 1,
}
"""Parameters with one row per token, of the source (0) or the target (1) vocabulary."""
_ZERO_ROW = -1
_Type = TypeVar("_Type")


class _Config(BaseModel):
    """What the files of a model that we can compute contain; the defaults are Marian's."""

    model_type: Literal["marian"]
    d_model: PositiveInt
    vocab_size: PositiveInt
    decoder_vocab_size: PositiveInt | None = None
    encoder_layers: PositiveInt
    decoder_layers: PositiveInt
    encoder_attention_heads: PositiveInt
    decoder_attention_heads: PositiveInt
    encoder_ffn_dim: PositiveInt
    decoder_ffn_dim: PositiveInt
    activation_function: Literal["relu", "gelu", "swish", "silu"]
    scale_embedding: Literal[True]
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.0
    activation_dropout: Rate = 0.0
    pad_token_id: NonNegativeInt
    eos_token_id: NonNegativeInt
    decoder_start_token_id: NonNegativeInt
    bad_words_ids: list[tuple[NonNegativeInt]] | None = None
    num_beams: PositiveInt = 1
    length_penalty: Amount = 1.0
    source_lang: str | None = None
    target_lang: str | None = None


class _Vocabulary(NamedTuple):
    """A vocabulary in our order."""

    pieces: list[str]
    rows: list[int]
    """Marian's row of each piece; `_ZERO_ROW`, an added last row, if Marian lacks the piece."""


def import_model(folder: Path, destination: Path) -> None:
    """Write a Marian model as a run, to translate with or to fine-tune."""
    if destination.exists():
        raise DataError(f"{str(destination)!r} exists already; remove it, or choose another folder")
    _check_files(folder)
    config = _read_config(folder)
    vocabularies = source, target = _read_vocabularies(folder, config)
    weights = _read_weights(folder / "model.safetensors")
    bias = weights.setdefault("final_logits_bias", torch.zeros(max(target.rows) + 1))
    forbidden = _forbidden(config, target)
    has_bias = bool(forbidden) or bool(bias.any())
    recipe = _recipe(config, source, target, has_bias=has_bias)
    model = _renamed_weights(recipe, config, weights, vocabularies)
    if has_bias:
        model["output.bias"][forbidden] = FORBIDDEN_BIAS
    with atomic_folder(destination) as temporary, TemporaryDirectory() as scratch:
        for side, vocabulary in zip(("source", "target"), vocabularies, strict=True):
            (Path(scratch) / side).mkdir()
            _tokenizer(folder / f"{side}.spm", vocabulary).save(Path(scratch) / side)
        begin_artifact(temporary, recipe, Path(scratch))
        finish_artifact(temporary, model)


def _tokenizer(path: Path, vocabulary: _Vocabulary) -> Marian:
    try:
        return Marian(path.read_bytes(), vocabulary.pieces)
    except DataError as error:
        raise ArtifactError(f"{path}: {error}") from None


def _check_files(folder: Path) -> None:
    if not folder.is_dir():
        raise ArtifactError(f"there is no folder {str(folder)!r}; expected a Marian model")
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if not missing:
        return
    what = f"{str(folder)!r} is not a complete Marian model: it lacks {', '.join(missing)}"
    if "model.safetensors" in missing and (folder / "pytorch_model.bin").is_file():
        # Its weights are a pickle; reading it may run code.
        code = (
            "from transformers import MarianMTModel; "
            f"MarianMTModel.from_pretrained({str(folder)!r})"
            f".save_pretrained({str(folder)!r}, safe_serialization=True)"
        )
        what += (
            "; pytorch_model.bin is not read, because it may contain code. If you trust it, type: "
            f"python -c {shlex.quote(code)}"
        )
    raise ArtifactError(what)


def _read_config(folder: Path) -> _Config:
    """Read the settings of model, search and languages; later files override earlier ones."""
    settings: dict[str, Any] = {}
    for name in ("tokenizer_config.json", "config.json", "generation_config.json"):
        if (folder / name).is_file():
            content = _read_json(folder / name, dict[str, Any])
            settings |= {key: value for key, value in content.items() if value is not None}
    try:
        config = _Config.model_validate(settings)
    except ValidationError as error:
        listed = "\n".join(map(str, mistakes_in(error, _Config)))
        raise ArtifactError(f"{str(folder)!r} cannot be imported:\n{listed}") from None
    differences = [
        f"encoder_{name} and decoder_{name} differ"
        for name in ("attention_heads", "ffn_dim")
        if getattr(config, f"encoder_{name}") != getattr(config, f"decoder_{name}")
    ]
    if differences:
        raise ArtifactError(f"{str(folder)!r} cannot be imported: {'; '.join(differences)}")
    return config


def _read_vocabularies(folder: Path, config: _Config) -> tuple[_Vocabulary, _Vocabulary]:
    """Read both vocabularies in our order."""
    start, end = config.decoder_start_token_id, config.eos_token_id
    first, second = folder / "vocab.json", folder / "target_vocab.json"
    if not second.is_file():
        shared = _reorder(first, config.vocab_size, config.pad_token_id, start, end)
        return shared, shared
    size = config.decoder_vocab_size or config.vocab_size
    return (
        _reorder(first, config.vocab_size),
        _reorder(second, size, config.pad_token_id, start, end),
    )


def _reorder(path: Path, size: int, *roles: int) -> _Vocabulary:
    """Reorder a vocabulary; the ids of padding, begin and end are read from it unless given."""
    listed = _read_json(path, dict[str, int])
    if sorted(listed.values()) != list(range(size)) or "<unk>" not in listed:
        raise ArtifactError(
            f"{path} has {len(listed)} tokens, expected {size}, numbered from 0, including <unk>"
        )
    padding, begin, end = roles or (
        listed.get(name, _ZERO_ROW) for name in ("<pad>", "<s>", "</s>")
    )
    special = (padding, listed["<unk>"], begin, end)
    others = sorted((row, piece) for piece, row in listed.items() if row not in special)
    # A normal token of Marian with the name of our special token needs another name.
    names = [f"<{piece}>" if piece in SPECIAL else piece for _, piece in others]
    return _Vocabulary([*SPECIAL, *names], [*special, *(row for row, _ in others)])


def _recipe(config: _Config, source: _Vocabulary, target: _Vocabulary, *, has_bias: bool) -> Recipe:
    """Translate Marian's settings to a recipe."""
    activation = config.activation_function
    tied = "output" if config.tie_word_embeddings else "none"
    if config.tie_word_embeddings and config.share_encoder_decoder_embeddings:
        tied = "all"
    return Recipe.model_validate(
        {
            "languages": {
                side: code if code and is_language_code(code) else ""
                for side, code in (("source", config.source_lang), ("target", config.target_lang))
            },
            "corpus": {"filters": []},  # How their text was normalized is unknown.
            "tokenizer": {
                "kind": "marian",
                "vocabulary_size": len(target.pieces),
                "shared": source.pieces == target.pieces,
            },
            "model": {
                "width": config.d_model,
                "encoder_layers": config.encoder_layers,
                "decoder_layers": config.decoder_layers,
                "heads": config.encoder_attention_heads,
                "position": {"name": "sinusoidal", "layout": "halves"},
                "norm": "post",
                "feed_forward": "swish" if activation == "silu" else activation,
                "feed_forward_width": config.encoder_ffn_dim,
                "tied_embeddings": tied,
                "output_bias": has_bias,
                "dropout": config.dropout,
                "attention_dropout": config.attention_dropout,
                "feed_forward_dropout": config.activation_dropout,
            },
            "decoding": {
                "search": "beam" if config.num_beams > 1 else "greedy",
                "beam_size": config.num_beams,
                "length_penalty": config.length_penalty,
            },
        }
    )


def _renamed_weights(
    recipe: Recipe,
    config: _Config,
    weights: dict[str, Tensor],
    vocabularies: tuple[_Vocabulary, _Vocabulary],
) -> dict[str, Tensor]:
    """Rename the weights as in our model, with the tokens in our order."""
    with torch.device("meta"):
        model = Transformer(recipe.model, *(len(one.pieces) for one in vocabularies))
    renamed, problems = {}, []
    for name, parameter in model.named_parameters():
        key = next((key for key in _possible_names(name, config) if key in weights), None)
        rows = list(range(len(parameter)))
        if name in _VOCABULARY_SIDE:
            rows = vocabularies[_VOCABULARY_SIDE[name]].rows
        expected = [max(rows) + 1, *parameter.shape[1:]]
        if key is None:
            problems.append(f"{huggingface_name(name)} is missing")
        elif list(weights[key].shape) != expected:
            problems.append(f"{key} is {list(weights[key].shape)}, expected {expected}")
        else:
            zero_row = parameter.new_zeros(1, *parameter.shape[1:], device="cpu")
            renamed[name] = torch.cat([weights[key].float(), zero_row])[rows]
    if problems:
        raise ArtifactError(f"model.safetensors does not match config.json: {'; '.join(problems)}")
    return renamed


def _possible_names(name: str, config: _Config) -> list[str]:
    """List the names of a weight in the file: tied weights are stored once, under any name."""
    key, output = huggingface_name(name), huggingface_name("output.weight")
    encoder, decoder = (
        huggingface_name(f"{side}_embedding.weight") for side in ("source", "target")
    )
    tied = [decoder]
    if config.share_encoder_decoder_embeddings:
        tied += ["model.shared.weight", encoder]
    if config.tie_word_embeddings:
        tied.append(output)
    return [key, *tied] if key in tied else [key]


def _forbidden(config: _Config, target: _Vocabulary) -> list[int]:
    """List our tokens that are never produced: `bad_words_ids`, and a padding that begins."""
    forbidden = {number for (number,) in config.bad_words_ids or ()}
    if config.decoder_start_token_id == config.pad_token_id:
        forbidden.add(config.pad_token_id)
    return [ours for ours, theirs in enumerate(target.rows) if theirs in forbidden]


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        weights = load_file(path)
    except SafetensorError as error:
        raise ArtifactError(f"{path} cannot be read: {error}; copy it again") from None
    if "final_logits_bias" in weights:
        weights["final_logits_bias"] = weights["final_logits_bias"].flatten()
    return weights


def _read_json(path: Path, expected: type[_Type]) -> _Type:
    try:
        return TypeAdapter(expected).validate_json(path.read_bytes())
    except ValidationError as error:
        what = error.errors(include_url=False)[0]["msg"]
        raise ArtifactError(f"{path} cannot be read: {what}") from None
