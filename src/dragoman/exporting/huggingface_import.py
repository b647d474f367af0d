"""How does a Marian model of Hugging Face, one of OPUS-MT for example, become one of ours?

    config.json, model.safetensors, source.spm, target.spm, vocab.json
    (and target_vocab.json, generation_config.json, tokenizer_config.json)

The network is the same, so its weights are only renamed. The words are put into another order, for
ours begin with padding, unknown, begin and end. Theirs have no begin: the decoder starts with the
padding, whose score is nothing in particular, and which they take out before the softmax. So its
vector becomes that of our begin too, and the bias of the output takes both out.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from pydantic import BaseModel, NonNegativeInt, PositiveInt, TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file

from dragoman.artifact import begin_artifact, finish_artifact
from dragoman.durable import new_folder
from dragoman.errors import ArtifactError, DataError
from dragoman.exporting.huggingface import their_name
from dragoman.model.transformer import Transformer
from dragoman.recipe import Amount, Rate, Recipe
from dragoman.shapes import Tensor
from dragoman.tokenizer.interface import SPECIAL
from dragoman.tokenizer.marian import Marian
from dragoman.validation import mistakes_in

NEVER = -1e3
"""The score of a word that is never said: finite, so that it can be learned with, and so low that
learning does not raise it to where it would matter."""

_FILES = ("config.json", "source.spm", "target.spm", "vocab.json", "model.safetensors")
_WORDS = {
    "source_embedding.weight": 0,
    "target_embedding.weight": 1,
    "output.weight": 1,
    "output.bias": 1,
}
"""What has a row for each word, of the source or of the target."""
_NONE = -1
_Kind = TypeVar("_Kind")


class _Config(BaseModel):
    """What their files must say for ours to compute the same; the defaults are Marian's."""

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


class _Words(NamedTuple):
    """A vocabulary in our order."""

    pieces: list[str]
    rows: list[int]
    """Which of theirs each of ours is; `_NONE`, the last row, is added for what they have not."""


def import_model(folder: Path, destination: Path) -> None:
    """Write a Marian model as a run of ours, to translate with or to go on learning from."""
    if destination.exists():
        raise DataError(f"{str(destination)!r} exists already; remove it, or choose another folder")
    _check_files(folder)
    config = _read_config(folder)
    words = source, target = _read_words(folder, config)
    weights = _read_weights(folder / "model.safetensors")
    bias = weights.setdefault("final_logits_bias", torch.zeros(max(target.rows) + 1))
    forbidden = _forbidden(config, target)
    has_bias = bool(forbidden) or bool(bias.any())
    recipe = _recipe(config, source, target, has_bias=has_bias)
    model = _our_weights(recipe, config, weights, words)
    if has_bias:
        model["output.bias"][forbidden] = NEVER
    with new_folder(destination) as temporary, TemporaryDirectory() as home:
        for side, each in zip(("source", "target"), words, strict=True):
            (Path(home) / side).mkdir()
            _tokenizer(folder / f"{side}.spm", each).save(Path(home) / side)
        begin_artifact(temporary, recipe, Path(home))
        finish_artifact(temporary, model)


def _tokenizer(path: Path, words: _Words) -> Marian:
    try:
        return Marian(path.read_bytes(), words.pieces)
    except DataError as error:
        raise ArtifactError(f"{path}: {error}") from None


def _check_files(folder: Path) -> None:
    if not folder.is_dir():
        raise ArtifactError(f"there is no folder {str(folder)!r}; expected a Marian model")
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if not missing:
        return
    what = f"{str(folder)!r} lacks {', '.join(missing)}"
    if "model.safetensors" in missing and (folder / "pytorch_model.bin").is_file():
        # Its weights are a pickle, which may run anything when it is read.
        what += (
            "; pytorch_model.bin is not read, for it may hold programs. If you trust it, type: "
            'python -c "from transformers import MarianMTModel; '
            f"MarianMTModel.from_pretrained({str(folder)!r})"
            f'.save_pretrained({str(folder)!r}, safe_serialization=True)"'
        )
    raise ArtifactError(what)


def _read_config(folder: Path) -> _Config:
    """Read what is said of the model, its search and its languages; the later files decide."""
    said: dict[str, Any] = {}
    for name in ("tokenizer_config.json", "config.json", "generation_config.json"):
        if (folder / name).is_file():
            content = _read_json(folder / name, dict[str, Any])
            said |= {key: value for key, value in content.items() if value is not None}
    try:
        config = _Config.model_validate(said)
    except ValidationError as error:
        listed = "\n".join(map(str, mistakes_in(error, _Config)))
        raise ArtifactError(f"{str(folder)!r} cannot be imported:\n{listed}") from None
    unlike = [
        f"encoder_{name} and decoder_{name} differ"
        for name in ("attention_heads", "ffn_dim")
        if getattr(config, f"encoder_{name}") != getattr(config, f"decoder_{name}")
    ]
    if unlike:
        raise ArtifactError(f"{str(folder)!r} cannot be imported: {'; '.join(unlike)}")
    return config


