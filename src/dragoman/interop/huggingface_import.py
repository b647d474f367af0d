"""Import from Hugging Face: convert a Marian model, for example of OPUS-MT, to a run.

    config.json, model.safetensors, source.spm, target.spm, vocab.json
    (and target_vocab.json, generation_config.json, tokenizer_config.json)

The network is the same, so its weights are only renamed. The vocabulary is reordered, because ours
begins with padding, unknown, begin and end. Marian has no begin token: its decoder starts with the
padding token, which is excluded before the softmax. So our begin token gets the padding's
embedding, and the output bias excludes both.

The reserved tokens (`tokenizer/interface.py`) are added at the end of the vocabulary, so that the
model can learn them later. No logit of another token changes. A new token gets the mean embedding
and the lowest bias: its logit is then below the mean of all logits, so no search finds it. The
recipe says that the tokens are not learned yet (`corpus.span_augmentation: 0`).

Weights are mapped into memory and not copied, except those with one row per token.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from pydantic import BaseModel, NonNegativeInt, PositiveInt, TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open

from dragoman.artifact import begin_artifact, finish_artifact
from dragoman.errors import ArtifactError, DataError
from dragoman.interop.huggingface import huggingface_name
from dragoman.model.transformer import Transformer
from dragoman.recipe.mistakes import mistakes_in
from dragoman.recipe.schema import Amount, LanguagesRecipe, Rate, Recipe, is_language_code
from dragoman.shapes import Tensor
from dragoman.storage.files import atomic_folder
from dragoman.text.languages import match_code
from dragoman.tokenizer.interface import RESERVED_TOKENS, SPECIAL
from dragoman.tokenizer.marian import Marian, language_code, reserve_tokens

FORBIDDEN_BIAS = -1e3
"""Output bias of a token that is never produced: finite, so that training works, and so low that
training never raises it enough to matter."""

_BIAS = "final_logits_bias"
_FILES = ("config.json", "source.spm", "target.spm", "vocab.json", "model.safetensors")
_VOCABULARY_SIDE = {
    "source_embedding.weight": 0,
    "target_embedding.weight": 1,
    "output.weight": 1,
    "output.bias": 1,
}
"""Parameters with one row per token, of the source (0) or the target (1) vocabulary."""
_ZERO_ROW, _NEW_ROW = -1, -2
_NOISE = 0.1
"""Noise on a new embedding, as a share of the standard deviation of the others: enough to tell the
new tokens apart. With 0.1 no new token is among the eight best anywhere in 40 sentences (OPUS-MT
en-fr), with 1 some are."""
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
    """Marian's row of each piece; `_ZERO_ROW` for a special token that Marian lacks, `_NEW_ROW` for
    the reserved tokens, which are the last ones."""


def import_model(folder: Path, destination: Path, languages: LanguagesRecipe) -> None:
    """Write a Marian model as a run, to translate with or to fine-tune.

    `languages` replaces the languages of the model; a target selects one of several.
    """
    _check_files(folder)
    config = _read_config(folder)
    vocabularies = source, target = _read_vocabularies(folder, config)
    languages = _languages(config, languages, source.pieces)
    weights = _Weights.open(folder / "model.safetensors")
    forbidden = _forbidden(config, target)
    has_bias = bool(forbidden) or weights.has_bias()
    recipe = _recipe(config, languages, vocabularies, has_bias=has_bias)
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
        return Marian(reserve_tokens(path.read_bytes()), vocabulary.pieces)
    except DataError as error:
        raise ArtifactError(f"{path}: {error}") from None


def _check_files(folder: Path) -> None:
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if not missing:
        return
    what = f"{str(folder)!r} is not a complete Marian model: it lacks {', '.join(missing)}"
    if "model.safetensors" in missing and (folder / "pytorch_model.bin").is_file():
        old, new = (str(folder / name) for name in ("pytorch_model.bin", "model.safetensors"))
        code = (
            "import torch; from safetensors.torch import save_file; "
            f"weights = torch.load({old!r}, weights_only=True, map_location='cpu'); "
            "save_file({name: weight.contiguous().clone() for name, weight in weights.items()}, "
            f"{new!r})"
        )
        what += (
            ". pytorch_model.bin is a pickle, which is not read here, because a pickle may run "
            f"code. To convert its weights, and only them, type: python -c {shlex.quote(code)}"
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
    new = [token for token in RESERVED_TOKENS if token not in listed]
    rows = [*special, *(row for row, _ in others), *[_NEW_ROW] * len(new)]
    return _Vocabulary([*SPECIAL, *names, *new], rows)


def _languages(
    config: _Config, requested: LanguagesRecipe, pieces: Sequence[str]
) -> LanguagesRecipe:
    """Choose the languages: those that are requested, or those of the model if it has one pair."""
    codes = [code for piece in pieces if (code := language_code(piece))]
    if requested.target and codes and match_code(requested.target, codes) is None:
        raise DataError(
            f"the model does not translate into {requested.target!r}; it has tokens for these "
            f"languages: {', '.join(sorted(codes))}"
        )
    sides = ((requested.source, config.source_lang), (requested.target, config.target_lang))
    source, target = (
        wanted or (code if code and is_language_code(code) else "") for wanted, code in sides
    )
    return LanguagesRecipe(source=source, target=target)


def _recipe(
    config: _Config,
    languages: LanguagesRecipe,
    vocabularies: tuple[_Vocabulary, _Vocabulary],
    *,
    has_bias: bool,
) -> Recipe:
    """Translate Marian's settings to a recipe."""
    source, target = vocabularies
    activation = config.activation_function
    tied = "output" if config.tie_word_embeddings else "none"
    if config.tie_word_embeddings and config.share_encoder_decoder_embeddings:
        tied = "all"
    return Recipe.model_validate(
        {
            "languages": languages,
            # How their text was normalized is unknown, and they have not learned our tokens.
            "corpus": {"filters": [], "span_augmentation": 0.0, "synthetic_spans": 0.0},
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


class _Weights(NamedTuple):
    """The weights of a file, which are mapped into memory when they are read."""

    path: Path
    shapes: dict[str, list[int]]

    @classmethod
    def open(cls, path: Path) -> _Weights:
        """Read names and shapes."""
        try:
            with safe_open(path, framework="pt") as file:
                return cls(path, {name: file.get_slice(name).get_shape() for name in file.keys()})  # noqa: SIM118
        except SafetensorError as error:
            raise ArtifactError(f"{path} cannot be read: {error}; copy it again") from None

    def has_bias(self) -> bool:
        """Whether the output has a bias that is not zero."""
        return _BIAS in self.shapes and bool(self.read(_BIAS).any())

    def shape(self, name: str) -> list[int]:
        """Return the shape of a weight; the bias may be stored as a matrix with one row."""
        return self.shapes[name][-1:] if name == _BIAS else self.shapes[name]

    def read(self, name: str) -> Tensor:
        """Return a weight as float32, not copied if it is stored like this.

        Each has its own mapping, which ends with the tensor, so that no memory is used twice.
        """
        with safe_open(self.path, framework="pt") as file:
            weight: Tensor = file.get_tensor(name).float()
        return weight.flatten() if name == _BIAS else weight


def _renamed_weights(
    recipe: Recipe,
    config: _Config,
    weights: _Weights,
    vocabularies: tuple[_Vocabulary, _Vocabulary],
) -> dict[str, Tensor]:
    """Rename the weights as in our model, with the tokens in our order."""
    with torch.device("meta"):
        model = Transformer(recipe.model, *(len(one.pieces) for one in vocabularies))
    renamed: dict[str, Tensor] = {}
    problems = []
    for name, parameter in model.named_parameters():
        key = next((key for key in _possible_names(name, config) if key in weights.shapes), None)
        side = _VOCABULARY_SIDE.get(name)
        rows = None if side is None else vocabularies[side].rows
        expected = [len(parameter) if rows is None else max(rows) + 1, *parameter.shape[1:]]
        if key is None and name == "output.bias":
            renamed[name] = torch.zeros(parameter.shape)
        elif key is None:
            problems.append(f"{huggingface_name(name)} is missing")
        elif weights.shape(key) != expected:
            problems.append(f"{key} is {weights.shape(key)}, expected {expected}")
        elif rows is None:
            renamed[name] = weights.read(key)
        else:
            renamed[name] = _reordered(weights.read(key), rows)
    if problems:
        raise ArtifactError(f"model.safetensors does not match config.json: {'; '.join(problems)}")
    return renamed


def _reordered(weight: Tensor, rows: list[int]) -> Tensor:
    """Put the rows of a weight in our order, and add rows for new tokens."""
    indices = torch.tensor(rows)
    old = len(rows) - rows.count(_NEW_ROW)
    reordered = torch.empty(len(rows), *weight.shape[1:])
    torch.index_select(weight, 0, indices[:old].clamp(min=0), out=reordered[:old])
    reordered[:old][indices[:old] == _ZERO_ROW] = 0
    learned = reordered[len(SPECIAL) : old]
    if weight.dim() == 1:
        reordered[old:] = learned.min()
    else:
        variance, mean = torch.var_mean(learned, dim=0)
        noise = torch.randn(len(rows) - old, len(mean), generator=torch.Generator().manual_seed(1))
        reordered[old:] = mean + _NOISE * variance.sqrt() * noise
    return reordered


def _possible_names(name: str, config: _Config) -> list[str]:
    """List the names that a weight may have: tied weights are stored once under any name, or under
    all of them."""
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


def _read_json(path: Path, expected: type[_Type]) -> _Type:
    try:
        return TypeAdapter(expected).validate_json(path.read_bytes())
    except ValidationError as error:
        what = error.errors(include_url=False)[0]["msg"]
        raise ArtifactError(f"{path} cannot be read: {what}") from None
