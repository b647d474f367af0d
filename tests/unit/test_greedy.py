"""Does greedy search take the best token, end where it should, and keep sentences apart?"""

from itertools import pairwise

import pytest
import torch

from dragoman.decoding.greedy import Greedy
from dragoman.decoding.search import Step
from small_models import VOCABULARY, sentences, small_model

BEGIN, END = 1, 2


@pytest.fixture
def model():
    """A model whose translations are not one token repeated: untied, and loud."""
    model = small_model(norm="pre", tied_embeddings="none")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    return model


class NeverEnding:
    """The same model, never willing to end."""

    def __init__(self, model):
        self.encode, self.model = model.encode, model

    def decode(self, target, memory, cache):
        logits, cache = self.model.decode(target, memory, cache)
        logits[..., END] = -torch.inf
        return logits, cache


def slow_greedy(model, source, end, extra_length):
    """The definition: read the whole prefix again for every token, one sentence, no cache."""
    tokens, score = [], 0.0
    is_real = torch.ones_like(source, dtype=torch.bool)
    while len(tokens) < source.shape[1] + extra_length:
        logits = model(source, is_real, torch.tensor([[BEGIN, *tokens]]))
        best, token = logits[0, -1].log_softmax(-1).max(-1)
        score += best.item()
        if token.item() == end:
            return tuple(tokens), score, True
        tokens.append(token.item())
    return tuple(tokens), score, False


@torch.no_grad()
def test_a_batch_with_cache_equals_one_by_one_without(model):
    lengths = (7, 4, 1, 3, 6)
    source, is_real, _ = sentences(lengths)
    endings = set()
    for end in range(VOCABULARY):  # Whichever token the model likes, it is once the end.
        answers = Greedy(BEGIN, end, extra_length=9).run(model, source, is_real)
        for row, length in enumerate(lengths):
            (hypothesis,) = answers[row]
            tokens, score, is_ended = slow_greedy(model, source[row : row + 1, :length], end, 9)
            assert hypothesis.tokens == tokens
            assert hypothesis.is_ended == is_ended
            # Sums of some ten log-probabilities in float32, in another order of addition.
            assert hypothesis.score == pytest.approx(score, abs=1e-4)
            endings.add((is_ended, len(tokens)))
    assert len(endings) > 5, "sentences should end in many ways, or the test proves little"
    assert {is_ended for is_ended, _ in endings} == {True, False}


def test_it_is_a_generator_whose_last_step_is_the_answer(model):
    source, is_real, _ = sentences()
    search = Greedy(BEGIN, END, extra_length=5)
    steps = list(search.steps(model, source, is_real))
    assert all(isinstance(step, Step) for step in steps)
    assert [step.tokens.shape[-1] for step in steps] == list(range(1, len(steps) + 1))
    assert search.read(steps[-1]) == search.run(model, source, is_real)
    for earlier, later in pairwise(steps):
        assert torch.equal(earlier.tokens, later.tokens[..., :-1])
    assert not steps[-1].scores.requires_grad


def test_no_sentence_outgrows_its_limit(model):
    source, is_real, _ = sentences((7, 4, 1))
    answers = Greedy(BEGIN, END, extra_length=2).run(NeverEnding(model), source, is_real)
    assert [len(answer[0].tokens) for answer in answers] == [9, 6, 3]
    assert not any(answer[0].is_ended for answer in answers)


def test_no_sentences_give_no_translations(model):
    source, is_real, _ = sentences()
    assert Greedy(BEGIN, END, 5).run(model, source[:0], is_real[:0]) == []
