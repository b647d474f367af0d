"""Export to Hugging Face: a folder that transformers loads without Dragoman.

    config.json               the architecture: Marian, Pegasus or Blenderbot
    generation_config.json    the search settings
    model.safetensors         the weights under the names of transformers
    source.spm, target.spm, vocab.json, tokenizer_config.json (and target_vocab.json)
    README.md                 the model card

`compatibility/huggingface.py` lists which models can be exported and what is only approximate. The
logits are the same. In transformers, all sines of a position come before all cosines; here they
alternate. So the model's features are permuted wherever a weight reads or writes them. This changes
nothing, because sums and norms do not depend on the order.

The tokenizer is MarianTokenizer, which uses the same library and the same file. It reads `>>xx<<`
at the beginning of a text as a language, reads ▁ in a text as a space, and strips decoded text.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from dragoman.artifact import Artifact, read_artifact
from dragoman.decoding.engine import length_limit
from dragoman.errors import ArtifactError, DataError, SaveError
from dragoman.interop.compatibility.huggingface import obstacles
from dragoman.interop.model_card import model_card
from dragoman.model.position.sinusoidal import Sinusoidal
from dragoman.recipe.schema import DecodingRecipe, ModelRecipe
from dragoman.shapes import Tensor
from dragoman.storage.files import atomic_folder, write_text
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import BEGIN, END, PADDING, SPECIAL
from dragoman.tokenizer.marian import Marian
from dragoman.tokenizer.sentencepiece import SentencePiece

MIN_POSITIONS = 1024
"""Positions in the config of transformers, unless more are needed."""

_NAMES = {
    "self_attention.heads": "self_attn",
    "cross_attention.heads": "encoder_attn",
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "attn.output": "attn.out_proj",
    "self_residual.norm": "self_attn_layer_norm",
    "cross_residual.norm": "encoder_attn_layer_norm",
    "feed_forward.residual.norm": "final_layer_norm",
    "feed_forward.network.expand": "fc1",
    "feed_forward.network.contract": "fc2",
    "coder.norm": "coder.layer_norm",
    "positions.0.vectors.table": "embed_positions",
    "source_embedding": "encoder.embed_tokens",
    "target_embedding": "decoder.embed_tokens",
}
_OUTPUT_NAMES = {"output.weight": "lm_head.weight", "output.bias": "final_logits_bias"}
_STACKS = ("encoder", "decoder")
_SOURCE_EMBEDDING, _TARGET_EMBEDDING = (f"model.{stack}.embed_tokens.weight" for stack in _STACKS)
_SPECIAL_IDS = {
    "pad_token_id": PADDING,
    "bos_token_id": BEGIN,
    "eos_token_id": END,
    "decoder_start_token_id": BEGIN,
    "forced_eos_token_id": None,  # By default, transformers forces an end at the length limit.
}


def export(
    folder: Path, destination: Path, *, force: bool = False, trust_parts: bool = False
) -> None:
    """Export a model folder, or raise with everything that transformers cannot express."""
    artifact = read_artifact(folder, trust_parts)
    against = obstacles(artifact.recipe)
    if against:
        listed = "\n".join(map(str, against))
        raise ArtifactError(f"{str(folder)!r} cannot be exported to Hugging Face:\n{listed}")
    _check_destination(destination, force=force)
    destination = destination.absolute()  # "." has no name.
    recipe = artifact.recipe
    weights = _renamed_weights(recipe.model, artifact.weights())
    parameters = sum(tensor.numel() for tensor in weights.values())
    # One more for BEGIN.
    limit = length_limit(recipe.corpus.max_tokens, recipe.decoding) + 1
    learned = weights.get("model.encoder.embed_positions.weight")
    positions = max(MIN_POSITIONS, limit) if learned is None else len(learned)
    config = _config(recipe.model, weights, positions)
    if config["model_type"] == "pegasus":
        # Pegasus stores its sinusoids; Marian computes them, and Blenderbot learns its positions.
        table = Sinusoidal(recipe.model.width, layout="halves")(0, positions, torch.empty(0))
        weights |= {f"model.{stack}.embed_positions.weight": table.clone() for stack in _STACKS}
    old = destination.with_name(f".{destination.name}.old")
    shutil.rmtree(old, ignore_errors=True)  # Left by an export that was killed.
    with atomic_folder(destination) as temporary:
        _write(temporary / "config.json", config)
        generation = _generation(recipe.decoding, min(limit, positions))
        _write(temporary / "generation_config.json", generation)
        _write_tokenizer(artifact, temporary, positions)
        card = model_card(artifact, "huggingface", parameters=parameters)
        write_text(temporary / "README.md", card)
        try:
            save_file(weights, temporary / "model.safetensors", metadata={"format": "pt"})
        except SafetensorError as error:
            raise SaveError(
                f"the model cannot be written to {str(destination)!r}: {error}; free some space, "
                "and type the same command again"
            ) from None
        if destination.exists():
            destination.rename(old)
    shutil.rmtree(old, ignore_errors=True)


def huggingface_name(name: str) -> str:
    """Give the name of a parameter in transformers, as if nothing were tied."""
    if name in _OUTPUT_NAMES:
        return _OUTPUT_NAMES[name]
    for ours, theirs in _NAMES.items():
        name = name.replace(ours, theirs)
    return f"model.{name}"


def _check_destination(destination: Path, *, force: bool) -> None:
    """Refuse an existing folder; `force` replaces an earlier export, and nothing else."""
    if not destination.exists():
        return
    is_export = (destination / "generation_config.json").is_file()
    if not (force and is_export):
        advice = "; to replace it, add --force" if is_export else ""
        raise DataError(
            f"{str(destination)!r} exists already; remove it, or choose another folder{advice}"
        )


def _renamed_weights(model: ModelRecipe, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the weights for transformers, and permute their features."""
    order = _feature_order(model)
    renamed = {
        huggingface_name(name): _permuted(name, weight, order) for name, weight in weights.items()
    }
    if model.tied_embeddings == "all":
        renamed["model.shared.weight"] = renamed.pop(_SOURCE_EMBEDDING)
    embedding = renamed.get(_TARGET_EMBEDDING, renamed.get("model.shared.weight"))
    assert embedding is not None
    bias = renamed.get("final_logits_bias", embedding.new_zeros(len(embedding)))
    return {**renamed, "final_logits_bias": bias.unsqueeze(0)}


