"""Are the scores on the development text the ones they are called?"""

import random
import subprocess
import sys
from typing import NamedTuple

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from dragoman.decoding import pytorch
from dragoman.evaluation.development import Development, bleu
from dragoman.recipe import DecodingRecipe
from dragoman.tokenizer.interface import BEGIN, END, PADDING
from dragoman.tokenizer.words import Words
from small_models import VOCABULARY, small_model

REFERENCES = [
    "the cat sat on the mat .",
    "there is a house in New Orleans , they say",
    "it was the best of times",
    "yes",
]
HYPOTHESES = [
    "the cat sat on a mat .",
    "there is a house in New Orleans",
    "it was the worst of times",
    "no",
]
# With the four specials, as many as the small model knows.
WORDS = Words([], ["1", "2", "3", "4", "5", "6", "7", "8", "9"])


def texts(count, longest=9):
    chance = random.Random(1)
    return [
        " ".join(chance.choices("123456789", k=chance.randint(1, longest))) for _ in range(count)
    ]


def development(sources, references=None, extra_length=4):
    settings = DecodingRecipe(search="greedy", extra_length=extra_length)
    both = (WORDS, WORDS)
    return Development(sources, references or sources, both, settings, torch.device("cpu"))


def test_bleu_is_what_sacrebleus_command_says(tmp_path):
    for name, lines in (("hypotheses", HYPOTHESES), ("references", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    command = [sys.executable, "-m", "sacrebleu", "references", "-i", "hypotheses", "-b", "-w", "8"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    # The command prints eight places.
    assert bleu(HYPOTHESES, REFERENCES) == pytest.approx(float(said.stdout), abs=1e-8)


def test_bleu_has_its_ends():
    assert bleu(REFERENCES, REFERENCES) == pytest.approx(100.0)
    assert bleu([""] * 4, REFERENCES) == 0.0


def test_without_a_development_text_there_is_nothing_to_score():
    """`corpus.held_out: 0` is allowed; a run must not end at its first validation."""
    nothing = development([])
    model = small_model()
    assert nothing.translate(model) == []
    assert nothing.bleu(model) == 0.0
    assert nothing.loss(model) == 0.0


class Read(NamedTuple):
    source: torch.Tensor

    def reorder(self, rows):
        return Read(self.source[rows])


class Place(NamedTuple):
    number: int

    def reorder(self, hypotheses, sentences):
        return self


class Echo:
    """A model that says what it has read, for a search to find."""

    def __init__(self):
        self.batches = []

    def encode(self, source, is_real):
        self.batches.append(source.shape)
        return Read(source)

    def decode(self, target, memory, cache):
        place = cache.number if cache else 0
        source = memory.source
        said = source[:, place : place + 1] if place < source.shape[1] else target * 0 + END
        return F.one_hot(said, VOCABULARY).float(), Place(place + 1)


def test_translations_come_in_the_order_of_the_questions(monkeypatch):
    """Long and short ones are sorted into batches; each answer goes back to its place."""
    sources = texts(100)
    assert development(sources).translate(Echo()) == sources
    monkeypatch.setattr(pytorch, "PLACES", 25)
    model = Echo()
    assert development(sources).translate(model) == sources
    assert len(model.batches) > 10
    assert all(rows * places <= 25 for rows, places in model.batches)


def test_batches_hold_like_lengths_within_the_budget():
    chance = random.Random(1)
    lengths = [chance.randint(0, 50) for _ in range(100)]
    batches = list(pytorch.batches(lengths, 30))
    assert sorted(row for rows in batches for row in rows) == list(range(100))
    for rows in batches:
        assert len(rows) == 1 or len(rows) * (max(lengths[row] for row in rows) + 1) <= 30


def test_the_loss_is_the_mean_surprise_of_all_target_tokens(monkeypatch):
    """One sentence at a time, one token at a time, without padding, in float64."""
    model, sources = small_model(), texts(15)
    references = [text[::-1] for text in sources]
    total, count = 0.0, 0
    for source, reference in zip(sources, references, strict=True):
        (source_ids,), (target_ids,) = WORDS.encode([source]), WORDS.encode([reference])
        read = torch.tensor([[*source_ids, END]])
        logits = model(read, read != PADDING, torch.tensor([[BEGIN, *target_ids]]))[0].double()
        for scores, token in zip(logits, [*target_ids, END], strict=True):
            total -= float(scores.log_softmax(-1)[token].detach())
            count += 1
    # float32 with and without padding: some units of the 24th bit.
    assert development(sources, references).loss(model) == pytest.approx(total / count, rel=1e-5)
    monkeypatch.setattr(pytorch, "PLACES", 25)
    assert development(sources, references).loss(model) == pytest.approx(total / count, rel=1e-5)


def test_bleu_of_a_model_is_bleu_of_its_translations():
    sources = texts(20)
    references = [*sources[:10], *texts(20)[10:][::-1]]
    found = development(sources, references).bleu(Echo())
    assert found == bleu(sources, references)
    assert 0 < found < 100


def test_an_empty_source_has_an_answer_too():
    assert development(["1 2", "", "3"]).translate(Echo()) == ["1 2", "", "3"]


def test_the_words_fit_the_model():
    assert WORDS.size == VOCABULARY
