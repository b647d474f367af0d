"""Is the fast loss the plain one, and the plain one the formula?"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812

from dragoman.model.build import build_from_recipe
from dragoman.training.loss import (
    MicroBatch,
    Objective,
    chunked_agreement,
    chunked_loss,
    plain_agreement,
    plain_loss,
)
from small_models import VOCABULARY, sentences, small_model, small_recipe

# Sums of some hundred float32 numbers in another order: a few units in the last of 24 bits.
TIGHT = {"rtol": 2e-5, "atol": 2e-5}
LOOSE = 0.01
"""Of the whole length: bfloat16 has 8 bits, and the two round gradients to it at other places."""


def problem(rows, words, features):
    return torch.randn(rows, features), torch.randn(words, features), torch.randint(words, (rows,))


def both_gradients(loss_function, states, weight, *rest):
    states, weight = states.clone().requires_grad_(), weight.clone().requires_grad_()
    loss = loss_function(states, weight, *rest)
    # Not 1: the factor from outside must arrive, too.
    (3 * loss).backward()
    return loss.detach(), states.grad, weight.grad


def by_loops(states, weight, expected, smoothing):
    """The formula at the head of the file, word for word, in float64."""
    total = 0.0
    for state, truth in zip(states.double(), expected.tolist(), strict=True):
        logits = [float(state @ word) for word in weight.double()]
        largest = max(logits)
        log_sum = largest + math.log(sum(math.exp(each - largest) for each in logits))
        surprise = [log_sum - each for each in logits]
        total += (1 - smoothing) * surprise[truth] + smoothing / len(logits) * sum(surprise)
    return total


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_the_plain_loss_is_the_formula(smoothing):
    states, weight, expected = problem(9, 13, 5)
    # Nine rows of float32: 24 bits, less a few for the sums.
    assert float(plain_loss(states, weight, expected, smoothing)) == pytest.approx(
        by_loops(states, weight, expected, smoothing), rel=1e-6
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("rows", [1, 15, 16, 17, 48, 50])
def test_in_chunks_it_is_the_plain_loss_with_both_gradients(rows, smoothing):
    states, weight, expected = problem(rows, 37, 8)
    plain = both_gradients(plain_loss, states, weight, expected, smoothing)
    chunked = both_gradients(chunked_loss, states, weight, expected, smoothing, 16)
    for found, truth in zip(chunked, plain, strict=True):
        torch.testing.assert_close(found, truth, **TIGHT)


@given(
    st.integers(0, 40), st.integers(1, 20), st.integers(1, 9), st.integers(1, 50), st.floats(0, 0.9)
)
@settings(max_examples=50)
def test_no_size_of_rows_words_features_or_chunks_makes_a_difference(
    rows, words, features, chunk, smoothing
):
    states, weight, expected = problem(rows, words, features)
    plain = both_gradients(plain_loss, states, weight, expected, smoothing)
    chunked = both_gradients(chunked_loss, states, weight, expected, smoothing, chunk)
    for found, truth in zip(chunked, plain, strict=True):
        torch.testing.assert_close(found, truth, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("rows", [16, 50])
def test_in_mixed_precision_it_is_the_plain_loss(rows, smoothing):
    states, weight, expected = problem(rows, 37, 8)
    with torch.autocast("cpu", torch.bfloat16):
        plain = both_gradients(plain_loss, states, weight, expected, smoothing)
        chunked = both_gradients(chunked_loss, states, weight, expected, smoothing, 16)
    for found, truth in zip(chunked, plain, strict=True):
        assert found.dtype == truth.dtype == torch.float32
        assert (found - truth).norm() <= LOOSE * truth.norm()


def test_in_mixed_precision_the_sum_itself_is_of_full_precision():
    """Only products are rounded: many chunks are added up as exactly as one."""
    states, weight, expected = problem(4000, 37, 8)
    with torch.autocast("cpu", torch.bfloat16):
        plain = plain_loss(states, weight, expected, 0.1)
        chunked = chunked_loss(states, weight, expected, 0.1, 16)
    # The part that smoothing takes out of the matrix is not rounded, the plain one's is: errors
    # of 1/512 a logit, that go both ways, on 4,000 rows. Sums in bfloat16 would be off by 1/256.
    assert float(chunked) == pytest.approx(float(plain), rel=2e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("scale", [1e2, 1e4, 1e6])
def test_a_very_improbable_truth_has_a_finite_loss_and_gradient(smoothing, scale):
    # Whole numbers, so that float32 has the same logits; near ties their last bit would decide.
    states, weight, expected = (each.round() for each in problem(20, 37, 8))
    states *= scale
    exact = both_gradients(
        lambda states, weight: plain_loss_64(states, weight, expected, smoothing),
        states.double(),
        weight.double(),
    )
    found = both_gradients(chunked_loss, states, weight, expected, smoothing, 16)
    for ours, truth in zip(found, exact, strict=True):
        assert ours.isfinite().all()
        # Probabilities are known to some units of 24 bits, and are multiplied by the states.
        torch.testing.assert_close(ours.double(), truth, rtol=1e-5, atol=1e-5 * scale)
    assert float(found[0]) > scale  # It is improbable indeed: p of a truth is below e^-100.


def plain_loss_64(states, weight, expected, smoothing):
    return F.cross_entropy(
        F.linear(states, weight), expected, reduction="sum", label_smoothing=smoothing
    )


def test_a_gradient_may_be_wanted_of_one_input_only():
    states, weight, expected = problem(20, 37, 8)
    _, to_states, to_weight = both_gradients(chunked_loss, states, weight, expected, 0.1, 16)
    for index, expected_gradient in enumerate((to_states, to_weight)):
        inputs = [states.clone(), weight.clone()]
        inputs[index].requires_grad_()
        (3 * chunked_loss(*inputs, expected, 0.1, 16)).backward()
        assert inputs[index].grad.equal(expected_gradient)
        assert inputs[1 - index].grad is None


def test_without_gradients_the_loss_is_the_same():
    states, weight, expected = problem(20, 37, 8)
    loss, *_ = both_gradients(chunked_loss, states, weight, expected, 0.1, 16)
    with torch.no_grad():
        assert chunked_loss(states.requires_grad_(), weight, expected, 0.1, 16).equal(loss)
    assert chunked_loss(states.detach(), weight, expected, 0.1, 16).equal(loss)


def micro_batch(lengths=(7, 4, 1)):
    source = sentences(lengths)
    target = sentences(lengths)
    expected = torch.randint(VOCABULARY, target.source.shape)
    return MicroBatch(source.source, source.is_real, target.source, expected, target.is_real)


def test_the_objective_is_the_loss_of_the_models_own_logits():
    model, batch = small_model(), micro_batch()
    logits = model(batch.source, batch.source_is_real, batch.target)[batch.target_is_real]
    truth = F.cross_entropy(
        logits, batch.expected[batch.target_is_real], reduction="sum", label_smoothing=0.1
    )
    torch.testing.assert_close(Objective(model, 0.1)(batch), truth, **TIGHT)


def gradients(objective, batch):
    objective.zero_grad()
    loss = objective(batch)
    loss.backward()
    return loss.detach(), [each.grad for each in objective.parameters()]


def test_what_stands_at_padded_places_changes_nothing():
    objective, batch = Objective(small_model(), 0.1), micro_batch()
    loss, truth = gradients(objective, batch)
    other = micro_batch()
    changed = MicroBatch(
        torch.where(batch.source_is_real, batch.source, other.source),
        batch.source_is_real,
        torch.where(batch.target_is_real, batch.target, other.target),
        torch.where(batch.target_is_real, batch.expected, other.expected),
        batch.target_is_real,
    )
    assert not changed.source.equal(batch.source)
    assert not changed.target.equal(batch.target)
    assert not changed.expected.equal(batch.expected)
    changed_loss, found = gradients(objective, changed)
    torch.testing.assert_close(changed_loss, loss, **TIGHT)
    torch.testing.assert_close(found, truth, **TIGHT)


def test_wider_padding_changes_nothing():
    objective, batch = Objective(small_model(), 0.1), micro_batch()
    wider = MicroBatch(*(F.pad(each, (0, 3)) for each in batch))
    loss, truth = gradients(objective, batch)
    wider_loss, found = gradients(objective, wider)
    torch.testing.assert_close(wider_loss, loss, **TIGHT)
    torch.testing.assert_close(found, truth, **TIGHT)


@pytest.mark.parametrize("weight", [0.5, 5.0])
def test_r_drop_without_dropout_is_the_plain_loss(weight):
    model, batch = small_model(), micro_batch()
    loss, truth = gradients(Objective(model, 0.1).train(), batch)
    twice_loss, found = gradients(Objective(model, 0.1, weight).train(), batch)
    torch.testing.assert_close(twice_loss, loss, **TIGHT)
    torch.testing.assert_close(found, truth, **TIGHT)


@pytest.mark.parametrize("weight", [0.5, 5.0])
def test_r_drop_is_its_formula_with_its_gradient(weight):
    """loss₁ + loss₂ + α/2 · (KL(p₁‖p₂) + KL(p₂‖p₁)), halved, of the same two dropouts."""
    model = build_from_recipe(small_recipe(dropout=0.3)).train()
    batch = micro_batch()
    torch.manual_seed(5)
    loss, found = gradients(Objective(model, 0.1, weight), batch)

    torch.manual_seed(5)
    twice = [torch.cat([each, each]) for each in batch]
    logits = model(*twice[:3])
    first, second = (half[batch.target_is_real] for half in logits.chunk(2))
    p, q = first.softmax(-1), second.softmax(-1)
    apart = (p * (p / q).log()).sum() + (q * (q / p).log()).sum()
    truths = batch.expected[batch.target_is_real]
    one, two = (
        F.cross_entropy(each, truths, reduction="sum", label_smoothing=0.1)
        for each in (first, second)
    )
    model.zero_grad()
    formula = (one + two + weight / 2 * apart) / 2
    formula.backward()
    assert apart.item() > 0.1, "the two dropouts must differ for this to prove anything"
    torch.testing.assert_close(loss, formula.detach(), **TIGHT)
    torch.testing.assert_close(found, [each.grad for each in model.parameters()], **TIGHT)


@pytest.mark.parametrize("chunk", [1, 7, 100])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("r_drop", [0.5, 5.0])
def test_agreement_by_chunks_is_the_plain_one(chunk, smoothing, r_drop):
    torch.manual_seed(3)
    count, width, words = 23, 8, 31
    states, matrix = torch.randn(2 * count, width), torch.randn(words, width)
    expected = torch.randint(words, (count,))
    found = []
    for ask in (
        lambda *given: plain_agreement(*given, expected, smoothing, r_drop),
        lambda *given: chunked_agreement(*given, expected, smoothing, r_drop, chunk),
    ):
        own = [each.clone().requires_grad_() for each in (states, matrix)]
        loss = ask(*own)
        loss.backward()
        found.append([loss.detach(), *(each.grad for each in own)])
    for plain, chunked in zip(*found, strict=True):
        torch.testing.assert_close(chunked, plain, rtol=2e-5, atol=2e-4)


def test_r_drop_is_for_training_only():
    model, batch = small_model(), micro_batch()
    assert Objective(model, 0.1, 5.0).eval()(batch).equal(Objective(model, 0.1).eval()(batch))


def test_to_a_search_the_objective_looks_like_its_model():
    model, batch = small_model(), micro_batch()
    objective = Objective(model, 0.1)
    ours, _ = objective.decode(batch.target, objective.encode(batch.source, batch.source_is_real))
    assert ours.equal(model(batch.source, batch.source_is_real, batch.target))
