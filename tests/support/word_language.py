"""A toy language pair for adaptation: word by word, with a domain in which some words differ.

    general    aka bet cin ...   →  AKA BET CIN ...
    domain     aka bet term ...  →  AKA BET sterm ...

`parent` trains a small model that translates `term` as `gterm`. It knows the target words of the
domain, but not that these source words mean them.

    write_pairs(path, general_pairs(400, seed=1))
    run = parent(folder)
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import yaml

from dragoman.workflow.preparation import prepare
from dragoman.workflow.training import train

Pairs = list[tuple[str, str]]

LANGUAGES = {"source": "qaa", "target": "qab"}
COMMON = ("aka", "bet", "cin", "dul", "efo", "fan", "gir", "hul", "imo", "jap")
TERMS = ("term", "tarm", "tirm", "torm", "turm")
RECIPE = {
    "languages": LANGUAGES,
    "corpus": {
        "train": [{"files": ["train.tsv"]}],
        "held_out": 40,
        "filters": [],
        "synthetic_spans": 0.0,
        "span_augmentation": 0.0,
    },
    "tokenizer": {"kind": "words", "vocabulary_size": 200},
    "model": {
        "width": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "heads": 2,
        "feed_forward_width": 64,
        "dropout": 0.0,
        "position": "sinusoidal",
    },
    "training": {
        "steps": 300,
        "tokens_per_update": 1024,
        "micro_batch": 1024,
        "learning_rate": 0.01,
        "warmup_steps": 30,
        "precision": "float32",
        "validate_every": 300,
        "save_every": 300,
        "average_checkpoints": 1,
        "validation_pairs": 20,
    },
    "decoding": {"max_extra_tokens": 2, "beam_size": 2},
}


def general_pairs(count: int, seed: int) -> Pairs:
    """Sentences without the words of the domain."""
    return _pairs(count, seed, "g", term_share=0.0)


def domain_pairs(count: int, seed: int) -> Pairs:
    """Sentences with many domain words, translated as the domain does."""
    return _pairs(count, seed, "s", term_share=0.4)


def mixed_pairs(count: int, seed: int) -> Pairs:
    """Sentences with some words of the domain, translated as the parent does."""
    return _pairs(count, seed, "g", term_share=0.2)


def _pairs(count: int, seed: int, prefix: str, term_share: float) -> Pairs:
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        words = [
            rng.choice(TERMS if rng.random() < term_share else COMMON)
            for _ in range(rng.randint(5, 9))
        ]
        translated = [f"{prefix}{word}" if word in TERMS else word.upper() for word in words]
        pairs.append((" ".join(words), " ".join(translated)))
    return pairs


def write_pairs(path: Path, pairs: Sequence[tuple[str, str]]) -> Path:
    """Write pairs as TSV."""
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def parent(folder: Path) -> Path:
    """Train the parent in a folder, and return its run."""
    folder.mkdir(parents=True, exist_ok=True)
    # Each domain translation occurs, with a source word of its own, so the vocabulary has it.
    rare = [(f"x{term} aka bet cin dul", f"s{term} AKA BET CIN DUL") for term in TERMS] * 8
    rare = [(f"{source} {COMMON[row % 10]}", f"{target} {COMMON[row % 10].upper()}")
            for row, (source, target) in enumerate(rare)]  # fmt: skip
    write_pairs(folder / "train.tsv", [*mixed_pairs(1500, 1), *rare])
    recipe = folder / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(RECIPE), encoding="utf-8")
    prepare(recipe, workers=1)
    return train(recipe).folder


SETTINGS = (
    "adaptation.method=full",
    "corpus.filters=[]",
    "training.learning_rate=0.003",
    "training.steps=60",
    "training.validate_every=20",
    "training.save_every=20",
    "training.validation_pairs=20",
    "training.tokens_per_update=1024",
    "training.micro_batch=1024",
    "training.precision=float32",
)
"""Settings with which the toy model is adapted in seconds."""
