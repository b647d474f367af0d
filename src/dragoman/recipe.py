"""What may a recipe say?

A recipe is a frozen tree of sections. Each section is the argument of one stage, each setting
is said once, and what follows from others is not a setting. A setting arrives here together
with the code that obeys it. The defaults are the paper's base model (Vaswani et al., 2017).

The files are read and written by `recipe_file.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dragoman.errors import Mistake, RecipeError
from dragoman.part import Choice, known

Rate = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(gt=0)]
Amount = Annotated[float, Field(ge=0)]


STEPS = tuple(
    Choice(name=name)
    for name in (
        "unicode",
        "length",
        "ratio",
        "copies",
        "script",
        "language",
        "placeholders",
        "repetition",
    )
)


class Section(BaseModel):
    """Frozen; refuses what it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class LanguagesRecipe(Section):
    """Which language becomes which."""

    source: str = Field("", description="code of the source, as en")
    target: str = Field("", description="code of the target, as de")


class CorpusFiles(Section):
    """One corpus: a file that holds both sides, or two files aligned line by line."""

    files: tuple[str, ...] = Field(description="one file or two; * stands for any text")
    format: Annotated[Choice, known("corpus.format", "auto")] = Field(
        Choice(name="auto"), description="by the files' endings, or named"
    )
    weight: Annotated[float, Field(gt=0)] = Field(1.0, description="how often it is seen")


Steps = tuple[Annotated[Choice, known("corpus.step")], ...]


class CorpusRecipe(Section):
    """Which text, and what is done to it."""

    train: tuple[CorpusFiles, ...] = Field((), description="to learn from")
    development: tuple[CorpusFiles, ...] = Field((), description="to watch learning by")
    test: tuple[CorpusFiles, ...] = Field((), description="to be judged by")
    held_out: Annotated[int, Field(ge=0)] = Field(1000, description="about, for each set not given")
    steps: Steps = Field(STEPS, description="of cleaning, in their order")
    duplicates: Literal["keep", "exact", "near"] = Field("exact", description="which are dropped")
    longest: Count = Field(256, description="tokens on a side; more: left out")
    folder: str = Field("prepared", description="where it goes, beside the recipe")


class TokenizerRecipe(Section):
    """How text becomes tokens."""

    kind: Literal["sentencepiece", "words", "characters", "bytes", "marian"] = Field(
        "sentencepiece", description="sentencepiece: byte-pair encoding"
    )
    vocabulary_size: Count = Field(37000, description="tokens, of each side or shared")
    shared: bool = Field(True, description="one vocabulary for source and target")
    sample: Count = Field(10_000_000, description="sentences it learns from, at most")
    start_from: str = Field("", description="a run whose tokenizer is taken")


class RecurrentRecipe(Section):
    """What a recurrent network has and the others have not."""

    cell: Literal["lstm", "gru"] = Field("lstm", description="how a state is kept")
    both_ways: bool = Field(True, description="the bottom layer reads backwards too")
    attends: bool = Field(True, description="or all it knows is how the source ended")


class ConvolutionalRecipe(Section):
    """What a convolutional network has and the others have not."""

    kernel: Count = Field(3, description="places that are seen at once")


