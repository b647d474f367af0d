"""The replay of a search gives the right candidates and outcomes."""

import pytest
import torch

from dragoman import explain
from dragoman.decoding.beam import Beam
from dragoman.explanation.replay import replay
from dragoman.tokenizer.interface import BEGIN, END
from support.decoding_models import WithoutCache
from support.explained import SENTENCE, small_translator


@pytest.fixture(scope="module", params=[1, 5])
def searched(request):
    """A search, its replay, and a function that scores every next token of a prefix."""
    translator = small_translator(seed=request.param)
    model = translator.engine.model
    source = torch.tensor([[*translator.ids(SENTENCE), END]])
    is_real = torch.ones_like(source, dtype=torch.bool)
    search = Beam(translator.settings.model_copy(update={"beam_size": 3, "max_extra_tokens": 0}))
    slow = WithoutCache(model)
    memory = slow.encode(source, is_real)

    def scores(prefix):
        logits, _ = slow.decode(torch.tensor([[BEGIN, *prefix]]), memory, None)
        return logits[0, -1].log_softmax(dim=-1)

    trace = replay(search, list(search.steps(model, source, is_real)))
    (hypotheses,) = search.run(model, source, is_real)
    return search, trace, scores, hypotheses


def test_candidates_are_the_best_of_all_extensions(searched):
    search, trace, scores, _ = searched
    prefixes = [((), 0.0)]
    for step in trace.steps:
        extensions = sorted(
            (
                (before + float(score), (*tokens, number))
                for tokens, before in prefixes
                for number, score in enumerate(scores(tokens))
            ),
            reverse=True,
        )
        best = [tokens for _, tokens in extensions[: len(step)]]
        assert [candidate.tokens for candidate in step] == best
        for candidate, (score, _) in zip(step, extensions, strict=False):
            assert candidate.score == pytest.approx(score, abs=1e-4)
            assert candidate.tokens[:-1] == prefixes[candidate.parent][0]
        assert len(step) == 2 * search.settings.beam_size
        prefixes = [
            (candidate.tokens, candidate.score) for candidate in step if candidate.outcome == "kept"
        ]


def test_outcomes_follow_the_rules_of_beam_search(searched):
    search, trace, _, _ = searched
    beam_size = search.settings.beam_size
    for number, step in enumerate(trace.steps):
        is_last = number == len(trace.steps) - 1
        unfinished = [candidate for candidate in step if candidate.tokens[-1] != END]
        for row, candidate in enumerate(step):
            if candidate.tokens[-1] == END:
                assert candidate.outcome == ("finished" if row < beam_size else "late")
            elif is_last:
                assert candidate.outcome in ("unused", "truncated")
            else:
                is_kept = candidate in unfinished[:beam_size]
                assert candidate.outcome == ("kept" if is_kept else "dropped")


def test_the_best_finished_hypothesis_is_the_translation(searched):
    search, trace, _, hypotheses = searched
    complete = {
        candidate.tokens
        for step in trace.steps
        for candidate in step
        if candidate.outcome in ("finished", "truncated")
    }
    assert {finished.tokens for finished in trace.finished} == complete
    scores = [finished.score for finished in trace.finished]
    assert scores == sorted(scores, reverse=True)
    for finished in trace.finished:
        assert finished.score == search.normalize(finished.total, len(finished.tokens))
    best = trace.finished[0]
    assert best.score == hypotheses[0].score
    assert best.tokens[: len(hypotheses[0].tokens)] == hypotheses[0].tokens


def test_greedy_search_is_a_beam_of_size_one():
    trace = explain(small_translator(search="greedy"), SENTENCE).search
    assert (trace.name, trace.beam_size) == ("greedy", 1)
    outcomes = [[hypothesis.outcome for hypothesis in step] for step in trace.steps]
    assert outcomes[:-1] == [["kept", "dropped"]] * (len(trace.steps) - 1)
    assert outcomes[-1][0] == "finished"
    assert len(trace.finished) == 1


def test_sampling_compares_no_hypotheses():
    trace = explain(small_translator(search="sample"), SENTENCE).search
    assert (trace.name, trace.steps, trace.finished) == ("sample", (), ())


def test_recording_the_candidates_makes_no_copies():
    """A step holds the tensors of the search itself."""
    translator = small_translator()
    search = Beam(translator.settings)
    source = torch.tensor([[*translator.ids(SENTENCE), END]] * 2)
    is_real = torch.ones_like(source, dtype=torch.bool)
    computed = []
    inner = search._candidates
    search._candidates = lambda *arguments: computed.append(inner(*arguments)) or computed[-1]
    steps = list(search.steps(translator.engine.model, source, is_real))
    assert all(
        step.considered is candidates for step, candidates in zip(steps, computed, strict=True)
    )
