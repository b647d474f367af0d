"""Tests of greedy search."""

import pytest
import torch

from dragoman.decoding.engine import length_limit
from dragoman.decoding.greedy import Greedy
from dragoman.decoding.search import SearchStep
from dragoman.recipe.schema import DecodingRecipe
from support.decoding_models import NeverEnding, SoonEnding, padded_source, varied_model
from support.small_models import sentences

BEGIN, END = 1, 2


@pytest.fixture
def model():
    return varied_model()


def slow_greedy(model, source, settings):
    """Search by the definition: one sentence, no cache, the whole prefix read for every token."""
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


@pytest.mark.slow
@torch.no_grad()
def test_a_batch_with_cache_equals_single_sentences_without_cache():
    lengths = (7, 4, 1, 3, 6)
    source, is_real = padded_source(lengths)
    settings = DecodingRecipe(max_extra_tokens=0, length_penalty=0.0)
    endings = set()
    for seed in range(6):
        model = SoonEnding(varied_model(seed), END, 0.5 * seed)
        answers = Greedy(settings, BEGIN, END).run(model, source, is_real)
        for row, length in enumerate(lengths):
            (hypothesis,) = answers[row]
            tokens, score, is_finished = slow_greedy(
                model, source[row : row + 1, :length], settings
            )
            assert hypothesis.tokens == tokens
            assert hypothesis.is_finished == is_finished
            # Sums of about ten log-probabilities in float32, in another order.
            assert hypothesis.score == pytest.approx(score, abs=2e-4)
            endings.add((is_finished, len(tokens)))
    assert len(endings) > 5, "translations should end at different lengths"
    assert {is_finished for is_finished, _ in endings} == {True, False}


def test_the_last_step_holds_the_answer(model):
    source, is_real, _ = sentences()
    search = Greedy(DecodingRecipe(max_extra_tokens=5), BEGIN, END)
    steps = list(search.steps(model, source, is_real))
    assert all(isinstance(step, SearchStep) for step in steps)
    lengths = [step.tokens.shape[-1] for step in steps]
    assert lengths == list(range(1, len(steps) + 1))
    assert [list(nbest) for nbest in steps[-1].done] == search.run(model, source, is_real)
    assert all(len(step.tokens) == len(step.scores) == len(step.sentences) for step in steps)
    assert not steps[-1].scores.requires_grad


@pytest.mark.slow
def test_no_translation_is_longer_than_its_limit(model):
    source, is_real, _ = sentences((80, 4, 65, 66))
    answers = Greedy(DecodingRecipe(max_extra_tokens=2), BEGIN, END).run(
        NeverEnding(model, END), source, is_real
    )
    # The last token of each source is its end. Limits are multiples of 64, plus 2.
    assert [len(answer[0].tokens) for answer in answers] == [130, 66, 66, 130]
    assert not any(answer[0].is_finished for answer in answers)


def test_no_sentences_give_no_translations(model):
    source, is_real, _ = sentences()
    assert Greedy(DecodingRecipe(), BEGIN, END).run(model, source[:0], is_real[:0]) == []
