"""Scores, intervals and signatures are those of sacreBLEU's own command."""

import json
from dataclasses import FrozenInstanceError

import pytest

from dragoman.errors import DataError
from dragoman.evaluation.metrics import (
    TOKENIZED_BLEU,
    SentenceScore,
    measure,
    metrics,
    worst_sentences,
)
from support.sacrebleu_command import random_texts, sacrebleu

DECIMALS = 12
JSON = ("-f", "json", "-w", str(DECIMALS))
THREE_METRICS = ("-m", "bleu", "chrf", "ter")


def as_printed(score):
    """A score in the format of the command's JSON."""
    numbers = {"score": score.value, "confidence_mean": score.mean, "confidence_var": score.margin}
    printed = {key: round(value, DECIMALS) for key, value in numbers.items() if value is not None}
    return {"name": score.name, "signature": score.signature, **printed}


def select(printed):
    """The fields of the command's JSON that we compare."""
    wanted = ("name", "signature", "score", "confidence_mean", "confidence_var")
    return {key: printed[key] for key in wanted if key in printed}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_scores_equal_those_of_the_command(tmp_path, seed):
    hypotheses, *references = random_texts(seed, error_rates=[0.3, 0.5, 0.4][:seed])
    options = ("--confidence", "--confidence-n", "50", *THREE_METRICS, *JSON)
    printed = json.loads(sacrebleu(tmp_path, {"system": hypotheses}, references, *options))
    scores = measure(hypotheses, references, resamples=50)
    assert [as_printed(score) for score in scores] == [select(row) for row in printed]
    assert all(f"nrefs:{seed}|bs:50|seed:12345|" in score.signature for score in scores)


def test_the_default_number_of_resamples_is_that_of_the_command(tmp_path):
    hypotheses, references = random_texts(4)
    options = ("--confidence", *THREE_METRICS, *JSON)
    printed = json.loads(sacrebleu(tmp_path, {"system": hypotheses}, [references], *options))
    scores = measure(hypotheses, [references])
    assert [as_printed(score) for score in scores] == [select(row) for row in printed]


def test_without_resamples_there_is_no_interval(tmp_path):
    hypotheses, references = random_texts(5)
    printed = json.loads(
        sacrebleu(tmp_path, {"system": hypotheses}, [references], *THREE_METRICS, *JSON)
    )
    scores = measure(hypotheses, [references], resamples=0)
    assert [as_printed(score) for score in scores] == [select(row) for row in printed]
    assert all(score.interval is None for score in scores)


def test_bleu_of_tokenized_text_equals_the_command(tmp_path):
    hypotheses, references = random_texts(6)
    options = ("--tokenize", "none", "--force", "--confidence", "--confidence-n", "50", *JSON)
    printed = json.loads(sacrebleu(tmp_path, {"system": hypotheses}, [references], *options))
    usual, *_, tokenized = measure(hypotheses, [references], tokenized=True, resamples=50)
    assert as_printed(tokenized) == {**select(printed), "name": TOKENIZED_BLEU}
    assert tokenized.value != usual.value
    assert tokenized.name != usual.name


def test_bleu_of_tokenized_text_is_computed_on_request_only():
    assert list(metrics()) == ["BLEU", "chrF2", "TER"]
    assert list(metrics(tokenized=True)) == ["BLEU", "chrF2", "TER", TOKENIZED_BLEU]


def test_the_best_and_the_worst_score():
    """The interval exists even if sacreBLEU prints none, as for a mean of zero."""
    text = ["the cat sat on the mat .", "there is a house in New Orleans"]
    bleu, chrf, ter = measure(text, [text], resamples=20)
    assert (bleu.value, chrf.value, ter.value) == pytest.approx((100, 100, 0))
    assert ter.interval == (0, 0)
    bleu, chrf, ter = measure(["", ""], [text], resamples=20)
    assert (bleu.value, chrf.value, ter.value) == (0, 0, 100)
    assert bleu.interval == (0, 0)
    bleu, *_ = measure(text, [["x", "y"], text], resamples=20)
    assert bleu.value == pytest.approx(100)


def test_a_translation_that_is_almost_empty_has_a_mean_and_a_margin():
    """In some resamples nothing matches; sacreBLEU's command fails there."""
    references = ["the cat sat on the mat"] * 20
    for score in measure([references[0], *[""] * 19], [references], resamples=200):
        assert score.margin >= 0
        low, high = score.interval
        assert low <= score.mean <= high


def test_the_interval_lies_around_the_mean():
    hypotheses, references = random_texts(7)
    for score in measure(hypotheses, [references], resamples=50):
        low, high = score.interval
        assert low < score.mean < high
        assert low < score.value < high
        assert high - low == pytest.approx(2 * score.margin)


def test_an_interval_that_does_not_contain_the_score_is_not_reported():
    """Nine lines, one of them with four words or more.

    BLEU is 100. Only in few resamples that line is missing, and then BLEU is lower: the mean is
    below 100 and the margin is 0.
    """
    text = ["a b c d e f g h"] * 4 + ["yes", "no", "hello", "good day", "thank you"]
    bleu, *others = measure(text, [text])
    assert bleu.value == pytest.approx(100)
    assert bleu.mean < 99.99
    assert bleu.margin == pytest.approx(0, abs=1e-6)
    assert bleu.interval is None
    assert all(score.interval is not None for score in others)


@pytest.mark.parametrize("count", [1, 2, 5, 9, 20, 60])
@pytest.mark.parametrize("seed", range(5))
def test_every_interval_contains_its_score(count, seed):
    hypotheses, references = random_texts(seed, count)
    for score in measure(hypotheses, [references], resamples=100):
        if score.interval is not None:
            low, high = score.interval
            assert low - 1e-6 <= score.value <= high + 1e-6


def test_a_score_is_frozen():
    score, *_ = measure(["a"], [["a"]], resamples=0)
    with pytest.raises(FrozenInstanceError):
        score.value = 100.0


def test_the_worst_sentences_have_the_lowest_chrf():
    hypotheses, *references = random_texts(8, error_rates=[0.3, 0.5])
    sources = [f"source {number}" for number in range(len(hypotheses))]
    hypotheses[4] = references[1][4]
    worst = worst_sentences(sources, hypotheses, references)
    metric = metrics()["chrF2"]
    scores = [
        metric.sentence_score(hypothesis, list(pair)).score
        for hypothesis, pair in zip(hypotheses, zip(*references, strict=True), strict=True)
    ]
    assert [sentence.chrf for sentence in worst] == sorted(scores)[:5]
    row = worst[0].line - 1
    assert worst[0] == SentenceScore(
        row + 1, sources[row], (references[0][row], references[1][row]), hypotheses[row],
        scores[row],
    )  # fmt: skip


def test_exact_translations_are_not_among_the_worst_sentences():
    assert worst_sentences(["x", "y"], ["a", "b"], [["a", "c"]]) == [
        SentenceScore(2, "y", ("c",), "b", 0.0)
    ]


def test_texts_that_cannot_be_scored_are_refused():
    with pytest.raises(DataError, match="the translation is empty: there is nothing to score"):
        measure([], [[]])
    with pytest.raises(DataError, match="reference 2 is empty"):
        measure(["a"], [["a"], []])
    with pytest.raises(DataError, match="no reference to compare with"):
        measure(["a"], [])


def test_unequal_lengths_are_refused_with_both_counts():
    with pytest.raises(DataError, match=r"and reference 2 have 2 and 1,200 lines"):
        measure(["a", "b"], [["a", "b"], ["a"] * 1200])
