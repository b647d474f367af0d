"""Is the search told as it went: who was compared, who was kept, and why?"""

import pytest
import torch

from decoding_models import WholePrefix
from dragoman import explain
from dragoman.decoding.beam import Beam
from dragoman.explanation.replay import replay
from dragoman.tokenizer.interface import BEGIN, END
from explanation.explained import SENTENCE, small_translator


@pytest.fixture(scope="module", params=[1, 5])
def searched(request):
    """A search, its replay, and a function that scores every next token of a beginning."""
    translator = small_translator(seed=request.param)
    model = translator.engine.model
    source = torch.tensor([[*translator.ids(SENTENCE), END]])
    is_real = torch.ones_like(source, dtype=torch.bool)
    search = Beam(translator.settings.model_copy(update={"beam": 3, "extra_length": 0}))
    slow = WholePrefix(model)
    memory = slow.encode(source, is_real)

    def scores(beginning):
        logits, _ = slow.decode(torch.tensor([[BEGIN, *beginning]]), memory, None)
        return logits[0, -1].log_softmax(dim=-1)

    told = replay(search, list(search.steps(model, source, is_real)))
    (answers,) = search.run(model, source, is_real)
    return search, told, scores, answers


def test_candidates_are_the_best_of_all_that_are_one_token_longer(searched):
    search, told, scores, _ = searched
    beginnings = [((), 0.0)]
    for step in told.steps:
        every = sorted(
            (
                (before + float(score), (*tokens, number))
                for tokens, before in beginnings
                for number, score in enumerate(scores(tokens))
            ),
            reverse=True,
        )
        assert [each.tokens for each in step] == [tokens for _, tokens in every[: len(step)]]
        for each, (score, _) in zip(step, every, strict=False):
            assert each.score == pytest.approx(score, abs=1e-4)
            assert each.tokens[:-1] == beginnings[each.parent][0]
        assert len(step) == 2 * search.settings.beam
        beginnings = [(each.tokens, each.score) for each in step if each.fate == "kept"]


def test_fates_follow_the_rules_of_the_beam(searched):
    search, told, _, _ = searched
    width = search.settings.beam
    for number, step in enumerate(told.steps):
        is_last = number == len(told.steps) - 1
        going_on = [each for each in step if each.tokens[-1] != END]
        for place, each in enumerate(step):
            if each.tokens[-1] == END:
                assert each.fate == ("ended" if place < width else "late")
            elif is_last:
                assert each.fate in ("left", "cut")
            else:
                assert each.fate == ("kept" if each in going_on[:width] else "dropped")


def test_the_finalists_are_all_that_ended_and_the_best_is_the_answer(searched):
    search, told, _, answers = searched
    ended = {each.tokens for step in told.steps for each in step if each.fate in ("ended", "cut")}
    assert {each.tokens for each in told.finalists} == ended
    scores = [each.score for each in told.finalists]
    assert scores == sorted(scores, reverse=True)
    for each in told.finalists:
        assert each.score == search.normalise(each.total, len(each.tokens))
    best = told.finalists[0]
    assert best.score == answers[0].score
    assert best.tokens[: len(answers[0].tokens)] == answers[0].tokens


def test_greedy_is_told_as_a_beam_of_one():
    story = explain(small_translator(search="greedy"), SENTENCE).search
    assert (story.name, story.width) == ("greedy", 1)
    assert [[each.fate for each in step] for step in story.steps[:-1]] == [["kept", "dropped"]] * (
        len(story.steps) - 1
    )
    assert story.steps[-1][0].fate == "ended"
    assert len(story.finalists) == 1


def test_a_draw_by_chance_compares_nothing():
    story = explain(small_translator(search="sample"), SENTENCE).search
    assert (story.name, story.steps, story.finalists) == ("sample", (), ())


def test_what_was_considered_costs_a_search_nothing():
    """It is what the search has at hand anyway: the tensors themselves, not copies."""
    translator = small_translator()
    search = Beam(translator.settings)
    source = torch.tensor([[*translator.ids(SENTENCE), END]] * 2)
    is_real = torch.ones_like(source, dtype=torch.bool)
    found = []
    inner = search._candidates
    search._candidates = lambda *given: found.append(inner(*given)) or found[-1]
    steps = list(search.steps(translator.engine.model, source, is_real))
    assert all(step.considered is own for step, own in zip(steps, found, strict=True))
