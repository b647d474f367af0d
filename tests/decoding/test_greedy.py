"""Does greedy search take the best token, end where it should, and keep sentences apart?"""

import pytest
import torch

from decoding_models import NeverEnding, Willing, loud_model, padded_source
from dragoman.decoding.engine import length_limit
from dragoman.decoding.greedy import Greedy
from dragoman.decoding.search import Step
from dragoman.recipe import DecodingRecipe
from small_models import sentences

BEGIN, END = 1, 2


@pytest.fixture
def model():
    return loud_model()


def slow_greedy(model, source, settings):
    """The definition: read the whole prefix again for every token, one sentence, no cache."""
    tokens, score = [], 0.0
    memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    while len(tokens) < length_limit(source.shape[1] - 1, settings):
        logits, _ = model.decode(torch.tensor([[BEGIN, *tokens]]), memory, None)
        best, token = logits[0, -1].log_softmax(-1).max(-1)
        score += best.item()
        if token.item() == END:
            return tuple(tokens), score, True
        tokens.append(token.item())
    return tuple(tokens), score, False


@torch.no_grad()
def test_a_batch_with_cache_equals_one_by_one_without():
    lengths = (7, 4, 1, 3, 6)
    source, is_real = padded_source(lengths)
    settings = DecodingRecipe(extra_length=0, length_penalty=0.0)
    endings = set()
    for seed in range(6):
        model = Willing(loud_model(seed), END, 0.5 * seed)
        answers = Greedy(settings, BEGIN, END).run(model, source, is_real)
        for row, length in enumerate(lengths):
            (hypothesis,) = answers[row]
            tokens, score, is_ended = slow_greedy(model, source[row : row + 1, :length], settings)
            assert hypothesis.tokens == tokens
            assert hypothesis.is_ended == is_ended
            # Sums of some ten log-probabilities in float32, in another order of addition.
            assert hypothesis.score == pytest.approx(score, abs=2e-4)
            endings.add((is_ended, len(tokens)))
    assert len(endings) > 5, "sentences should end in many ways, or the test proves little"
    assert {is_ended for is_ended, _ in endings} == {True, False}


def test_it_is_a_generator_whose_last_step_is_the_answer(model):
    source, is_real, _ = sentences()
    search = Greedy(DecodingRecipe(extra_length=5), BEGIN, END)
    steps = list(search.steps(model, source, is_real))
    assert all(isinstance(step, Step) for step in steps)
    shown = [step.tokens.shape[-1] for step in steps]
    assert shown == list(range(1, len(steps) + 1))
    assert [list(each) for each in steps[-1].done] == search.run(model, source, is_real)
    assert all(len(step.tokens) == len(step.scores) == len(step.sentences) for step in steps)
    assert not steps[-1].scores.requires_grad


def test_no_sentence_outgrows_its_limit(model):
    source, is_real, _ = sentences((80, 4, 65, 66))
    answers = Greedy(DecodingRecipe(extra_length=2), BEGIN, END).run(
        NeverEnding(model, END), source, is_real
    )
    # The last of each source is its end. Limits grow in steps of 64.
    assert [len(answer[0].tokens) for answer in answers] == [130, 66, 66, 130]
    assert not any(answer[0].is_ended for answer in answers)


def test_no_sentences_give_no_translations(model):
    source, is_real, _ = sentences()
    assert Greedy(DecodingRecipe(), BEGIN, END).run(model, source[:0], is_real[:0]) == []
