"""Tests of the logits processor, with every search."""

import pytest
import torch

from dragoman.decoding.beam import Beam
from dragoman.decoding.greedy import Greedy
from dragoman.decoding.logits_processor import LogitsProcessor
from dragoman.decoding.sample import Sample
from dragoman.recipe.schema import DecodingRecipe
from support.decoding_models import SoonEnding, padded_source, varied_model

BEGIN, END = 1, 2
LENGTHS = (7, 4, 1, 3, 6)
SEARCHES = pytest.mark.parametrize("kind", [Greedy, Beam, Sample])


def run(kind, prefixes=(), end_bias=0.0, **options):
    source, is_real = padded_source(LENGTHS)
    search = kind(
        DecodingRecipe(**{"max_extra_tokens": 9, "num_hypotheses": 1} | options), BEGIN, END
    )
    model = SoonEnding(varied_model(), END, end_bias)
    return [nbest[0] for nbest in search.run(model, source, is_real, prefixes)]


def repeats(tokens, size):
    windows = [tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)]
    return len(windows) - len(set(windows))


@pytest.mark.slow
@SEARCHES
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_occurs_twice(kind, size):
    extra = {"max_extra_tokens": 9 if size > 1 else 0}
    unlimited = run(kind, **extra)
    assert any(repeats(hypothesis.tokens, size) for hypothesis in unlimited), "nothing to prevent"
    for hypothesis in run(kind, no_repeat_ngram_size=size, **extra):
        # With single tokens, the vocabulary may be used up before the limit.
        assert not repeats(hypothesis.tokens[:10], size)


@SEARCHES
def test_no_translation_ends_before_the_minimum_length(kind):
    unlimited = run(kind, end_bias=4.0)
    assert any(len(hypothesis.tokens) < 8 for hypothesis in unlimited), "nothing to prevent"
    limited = run(kind, end_bias=4.0, min_length=8)
    assert all(len(hypothesis.tokens) >= 8 for hypothesis in limited)


@pytest.mark.slow
@SEARCHES
def test_each_translation_starts_with_its_prefix(kind):
    prefixes = [[5, 6, 7], [], [4], [9, 9], [3, 4, 5, 6]]
    answers = run(kind, prefixes)
    for hypothesis, prefix in zip(answers, prefixes, strict=True):
        assert list(hypothesis.tokens[: len(prefix)]) == prefix
    assert answers[1] == run(kind)[1], "an empty prefix changes nothing"


def test_a_prefix_that_is_the_answer_changes_nothing():
    unforced = run(Beam, end_bias=4.0)
    again = run(Beam, [list(hypothesis.tokens[:2]) for hypothesis in unforced], end_bias=4.0)
    assert [hypothesis.tokens for hypothesis in again] == [
        hypothesis.tokens for hypothesis in unforced
    ]


def test_the_repetition_penalty_follows_its_equation():
    settings = DecodingRecipe(repetition_penalty=2.0)
    logits = torch.tensor([[3.0, -4.0, 5.0, -6.0]])
    penalized = LogitsProcessor(settings, END, (), torch.device("cpu"))(
        logits, torch.tensor([[0, 1, 0]]), torch.tensor([0])
    )
    assert penalized.tolist() == [[1.5, -8.0, 5.0, -6.0]]
