"""Are samples drawn by probability, and from nothing but the seed and the sentence?"""

import pytest
import torch

from decoding_models import loud_model, padded_source
from dragoman.decoding.greedy import Greedy
from dragoman.decoding.sample import Sample
from dragoman.recipe import DecodingRecipe

pytestmark = pytest.mark.slow  # In CI; `make check` has little time.

BEGIN, END = 1, 2
LENGTHS = (7, 4, 1, 3, 6)


def sample(seed=1, draw=0, **changed):
    settings = DecodingRecipe(**{"extra_length": 9} | changed)
    return Sample(settings, BEGIN, END, seed=seed, draw=draw)


def drawn(search, logits, times):
    """How often each token is taken, over many places."""
    source, one = torch.tensor([[5, 6, 7]]), torch.tensor([0])
    counts = torch.zeros(len(logits))
    for place in range(times):
        counts[search.prefer(logits.unsqueeze(0), source, one, place).argmax()] += 1
    return counts / times


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_as_often_as_they_are_likely(temperature):
    logits = torch.tensor([1.0, 0.0, -1.0, 2.0])
    shares = drawn(sample(temperature=temperature), logits, 4000)
    # Four standard deviations of a share of 4,000 draws.
    assert torch.allclose(shares, (logits / temperature).softmax(0), atol=4 * 0.5 / 4000**0.5)


def test_only_the_likeliest_are_drawn():
    logits = torch.tensor([1.0, 0.0, -1.0, 2.0])
    assert drawn(sample(top_k=2), logits, 500)[[1, 2]].sum() == 0
    # softmax: 0.64, 0.24, 0.09, 0.03: the first makes up a half, the first two 0.7.
    assert drawn(sample(top_p=0.5), logits, 500)[3] == 1
    some = drawn(sample(top_p=0.7), logits, 500)
    assert some[[1, 2]].sum() == 0
    assert some[0] > 0.1


def test_it_depends_on_the_seed_and_not_on_neighbours():
    source, is_real = padded_source(LENGTHS)
    model = loud_model()
    first, again, other = (sample(seed).run(model, source, is_real) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    for row, length in enumerate(LENGTHS):
        alone = sample().run(model, source[row : row + 1, :length], is_real[row : row + 1, :length])
        # Where the noise decides between two tokens, float32 cannot change it but by rare chance.
        assert alone[0][0].tokens == first[row][0].tokens


def test_several_draws_come_best_first():
    source, is_real = padded_source(LENGTHS)
    for answers in sample(hypotheses=4).run(loud_model(), source, is_real):
        assert len(answers) == 4
        assert len({each.tokens for each in answers}) > 1
        assert [each.score for each in answers] == sorted(
            (each.score for each in answers), reverse=True
        )


def test_without_warmth_it_is_greedy():
    source, is_real = padded_source(LENGTHS)
    cold = sample(temperature=1e-4).run(loud_model(), source, is_real)
    greedy = Greedy(DecodingRecipe(extra_length=9), BEGIN, END).run(loud_model(), source, is_real)
    assert [each[0].tokens for each in cold] == [each[0].tokens for each in greedy]
