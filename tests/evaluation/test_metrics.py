"""Are the scores, their intervals and signatures those of sacreBLEU's own command?"""

import json
from dataclasses import FrozenInstanceError

import pytest

from dragoman.errors import DataError
from dragoman.evaluation.metrics import PAPERS, measure, metrics
from evaluation.sacrebleu_command import sacrebleu, texts

PLACES = 12
JSON = ("-f", "json", "-w", str(PLACES))
THREE = ("-m", "bleu", "chrf", "ter")


def said(score):
    """A score as the command would print it."""
    numbers = {"score": score.value, "confidence_mean": score.mean, "confidence_var": score.margin}
    printed = {key: round(value, PLACES) for key, value in numbers.items() if value is not None}
    return {"name": score.name, "signature": score.signature, **printed}


def expected(printed):
    wanted = ("name", "signature", "score", "confidence_mean", "confidence_var")
    return {key: printed[key] for key in wanted if key in printed}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_scores_are_what_the_command_says(tmp_path, seed):
    hypotheses, *references = texts(seed, wrong=[0.3, 0.5, 0.4][:seed])
    options = ("--confidence", "--confidence-n", "50", *THREE, *JSON)
    printed = json.loads(sacrebleu(tmp_path, {"system": hypotheses}, references, *options))
    found = measure(hypotheses, references, resamples=50)
    assert [said(each) for each in found] == [expected(each) for each in printed]
    assert all(f"nrefs:{seed}|bs:50|seed:12345|" in each.signature for each in found)


def test_without_being_told_it_resamples_as_often_as_the_command(tmp_path):
    hypotheses, references = texts(4)
    options = ("--confidence", *THREE, *JSON)
    printed = json.loads(sacrebleu(tmp_path, {"system": hypotheses}, [references], *options))
    found = measure(hypotheses, [references])
    assert [said(each) for each in found] == [expected(each) for each in printed]


def test_without_resamples_there_is_no_interval(tmp_path):
    hypotheses, references = texts(5)
    printed = json.loads(sacrebleu(tmp_path, {"system": hypotheses}, [references], *THREE, *JSON))
    found = measure(hypotheses, [references], resamples=0)
    assert [said(each) for each in found] == [expected(each) for each in printed]
    assert all(each.interval is None for each in found)


def test_the_papers_bleu_is_that_of_tokenised_text(tmp_path):
    hypotheses, references = texts(6)
    options = ("--tokenize", "none", "--force", "--confidence", "--confidence-n", "50", *JSON)
    printed = json.loads(sacrebleu(tmp_path, {"system": hypotheses}, [references], *options))
    usual, *_, papers = measure(hypotheses, [references], papers=True, resamples=50)
    assert said(papers) == {**expected(printed), "name": PAPERS}
    assert papers.value != usual.value
    assert papers.name != usual.name


def test_the_papers_bleu_must_be_asked_for():
    assert list(metrics()) == ["BLEU", "chrF2", "TER"]
    assert list(metrics(papers=True)) == ["BLEU", "chrF2", "TER", PAPERS]


def test_scores_have_their_ends():
    """Also where sacreBLEU prints no interval, for it leaves out a mean of zero."""
    text = ["the cat sat on the mat .", "there is a house in New Orleans"]
    bleu, chrf, ter = measure(text, [text], resamples=20)
    assert (bleu.value, chrf.value, ter.value) == pytest.approx((100, 100, 0))
    assert ter.interval == (0, 0)
    bleu, chrf, ter = measure(["", ""], [text], resamples=20)
    assert (bleu.value, chrf.value, ter.value) == (0, 0, 100)
    assert bleu.interval == (0, 0)
    bleu, *_ = measure(text, [["x", "y"], text], resamples=20)
    assert bleu.value == pytest.approx(100)


def test_a_translation_that_is_nearly_nothing_has_an_interval():
    """In some resamples not a letter matches, which sacreBLEU's command does not survive."""
    references = ["the cat sat on the mat"] * 20
    for score in measure([references[0], *[""] * 19], [references], resamples=200):
        low, high = score.interval
        assert low <= score.mean <= high


def test_the_interval_lies_round_the_mean():
    hypotheses, references = texts(7)
    for score in measure(hypotheses, [references], resamples=50):
        low, high = score.interval
        assert low < score.mean < high
        assert low < score.value < high
        assert high - low == pytest.approx(2 * score.margin)


def test_a_score_cannot_be_bettered():
    score, *_ = measure(["a"], [["a"]], resamples=0)
    with pytest.raises(FrozenInstanceError):
        score.value = 100.0


def test_what_cannot_be_scored_is_refused_in_plain_words():
    with pytest.raises(DataError, match="the translation is empty: there is nothing to score"):
        measure([], [[]])
    with pytest.raises(DataError, match="reference 2 is empty"):
        measure(["a"], [["a"], []])
    with pytest.raises(DataError, match="no reference to compare with"):
        measure(["a"], [])


def test_unequal_lengths_are_refused_with_both_counts():
    with pytest.raises(DataError, match=r"has 2 lines and reference 2 has 1,200"):
        measure(["a", "b"], [["a", "b"], ["a"] * 1200])