class ModelRecipe(Section):
    """The network."""

    architecture: Literal["transformer", "recurrent", "convolutional"] = Field(
        "transformer", description="or a rival: recurrent, convolutional"
    )
    width: Count = Field(512, description="features of a token between layers")
    encoder_layers: Count = Field(6, description="layers that read the source")
    decoder_layers: Count = Field(6, description="layers that write the target")
    heads: Annotated[Choice, known("model.heads")] = Field(
        Choice(name="standard"), description="what a head sees"
    )
    head_count: Count = Field(8, description="heads of each attention")
    similarity: Annotated[Choice, known("model.similarity")] = Field(
        Choice(name="scaled_dot"), description="how a query meets a key"
    )
    reach: Annotated[Choice, known("model.reach")] = Field(
        Choice(name="soft"), description="which keys weigh"
    )
    position: Annotated[Choice, known("model.position")] = Field(
        Choice(name="sinusoidal"), description="how a place is told"
    )
    position_entry: Literal["added", "concatenated", "projected"] = Field(
        "added", description="how it enters; projected: to q, k, v"
    )
    position_features: Count = Field(64, description="of the width, if concatenated")
    position_depth: Literal["bottom", "every_layer"] = Field(
        "bottom", description="where it enters; or: every_layer"
    )
    norm: Literal["post", "pre"] = Field("post", description="LayerNorm after or before")
    feed_forward: Literal["relu", "gelu", "swish", "swiglu", "none"] = Field(
        "relu", description="its nonlinearity; none: left out"
    )
    feed_forward_width: Count = Field(2048, description="its inner features")
    cross_attention: Literal["last_layer", "same_height"] = Field(
        "last_layer", description="encoder layer it looks at"
    )
    tied_embeddings: Literal["all", "output", "none"] = Field(
        "all", description="all, or output with target only"
    )
    output_bias: bool = Field(False, description="added to the score of each word")
    dropout: Rate = Field(0.1, description="after embedding and sublayers")
    attention_dropout: Rate = Field(0.0, description="on attention weights")
    feed_forward_dropout: Rate = Field(0.0, description="inside the feed-forward")
    recurrent: RecurrentRecipe = Field(RecurrentRecipe(), description="cell: or gru")
    convolutional: ConvolutionalRecipe = Field(
        ConvolutionalRecipe(), description="places it sees at once"
    )


class TrainingRecipe(Section):
    """How it learns."""

    folder: str = Field("run", description="where it goes, beside the recipe")
    start_from: str = Field("", description="a run whose weights are the first")
    steps: Count = Field(100_000, description="updates, at most")
    minutes: Amount = Field(0.0, description="of training, at most; 0: any")
    tokens_per_update: Count = Field(25_000, description="of a side, padding included")
    micro_batch: Literal["auto"] | Count = Field(
        "auto", description="tokens at once; auto: what fits"
    )
    temperature: Annotated[float, Field(ge=1)] = Field(
        1.0, description="above 1: small corpora more often"
    )
    optimizer: Literal["adam", "muon"] = Field("adam", description="muon: layers' matrices whole")
    learning_rate: Amount = Field(7e-4, description="at the end of the warm-up")
    warmup: Count = Field(4000, description="updates until then")
    schedule: Literal["inverse_root", "linear"] = Field(
        "inverse_root", description="how it falls; linear: to 0 at steps"
    )
    weight_decay: Amount = Field(0.0, description="pull of matrices towards zero")
    clip: Amount = Field(1.0, description="longest gradient; 0: any")
    label_smoothing: Rate = Field(0.1, description="share of other words in the truth")
    r_drop: Amount = Field(0.0, description="weight of two dropouts agreeing")
    bpe_dropout: Rate = Field(0.0, description="merges left out of the spelling")
    moving_average: Rate = Field(0.0, description="memory of averaged weights; 0: none")
    average: Count = Field(5, description="checkpoints averaged at the end")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="of matrix products"
    )
    compile: Literal["auto", "yes", "no"] = Field("auto", description="auto: on a GPU")
    parallel: Literal["ddp", "fsdp"] = Field("ddp", description="on many devices; fsdp: in shards")
    recompute: bool = Field(False, description="layers backward, to save memory")
    validate_every: Count = Field(2000, description="updates")
    validation_pairs: Count = Field(1000, description="of the development text, at most")
    watch: Literal["bleu", "loss"] = Field("bleu", description="what says which is best")
    patience: Annotated[int, Field(ge=0)] = Field(0, description="validations without gain; 0: any")
    threshold: Amount = Field(0.0, description="the least that counts as gain")
    save_every: Count = Field(1500, description="updates")
    keep: Count = Field(5, description="newest checkpoints, besides the best")
    log_every: Count = Field(50, description="updates")
    tensorboard: bool = Field(False, description="write its files too")


