"""Do guards keep what they promise, whatever the search?"""

import pytest
import torch

from decoding_models import Willing, loud_model, padded_source
from dragoman.decoding.beam import Beam
from dragoman.decoding.greedy import Greedy
from dragoman.decoding.guard import Guard
from dragoman.decoding.sample import Sample
from dragoman.recipe import DecodingRecipe

BEGIN, END = 1, 2
LENGTHS = (7, 4, 1, 3, 6)
SEARCHES = pytest.mark.parametrize("kind", [Greedy, Beam, Sample])


def run(kind, prefixes=(), willingness=0.0, **changed):
    source, is_real = padded_source(LENGTHS)
    search = kind(DecodingRecipe(**{"extra_length": 9, "hypotheses": 1} | changed), BEGIN, END)
    model = Willing(loud_model(), END, willingness)
    return [each[0] for each in search.run(model, source, is_real, prefixes)]


def repeats(tokens, size):
    windows = [tuple(tokens[at : at + size]) for at in range(len(tokens) - size + 1)]
    return len(windows) - len(set(windows))


@pytest.mark.slow
@SEARCHES
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_is_said_twice(kind, size):
    extra = {"extra_length": 9 if size > 1 else 0}
    free = run(kind, **extra)
    assert any(repeats(each.tokens, size) for each in free), "nothing to prevent"
    for each in run(kind, no_repeat=size, **extra):
        # With single words, the vocabulary may run out before the limit.
        assert not repeats(each.tokens[:10], size)


@SEARCHES
def test_nothing_ends_before_the_minimum(kind):
    free = run(kind, willingness=4.0)
    assert any(len(each.tokens) < 8 for each in free), "nothing to prevent"
    held = run(kind, willingness=4.0, minimum_length=8)
    assert all(len(each.tokens) >= 8 for each in held)


@SEARCHES
def test_prefixes_are_kept_each_with_its_length(kind):
    prefixes = [[5, 6, 7], [], [4], [9, 9], [3, 4, 5, 6]]
    found = run(kind, prefixes)
    for each, prefix in zip(found, prefixes, strict=True):
        assert list(each.tokens[: len(prefix)]) == prefix
    assert found[1] == run(kind)[1], "without a prefix, as ever"


def test_a_prefix_that_is_the_answer_changes_nothing():
    free = run(Beam, willingness=4.0)
    again = run(Beam, [list(each.tokens[:2]) for each in free], willingness=4.0)
    assert [each.tokens for each in again] == [each.tokens for each in free]


def test_the_penalty_is_the_equation():
    settings = DecodingRecipe(repetition_penalty=2.0)
    logits = torch.tensor([[3.0, -4.0, 5.0, -6.0]])
    guarded = Guard(settings, END, (), torch.device("cpu"))(
        logits, torch.tensor([[0, 1, 0]]), torch.tensor([0])
    )
    assert guarded.tolist() == [[1.5, -8.0, 5.0, -6.0]]
