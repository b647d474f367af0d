"""Does beam search find the best, and the same in every company?"""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding_models import NeverEnding, WholePrefix, loud_model
from dragoman.decoding.beam import Beam, top
from dragoman.decoding.engine import length_limit
from dragoman.decoding.greedy import Greedy
from dragoman.recipe import DecodingRecipe
from small_models import EVERY_PART, VOCABULARY, sentences

BEGIN, END = 1, 2
LENGTHS = (7, 4, 1, 3, 6)


def search(kind=Beam, end=END, **changed):
    return kind(DecodingRecipe(**{"extra_length": 9} | changed), BEGIN, end)


def same(found, expected, tolerance=2e-4):
    """The same tokens, and the same scores but for float32 sums in another order."""
    assert [[each.tokens for each in of_one] for of_one in found] == [
        [each.tokens for each in of_one] for of_one in expected
    ]
    for ours, theirs in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
        assert ours.score == pytest.approx(theirs.score, abs=tolerance)
        assert ours.is_ended == theirs.is_ended


@pytest.mark.parametrize("end", range(0, VOCABULARY, 3))
def test_a_beam_of_one_is_greedy(end):
    source, is_real, _ = sentences(LENGTHS)
    model = loud_model()
    found = search(end=end, beam=1).run(model, source, is_real)
    same(found, search(Greedy, end=end).run(model, source, is_real))


@pytest.mark.parametrize("length_form", ["power", "gnmt"])
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
def test_a_wide_beam_is_exhaustive_search(length_form, length_penalty):
    """So wide that nothing is ever dropped: all translations up to a length, scored one by one."""
    words, longest = 4, 3
    model = loud_model(decoder_layers=1, encoder_layers=1)
    source = torch.randint(3, VOCABULARY, (3, 5))
    is_real = torch.ones_like(source, dtype=torch.bool)

    class Few:
        """The same model, of which only a few words are listened to."""

        encode = staticmethod(model.encode)

        @staticmethod
        def decode(target, memory, cache):
            logits, cache = model.decode(target, memory, cache)
            return logits[..., : words + 1], cache

    width = (words + 1) ** longest
    asked = DecodingRecipe(
        beam=width, hypotheses=5, length_form=length_form, length_penalty=length_penalty
    )
    beam = Beam(asked, BEGIN, END)
    beam._limits = lambda is_real: [longest] * len(is_real)
    if length_penalty == 0:
        # It may stop early then; the best is the best all the same.
        beam.settings = asked.model_copy(update={"hypotheses": 1})
    found = beam.run(Few, source, is_real)
    for row, answers in enumerate(found):
        scored = []
        for length in range(longest + 1):
            for body in itertools.product([w for w in range(words + 1) if w != END], repeat=length):
                tokens = body if length == longest else (*body, END)
                score = _score(Few, source[row : row + 1], tokens)
                scored.append((beam.normalise(score, len(tokens)), body))
        best = sorted(scored, reverse=True)[: len(answers)]
        assert [each.tokens for each in answers] == [body for _, body in best]
        for each, (score, _) in zip(answers, best, strict=True):
            assert each.score == pytest.approx(score, abs=2e-4)


@torch.no_grad()
def _score(model, source, tokens):
    memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    logits, _ = model.decode(torch.tensor([[BEGIN, *tokens[:-1]]]), memory, None)
    chosen = logits[0].log_softmax(-1).gather(1, torch.tensor(tokens).unsqueeze(1))
    return float(chosen.sum())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), EVERY_PART)
def test_with_and_without_cache_for_every_part(kind, name):
    source, is_real, _ = sentences(LENGTHS)
    model = loud_model(**{kind: name})
    found = search(beam=3, hypotheses=3).run(model, source, is_real)
    same(found, search(beam=3, hypotheses=3).run(WholePrefix(model), source, is_real), 1e-3)


@pytest.mark.slow
def test_neighbours_do_not_matter():
    source, is_real, _ = sentences(LENGTHS)
    model = loud_model()
    found = search(hypotheses=3).run(model, source, is_real)
    for row, length in enumerate(LENGTHS):
        one = search(hypotheses=3).run(
            model, source[row : row + 1, :length], is_real[row : row + 1, :length]
        )
        same(one, found[row : row + 1])


def test_hypotheses_come_best_first_and_differ():
    source, is_real, _ = sentences(LENGTHS)
    for answers in search(hypotheses=5).run(loud_model(), source, is_real):
        assert len({each.tokens for each in answers}) == len(answers) == 5
        assert [each.score for each in answers] == sorted(
            (each.score for each in answers), reverse=True
        )


def test_patience_never_finds_worse():
    source, is_real, _ = sentences(LENGTHS)
    found = {
        patience: search(patience=patience, beam=3).run(loud_model(), source, is_real)
        for patience in (1.0, 4.0)
    }
    scores = [[answer[0].score for answer in found[each]] for each in (1.0, 4.0)]
    assert all(later >= sooner for sooner, later in zip(*scores, strict=True))


def test_the_limit_cuts_and_says_so():
    source, is_real, _ = sentences(LENGTHS)
    answers = search(extra_length=1).run(NeverEnding(loud_model(), END), source, is_real)
    for length, (best,) in zip(LENGTHS, answers, strict=True):
        assert not best.is_ended
        assert len(best.tokens) == length_limit(length - 1, search(extra_length=1).settings)


def test_it_can_be_watched():
    source, is_real, _ = sentences(LENGTHS)
    steps = list(search(beam=4).steps(loud_model(), source, is_real))
    assert {len(step.tokens) for step in steps[:1]} == {4 * len(LENGTHS)}
    for step in steps:
        for number in range(len(LENGTHS)):
            assert step.sentences.count(number) in (0, 4)
    assert not len(steps[-1].tokens), "at the end nothing goes on"


def test_how_length_is_made_up_for():
    power, gnmt = (search(length_form=form, length_penalty=0.6) for form in ("power", "gnmt"))
    assert power.normalise(-6.0, 5) == pytest.approx(-6 / 5**0.6)
    assert gnmt.normalise(-6.0, 5) == pytest.approx(-6 / ((5 + 5) / 6) ** 0.6)
    assert search(length_penalty=0.0).normalise(-6.0, 5) == -6.0


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 12), st.integers(0, 10**6), st.booleans())
def test_the_largest_are_found_in_blocks(size, count, seed, is_masked):
    chance = torch.Generator().manual_seed(seed)
    values = torch.randn(5, size, generator=chance)
    if is_masked:
        values[torch.rand(5, size, generator=chance) < 0.5] = -torch.inf
    count = min(count, size)
    best, places = top(values, count, block=8)
    assert torch.equal(best, values.topk(count, dim=1).values)
    assert torch.equal(values.gather(1, places), best)
    assert all(len(set(row)) == count for row in places.tolist())