class DecodingRecipe(Section):
    """How a translation is searched; the default wherever the model is used."""

    search: Literal["beam", "greedy", "sample"] = Field("beam", description="how to look for it")
    beam: Count = Field(5, description="hypotheses that go on side by side")
    hypotheses: Count = Field(1, description="translations given for each sentence")
    length_form: Literal["power", "gnmt"] = Field("power", description="how length is made up for")
    length_penalty: Amount = Field(1.0, description="how much; 0: not at all")
    patience: Annotated[float, Field(gt=0)] = Field(1.0, description="above 1: look longer")
    temperature: Annotated[float, Field(gt=0)] = Field(1.0, description="above 1: bolder samples")
    top_k: Annotated[int, Field(ge=0)] = Field(0, description="tokens to draw from; 0: any")
    top_p: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="probability to draw from")
    minimum_length: Annotated[int, Field(ge=0)] = Field(0, description="tokens, at least")
    extra_length: Annotated[int, Field(ge=0)] = Field(
        50, description="tokens beyond the source's, rounded"
    )
    no_repeat: Annotated[int, Field(ge=0)] = Field(0, description="n-grams said once only; 0: any")
    repetition_penalty: Annotated[float, Field(ge=1)] = Field(
        1.0, description="against tokens that were said"
    )
    longest: Count = Field(128, description="source tokens at once; more are split")
    retry: bool = Field(True, description="what looks wrong, under guard")
    reproducible: bool = Field(False, description="each sentence alone, to the bit")


class Recipe(Section):
    """Everything that decides what comes out."""

    languages: LanguagesRecipe = LanguagesRecipe()
    corpus: CorpusRecipe = CorpusRecipe()
    tokenizer: TokenizerRecipe = TokenizerRecipe()
    model: ModelRecipe = ModelRecipe()
    training: TrainingRecipe = TrainingRecipe()
    decoding: DecodingRecipe = DecodingRecipe()
    seed: Annotated[int, Field(ge=0, lt=2**64)] = Field(1, description="of all chance")

    @model_validator(mode="after")
    def _fits_together(self) -> Recipe:
        mistakes = contradictions(self.model)
        if self.model.tied_embeddings == "all" and not self.tokenizer.shared:
            mistakes.append(
                Mistake(
                    "model.tied_embeddings",
                    "all ties source and target words, which needs tokenizer.shared: true; "
                    "choose output or none for two vocabularies",
                )
            )
        if self.training.bpe_dropout and self.tokenizer.kind != "sentencepiece":
            mistakes.append(
                Mistake(
                    "training.bpe_dropout",
                    f"{self.tokenizer.kind} have no merges to leave out; set it to 0, or choose "
                    "tokenizer.kind: sentencepiece",
                )
            )
        if mistakes:
            raise RecipeError(mistakes)  # Not a ValueError: pydantic lets it through as it is.
        return self


def contradictions(model: ModelRecipe) -> list[Mistake]:
    """Find settings of a model that are right alone and impossible together.

    What depends on the inside of a part is asked of the part, in `model/blueprint.py`.
    """
    if model.architecture != "transformer":
        return _contradictions_of_rivals(model)
    found = []
    if model.cross_attention == "same_height" and model.encoder_layers != model.decoder_layers:
        found.append(
            Mistake(
                "model.cross_attention",
                f"same_height needs as many encoder layers ({model.encoder_layers}) as decoder "
                f"layers ({model.decoder_layers}); make them equal, or choose last_layer",
            )
        )
    if model.position_entry == "concatenated" and model.position_features >= model.width:
        found.append(
            Mistake(
                "model.position_features",
                f"found {model.position_features}, expected less than model.width "
                f"({model.width}): the rest is left for the word",
            )
        )
    return found


def _contradictions_of_rivals(model: ModelRecipe) -> list[Mistake]:
    """Find them for the other architectures, which have few settings of their own."""
    is_halved = model.architecture == "recurrent" and model.recurrent.both_ways
    if is_halved and model.width % 2:
        what = (
            f"found {model.width}, expected an even number: half of it reads forwards, half "
            "backwards; or set model.recurrent.both_ways: false"
        )
        return [Mistake("model.width", what)]
    return []
