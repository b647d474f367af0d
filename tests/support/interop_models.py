"""Small model folders for the tests of exports.

    recipe = small({"model": {"norm": "pre"}})
    written = write_model(tmp_path, recipe)             with tokenizers of the recipe's kind
    written.sources, written.targets                    token ids, of different lengths
    written.log_probabilities(sources, targets)         our log-probability of each target token

Every weight is random, so that a weight that is left out changes the result. Searches end soon.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from dragoman.artifact import begin_artifact, finish_artifact
from dragoman.data.batch import collate
from dragoman.model.initialization import initialize
from dragoman.model.transformer import Transformer
from dragoman.recipe.schema import Recipe
from dragoman.tokenizer.folder import tokenizer_class
from dragoman.tokenizer.interface import SPECIAL, Tokenizer
from dragoman.tokenizer.marian import Marian
from dragoman.tokenizer.sentencepiece import SentencePiece
from support.small_models import SMALL

Ids = list[list[int]]

DEFAULTS = {"model": SMALL, "decoding": {"search": "greedy", "max_extra_tokens": 0}}

NOISE = 0.3
SOURCES, TARGETS = (7, 4, 1, 3, 9), (5, 6, 2, 8, 1)
TEXTS = {
    "source": ["one two three", "four five six seven", "eight nine ten"],
    "target": ["eins zwei drei", "vier fünf sechs sieben", "acht neun zehn elf zwölf"],
}


@dataclass(frozen=True)
class Written:
    """A model in a folder."""

    folder: Path
    recipe: Recipe
    model: Transformer
    source: Tokenizer
    target: Tokenizer

    def sentences(self, side: str, lengths: Sequence[int], seed: int = 1) -> Ids:
        """Random sentences without special tokens."""
        rng, tokenizer = random.Random(f"{seed} {side}"), getattr(self, side)
        ids = range(len(SPECIAL), tokenizer.size)
        return [rng.choices(ids, k=length) for length in lengths]

    @property
    def sources(self) -> Ids:
        """A few source sentences of different lengths."""
        return self.sentences("source", SOURCES)

    @property
    def targets(self) -> Ids:
        """As many target sentences."""
        return self.sentences("target", TARGETS)

    def log_probabilities(self, sources: Ids, targets: Ids) -> list[list[float]]:
        """Of each target token and of the end token, given the tokens before it."""
        batch = collate(sources, targets)
        source, is_real, target, expected, _ = map(torch.from_numpy, batch)
        with torch.no_grad():
            scores = self.model(source, is_real, target).log_softmax(dim=-1)
        rows = scores.gather(-1, expected.unsqueeze(-1)).squeeze(-1).tolist()
        return [row[: len(target) + 1] for row, target in zip(rows, targets, strict=True)]


def small(settings: Mapping[str, Mapping[str, Any]]) -> Recipe:
    """A recipe for a small model and greedy search."""
    merged = {section: values | settings.get(section, {}) for section, values in DEFAULTS.items()}
    return Recipe.model_validate({**settings, **merged})


def write_model(folder: Path, recipe: Recipe, *, noise: float = NOISE) -> Written:
    """Write a random model, with tokenizers of the recipe's kind."""
    source, target = _tokenizers(recipe.tokenizer.kind, recipe.tokenizer.shared)
    for side, tokenizer in (("source", source), ("target", target)):
        (folder / "tokenizers" / side).mkdir(parents=True)
        tokenizer.save(folder / "tokenizers" / side)
    model = Transformer(recipe.model, source.size, target.size).eval().requires_grad_(False)
    initialize(model, recipe.seed)
    generator = torch.Generator().manual_seed(recipe.seed)
    for parameter in model.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=noise)
    begin_artifact(folder, recipe, folder / "tokenizers")
    finish_artifact(folder, model.state_dict())
    return Written(folder, recipe, model, source, target)


@cache
def _tokenizers(kind: str, is_shared: bool) -> tuple[Tokenizer, Tokenizer]:
    if is_shared:
        shared = _tokenizer(kind, [*TEXTS["source"], *TEXTS["target"]], ["a", "b"])
        return shared, shared
    source, target = (_tokenizer(kind, TEXTS[side], [side]) for side in TEXTS)
    return source, target


def _tokenizer(kind: str, texts: list[str], languages: list[str]) -> Tokenizer:
    if kind != "marian":
        return tokenizer_class(kind).train(texts, 320, languages)
    # It cannot be trained: it takes a SentencePiece model and a list of tokens.
    trained = SentencePiece.train(texts, 320, languages)
    pieces = trained.pieces(range(trained.size))
    return Marian(trained._model, [*SPECIAL, *pieces[len(SPECIAL) :]])
