"""Small models as folders, to be exported.

    recipe = small({"model": {"norm": "pre"}})
    written = write_model(tmp_path, recipe)             the tokenizers too, of the recipe's kind
    written.sources, written.targets                    token ids, of unequal lengths
    written.log_probabilities(sources, targets)         what ours says of each target token

Every weight is noise, so that nothing agrees by being left out. Searches end soon.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dragoman.artifact import begin_artifact, finish_artifact
from dragoman.data.batch import collate
from dragoman.model.initialisation import initialise
from dragoman.model.transformer import Transformer
from dragoman.recipe import Recipe
from dragoman.tokenizer.folder import tokenizer_class
from dragoman.tokenizer.interface import SPECIAL, Tokenizer
from dragoman.tokenizer.marian import Marian
from dragoman.tokenizer.sentencepiece import SentencePiece
from small_models import SMALL

Ids = list[list[int]]

GROUND = {"model": SMALL, "decoding": {"search": "greedy", "extra_length": 0}}

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
        """Random sentences of words that are not special."""
        chance, tokenizer = random.Random(f"{seed} {side}"), getattr(self, side)
        words = range(len(SPECIAL), tokenizer.size)
        return [chance.choices(words, k=length) for length in lengths]

    @property
    def sources(self) -> Ids:
        """A few sentences of unequal lengths."""
        return self.sentences("source", SOURCES)

    @property
    def targets(self) -> Ids:
        """As many."""
        return self.sentences("target", TARGETS)

    def log_probabilities(self, sources: Ids, targets: Ids) -> list[list[float]]:
        """Of each target token and of the end, given what stands before it."""
        batch = collate(sources, targets)
        source, is_real, target, expected, _ = map(torch.from_numpy, batch)
        with torch.no_grad():
            scores = self.model(source, is_real, target).log_softmax(dim=-1)
        said = scores.gather(-1, expected.unsqueeze(-1)).squeeze(-1).tolist()
        return [row[: len(target) + 1] for row, target in zip(said, targets, strict=True)]


def small(settings: Mapping[str, Mapping[str, Any]]) -> Recipe:
    """A recipe for a small model, and for a greedy search."""
    given = {section: each | settings.get(section, {}) for section, each in GROUND.items()}
    return Recipe.model_validate({**settings, **given})


def write_model(folder: Path, recipe: Recipe, *, noise: float = NOISE) -> Written:
    """Write a model of noise, with tokenizers of the recipe's kind."""
    source, target = _tokenizers(recipe)
    for side, tokenizer in (("source", source), ("target", target)):
        (folder / "given" / side).mkdir(parents=True)
        tokenizer.save(folder / "given" / side)
    model = Transformer(recipe.model, source.size, target.size).eval().requires_grad_(False)
    initialise(model, recipe.seed)
    chance = torch.Generator().manual_seed(recipe.seed)
    for parameter in model.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=chance), alpha=noise)
    begin_artifact(folder, recipe, folder / "given")
    finish_artifact(folder, model.state_dict())
    return Written(folder, recipe, model, source, target)


def _tokenizers(recipe: Recipe) -> tuple[Tokenizer, Tokenizer]:
    if recipe.tokenizer.shared:
        both = _tokenizer(recipe.tokenizer.kind, [*TEXTS["source"], *TEXTS["target"]], ["a", "b"])
        return both, both
    source, target = (_tokenizer(recipe.tokenizer.kind, TEXTS[side], [side]) for side in TEXTS)
    return source, target


def _tokenizer(kind: str, texts: list[str], languages: list[str]) -> Tokenizer:
    if kind != "marian":
        return tokenizer_class(kind).train(texts, 300, languages)
    # It cannot learn: its cutter is another's, and its words are a list.
    cutter = SentencePiece.train(texts, 300, languages)
    pieces = cutter.pieces(range(cutter.size))
    return Marian(cutter._model, [*SPECIAL, *pieces[len(SPECIAL) :]])