def _feature_order(model: ModelRecipe) -> Tensor:
    """Give our feature index for each feature of transformers: features with a sine come first."""
    features = torch.arange(model.width)
    layout = model.position.options.get("layout", "interleaved")
    if model.position.name != "sinusoidal" or layout == "halves":
        return features
    even, odd = features[0::2], features[1::2]
    return torch.cat([odd, even] if layout == "cosine_first" else [even, odd])


def _permuted(name: str, weight: Tensor, order: Tensor) -> Tensor:
    """Permute the features that a weight writes, or those that it reads."""
    if any(writer in name for writer in ("heads.output", "contract", "norm")):
        return weight[order]
    return weight[:, order] if weight.dim() > 1 else weight


def _config(model: ModelRecipe, weights: dict[str, Tensor], positions: int) -> dict[str, Any]:
    """Describe the architecture; every setting that differs from the defaults is written."""
    is_shared = model.tied_embeddings == "all"
    source = weights["model.shared.weight" if is_shared else _SOURCE_EMBEDDING]
    config: dict[str, Any] = {
        "vocab_size": len(source),
        "d_model": model.width,
        "activation_function": model.feed_forward,
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.feed_forward_dropout,
        "scale_embedding": True,
        "max_position_embeddings": positions,
        "is_encoder_decoder": True,
        "tie_word_embeddings": model.tied_embeddings != "none",
        "dtype": "float32",
        **_SPECIAL_IDS,
    }
    for stack, layers in zip(_STACKS, (model.encoder_layers, model.decoder_layers), strict=True):
        config |= {
            f"{stack}_layers": layers,
            f"{stack}_attention_heads": model.heads,
            f"{stack}_ffn_dim": model.feed_forward_width,
        }
    if model.norm == "post":
        kind = {"model_type": "marian", "architectures": ["MarianMTModel"]}
        config |= {
            "share_encoder_decoder_embeddings": is_shared,
            "decoder_vocab_size": weights["final_logits_bias"].shape[1],
        }
    elif model.position.name == "sinusoidal":
        kind = {"model_type": "pegasus", "architectures": ["PegasusForConditionalGeneration"]}
    else:
        kind = {"model_type": "blenderbot", "architectures": ["BlenderbotForConditionalGeneration"]}
        config["encoder_no_repeat_ngram_size"] = 0
    return kind | config


def _generation(decoding: DecodingRecipe, limit: int) -> dict[str, Any]:
    """Describe the search for `generate`, which warns about settings that a search ignores."""
    settings: dict[str, Any] = {**_SPECIAL_IDS, "max_length": limit}
    match decoding.search:
        case "beam":
            settings |= {"num_beams": decoding.beam_size, "do_sample": False}
        case "greedy":
            settings |= {"num_beams": 1, "do_sample": False}
        case "sample":
            settings |= {"num_beams": 1, "do_sample": True, "temperature": decoding.temperature}
            settings |= {"top_k": decoding.top_k, "top_p": decoding.top_p}
    if settings["num_beams"] > 1:
        # Stop after `num_beams` finished hypotheses; renormalize after tokens are forbidden.
        settings |= {"early_stopping": True, "length_penalty": decoding.length_penalty}
        settings["renormalize_logits"] = True
    if decoding.min_length:
        settings["min_new_tokens"] = decoding.min_length
    if decoding.no_repeat_ngram_size:
        settings["no_repeat_ngram_size"] = decoding.no_repeat_ngram_size
    if decoding.repetition_penalty != 1:
        settings["repetition_penalty"] = decoding.repetition_penalty
    return settings


def _write_tokenizer(artifact: Artifact, folder: Path, positions: int) -> None:
    """Write the SentencePiece models and the vocabularies."""
    vocabularies = []
    for side in ("source", "target"):
        tokenizer = load_tokenizer(artifact.tokenizer / side)
        if isinstance(tokenizer, Marian):
            model = tokenizer.model
        else:
            model = (artifact.tokenizer / side / SentencePiece.file_name).read_bytes()
        (folder / f"{side}.spm").write_bytes(model)
        pieces = tokenizer.pieces(range(tokenizer.size))
        vocabularies.append({piece: number for number, piece in enumerate(pieces)})
    source, target = vocabularies
    _write(folder / "vocab.json", source)
    if target != source:
        _write(folder / "target_vocab.json", target)
    languages = artifact.recipe.languages
    config = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": languages.source or None,
        "target_lang": languages.target or None,
        "separate_vocabs": target != source,
        "model_max_length": positions,
        "split_special_tokens": True,  # Text that looks like a special token is text.
        "clean_up_tokenization_spaces": False,
    }
    for role, piece in zip(("pad", "unk", "bos", "eos"), SPECIAL, strict=True):
        config[f"{role}_token"] = piece
    _write(folder / "tokenizer_config.json", config)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_bytes((json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
