"""A small translation task with real words of English and German, so that languages are detected.

Sentences are translated word by word. `zug` is the translation of `train` in the parent's training
data, and `bahn` what people correct it to; other terms change in the same way.

    source    the old train waits near the quiet river and the small bridge
    parent    der alte zug wartet nahe der ruhige fluss und der kleine brücke
    right     der alte bahn wartet nahe der ruhige fluss und der kleine brücke
"""

from __future__ import annotations

import random
from pathlib import Path

import yaml

from dragoman.workflow.preparation import prepare
from dragoman.workflow.training import train
from support.word_language import RECIPE, write_pairs

Pairs = list[tuple[str, str]]
ADJECTIVES = {
    "old": "alte", "quiet": "ruhige", "small": "kleine", "young": "junge", "green": "grüne",
    "large": "große", "beautiful": "schöne", "narrow": "schmale",
}  # fmt: skip
NOUNS = {
    "river": "fluss", "bridge": "brücke", "house": "haus", "garden": "garten", "church": "kirche",
    "street": "straße", "mountain": "berg", "child": "kind",
}  # fmt: skip
VERBS = {"waits": "wartet", "stands": "steht", "sleeps": "schläft", "remains": "bleibt"}
TERMS = {
    "train": ("zug", "bahn"),
    "ticket": ("ticket", "karte"),
    "passenger": ("passagier", "fahrgast"),
    "driver": ("fahrer", "lenker"),
}
"""Source word: what the parent writes, and what is right."""


def sentence(rng: random.Random, nouns: tuple[str, ...], right: bool) -> tuple[str, str]:
    """A sentence with three of the nouns."""
    terms = {term: pair[right] for term, pair in TERMS.items()}
    lexicon = ADJECTIVES | NOUNS | VERBS | terms | {"the": "der", "near": "nahe", "and": "und"}
    words = []
    for number in range(3):
        words += ["the", rng.choice(list(ADJECTIVES)), rng.choice(nouns)]
        words += [[rng.choice(list(VERBS)), "near"], ["and"], []][number]
    return " ".join(words), " ".join(lexicon[word] for word in words)


def sentences(count: int, seed: int, *, right: bool, terms: bool = True) -> Pairs:
    """Different sentences; with terms, about half of the nouns are terms."""
    rng = random.Random(seed)
    nouns = tuple(NOUNS) + (2 * tuple(TERMS) if terms else ())
    found: dict[str, str] = {}
    while len(found) < count:
        source, target = sentence(rng, nouns, right)
        if not terms or any(term in source.split() for term in TERMS):
            found[source] = target
    return list(found.items())


def parent(folder: Path) -> Path:
    """Train the parent in a folder, and return its run."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(9)
    pairs = sentences(1200, 1, right=False) + sentences(600, 2, right=False, terms=False)
    # Each right term occurs, with a source word of its own, so that the vocabulary has it.
    for _, right in TERMS.values():
        for _ in range(8):
            source, target = sentence(rng, tuple(NOUNS), right=False)
            pairs.append((f"{source} other{right}", f"{target} {right}"))
    write_pairs(folder / "train.tsv", pairs)
    recipe = RECIPE | {"languages": {"source": "en", "target": "de"}}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    prepare(folder / "recipe.yaml", workers=1)
    return train(folder / "recipe.yaml").folder
