"""How does a model become a folder that Hugging Face's transformers loads by itself?

    config.json               the architecture: Marian, Pegasus or Blenderbot
    generation_config.json    how a translation is searched
    model.safetensors         the weights under their names
    source.spm, target.spm, vocab.json, tokenizer_config.json (and target_vocab.json)

`capability/huggingface.py` says which models can be exported, and what comes near only. The scores
are the same. Theirs have all sines of a position before all cosines, where ours take turns: so the
features of the model are put into their order wherever a weight reads or writes them, which changes
nothing, for neither sums nor norms look at the order.

The tokenizer is MarianTokenizer, which cuts with the same library and the same file. It takes
`>>this<<` at the beginning of a text for a language, reads ▁ in a text as a space, and strips what
it puts together.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from dragoman.artifact import Artifact, read_artifact
from dragoman.decoding.engine import length_limit
from dragoman.durable import new_folder
from dragoman.errors import ArtifactError, DataError, SaveError
from dragoman.exporting.capability.huggingface import obstacles
from dragoman.model.position.sinusoidal import Sinusoidal
from dragoman.recipe import DecodingRecipe, ModelRecipe
from dragoman.shapes import Tensor
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import BEGIN, END, PADDING, SPECIAL
from dragoman.tokenizer.marian import Marian
from dragoman.tokenizer.sentencepiece import SentencePiece

PLACES = 1024
"""As many positions as their architectures write down, unless more are needed."""

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
_ENDS = {"output.weight": "lm_head.weight", "output.bias": "final_logits_bias"}
_STACKS = ("encoder", "decoder")
_SOURCE_WORDS, _TARGET_WORDS = (f"model.{stack}.embed_tokens.weight" for stack in _STACKS)
_SPECIAL_IDS = {
    "pad_token_id": PADDING,
    "bos_token_id": BEGIN,
    "eos_token_id": END,
    "decoder_start_token_id": BEGIN,
    "forced_eos_token_id": None,  # By default, the last place allowed is made an end.
}


def export(folder: Path, destination: Path) -> None:
    """Write a model folder once more, for transformers; or say what stands against it."""
    artifact = read_artifact(folder)
    against = obstacles(artifact.recipe)
    if against:
        listed = "\n".join(map(str, against))
        raise ArtifactError(f"{str(folder)!r} cannot be exported to Hugging Face:\n{listed}")
    if destination.exists():
        raise DataError(f"{str(destination)!r} exists already; remove it, or choose another folder")
    recipe = artifact.recipe
    weights = _their_weights(recipe.model, artifact.weights())
    longest = length_limit(recipe.corpus.longest, recipe.decoding) + 1  # BEGIN has a place, too.
    positions = weights.get("model.encoder.embed_positions.weight")
    places = max(PLACES, longest) if positions is None else len(positions)
    config = _config(recipe.model, weights, places)
    if config["model_type"] == "pegasus":
        # Pegasus writes them down; Marian makes them anew, and Blenderbot has learned them.
        waves = Sinusoidal(recipe.model.width, layout="halves")(0, places, torch.empty(0))
        weights |= {f"model.{each}.embed_positions.weight": waves.clone() for each in _STACKS}
    with new_folder(destination) as temporary:
        _write(temporary / "config.json", config)
        generation = _generation(recipe.decoding, min(longest, places))
        _write(temporary / "generation_config.json", generation)
        _write_tokenizer(artifact, temporary, places)
        try:
            save_file(weights, temporary / "model.safetensors", metadata={"format": "pt"})
        except SafetensorError as error:
            raise SaveError(f"the model cannot be written: {error}") from None


def their_name(name: str) -> str:
    """What they call a parameter of ours, where nothing is tied."""
    if name in _ENDS:
        return _ENDS[name]
    for ours, theirs in _NAMES.items():
        name = name.replace(ours, theirs)
    return f"model.{name}"


def _their_weights(model: ModelRecipe, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Name the weights as they do, with their features in the order of theirs."""
    order = _order(model)
    found = {their_name(name): _ordered(name, each, order) for name, each in weights.items()}
    if model.tied_embeddings == "all":
        found["model.shared.weight"] = found.pop(_SOURCE_WORDS)
    words = found.get(_TARGET_WORDS, found.get("model.shared.weight"))
    assert words is not None
    bias = found.get("final_logits_bias", words.new_zeros(len(words)))
    return {**found, "final_logits_bias": bias.unsqueeze(0)}


