"""The gate: a better model passes, and each rule can fail alone."""

import random

import pytest

from dragoman.adaptation.gate import TestOutputs, count_spans, judge
from dragoman.adaptation.size import ModelSize
from dragoman.errors import DataError
from dragoman.recipe.schema import AdaptationRecipe
from dragoman.text.glossary import Glossary

SIZE = ModelSize(weight_bytes=1000, flops=5000)
SETTINGS = AdaptationRecipe()
WORDS = ("the", "old", "model", "reads", "a", "new", "page", "and", "writes", "one", "line", "of")


def sentences(count, seed):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(6, 14))) for _ in range(count)]


def with_errors(texts, rate, seed):
    """Replace a share of the words by a wrong one."""
    rng = random.Random(seed)
    return [
        " ".join("wrong" if rng.random() < rate else word for word in text.split())
        for text in texts
    ]


def outputs(before, after, *, count=120, seed=1):
    """A test set on which the models have these shares of wrong words."""
    references = sentences(count, seed)
    return TestOutputs(
        sources=references,
        references=references,
        parent=with_errors(references, before, seed + 100),
        candidate=with_errors(references, after, seed + 200),
    )


BETTER, SAME, WORSE = outputs(0.3, 0.15), outputs(0.1, 0.1, seed=2), outputs(0.05, 0.3, seed=3)


def failed(in_domain=BETTER, general=SAME, candidate=SIZE, settings=SETTINGS):
    result = judge(in_domain, general, SIZE, candidate, settings)
    assert result.is_accepted == (not result.failed)
    return {rule.name for rule in result.failed}


def test_a_better_model_that_has_lost_nothing_is_accepted():
    assert failed() == set()


def test_the_parent_itself_is_not_better():
    parent = TestOutputs(BETTER.sources, BETTER.references, BETTER.parent, BETTER.parent)
    assert failed(parent) == {"in_domain_bleu"}


def test_a_worse_model_fails_both_metrics():
    assert failed(WORSE) >= {"in_domain_bleu", "in_domain_chrf"}


def test_a_gain_that_may_be_chance_is_refused():
    """Higher BLEU with few sentences is not enough: the p-value decides."""
    small = outputs(0.3, 0.27, count=12, seed=5)
    rule = judge(small, SAME, SIZE, SIZE, SETTINGS).rule("in_domain_bleu")
    assert rule.after > rule.before
    assert rule.p_value >= SETTINGS.p_value
    assert rule.verdict == "failed"


def test_a_loss_of_general_quality_is_refused():
    assert failed(general=WORSE) == {"general_bleu"}


def test_a_loss_within_the_limit_is_accepted():
    limit = AdaptationRecipe(max_general_loss=99)
    assert failed(general=WORSE, settings=limit) == set()


def test_a_general_loss_that_is_not_significant_is_accepted():
    few = outputs(0.2, 0.22, count=12, seed=6)
    rule = judge(BETTER, few, SIZE, SIZE, SETTINGS).rule("general_bleu")
    assert rule.before - rule.after > SETTINGS.max_general_loss
    assert rule.verdict == "passed"


def test_without_a_general_test_set_the_result_says_so():
    result = judge(BETTER, None, SIZE, SIZE, SETTINGS)
    assert result.is_accepted
    assert result.rule("general_bleu").verdict == "not tested"
    assert result.rule("general_bleu").after is None


@pytest.mark.parametrize(
    ("candidate", "rule"),
    [(ModelSize(1001, 5000), "size"), (ModelSize(1000, 5001), "speed")],
)
def test_a_larger_or_slower_model_is_refused(candidate, rule):
    assert failed(candidate=candidate) == {rule}


def with_spans(keep_parent, keep_candidate):
    """Every reference keeps `%s`; the models keep it in the first sentences."""
    texts = [f"{text} %s" for text in BETTER.references]
    parent, candidate = (
        [f"{text} %s" if number < keep else text for number, text in enumerate(side)]
        for side, keep in ((BETTER.parent, keep_parent), (BETTER.candidate, keep_candidate))
    )
    return TestOutputs(texts, texts, parent, candidate)


