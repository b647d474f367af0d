"""Small random models in the layout of OPUS-MT on the hub, made on the spot.

    model, vocabularies = write_opus(tmp_path / "opus")    a folder that `dragoman import` reads
    ours, tokenizers = our_model(tmp_path / "run")         the model of an imported run

Every weight is random, so that a weight that is left out changes the result.
"""

from __future__ import annotations

# Before transformers: its own import of SentencePiece warns, and warnings are errors here.
from dragoman.tokenizer.sentencepiece import library  # type: ignore[attr-defined]

# isort: split

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import MarianConfig, MarianMTModel

from dragoman.artifact import read_artifact
from dragoman.decoding.engine import length_limit
from dragoman.model.transformer import Transformer
from dragoman.recipe.schema import DecodingRecipe
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import SPECIAL, Tokenizer

ENGLISH = [
    *("the cat sat on the mat with a hat", "hello world", "a small dog sees the green apples"),
    *("the old man has forty-two eggs", "she reads (well) what was written", "no, not a cat!"),
]
GERMAN = [
    *("der Bär mag die grünen Äpfel", "hallo Welt", "ein kleiner Hund sieht die Katze"),
    *("der alte Mann hat zweiundvierzig Eier", "sie liest (gut), was da steht", "nein!"),
]
SMALL: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "activation_function": "swish",
    "max_position_embeddings": 128,
    "scale_embedding": True,
    "eos_token_id": 0,
    "forced_eos_token_id": 0,
}

MISSING_PIECE = "!"
"""A piece of the SentencePiece models that the vocabulary does not have."""


def unigram(texts: Sequence[str]) -> tuple[bytes, list[str]]:
    """Train a SentencePiece model as OPUS-MT does; return it and its pieces."""
    written = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 5),
        model_writer=written,
        model_type="unigram",
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    model = library.SentencePieceProcessor()
    model.LoadFromSerializedProto(written.getvalue())
    pieces = [model.id_to_piece(number) for number in range(len(model))]
    return written.getvalue(), [piece for piece in pieces if piece not in SPECIAL]


def write_opus(
    folder: Path,
    *,
    is_separate: bool = False,
    languages: Sequence[str] = ("deu",),
    target: str = "de",
    has_zero_padding: bool = False,
    words: int = 0,
    **config: Any,
) -> tuple[MarianMTModel, list[dict[str, int]]]:
    """Write a random model in the layout of OPUS-MT, with its tokenizer.

    Return the model and its vocabularies. `languages` are those of the language tokens; `words` is
    a number of tokens that nothing uses. The embedding of the padding, with which a translation
    begins, is zero in real models.
    """
    folder.mkdir()
    english, german = unigram(ENGLISH), unigram(GERMAN)
    # Padding has one id in both vocabularies, so the second one is made shorter.
    merged = dict.fromkeys(english[1] + german[1])
    lists = [english[1], german[1][:40]] if is_separate else [merged]
    vocabularies = []
    for name, listed in zip(("vocab.json", "target_vocab.json"), lists, strict=False):
        pieces = [
            "</s>",
            "<unk>",
            *(f">>{code}<<" for code in languages),
            *(piece for piece in listed if piece != MISSING_PIECE),
            *(f"unused{number}" for number in range(words)),
        ]
        vocabularies.append({piece: row for row, piece in enumerate([*pieces, "<pad>"])})
        (folder / name).write_text(json.dumps(vocabularies[-1]), encoding="utf-8")
    for side, (model, _) in (("source", english), ("target", german)):
        (folder / f"{side}.spm").write_bytes(model)
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"source_lang": "en", "target_lang": target, "separate_vocabs": is_separate})
    )
    padding = vocabularies[-1]["<pad>"]
    settings = SMALL | {
        "vocab_size": len(vocabularies[0]),
        "decoder_vocab_size": len(vocabularies[-1]),
        "pad_token_id": padding,
        "decoder_start_token_id": padding,
        "share_encoder_decoder_embeddings": not is_separate,
    }
    model = MarianMTModel(MarianConfig(**(settings | config)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                is_norm = name.endswith("norm.weight")
                parameter.copy_(torch.randn_like(parameter) * 0.3 + is_norm)
        if has_zero_padding:
            model.model.shared.weight[padding] = 0
        model.final_logits_bias.normal_()
    generation = model.generation_config
    generation.bad_words_ids, generation.num_beams = [[padding]], 4
    generation.renormalize_logits = True
    # Runaway translations are cut where Dragoman cuts them, and without an end token.
    generation.max_length = length_limit(30, DecodingRecipe()) + 1
    generation.forced_eos_token_id = None
    model.save_pretrained(folder)
    return model.eval(), vocabularies


def our_model(folder: Path) -> tuple[Transformer, list[Tokenizer]]:
    """Build the model of a run; return it and its tokenizers."""
    artifact = read_artifact(folder)
    tokenizers = [load_tokenizer(artifact.tokenizer / side) for side in ("source", "target")]
    model = Transformer(artifact.recipe.model, *(one.size for one in tokenizers))
    model.load_state_dict(artifact.weights())
    return model.eval(), tokenizers


def as_marian_ids(ids: torch.Tensor, tokenizer: Tokenizer, theirs: dict[str, int]) -> torch.Tensor:
    """Convert our ids to Marian's; our begin token is Marian's padding. New tokens have none."""
    names = tokenizer.pieces(range(tokenizer.size))
    table = [theirs["<pad>"] if name == "<s>" else theirs.get(name, -1) for name in names]
    return torch.tensor(table)[ids]
