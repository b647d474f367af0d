"""Tests of beam search: it finds the best translation, whatever else is in the batch."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.decoding.beam import Beam, fast_topk
from dragoman.decoding.engine import length_limit
from dragoman.decoding.greedy import Greedy
from dragoman.recipe.schema import DecodingRecipe
from support.decoding_models import NeverEnding, WithoutCache, varied_model
from support.sets import first_quick
from support.small_models import EVERY_PART, VOCABULARY, sentences

BEGIN, END = 1, 2
LENGTHS = (7, 4, 1, 3, 6)


def search(kind=Beam, end=END, **options):
    return kind(DecodingRecipe(**{"max_extra_tokens": 9} | options), BEGIN, end)


def assert_same(actual, expected, tolerance=2e-4):
    """Check that tokens are equal, and scores up to the order of float32 sums."""
    assert [[hypothesis.tokens for hypothesis in nbest] for nbest in actual] == [
        [hypothesis.tokens for hypothesis in nbest] for nbest in expected
    ]
    for ours, theirs in zip(itertools.chain(*actual), itertools.chain(*expected), strict=True):
        assert ours.score == pytest.approx(theirs.score, abs=tolerance)
        assert ours.is_finished == theirs.is_finished


@pytest.mark.parametrize("end", first_quick(range(0, VOCABULARY, 3)))
def test_a_beam_of_one_is_greedy(end):
    source, is_real, _ = sentences(LENGTHS)
    model = varied_model()
    answers = search(end=end, beam_size=1).run(model, source, is_real)
    assert_same(answers, search(Greedy, end=end).run(model, source, is_real))


@pytest.mark.slow
@pytest.mark.parametrize("length_normalization", ["power", "gnmt"])
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
def test_a_wide_beam_is_exhaustive_search(length_normalization, length_penalty):
    """The beam is so wide that it drops nothing: all translations up to a length are compared."""
    words, longest = 4, 3
    model = varied_model(decoder_layers=1, encoder_layers=1)
    source = torch.randint(3, VOCABULARY, (3, 5))
    is_real = torch.ones_like(source, dtype=torch.bool)

    class SmallVocabulary:
        """The same model with a smaller vocabulary."""

        encode = staticmethod(model.encode)

        @staticmethod
        def decode(target, memory, cache):
            logits, cache = model.decode(target, memory, cache)
            return logits[..., : words + 1], cache

    width = (words + 1) ** longest
    recipe = DecodingRecipe(
        beam_size=width,
        num_hypotheses=5,
        length_normalization=length_normalization,
        length_penalty=length_penalty,
    )
    beam = Beam(recipe, BEGIN, END)
    beam._limits = lambda is_real: [longest] * len(is_real)
    if length_penalty == 0:
        # Without length normalization the search may stop once the best one has finished.
        beam.settings = recipe.model_copy(update={"num_hypotheses": 1})
    results = beam.run(SmallVocabulary, source, is_real)
    for row, answers in enumerate(results):
        scored = []
        for length in range(longest + 1):
            for body in itertools.product(
                [word for word in range(words + 1) if word != END], repeat=length
            ):
                tokens = body if length == longest else (*body, END)
                score = _score(SmallVocabulary, source[row : row + 1], tokens)
                scored.append((beam.normalize(score, len(tokens)), body))
        best = sorted(scored, reverse=True)[: len(answers)]
        assert [hypothesis.tokens for hypothesis in answers] == [body for _, body in best]
        for hypothesis, (score, _) in zip(answers, best, strict=True):
            assert hypothesis.score == pytest.approx(score, abs=2e-4)


@torch.no_grad()
def _score(model, source, tokens):
    memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    logits, _ = model.decode(torch.tensor([[BEGIN, *tokens[:-1]]]), memory, None)
    chosen = logits[0].log_softmax(-1).gather(1, torch.tensor(tokens).unsqueeze(1))
    return float(chosen.sum())


IN_CI = [("head_kind", "wide"), ("similarity", "concat"), ("attention_kind", "hard")]
IN_CI += [("position", "rotary"), ("position", "shaw")]
"""Parts that a beam searches with and without a cache in CI; the contract tests all in steps."""


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(*part, marks=pytest.mark.slow if part in IN_CI else pytest.mark.long)
        for part in EVERY_PART
    ],
)
def test_with_and_without_cache_for_every_part(kind, name):
    source, is_real, _ = sentences(LENGTHS)
    model = varied_model(**{kind: name})
    beam = search(beam_size=3, num_hypotheses=3)
    answers = beam.run(model, source, is_real)
    assert_same(answers, beam.run(WithoutCache(model), source, is_real), 1e-3)


@pytest.mark.slow
def test_other_sentences_of_the_batch_do_not_matter():
    source, is_real, _ = sentences(LENGTHS)
    model = varied_model()
    answers = search(num_hypotheses=3).run(model, source, is_real)
    for row, length in enumerate(LENGTHS):
        alone = search(num_hypotheses=3).run(
            model, source[row : row + 1, :length], is_real[row : row + 1, :length]
        )
        assert_same(alone, answers[row : row + 1])


@pytest.mark.parametrize("end", [0, 2, 3])
def test_every_hypothesis_starts_with_the_prefix(end):
    """The other tokens are impossible, but the candidates include them: the vocabulary is small."""
    source, is_real, _ = sentences(LENGTHS)
    model = varied_model()

    class EightTokens:
        encode = staticmethod(model.encode)

        @staticmethod
        def decode(target, memory, cache):
            logits, cache = model.decode(target, memory, cache)
            return logits[..., :8], cache

    beam = search(end=end, beam_size=4, num_hypotheses=4)
    answers = beam.run(EightTokens, source, is_real, [[5, 6, 7]] * len(LENGTHS))
    for hypothesis in itertools.chain(*answers):
        assert hypothesis.tokens[:3] == (5, 6, 7)
        assert hypothesis.score > -1e6


def test_hypotheses_come_best_first_and_differ():
    source, is_real, _ = sentences(LENGTHS)
    for answers in search(num_hypotheses=5).run(varied_model(), source, is_real):
        assert len({hypothesis.tokens for hypothesis in answers}) == len(answers) == 5
        scores = [hypothesis.score for hypothesis in answers]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.slow
def test_more_patience_never_gives_a_worse_score():
    source, is_real, _ = sentences(LENGTHS)
    answers = [
        search(patience=patience, beam_size=3).run(varied_model(), source, is_real)
        for patience in (1.0, 4.0)
    ]
    scores = [[nbest[0].score for nbest in result] for result in answers]
    assert all(patient >= impatient for impatient, patient in zip(*scores, strict=True))


@pytest.mark.slow
def test_a_translation_cut_by_the_limit_is_not_finished():
    source, is_real, _ = sentences(LENGTHS)
    answers = search(max_extra_tokens=1).run(NeverEnding(varied_model(), END), source, is_real)
    for length, (best,) in zip(LENGTHS, answers, strict=True):
        assert not best.is_finished
        assert len(best.tokens) == length_limit(length - 1, search(max_extra_tokens=1).settings)


@pytest.mark.slow
def test_each_step_holds_the_whole_beam():
    source, is_real, _ = sentences(LENGTHS)
    steps = list(search(beam_size=4).steps(varied_model(), source, is_real))
    assert {len(step.tokens) for step in steps[:1]} == {4 * len(LENGTHS)}
    for step in steps:
        for sentence in range(len(LENGTHS)):
            assert step.sentences.count(sentence) in (0, 4)
    assert not len(steps[-1].tokens), "no hypothesis continues after the last step"


def test_scores_are_length_normalized_by_the_equations():
    power, gnmt = (
        search(length_normalization=kind, length_penalty=0.6) for kind in ("power", "gnmt")
    )
    assert power.normalize(-6.0, 5) == pytest.approx(-6 / 5**0.6)
    assert gnmt.normalize(-6.0, 5) == pytest.approx(-6 / ((5 + 5) / 6) ** 0.6)
    assert search(length_penalty=0.0).normalize(-6.0, 5) == -6.0


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 12), st.integers(0, 10**6), st.booleans())
def test_fast_topk_equals_topk(size, count, seed, is_masked):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(5, size, generator=generator)
    if is_masked:
        values[torch.rand(5, size, generator=generator) < 0.5] = -torch.inf
    count = min(count, size)
    best, columns = fast_topk(values, count, block=8)
    assert torch.equal(best, values.topk(count, dim=1).values)
    assert torch.equal(values.gather(1, columns), best)
    assert all(len(set(row)) == count for row in columns.tolist())
