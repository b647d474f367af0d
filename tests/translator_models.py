"""Small models and engines that translators are tried on.

    run = write_run(tmp_path / "run")                     a model of noise, that ends its sentences
    translator = echo()                                   answers each sentence with itself
    translator = served_by(Scripted(lambda source, settings: …))    answers what the test says

A tokenizer is learned once for each kind, from lines that say numbers.
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
from dragoman.engines import Served
from dragoman.model.initialisation import initialise
from dragoman.model.transformer import Transformer
from dragoman.recipe import DecodingRecipe, Recipe
from dragoman.tokenizer.folder import tokenizer_class
from dragoman.tokenizer.interface import END, Tokenizer
from dragoman.translator import Translator

MODEL = {
    "width": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "head_count": 2,
    "feed_forward_width": 48,
    "dropout": 0.0,
    "norm": "pre",
    "tied_embeddings": "none",
    "output_bias": True,
}
DECODING = {"search": "beam", "beam": 3, "extra_length": 2}
NOISE = 0.5
WILLINGNESS = 7.0
"""To end, added to what the noise says, so that most sentences end before their limit."""

WORDS = ("one", "two", "three", "four,", "five", "six", "seven;", "eight", "nine", "and", "so")
ENGINES = ("pytorch", "ctranslate2")


def lines(count: int, seed: int = 1, longest: int = 9) -> list[str]:
    """Lines of one to so many words."""
    chance = random.Random(seed)
    return [
        " ".join(chance.choices(WORDS, k=chance.randint(1, longest))).capitalize() + "."
        for _ in range(count)
    ]


@functools.cache
def tokenizer(kind: str = "sentencepiece", languages: tuple[str, ...] = ()) -> Tokenizer:
    """Learned from a few hundred lines."""
    return tokenizer_class(kind).train(lines(300), 400 + len(languages), languages)


def recipe(
    kind: str = "sentencepiece",
    *,
    seed: int = 1,
    model: dict[str, Any] | None = None,
    pair: tuple[str, str] = ("en", "de"),
    steps: tuple[str, ...] = ("unicode",),
    **decoding: Any,
) -> Recipe:
    """A recipe for a small model; settings of `model` and of decoding can be changed."""
    return Recipe.model_validate(
        {
            "languages": {"source": pair[0], "target": pair[1]},
            "corpus": {"steps": steps},
            "tokenizer": {"kind": kind},
            "model": {**MODEL, **(model or {})},
            "decoding": {**DECODING, **decoding},
            "seed": seed,
        }
    )


def write_run(folder: Path, kind: str = "sentencepiece", *, seed: int = 1, **settings: Any) -> Path:
    """Write a model of noise as training would; in a folder that has one, it is trained again."""
    languages = settings.pop("languages", ())
    chosen = recipe(kind, seed=seed, **settings)
    learned = tokenizer(kind, languages)
    given = folder.with_name(f"{folder.name} tokenizer")
    for side in ("source", "target"):
        (given / side).mkdir(parents=True, exist_ok=True)
        learned.save(given / side)
    model = Transformer(chosen.model, learned.size, learned.size).eval().requires_grad_(False)
    initialise(model, seed)
    chance = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=chance), alpha=NOISE)
    if model.output.bias is not None:
        model.output.bias[END] += WILLINGNESS
    begin_artifact(folder, chosen, given)
    finish_artifact(folder, model.state_dict())
    return folder


Answer = Callable[[Sequence[int], DecodingRecipe], Hypothesis]


class Scripted(Engine):
    """Answers what the script says, and remembers with which settings it was asked for what."""

    name = "scripted"

    def __init__(self, script: Answer) -> None:
        self.script = script
        self.asked: list[tuple[DecodingRecipe, list[list[int]], list[list[int]] | None]] = []

    def begin(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingRecipe,
        prefixes: Sequence[Sequence[int]] | None = None,
        *,
        with_alignment: bool = False,
    ) -> Callable[[], Answers]:
        told = None if prefixes is None else list(map(list, prefixes))
        self.asked.append((settings, list(map(list, sources)), told))
        return lambda: [[self.script(each, settings)] for each in sources]


class Echo(Engine):
    """Answers each sentence with itself."""

    name = "echo"

    def begin(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingRecipe,
        prefixes: Sequence[Sequence[int]] | None = None,
        *,
        with_alignment: bool = False,
    ) -> Callable[[], Answers]:
        answers = [[said(each, with_alignment=with_alignment)] for each in sources]
        return lambda: answers


def said(
    tokens: Sequence[int],
    *,
    score: float = -1.0,
    is_ended: bool = True,
    with_alignment: bool = False,
) -> Hypothesis:
    """These tokens, as an answer; each comes from the source token at its place."""
    places = tuple(range(len(tokens))) if with_alignment else ()
    return Hypothesis(tuple(tokens), score, is_ended, places)


def served_by(engine: Engine, kind: str = "sentencepiece", **settings: Any) -> Translator:
    """A translator with this engine."""
    learned = tokenizer(kind, settings.pop("languages", ()))
    return Translator(Served(engine, recipe(kind, **settings), (learned, learned), engine.name))


def echo(kind: str = "sentencepiece", **settings: Any) -> Translator:
    """A translator that says what it is told, in the spelling in which it is told."""
    return served_by(Echo(), kind, steps=(), **settings)
