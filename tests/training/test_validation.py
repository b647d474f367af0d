"""Scores on the validation set: sacreBLEU, the loss, and the same text processing as Translator."""

import random
import subprocess
import sys
from typing import NamedTuple

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from dragoman.decoding.engines import pytorch
from dragoman.evaluation.validation import ValidationSet, bleu
from dragoman.inference.loading import LoadedModel
from dragoman.inference.translator import Translator
from dragoman.recipe.schema import CorpusRecipe, DecodingRecipe, Recipe
from dragoman.tokenizer.interface import BEGIN, END, PADDING
from dragoman.tokenizer.words import Words
from dragoman.training.feed import to_tensors
from dragoman.training.loss import Objective
from support.small_models import VOCABULARY, small_model

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
# With the four special tokens, as many as the small model has.
WORDS = Words([], ["1", "2", "3", "4", "5", "6", "7", "8", "9"])
CPU = torch.device("cpu")


def texts(count, longest=9):
    rng = random.Random(1)
    return [" ".join(rng.choices("123456789", k=rng.randint(1, longest))) for _ in range(count)]


def validation_set(sources, references=None, *, max_positions=None, filters=(), **decoding):
    decoding = {"max_extra_tokens": 4, **decoding}
    recipe = Recipe(
        corpus=CorpusRecipe(filters=filters), decoding=DecodingRecipe(search="beam", **decoding)
    )
    both = (WORDS, WORDS)
    return ValidationSet(sources, references or sources, both, recipe, CPU, max_positions)


def loss_of(model):
    objective = Objective(model, label_smoothing=0.1).eval()
    return lambda batch: float(objective.validation_loss(to_tensors(batch, CPU)).detach())