def _read_words(folder: Path, config: _Config) -> tuple[_Words, _Words]:
    """Put the words of source and target into our order."""
    start, end = config.decoder_start_token_id, config.eos_token_id
    first, second = folder / "vocab.json", folder / "target_vocab.json"
    if not second.is_file():
        both = _order(first, config.vocab_size, config.pad_token_id, start, end)
        return both, both
    size = config.decoder_vocab_size or config.vocab_size
    return (
        _order(first, config.vocab_size),
        _order(second, size, config.pad_token_id, start, end),
    )


def _order(path: Path, size: int, *roles: int) -> _Words:
    """Order a list of words; the roles, padding, begin and end, are read from it unless given."""
    listed = _read_json(path, dict[str, int])
    if sorted(listed.values()) != list(range(size)) or "<unk>" not in listed:
        raise ArtifactError(
            f"{path} has {len(listed)} words, expected {size}, numbered from 0, <unk> among them"
        )
    padding, begin, end = roles or (listed.get(each, _NONE) for each in ("<pad>", "<s>", "</s>"))
    special = (padding, listed["<unk>"], begin, end)
    others = sorted((row, piece) for piece, row in listed.items() if row not in special)
    # A word that is called as a special one of ours, but is none of theirs, needs another name.
    names = [f"<{piece}>" if piece in SPECIAL else piece for _, piece in others]
    return _Words([*SPECIAL, *names], [*special, *(row for row, _ in others)])


def _recipe(config: _Config, source: _Words, target: _Words, *, has_bias: bool) -> Recipe:
    """Say in our words what their files say."""
    activation = config.activation_function
    tied = "output" if config.tie_word_embeddings else "none"
    if config.tie_word_embeddings and config.share_encoder_decoder_embeddings:
        tied = "all"
    return Recipe.model_validate(
        {
            "languages": {"source": config.source_lang or "", "target": config.target_lang or ""},
            "corpus": {"steps": []},  # Nobody says how their text was spelled.
            "tokenizer": {
                "kind": "marian",
                "vocabulary_size": len(target.pieces),
                "shared": source.pieces == target.pieces,
            },
            "model": {
                "width": config.d_model,
                "encoder_layers": config.encoder_layers,
                "decoder_layers": config.decoder_layers,
                "head_count": config.encoder_attention_heads,
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
                "beam": config.num_beams,
                "length_penalty": config.length_penalty,
            },
        }
    )


def _our_weights(
    recipe: Recipe, config: _Config, weights: dict[str, Tensor], words: tuple[_Words, _Words]
) -> dict[str, Tensor]:
    """Name the weights as we do, with the words in our order."""
    with torch.device("meta"):
        model = Transformer(recipe.model, *(len(each.pieces) for each in words))
    found, wrong = {}, []
    for name, parameter in model.named_parameters():
        place = next((each for each in _places(name, config) if each in weights), None)
        rows = words[_WORDS[name]].rows if name in _WORDS else list(range(len(parameter)))
        expected = [max(rows) + 1, *parameter.shape[1:]]
        if place is None:
            wrong.append(f"{their_name(name)} is missing")
        elif list(weights[place].shape) != expected:
            wrong.append(f"{place} is {list(weights[place].shape)}, expected {expected}")
        else:
            none = parameter.new_zeros(1, *parameter.shape[1:], device="cpu")
            found[name] = torch.cat([weights[place].float(), none])[rows]
    if wrong:
        raise ArtifactError(f"model.safetensors is not what config.json says: {'; '.join(wrong)}")
    return found


def _places(name: str, config: _Config) -> list[str]:
    """Where a weight of ours may stand: what is tied is written once, under one of its names."""
    place, output = their_name(name), their_name("output.weight")
    encoder, decoder = (their_name(f"{side}_embedding.weight") for side in ("source", "target"))
    tied = [decoder]
    if config.share_encoder_decoder_embeddings:
        tied += ["model.shared.weight", encoder]
    if config.tie_word_embeddings:
        tied.append(output)
    return [place, *tied] if place in tied else [place]


def _forbidden(config: _Config, target: _Words) -> list[int]:
    """Which of our words may not be said: those that they forbid, and a padding that begins."""
    bad = {number for (number,) in config.bad_words_ids or ()}
    if config.decoder_start_token_id == config.pad_token_id:
        bad.add(config.pad_token_id)
    return [ours for ours, theirs in enumerate(target.rows) if theirs in bad]


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        weights = load_file(path)
    except SafetensorError as error:
        raise ArtifactError(f"{path} cannot be read: {error}; copy it again") from None
    if "final_logits_bias" in weights:
        weights["final_logits_bias"] = weights["final_logits_bias"].flatten()
    return weights


def _read_json(path: Path, kind: type[_Kind]) -> _Kind:
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except ValidationError as error:
        what = error.errors(include_url=False)[0]["msg"]
        raise ArtifactError(f"{path} cannot be read: {what}") from None