def test_spans_must_be_kept_as_often():
    assert failed(with_spans(100, 100)) == set()
    assert failed(with_spans(100, 101)) == set()
    assert failed(with_spans(100, 95)) == {"protected_spans"}
    tolerant = AdaptationRecipe(max_span_loss=0.05)
    assert failed(with_spans(100, 95), settings=tolerant) == set()


def test_a_loss_of_spans_that_may_be_chance_is_accepted():
    """Four lost of a hundred and none gained: p = 0.06."""
    rule = judge(with_spans(100, 96), SAME, SIZE, SIZE, SETTINGS).rule("protected_spans")
    assert rule.p_value == 1 / 16
    assert rule.verdict == "passed"


def test_a_sentence_that_loses_all_its_spans_counts_once():
    """Its spans are lost together: ten of them are no more evidence than one."""
    many = " ".join(f"{{name{number}}}" for number in range(10))
    outputs = TestOutputs(sources=[many], references=[many], parent=[many], candidate=["nothing"])
    counts = count_spans(outputs)
    assert (counts.expected, counts.parent, counts.candidate) == (10, 10, 0)
    assert (counts.lost, counts.gained) == (1, 0)


def test_spans_are_counted_on_both_test_sets():
    assert failed(general=with_spans(100, 90)) == {"protected_spans"}


def test_only_spans_that_the_reference_keeps_are_expected():
    spans = TestOutputs(
        sources=["Open <b>%s</b>.", "Read `code`.", "See {name} and {name}."],
        references=["Ouvrez %s.", "Lisez.", "Voir {name} et {name}."],
        parent=["Ouvrez.", "Lisez `code`.", "Voir {name}."],
        candidate=["Ouvrez %s.", "Lisez.", "Voir {name} et {name} et {name}."],
    )
    counts = count_spans(spans)
    assert (counts.expected, counts.parent, counts.candidate) == (3, 1, 3)
    assert (counts.lost, counts.gained) == (0, 2)


def with_term(share):
    """The candidate is better, but it keeps `Katze` only in this share of the sentences."""
    rows = range(len(BETTER.sources))
    parent, candidate = (
        [f"{text} {'Katze' if row < kept else 'Hund'}" for row, text in enumerate(side)]
        for side, kept in ((BETTER.parent, len(rows)), (BETTER.candidate, share * len(rows)))
    )
    return TestOutputs(
        [f"{text} cat" for text in BETTER.sources],
        [f"{text} Katze" for text in BETTER.references],
        parent,
        candidate,
    )


def test_a_lost_word_is_refused_although_bleu_is_higher():
    assert failed(with_term(1)) == set()
    rule = judge(with_term(0.7), SAME, SIZE, SIZE, SETTINGS).rule("terms")
    assert rule.verdict == "failed"
    assert "'katze' in 120 → 84 of 120 sentences" in rule.explanation
    assert failed(with_term(0.7)) == {"terms"}


def test_of_glossary_terms_fewer_losses_are_enough():
    """Six losses among a dozen words may be chance; of the only term they are significant."""
    outputs = with_term(114 / 120)
    assert failed(outputs) == set()
    result = judge(outputs, SAME, SIZE, SIZE, SETTINGS, Glossary({"cat": "Katze"}))
    assert {rule.name for rule in result.failed} == {"terms"}
    assert "cat → Katze" in result.rule("terms").explanation


def test_without_frequent_words_terms_are_not_tested():
    few = outputs(0.3, 0.2, count=3)
    assert judge(few, SAME, SIZE, SIZE, SETTINGS).rule("terms").verdict == "not tested"


def test_sides_of_different_lengths_are_an_error():
    with pytest.raises(DataError, match="2, 3 lines"):
        TestOutputs(["a", "b"], ["a", "b"], ["a", "b"], ["a", "b", "c"])
    with pytest.raises(DataError, match="empty"):
        TestOutputs([], [], [], [])