def _order(model: ModelRecipe) -> Tensor:
    """Which of our features stands at each place of theirs: those with a sine come first."""
    features = torch.arange(model.width)
    layout = model.position.options.get("layout", "interleaved")
    if model.position.name != "sinusoidal" or layout == "halves":
        return features
    even, odd = features[0::2], features[1::2]
    return torch.cat([odd, even] if layout == "cosine_first" else [even, odd])


def _ordered(name: str, weight: Tensor, order: Tensor) -> Tensor:
    """Reorder the features that a weight writes, or those that it reads."""
    if any(writer in name for writer in ("heads.output", "contract", "norm")):
        return weight[order]
    return weight[:, order] if weight.dim() > 1 else weight


def _config(model: ModelRecipe, weights: dict[str, Tensor], places: int) -> dict[str, Any]:
    """Describe the architecture; what is not said here is not what their defaults say."""
    is_shared = model.tied_embeddings == "all"
    source = weights["model.shared.weight" if is_shared else _SOURCE_WORDS]
    config: dict[str, Any] = {
        "vocab_size": len(source),
        "d_model": model.width,
        "activation_function": model.feed_forward,
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.feed_forward_dropout,
        "scale_embedding": True,
        "max_position_embeddings": places,
        "is_encoder_decoder": True,
        "tie_word_embeddings": model.tied_embeddings != "none",
        "dtype": "float32",
        **_SPECIAL_IDS,
    }
    for stack, layers in zip(_STACKS, (model.encoder_layers, model.decoder_layers), strict=True):
        config |= {
            f"{stack}_layers": layers,
            f"{stack}_attention_heads": model.head_count,
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
    """Describe the search in the words of `generate`, which warns of what a search does not use."""
    settings: dict[str, Any] = {**_SPECIAL_IDS, "max_length": limit}
    match decoding.search:
        case "beam":
            settings |= {"num_beams": decoding.beam, "do_sample": False}
        case "greedy":
            settings |= {"num_beams": 1, "do_sample": False}
        case "sample":
            settings |= {"num_beams": 1, "do_sample": True, "temperature": decoding.temperature}
            settings |= {"top_k": decoding.top_k, "top_p": decoding.top_p}
    if settings["num_beams"] > 1:
        # The first so many that end, and probabilities that sum to one whatever is forbidden.
        settings |= {"early_stopping": True, "length_penalty": decoding.length_penalty}
        settings["renormalize_logits"] = True
    if decoding.minimum_length:
        settings["min_new_tokens"] = decoding.minimum_length
    if decoding.no_repeat:
        settings["no_repeat_ngram_size"] = decoding.no_repeat
    if decoding.repetition_penalty != 1:
        settings["repetition_penalty"] = decoding.repetition_penalty
    return settings


def _write_tokenizer(artifact: Artifact, folder: Path, places: int) -> None:
    """Write the models that cut, and the words by their ids."""
    words = []
    for side in ("source", "target"):
        tokenizer = load_tokenizer(artifact.tokenizer / side)
        if isinstance(tokenizer, Marian):
            model = tokenizer.model
        else:
            model = (artifact.tokenizer / side / SentencePiece.file_name).read_bytes()
        (folder / f"{side}.spm").write_bytes(model)
        words.append(tokenizer.pieces(range(tokenizer.size)))
    source, target = ({piece: number for number, piece in enumerate(each)} for each in words)
    _write(folder / "vocab.json", source)
    if target != source:
        _write(folder / "target_vocab.json", target)
    languages = artifact.recipe.languages
    config = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": languages.source or None,
        "target_lang": languages.target or None,
        "separate_vocabs": target != source,
        "model_max_length": places,
        "split_special_tokens": True,  # Text that spells a special token is text.
        "clean_up_tokenization_spaces": False,
    }
    for role, piece in zip(("pad", "unk", "bos", "eos"), SPECIAL, strict=True):
        config[f"{role}_token"] = piece
    _write(folder / "tokenizer_config.json", config)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_bytes((json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
