"""Small models and engines for the tests of `Translator`.

    run = write_run(tmp_path / "run")           a random model that ends its sentences
    translator = echo()                         translates each sentence to itself
    translator = translator_with(Scripted(lambda source, settings: …))    the test decides

A tokenizer is trained once per kind, on lines of number words.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from dragoman.artifact import begin_artifact, finish_artifact
from dragoman.decoding.engine import Answers, Engine, Hypothesis
from dragoman.inference.loading import LoadedModel
from dragoman.inference.translator import Translator
from dragoman.model.initialization import initialize
from dragoman.model.transformer import Transformer
from dragoman.recipe.schema import DecodingRecipe, Recipe
from dragoman.tokenizer.folder import tokenizer_class
from dragoman.tokenizer.interface import END, Tokenizer

MODEL = {
    "width": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "heads": 2,
    "feed_forward_width": 48,
    "dropout": 0.0,
    "norm": "pre",
    "tied_embeddings": "none",
    "output_bias": True,
}
DECODING = {"search": "beam", "beam_size": 3, "max_extra_tokens": 2}
NOISE = 0.5
END_BIAS = 7.0
"""Added to the logit of the end token, so that most sentences end before their limit."""

WORDS = ("one", "two", "three", "four,", "five", "six", "seven;", "eight", "nine", "and", "so")
ENGINES = ("pytorch", "ctranslate2")


def lines(count: int, seed: int = 1, longest: int = 9) -> list[str]:
    """Random lines of one to `longest` words."""
    rng = random.Random(seed)
    return [
        " ".join(rng.choices(WORDS, k=rng.randint(1, longest))).capitalize() + "."
        for _ in range(count)
    ]


@functools.cache
def tokenizer(kind: str = "sentencepiece", languages: tuple[str, ...] = ()) -> Tokenizer:
    """Train a tokenizer on a few hundred lines."""
    return tokenizer_class(kind).train(lines(300), 400 + len(languages), languages)


def recipe(
    kind: str = "sentencepiece",
    *,
    seed: int = 1,
    model: dict[str, Any] | None = None,
    pair: tuple[str, str] = ("en", "de"),
    filters: tuple[str, ...] = ("unicode",),
    **decoding: Any,
) -> Recipe:
    """A recipe for a small model; settings of `model` and of decoding can be changed."""
    return Recipe.model_validate(
        {
            "languages": {"source": pair[0], "target": pair[1]},
            "corpus": {"filters": filters},
            "tokenizer": {"kind": kind},
            "model": {**MODEL, **(model or {})},
            "decoding": {**DECODING, **decoding},
            "seed": seed,
        }
    )


def write_run(folder: Path, kind: str = "sentencepiece", *, seed: int = 1, **settings: Any) -> Path:
    """Write a random model as training does; an existing one is replaced."""
    languages = settings.pop("languages", ())
    chosen = recipe(kind, seed=seed, **settings)
    trained = tokenizer(kind, languages)
    tokenizers = folder.with_name(f"{folder.name} tokenizer")
    for side in ("source", "target"):
        (tokenizers / side).mkdir(parents=True, exist_ok=True)
        trained.save(tokenizers / side)
    model = Transformer(chosen.model, trained.size, trained.size).eval().requires_grad_(False)
    initialize(model, seed)
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=NOISE)
    if model.output.bias is not None:
        model.output.bias[END] += END_BIAS
    begin_artifact(folder, chosen, tokenizers)
    finish_artifact(folder, model.state_dict())
    return folder


Script = Callable[[Sequence[int], DecodingRecipe], Hypothesis]


class Scripted(Engine):
    """Answers what the script returns, and records every request."""

    name = "scripted"

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[tuple[DecodingRecipe, list[list[int]], list[list[int]] | None]] = []
        """Settings, sources and prefixes of each call."""

    def begin(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingRecipe,
        prefixes: Sequence[Sequence[int]] | None = None,
        *,
        with_alignment: bool = False,
    ) -> Callable[[], Answers]:
        copied = None if prefixes is None else list(map(list, prefixes))
        self.requests.append((settings, list(map(list, sources)), copied))
        return lambda: [[self.script(source, settings)] for source in sources]


class Echo(Engine):
    """Translates each sentence to itself."""

    name = "echo"

    def begin(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingRecipe,
        prefixes: Sequence[Sequence[int]] | None = None,
        *,
        with_alignment: bool = False,
    ) -> Callable[[], Answers]:
        answers = [[hypothesis(source, with_alignment=with_alignment)] for source in sources]
        return lambda: answers


def hypothesis(
    tokens: Sequence[int],
    *,
    score: float = -1.0,
    is_finished: bool = True,
    with_alignment: bool = False,
) -> Hypothesis:
    """A hypothesis of these tokens, each aligned to the source token at its position."""
    alignment = tuple(range(len(tokens))) if with_alignment else ()
    return Hypothesis(tuple(tokens), score, is_finished, alignment)


def translator_with(engine: Engine, kind: str = "sentencepiece", **settings: Any) -> Translator:
    """A translator with this engine."""
    trained = tokenizer(kind, settings.pop("languages", ()))
    return Translator(
        LoadedModel(engine, recipe(kind, **settings), (trained, trained), engine.name)
    )


def echo(kind: str = "sentencepiece", **settings: Any) -> Translator:
    """A translator that returns its input, not normalized."""
    return translator_with(Echo(), kind, filters=(), **settings)
