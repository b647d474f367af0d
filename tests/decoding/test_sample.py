"""Tests of sampling: draws follow the probabilities, the seed and the sentence only."""

import pytest
import torch

from dragoman.decoding.greedy import Greedy
from dragoman.decoding.sample import Sample
from dragoman.recipe.schema import DecodingRecipe
from support.decoding_models import padded_source, varied_model

pytestmark = pytest.mark.slow  # They draw thousands of times.

BEGIN, END = 1, 2
LENGTHS = (7, 4, 1, 3, 6)


def sample(seed=1, draw=0, **options):
    settings = DecodingRecipe(**{"max_extra_tokens": 9} | options)
    return Sample(settings, BEGIN, END, seed=seed, draw=draw)


def drawn(search, logits, times):
    """Return the share of each token in draws at many positions."""
    source, one = torch.tensor([[5, 6, 7]]), torch.tensor([0])
    counts = torch.zeros(len(logits))
    for position in range(times):
        counts[search.adjust_logits(logits.unsqueeze(0), source, one, position).argmax()] += 1
    return counts / times


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_by_their_probability(temperature):
    logits = torch.tensor([1.0, 0.0, -1.0, 2.0])
    shares = drawn(sample(temperature=temperature), logits, 4000)
    # Four standard deviations of a share of 4,000 draws.
    assert torch.allclose(shares, (logits / temperature).softmax(0), atol=4 * 0.5 / 4000**0.5)


def test_only_the_top_k_or_top_p_tokens_are_drawn():
    logits = torch.tensor([1.0, 0.0, -1.0, 2.0])
    assert drawn(sample(top_k=2), logits, 500)[[1, 2]].sum() == 0
    # The softmax is 0.64, 0.24, 0.09, 0.03: the first has over 0.5, the first two over 0.7.
    assert drawn(sample(top_p=0.5), logits, 500)[3] == 1
    shares = drawn(sample(top_p=0.7), logits, 500)
    assert shares[[1, 2]].sum() == 0
    assert shares[0] > 0.1


def test_draws_depend_on_the_seed_and_not_on_the_batch():
    source, is_real = padded_source(LENGTHS)
    model = varied_model()
    first, again, other = (sample(seed).run(model, source, is_real) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    for row, length in enumerate(LENGTHS):
        alone = sample().run(model, source[row : row + 1, :length], is_real[row : row + 1, :length])
        # Rounding could change a draw only where two noisy logits are nearly equal.
        assert alone[0][0].tokens == first[row][0].tokens


def test_several_draws_come_best_first():
    source, is_real = padded_source(LENGTHS)
    for answers in sample(num_hypotheses=4).run(varied_model(), source, is_real):
        assert len(answers) == 4
        assert len({hypothesis.tokens for hypothesis in answers}) > 1
        scores = [hypothesis.score for hypothesis in answers]
        assert scores == sorted(scores, reverse=True)


def test_a_temperature_near_zero_is_greedy_search():
    source, is_real = padded_source(LENGTHS)
    cold = sample(temperature=1e-4).run(varied_model(), source, is_real)
    greedy = Greedy(DecodingRecipe(max_extra_tokens=9), BEGIN, END).run(
        varied_model(), source, is_real
    )
    assert [nbest[0].tokens for nbest in cold] == [nbest[0].tokens for nbest in greedy]
