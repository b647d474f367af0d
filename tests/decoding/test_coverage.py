"""Tests of the coverage penalty: the equation of GNMT, in beam search and in a slow version."""

import itertools
import math

import pytest
import torch

from dragoman.decoding.beam import Beam
from dragoman.decoding.coverage import WithCoverage, coverage_sum
from dragoman.decoding.ensemble import Ensemble
from dragoman.errors import RecipeError
from dragoman.model.record import record
from dragoman.recipe.files import load_recipe
from dragoman.recipe.schema import DecodingRecipe, Recipe
from support.decoding_models import padded_source, varied_model
from support.small_models import BASELINES, VOCABULARY

BEGIN, END = 1, 2
LENGTHS = (7, 4, 1)
LIMIT = 9
TOLERANCE = 1e-3
"""The search reads one token at a time, the slow version all at once: other float32 sums."""


def beam(limit=LIMIT, **options):
    """A search whose translations are short, because the slow version reads each one again."""
    search = Beam(DecodingRecipe(**options), BEGIN, END)
    search._limits = lambda is_real: [limit] * len(is_real)
    return search


@torch.no_grad()
def read_again(models, source, tokens):
    """Return log p of a complete translation, and the coverage sum, by loops over its attention."""
    target = torch.tensor([[BEGIN, *tokens[:-1]]])
    probabilities, heads_of_last_layer = [], []
    for model in models:
        with record(model) as records:
            logits = model(source, torch.ones_like(source, dtype=torch.bool), target)
        probabilities.append(logits[0].softmax(-1))
        heads_of_last_layer += [entry for entry in records if entry.role == "cross"][-1].weights[0]
    mean = sum(probabilities) / len(models)
    log_probability = sum(math.log(mean[place, token]) for place, token in enumerate(tokens))
    coverage = 0.0
    for position in range(source.shape[1]):
        attended = [
            sum(float(head[place, position]) for head in heads_of_last_layer)
            / len(heads_of_last_layer)
            for place in range(len(tokens))
        ]
        coverage += math.log(min(sum(attended), 1.0))
    return log_probability, coverage


def expected_score(search, models, source, hypothesis):
    tokens = [*hypothesis.tokens, END] if hypothesis.is_finished else list(hypothesis.tokens)
    log_probability, coverage = read_again(models, source, tokens)
    penalty = search.settings.coverage_penalty * coverage
    return search.normalize(log_probability, len(tokens)) + penalty


