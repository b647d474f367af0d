"""The settings of a recipe.

A recipe is a frozen tree of sections, one section per stage. A setting exists only if some code
reads it; a value that follows from other settings is not a setting. The defaults are the base model
of Vaswani et al. (2017), except those of `decoding`, which every engine supports; the preset `base`
also decodes like the paper.

The sections `corpus` and `decoding` are in their own files. `files.py` reads and writes recipes as
YAML.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from dragoman.errors import Mistake, RecipeError
from dragoman.recipe.contradictions import (
    contradictions,
    contradictions_of_adapters,
    contradictions_of_search,
)
from dragoman.recipe.corpus import CorpusFiles, CorpusRecipe, TrainingCorpus, mistakes_in_corpora
from dragoman.recipe.decoding import DecodingRecipe
from dragoman.recipe.fitting import mistakes_in_fit
from dragoman.recipe.parts import Choice, known
from dragoman.recipe.section import Amount, Count, Rate, Section, Share
from dragoman.storage.files import write_text

__all__ = [
    "Amount",
    "ConvolutionalRecipe",
    "CorpusFiles",
    "CorpusRecipe",
    "DecodingRecipe",
    "LanguagesRecipe",
    "ModelRecipe",
    "Rate",
    "Recipe",
    "RecurrentRecipe",
    "Section",
    "TokenizerRecipe",
    "TrainingCorpus",
    "TrainingRecipe",
    "contradictions",
    "is_language_code",
]

_LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*")


def is_language_code(text: str) -> bool:
    """Recognize codes such as en, yue, pt-BR and zh_Hant."""
    return _LANGUAGE_CODE.fullmatch(text) is not None


def _check_language(code: str) -> str:
    if code and not is_language_code(code):
        message = "found {code}, expected a language code such as en or pt-BR"
        raise PydanticCustomError("language", message, {"code": repr(code)})
    return code


LanguageCode = Annotated[str, AfterValidator(_check_language)]


class LanguagesRecipe(Section):
    """The language pair."""

    source: LanguageCode = Field("", description="Source language code, for example en")
    target: LanguageCode = Field("", description="Target language code, for example de")


class TokenizerRecipe(Section):
    """How text becomes tokens."""

    kind: Literal["sentencepiece", "words", "characters", "bytes", "marian"] = Field(
        "sentencepiece", description="Tokenizer (sentencepiece = byte-pair encoding)"
    )
    vocabulary_size: Count = Field(
        37000, description="Vocabulary size (of each language, if not shared)"
    )
    shared: bool = Field(True, description="One vocabulary for source and target")
    sample: Count = Field(10_000_000, description="Maximum sentences to learn the vocabulary from")
    init_from: str = Field("", description="Run whose tokenizer is reused")


class RecurrentRecipe(Section):
    """Settings of the recurrent baseline only."""

    cell: Literal["lstm", "gru"] = Field("lstm", description="Recurrent cell")
    bidirectional: bool = Field(
        True, description="The first encoder layer reads in both directions"
    )
    attention: bool = Field(
        True, description="Attend to all source positions (false = only the final encoder state)"
    )


class ConvolutionalRecipe(Section):
    """Settings of the convolutional baseline only."""

    kernel_size: Count = Field(3, description="Kernel size, in tokens")


class ModelRecipe(Section):
    """The network."""

    architecture: Literal["transformer", "recurrent", "convolutional"] = Field(
        "transformer", description="Network architecture"
    )
    width: Count = Field(512, description="Model dimension (d_model)")
    encoder_layers: Count = Field(6, description="Number of encoder layers")
    decoder_layers: Count = Field(6, description="Number of decoder layers")
    head_kind: Annotated[Choice, known("model.head_kind")] = Field(
        Choice(name="standard"), description="How queries, keys and values are split into heads"
    )
    heads: Count = Field(8, description="Number of attention heads")
    similarity: Annotated[Choice, known("model.similarity")] = Field(
        Choice(name="scaled_dot"), description="Similarity of query and key"
    )
    attention_kind: Annotated[Choice, known("model.attention_kind")] = Field(
        Choice(name="soft"), description="How similarities are converted to attention weights"
    )
    position: Annotated[Choice, known("model.position")] = Field(
        Choice(name="sinusoidal"), description="Positional encoding"
    )
    position_entry: Literal["added", "concatenated", "projected"] = Field(
        "added",
        description="How position vectors enter: added to the input, concatenated with it, or "
        "projected (added to queries, keys and values)",
    )
    position_features: Count = Field(
        64, description="Size of the position vector, a part of the width (concatenated only)"
    )
    position_depth: Literal["bottom", "every_layer"] = Field(
        "bottom", description="Layers at which position vectors enter"
    )
    norm: Literal["post", "pre"] = Field(
        "post", description="LayerNorm after (post) or before (pre) each sublayer"
    )
    feed_forward: Literal["relu", "gelu", "swish", "swiglu", "none"] = Field(
        "relu", description="Feed-forward activation (none = no feed-forward layer)"
    )
    feed_forward_width: Count = Field(2048, description="Feed-forward dimension (ffn_dim)")
    cross_attention: Literal["last_layer", "same_layer"] = Field(
        "last_layer", description="Encoder layer that the decoder attends to"
    )
    tied_embeddings: Literal["all", "output", "none"] = Field(
        "all",
        description="Shared weights: all (embeddings and output), output (target embedding and "
        "output), none",
    )
    output_bias: bool = Field(False, description="Add a bias to the output logits")
    dropout: Rate = Field(0.1, description="Dropout rate after embeddings and sublayers")
    attention_dropout: Rate = Field(0.0, description="Dropout rate on attention weights")
    feed_forward_dropout: Rate = Field(
        0.0, description="Dropout rate inside the feed-forward layer"
    )
    recurrent: RecurrentRecipe = Field(
        RecurrentRecipe(), description="Only for architecture: recurrent"
    )
    convolutional: ConvolutionalRecipe = Field(
        ConvolutionalRecipe(), description="Only for architecture: convolutional"
    )


class TrainingRecipe(Section):
    """How the network is trained."""

    folder: str = Field("run", description="Run folder, relative to the recipe")
    init_from: str = Field("", description="Run whose weights are the starting point")
    steps: Count = Field(100_000, description="Maximum number of updates")
    minutes: Amount = Field(0.0, description="Maximum training time in minutes (0 = unlimited)")
    tokens_per_update: Count = Field(
        25_000, description="Tokens per update on each side (source, target), padding included"
    )
    micro_batch: Literal["auto"] | Count = Field(
        "auto", description="Tokens per forward pass (auto = as many as fit in memory)"
    )
    temperature: Annotated[float, Field(ge=1)] = Field(
        1.0, description="Sampling temperature over corpora (above 1 = more from small corpora)"
    )
    optimizer: Literal["adam", "muon"] = Field("adam", description="Optimizer")
    learning_rate: Amount = Field(7e-4, description="Peak learning rate, after warm-up")
    warmup_steps: Count = Field(4000, description="Warm-up updates")
    schedule: Literal["inverse_sqrt", "linear"] = Field(
        "inverse_sqrt",
        description="Learning rate decay after warm-up (linear falls to 0 after the last step)",
    )
    weight_decay: Amount = Field(0.0, description="Decoupled weight decay of matrices")
    max_grad_norm: Amount = Field(1.0, description="Maximum gradient norm (0 = no clipping)")
    label_smoothing: Rate = Field(0.1, description="Label smoothing factor (0 = off)")
    r_drop: Amount = Field(0.0, description="R-Drop weight (0 = off)")
    bpe_dropout: Rate = Field(0.0, description="BPE-dropout rate (0 = off)")
    ema_decay: Rate = Field(0.0, description="Decay of the weights' moving average (0 = off)")
    average_checkpoints: Count = Field(
        5, description="Number of last checkpoints to average (1 = use the best one)"
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Precision of matrix products"
    )
    threads: Literal["auto"] | Count = Field(
        "auto", description="CPU threads per process (auto = chosen by PyTorch)"
    )
    compile: Literal["auto"] | bool = Field(
        "auto", description="Compile the layers: auto (only on a GPU), true, false"
    )
    parallel: Literal["ddp", "fsdp"] = Field(
        "ddp", description="Data parallelism (fsdp = shard weights and optimizer)"
    )
    activation_checkpointing: bool = Field(
        False, description="Recompute activations in the backward pass to save memory"
    )
    validate_every: Count = Field(2000, description="Updates between validations")
    validation_pairs: Count = Field(1000, description="Maximum pairs per validation")
    best_metric: Literal["bleu", "loss"] = Field(
        "bleu", description="Metric that selects the best checkpoint"
    )
    patience: Annotated[int, Field(ge=0)] = Field(
        0, description="Validations without improvement before stopping (0 = never stop)"
    )
    min_delta: Amount = Field(0.0, description="Smallest change that counts as improvement")
    save_every: Count = Field(1500, description="Updates between checkpoints")
    keep_checkpoints: Count = Field(
        5, description="Newest checkpoints to keep, besides the best one"
    )
    log_every: Count = Field(50, description="Updates between journal entries")
    tensorboard: bool = Field(False, description="Also write TensorBoard files")


class AdaptationRecipe(Section):
    """How a model is adapted to a domain, and when the adapted model replaces its parent."""

    method: Literal["full", "adapters"] = Field(
        "full",
        description="Train all weights, or low-rank adapters that are merged at the end "
        "(`dragoman adapt` chooses adapters for Transformers)",
    )
    rank: Count = Field(16, description="Rank of the adapters (adapters only)")
    replay: Rate = Field(
        0.5, description="Share of general text among the training pairs (`dragoman adapt`)"
    )
    max_general_loss: Amount = Field(
        1.0,
        description="Maximum loss of BLEU on general text in the gate; a checkpoint may lose twice "
        "as much",
    )
    p_value: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.05, description="Significance level of the gate"
    )
    max_word_loss: Rate = Field(
        0.2, description="Maximum loss of a frequent word in the gate, as a share of its uses"
    )
    max_span_loss: Rate = Field(
        0.0, description="Maximum loss of protected spans in the gate, as a share"
    )
    max_dropped: Share = Field(
        0.5, description="Maximum share of the new pairs that the filters may drop (1 = any)"
    )


class Recipe(Section):
    """All settings that determine the result."""

    languages: LanguagesRecipe = LanguagesRecipe()
    corpus: CorpusRecipe = CorpusRecipe()
    tokenizer: TokenizerRecipe = TokenizerRecipe()
    model: ModelRecipe = ModelRecipe()
    training: TrainingRecipe = TrainingRecipe()
    adaptation: AdaptationRecipe = AdaptationRecipe()
    decoding: DecodingRecipe = DecodingRecipe()
    seed: Annotated[int, Field(ge=0, lt=2**64)] = Field(1, description="Random seed")

    def save(self, path: str | Path) -> None:
        """Write the complete recipe as YAML, with a comment on every setting."""
        # files.py imports this module.
        from dragoman.recipe.files import dump_recipe  # noqa: PLC0415

        write_text(Path(path), dump_recipe(self))

    @model_validator(mode="after")
    def _fits_together(self) -> Recipe:
        mistakes = [
            *mistakes_in_corpora(self.corpus),
            *contradictions(self.model),
            *mistakes_in_fit(self.model),
        ]
        if self.model.tied_embeddings == "all" and not self.tokenizer.shared:
            mistakes.append(
                Mistake(
                    "model.tied_embeddings",
                    "all shares source and target embeddings, which needs tokenizer.shared: true; "
                    "choose output or none for two vocabularies",
                )
            )
        if self.training.bpe_dropout and self.tokenizer.kind != "sentencepiece":
            mistakes.append(
                Mistake(
                    "training.bpe_dropout",
                    f"tokenizer.kind: {self.tokenizer.kind} has no merges to drop; set it to 0, or "
                    "choose tokenizer.kind: sentencepiece",
                )
            )
        mistakes += contradictions_of_adapters(self) + contradictions_of_search(self)
        if mistakes:
            raise RecipeError(mistakes)  # Not a ValueError, so pydantic does not wrap it.
        return self
