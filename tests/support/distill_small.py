"""Arguments of a distillation that takes seconds: the toy language of `word_language`."""

from __future__ import annotations

from pathlib import Path

from support import word_language
from support.word_language import Pairs, mixed_pairs, write_pairs

SETTINGS = (
    "corpus.filters=[]",
    "corpus.synthetic_spans=0",
    "tokenizer.kind=words",
    "tokenizer.vocabulary_size=200",
    "model.width=32",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "model.heads=2",
    "model.feed_forward_width=64",
    "model.dropout=0",
    "model.norm=post",
    "model.position=sinusoidal",
    "training.optimizer=adam",
    "training.ema_decay=0",
    "training.schedule=inverse_sqrt",
    "training.steps=300",
    "training.learning_rate=0.01",
    "training.warmup_steps=30",
    "training.tokens_per_update=1024",
    "training.micro_batch=1024",
    "training.validate_every=100",
    "training.save_every=100",
    "training.validation_pairs=20",
    "training.precision=float32",
)
"""Settings with which the toy student is trained in seconds."""


def sentences() -> Pairs:
    """All sentences of the data, with their correct translations."""
    return mixed_pairs(900, 5)


def write_project(folder: Path) -> Path:
    """Write a teacher and the files of a user."""
    word_language.parent(folder / "teacher")
    pairs = sentences()
    (folder / "more.qaa").write_text("".join(f"{source}\n" for source, _ in pairs[:700]))
    # The human targets are wrong on purpose: a student must not learn them.
    write_pairs(folder / "memory.tsv", [(source, "WRONG") for source, _ in pairs[600:]])
    tests = mixed_pairs(60, 6)
    for number, side in enumerate(("qaa", "qab")):
        text = "".join(f"{pair[number]}\n" for pair in tests)
        (folder / f"test.{side}").write_text(text)
    return folder