def test_bleu_is_what_the_sacrebleu_command_prints(tmp_path):
    for name, lines in (("hypotheses", HYPOTHESES), ("references", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    command = [sys.executable, "-m", "sacrebleu", "references", "-i", "hypotheses", "-b", "-w", "8"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    # The command prints eight digits.
    assert bleu(HYPOTHESES, REFERENCES) == pytest.approx(float(process.stdout), abs=1e-8)


def test_bleu_is_between_0_and_100():
    assert bleu(REFERENCES, REFERENCES) == pytest.approx(100.0)
    assert bleu([""] * 4, REFERENCES) == 0.0


def test_an_empty_validation_set_has_scores_of_0():
    """`corpus.held_out: 0` is allowed; a run must not end at its first validation."""
    empty = validation_set([])
    model = small_model()
    assert empty.translate(model) == []
    assert empty.bleu(model) == 0.0
    assert empty.loss(loss_of(model)) == 0.0


class EchoMemory(NamedTuple):
    source: torch.Tensor

    def reorder(self, rows):
        return EchoMemory(self.source[rows])


class EchoCache(NamedTuple):
    number: int

    def reorder(self, hypotheses, sentences):
        return self


class Echo:
    """A model that repeats its source."""

    max_positions = None

    def __init__(self):
        self.batches = []

    def encode(self, source, is_real):
        self.batches.append(source.shape)
        return EchoMemory(source)

    def decode(self, target, memory, cache):
        position = cache.number if cache else 0
        source = memory.source
        is_inside = position < source.shape[1]
        token = source[:, position : position + 1] if is_inside else target * 0 + END
        return F.one_hot(token, VOCABULARY).float(), EchoCache(position + 1)


def test_translations_are_in_the_order_of_the_sources(monkeypatch):
    """Sources are sorted by length into batches; the results are put back in order."""
    sources = texts(100)
    assert validation_set(sources).translate(Echo()) == sources
    monkeypatch.setattr(pytorch, BATCH_LIMIT, 25)
    model = Echo()
    assert validation_set(sources).translate(model) == sources
    assert len(model.batches) > 10
    assert all(rows * positions <= 25 for rows, positions in model.batches)


BATCH_LIMIT = "BATCH_TOKENS"


def test_batches_have_similar_lengths_within_the_budget():
    rng = random.Random(1)
    lengths = [rng.randint(0, 50) for _ in range(100)]
    batches = list(pytorch.batches(lengths, 30))
    assert sorted(row for rows in batches for row in rows) == list(range(100))
    for rows in batches:
        assert len(rows) == 1 or len(rows) * (max(lengths[row] for row in rows) + 1) <= 30


def test_the_loss_is_the_mean_cross_entropy_of_all_target_tokens(monkeypatch):
    """Compared with one sentence and one token at a time, without padding, in float64."""
    model, sources = small_model(), texts(15)
    references = [text[::-1] for text in sources]
    total, count = 0.0, 0
    for source, reference in zip(sources, references, strict=True):
        (source_ids,), (target_ids,) = WORDS.encode([source]), WORDS.encode([reference])
        tokens = torch.tensor([[*source_ids, END]])
        logits = model(tokens, tokens != PADDING, torch.tensor([[BEGIN, *target_ids]]))[0].double()
        for scores, token in zip(logits, [*target_ids, END], strict=True):
            total -= float(scores.log_softmax(-1)[token].detach())
            count += 1
    loss = loss_of(model)
    # float32 with and without padding: some units of the 24th bit.
    expected = pytest.approx(total / count, rel=1e-6)
    assert validation_set(sources, references).loss(loss) == expected
    monkeypatch.setattr(pytorch, BATCH_LIMIT, 25)
    assert validation_set(sources, references).loss(loss) == expected


def test_the_loss_never_builds_all_logits(monkeypatch):
    """The logits of all tokens can be larger than the model."""
    model = small_model()

    def refuse(*_, **__):
        raise AssertionError("all logits were built")

    monkeypatch.setattr(type(model.output), "forward", refuse)
    assert validation_set(texts(15)).loss(loss_of(model)) > 0


def test_bleu_of_a_model_is_bleu_of_its_translations():
    sources = texts(20)
    references = [*sources[:10], *texts(20)[10:][::-1]]
    score = validation_set(sources, references).bleu(Echo())
    assert score == bleu(sources, references)
    assert 0 < score < 100


def test_an_empty_source_has_an_empty_translation():
    assert validation_set(["1 2", "", "3"]).translate(Echo()) == ["1 2", "", "3"]


def test_text_is_normalized_if_the_corpus_was():
    """The unicode filter removes the soft hyphen, so that 1-2 becomes one word."""
    lines = ["1\u00ad2 3"]
    model = small_model()
    normalized = validation_set(lines, filters=("unicode",))
    raw = validation_set(lines)
    expected = validation_set(["12 3"])
    assert normalized.translate(Echo()) == expected.translate(Echo())
    assert raw.translate(Echo()) != expected.translate(Echo())
    assert normalized.loss(loss_of(model)) == expected.loss(loss_of(model))
    assert raw.loss(loss_of(model)) != expected.loss(loss_of(model))


def test_long_lines_are_split_as_by_the_translator():
    """With learned positions, a longer line would be an error."""
    line = " ".join("123456789" * 20)
    lines = [line, "1 2"]
    # 70 positions allow 64 tokens.
    limited = validation_set(lines, max_positions=70)
    model = Echo()
    assert limited.translate(model) == lines
    assert max(positions for _, positions in model.batches) <= 70
    recipe = limited.recipe
    update = {"search": "greedy", "retry": False, "max_source_tokens": 64, "max_extra_tokens": 4}
    decoding = recipe.decoding.model_copy(update=update)
    loaded = LoadedModel(
        pytorch.PyTorch(Echo(), CPU),
        recipe.model_copy(update={"decoding": decoding}),
        (WORDS, WORDS),
        "",
    )
    deployed = Translator(loaded).translate(lines)
    assert limited.translate(Echo()) == [translation.text for translation in deployed]


def test_pairs_longer_than_the_positions_have_no_loss():
    long = " ".join("123456789" * 10)
    model = small_model(position={"name": "learned", "maximum": 70})
    both = validation_set([long, "1 2"], max_positions=70).loss(loss_of(model))
    assert both == pytest.approx(validation_set(["1 2"]).loss(loss_of(model)), rel=1e-6)


def test_the_vocabulary_fits_the_model():
    assert WORDS.size == VOCABULARY