MODELS = {
    "transformer": {},
    "one layer, four heads": {"decoder_layers": 1, "heads": 4},
    "recurrent": BASELINES["recurrent with attention"],
    # The dot products of random weights are so large that weights would be zero in float32.
    "convolutional": {
        **BASELINES["convolutional"],
        "similarity": {"name": "cosine", "scale": 5},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("settings", MODELS.values(), ids=list(MODELS))
@pytest.mark.parametrize("normalization", ["power", "gnmt"])
def test_scores_are_those_of_the_equation(settings, normalization):
    model = varied_model(**settings)
    source, is_real = padded_source(LENGTHS)
    search = beam(
        num_hypotheses=5,
        coverage_penalty=0.7,
        length_penalty=0.6,
        length_normalization=normalization,
    )
    for row, nbest in enumerate(search.run(model, source, is_real)):
        for hypothesis in nbest:
            alone = source[row : row + 1, : LENGTHS[row]]
            expected = expected_score(search, [model], alone, hypothesis)
            assert hypothesis.score == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.slow
def test_an_ensemble_averages_the_attention_of_its_models():
    models = [varied_model(seed) for seed in (0, 1)]
    source, is_real = padded_source(LENGTHS)
    search = beam(num_hypotheses=3, coverage_penalty=0.7)
    for row, nbest in enumerate(search.run(Ensemble(models), source, is_real)):
        for hypothesis in nbest:
            alone = source[row : row + 1, : LENGTHS[row]]
            expected = expected_score(search, models, alone, hypothesis)
            assert hypothesis.score == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.slow
def test_a_wide_beam_finds_the_best_of_all_translations():
    """Every translation of up to two tokens, scored by the slow version."""
    longest, penalty = 2, 2.0
    model = varied_model(decoder_layers=1, encoder_layers=1)
    source = torch.randint(3, VOCABULARY, (1, 4))
    # The beam keeps every hypothesis, and the patience lets no number of complete ones stop it.
    search = beam(
        longest,
        beam_size=VOCABULARY**longest,
        patience=2.0,
        num_hypotheses=5,
        coverage_penalty=penalty,
    )
    (nbest,) = search.run(model, source, torch.ones_like(source, dtype=torch.bool))
    words = [word for word in range(VOCABULARY) if word != END]
    scored = []
    for length in range(longest + 1):
        for body in itertools.product(words, repeat=length):
            tokens = body if length == longest else (*body, END)
            log_probability, coverage = read_again([model], source, tokens)
            score = search.normalize(log_probability, len(tokens)) + penalty * coverage
            scored.append((score, body))
    best = sorted(scored, reverse=True)[: len(nbest)]
    assert [hypothesis.tokens for hypothesis in nbest] == [body for _, body in best]


def test_the_coverage_sum_of_a_small_example():
    coverage = torch.tensor([[0.5, 2.0, 0.25], [1.0, 1.0, 7.0]])
    torch.testing.assert_close(coverage_sum(coverage), torch.tensor([math.log(0.125), 0.0]))


def test_a_position_without_any_weight_has_a_finite_penalty():
    """Hard attention gives most positions a weight of exactly zero."""
    source, is_real = padded_source(LENGTHS)
    model = varied_model(attention_kind="hard", encoder_layers=1, decoder_layers=1)
    for nbest in beam(coverage_penalty=0.5, beam_size=2).run(model, source, is_real):
        assert math.isfinite(nbest[0].score)


@pytest.mark.slow
def test_more_penalty_never_chooses_less_coverage():
    """The beam itself does not depend on the penalty, so the same translations are compared."""
    model = varied_model(encoder_layers=1, decoder_layers=1)
    source, is_real = padded_source(LENGTHS)
    chosen = []
    for penalty in (0.01, 0.3, 10.0):
        answers = beam(coverage_penalty=penalty, beam_size=4).run(model, source, is_real)
        coverages = [
            read_again(
                [model],
                source[row : row + 1, : LENGTHS[row]],
                [*best.tokens, END] if best.is_finished else best.tokens,
            )[1]
            for row, (best,) in enumerate(answers)
        ]
        chosen.append(coverages)
    for less, more in itertools.pairwise(chosen):
        assert all(b >= a - TOLERANCE for a, b in zip(less, more, strict=True))
    assert chosen[0] != chosen[-1], "the penalty changes some translation"


@pytest.mark.slow
def test_other_sentences_of_the_batch_do_not_matter():
    model = varied_model()
    source, is_real = padded_source(LENGTHS)
    search = beam(coverage_penalty=0.5, num_hypotheses=3)
    answers = search.run(model, source, is_real)
    for row, length in enumerate(LENGTHS):
        one = slice(row, row + 1)
        (alone,) = search.run(model, source[one, :length], is_real[one, :length])
        for hypothesis, expected in zip(answers[row], alone, strict=True):
            assert hypothesis.tokens == expected.tokens
            assert hypothesis.score == pytest.approx(expected.score, abs=TOLERANCE)


def test_a_model_without_attention_is_refused():
    settings = ["model.architecture=recurrent", "model.recurrent.attention=false"]
    load_recipe("tiny", settings)
    with pytest.raises(RecipeError, match=r"decoding\.coverage_penalty"):
        load_recipe("tiny", [*settings, "decoding.coverage_penalty=0.2"])


def test_an_ensemble_with_a_model_without_attention_is_refused():
    models = [varied_model(), varied_model(**BASELINES["recurrent"])]
    with pytest.raises(RecipeError, match=r"decoding\.coverage_penalty"):
        WithCoverage(Ensemble(models), torch.ones(1, 3, dtype=torch.bool))


def test_it_is_off_by_default_and_needs_a_beam():
    assert Recipe().decoding.coverage_penalty == 0
    with pytest.raises(RecipeError, match=r"no effect with decoding\.search: greedy"):
        load_recipe("tiny", ["decoding.coverage_penalty=0.2", "decoding.search=greedy"])
