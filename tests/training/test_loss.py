"""The chunked loss equals the plain loss, and the plain loss equals its formula."""

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
    chunked_loss,
    chunked_r_drop_loss,
    plain_loss,
    plain_r_drop_loss,
)
from support.small_models import VOCABULARY, sentences, small_model, small_recipe

# Sums of some hundred float32 numbers in another order: a few units in the last of 24 bits.
TIGHT = {"rtol": 2e-5, "atol": 2e-5}
LOOSE = 0.01
"""Relative to the norm: bfloat16 has 8 bits, and the two round gradients at different points."""


def problem(rows, vocabulary, features):
    states, weight = torch.randn(rows, features), torch.randn(vocabulary, features)
    return states, weight, torch.randint(vocabulary, (rows,))


def loss_and_gradients(loss_function, states, weight, *rest):
    states, weight = states.clone().requires_grad_(), weight.clone().requires_grad_()
    loss = loss_function(states, weight, *rest)
    # A factor other than 1, which backward must apply too.
    (3 * loss).backward()
    return loss.detach(), states.grad, weight.grad


def by_loops(states, weight, expected, smoothing):
    """The formula in the module docstring of loss.py, literally, in float64."""
    total = 0.0
    for state, target in zip(states.double(), expected.tolist(), strict=True):
        logits = [float(state @ row) for row in weight.double()]
        largest = max(logits)
        log_sum = largest + math.log(sum(math.exp(logit - largest) for logit in logits))
        losses = [log_sum - logit for logit in logits]
        total += (1 - smoothing) * losses[target] + smoothing / len(logits) * sum(losses)
    return total


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_the_plain_loss_is_the_formula(smoothing):
    states, weight, expected = problem(9, 13, 5)
    # Nine rows of float32: 24 bits, minus a few for the sums.
    assert float(plain_loss(states, weight, expected, smoothing)) == pytest.approx(
        by_loops(states, weight, expected, smoothing), rel=1e-6
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("rows", [1, 15, 16, 17, 48, 50])
def test_the_chunked_loss_and_its_gradients_equal_the_plain_ones(rows, smoothing):
    states, weight, expected = problem(rows, 37, 8)
    plain = loss_and_gradients(plain_loss, states, weight, expected, smoothing)
    chunked = loss_and_gradients(chunked_loss, states, weight, expected, smoothing, 16)
    for ours, expected in zip(chunked, plain, strict=True):
        torch.testing.assert_close(ours, expected, **TIGHT)


@given(
    st.integers(0, 40), st.integers(1, 20), st.integers(1, 9), st.integers(1, 50), st.floats(0, 0.9)
)
@settings(max_examples=50)
def test_the_chunked_loss_is_right_for_all_sizes(rows, vocabulary, features, chunk, smoothing):
    states, weight, expected = problem(rows, vocabulary, features)
    plain = loss_and_gradients(plain_loss, states, weight, expected, smoothing)
    chunked = loss_and_gradients(chunked_loss, states, weight, expected, smoothing, chunk)
    for ours, expected in zip(chunked, plain, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("rows", [16, 50])
def test_in_mixed_precision_the_chunked_loss_is_near_the_plain_one(rows, smoothing):
    states, weight, expected = problem(rows, 37, 8)
    with torch.autocast("cpu", torch.bfloat16):
        plain = loss_and_gradients(plain_loss, states, weight, expected, smoothing)
        chunked = loss_and_gradients(chunked_loss, states, weight, expected, smoothing, 16)
    for ours, expected in zip(chunked, plain, strict=True):
        assert ours.dtype == expected.dtype == torch.float32
        assert (ours - expected).norm() <= LOOSE * expected.norm()


def test_in_mixed_precision_the_sum_has_full_precision():
    """Only products are rounded: many chunks are summed as exactly as one."""
    states, weight, expected = problem(4000, 37, 8)
    with torch.autocast("cpu", torch.bfloat16):
        plain = plain_loss(states, weight, expected, 0.1)
        chunked = chunked_loss(states, weight, expected, 0.1, 16)
    # The smoothing term of the chunked loss is not rounded, that of the plain loss is: errors of
    # 1/512 per logit with both signs, on 4,000 rows. Sums in bfloat16 would be off by 1/256.
    assert float(chunked) == pytest.approx(float(plain), rel=2e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("scale", [1e2, 1e4, 1e6])
def test_a_very_improbable_target_has_a_finite_loss_and_gradient(smoothing, scale):
    # Integers, so that float32 has exact logits; otherwise rounding would decide near ties.
    states, weight, expected = (tensor.round() for tensor in problem(20, 37, 8))
    states *= scale
    exact = loss_and_gradients(
        lambda states, weight: plain_loss_64(states, weight, expected, smoothing),
        states.double(),
        weight.double(),
    )
    chunked = loss_and_gradients(chunked_loss, states, weight, expected, smoothing, 16)
    for ours, truth in zip(chunked, exact, strict=True):
        assert ours.isfinite().all()
        # Probabilities have errors of some units of 24 bits, and are multiplied by the states.
        torch.testing.assert_close(ours.double(), truth, rtol=1e-5, atol=1e-5 * scale)
    assert float(chunked[0]) > scale  # The probability of a target is below e^-100.


def plain_loss_64(states, weight, expected, smoothing):
    return F.cross_entropy(
        F.linear(states, weight), expected, reduction="sum", label_smoothing=smoothing
    )


def test_one_input_alone_can_require_a_gradient():
    states, weight, expected = problem(20, 37, 8)
    _, states_gradient, weight_gradient = loss_and_gradients(
        chunked_loss, states, weight, expected, 0.1, 16
    )
    for index, expected_gradient in enumerate((states_gradient, weight_gradient)):
        inputs = [states.clone(), weight.clone()]
        inputs[index].requires_grad_()
        (3 * chunked_loss(*inputs, expected, 0.1, 16)).backward()
        assert inputs[index].grad.equal(expected_gradient)
        assert inputs[1 - index].grad is None


def test_without_gradients_the_loss_is_the_same():
    states, weight, expected = problem(20, 37, 8)
    loss, *_ = loss_and_gradients(chunked_loss, states, weight, expected, 0.1, 16)
    with torch.no_grad():
        assert chunked_loss(states.requires_grad_(), weight, expected, 0.1, 16).equal(loss)
    assert chunked_loss(states.detach(), weight, expected, 0.1, 16).equal(loss)


def test_validation_computes_no_gradients(monkeypatch):
    states, weight, expected = problem(6, 7, 4)
    product, calls = torch.mm, []

    def counted(*arguments, **options):
        calls.append(arguments)
        return product(*arguments, **options)

    monkeypatch.setattr(torch, "mm", counted)
    with torch.no_grad():
        chunked_loss(states, weight.requires_grad_(), expected, 0.1, 2)
    assert len(calls) == 3, "one product for each of three chunks"


def micro_batch(lengths=(7, 4, 1)):
    source = sentences(lengths)
    target = sentences(lengths)
    expected = torch.randint(VOCABULARY, target.source.shape)
    return MicroBatch(source.source, source.is_real, target.source, expected, target.is_real)


def test_the_objective_is_the_loss_of_the_logits_of_the_model():
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
    return loss.detach(), [parameter.grad for parameter in objective.parameters()]


def test_tokens_at_padded_positions_change_nothing():
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
    changed_loss, changed_gradients = gradients(objective, changed)
    torch.testing.assert_close(changed_loss, loss, **TIGHT)
    torch.testing.assert_close(changed_gradients, truth, **TIGHT)


def test_wider_padding_changes_nothing():
    objective, batch = Objective(small_model(), 0.1), micro_batch()
    wider = MicroBatch(*(F.pad(tensor, (0, 3)) for tensor in batch))
    loss, truth = gradients(objective, batch)
    wider_loss, wider_gradients = gradients(objective, wider)
    torch.testing.assert_close(wider_loss, loss, **TIGHT)
    torch.testing.assert_close(wider_gradients, truth, **TIGHT)


@pytest.mark.parametrize("weight", [0.5, 5.0])
def test_r_drop_without_dropout_is_the_plain_loss(weight):
    model, batch = small_model(), micro_batch()
    loss, truth = gradients(Objective(model, 0.1).train(), batch)
    r_drop_loss, r_drop_gradients = gradients(Objective(model, 0.1, weight).train(), batch)
    torch.testing.assert_close(r_drop_loss, loss, **TIGHT)
    torch.testing.assert_close(r_drop_gradients, truth, **TIGHT)


@pytest.mark.parametrize("weight", [0.5, 5.0])
def test_r_drop_and_its_gradient_equal_the_formula(weight):
    """(loss₁ + loss₂ + α/2 · (KL(p‖q) + KL(q‖p))) / 2, with the same dropout masks."""
    model = build_from_recipe(small_recipe(dropout=0.3)).train()
    batch = micro_batch()
    torch.manual_seed(5)
    loss, ours = gradients(Objective(model, 0.1, weight), batch)

    torch.manual_seed(5)
    twice = [torch.cat([tensor, tensor]) for tensor in batch]
    logits = model(*twice[:3])
    first, second = (half[batch.target_is_real] for half in logits.chunk(2))
    p, q = first.softmax(-1), second.softmax(-1)
    divergence = (p * (p / q).log()).sum() + (q * (q / p).log()).sum()
    targets = batch.expected[batch.target_is_real]
    one, two = (
        F.cross_entropy(half, targets, reduction="sum", label_smoothing=0.1)
        for half in (first, second)
    )
    model.zero_grad()
    formula = (one + two + weight / 2 * divergence) / 2
    formula.backward()
    assert divergence.item() > 0.1, "the two dropout masks must differ"
    torch.testing.assert_close(loss, formula.detach(), **TIGHT)
    expected = [parameter.grad for parameter in model.parameters()]
    torch.testing.assert_close(ours, expected, **TIGHT)


@pytest.mark.parametrize("chunk", [1, 7, 100])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("r_drop", [0.5, 5.0])
def test_the_chunked_r_drop_loss_equals_the_plain_one(chunk, smoothing, r_drop):
    torch.manual_seed(3)
    count, width, vocabulary = 23, 8, 31
    states, matrix = torch.randn(2 * count, width), torch.randn(vocabulary, width)
    expected = torch.randint(vocabulary, (count,))
    results = []
    for loss_function in (
        lambda *inputs: plain_r_drop_loss(*inputs, expected, smoothing, r_drop),
        lambda *inputs: chunked_r_drop_loss(*inputs, expected, smoothing, r_drop, chunk),
    ):
        inputs = [tensor.clone().requires_grad_() for tensor in (states, matrix)]
        loss = loss_function(*inputs)
        loss.backward()
        results.append([loss.detach(), *(tensor.grad for tensor in inputs)])
    for plain, chunked in zip(*results, strict=True):
        torch.testing.assert_close(chunked, plain, rtol=2e-5, atol=2e-4)


def test_r_drop_is_for_training_only():
    model, batch = small_model(), micro_batch()
    assert Objective(model, 0.1, 5.0).eval()(batch).equal(Objective(model, 0.1).eval()(batch))


def test_a_search_can_use_the_objective_like_the_model():
    model, batch = small_model(), micro_batch()
    objective = Objective(model, 0.1)
    ours, _ = objective.decode(batch.target, objective.encode(batch.source, batch.source_is_real))
    assert ours.equal(model(batch.source, batch.source_is_real, batch.target))
