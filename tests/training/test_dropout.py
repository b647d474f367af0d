"""Our dropout has the distribution of PyTorch's dropout."""

import pytest
import torch
from torch import nn

from dragoman.model.dropout import Dropout

LARGE = 1_000_000
SIGMAS = 5
"""Allowed distance of a share from its probability; exceeded by chance once in a million."""


def is_near(share, probability):
    return abs(share - probability) <= SIGMAS * (probability * (1 - probability) / LARGE) ** 0.5


def kept(dropout, x):
    return (dropout(x) != 0).float()


@pytest.mark.parametrize("levels", [1, 26, 64, 128, 255])
def test_share_and_scale_are_those_of_pytorch(levels):
    """At probabilities of n/256 both have the same distribution."""
    probability = levels / 256
    ones = torch.ones(LARGE)
    for dropout in (Dropout(probability), nn.Dropout(probability)):
        output = dropout(ones)
        assert is_near(float((output != 0).float().mean()), 1 - probability)
        # Scaling by float32(1 / (1 − p)) is exact to the last bit.
        torch.testing.assert_close(
            output[output != 0].unique(), torch.tensor([1 / (1 - probability)]), rtol=1e-7, atol=0
        )


@pytest.mark.parametrize("probability", [0.1, 0.3])
def test_other_probabilities_are_rounded_and_the_mean_is_kept(probability):
    output = Dropout(probability)(torch.ones(LARGE))
    rounded = round(256 * probability) / 256
    assert abs(rounded - probability) <= 1 / 512
    assert is_near(float((output != 0).float().mean()), 1 - rounded)
    # The scale uses the rounded probability, so the mean does not change.
    spread = (rounded / (1 - rounded) / LARGE) ** 0.5
    assert abs(float(output.double().mean()) - 1) <= SIGMAS * spread


def test_features_are_dropped_independently():
    """Eight features use one random number; any two of them must be independent."""
    is_kept = (Dropout(0.5)(torch.ones(LARGE // 8, 8)) != 0).float() - 0.5
    covariance = is_kept.T @ is_kept / len(is_kept)
    off_diagonal = covariance - torch.diag(torch.diag(covariance))
    # A product of two values of ±½ has standard deviation ¼.
    assert float(off_diagonal.abs().max()) <= SIGMAS * 0.25 / len(is_kept) ** 0.5


def test_the_same_seed_gives_the_same_mask_and_the_next_call_another():
    dropout, x = Dropout(0.5), torch.ones(7, 33)
    torch.manual_seed(3)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(3)
    assert dropout(x).equal(first)
    assert not second.equal(first)


def test_the_mask_does_not_depend_on_the_layout_in_memory():
    dropout, x = Dropout(0.5), torch.ones(6, 10)
    torch.manual_seed(3)
    first = dropout(x)
    torch.manual_seed(3)
    assert dropout(x.T.contiguous().T).equal(first)


@pytest.mark.parametrize("shape", [(1,), (7,), (8,), (9,), (3, 5), (2, 3, 4), (0, 4), ()])
def test_the_shape_does_not_change(shape):
    assert Dropout(0.5)(torch.ones(shape)).shape == shape


def test_the_gradient_is_the_mask_times_the_scale():
    x = torch.randn(50, 30, requires_grad=True)
    output_gradient = torch.randn(50, 30)
    output = Dropout(0.25)(x)
    output.backward(output_gradient)
    mask = (output.detach() != 0).float()
    assert 0 < float(mask.mean()) < 1
    # The scale is 256/192; one rounding in each direction.
    torch.testing.assert_close(output.detach(), x.detach() * mask / 0.75, rtol=1e-6, atol=0)
    torch.testing.assert_close(x.grad, output_gradient * mask / 0.75, rtol=1e-6, atol=0)


def test_autograd_agrees_with_finite_differences():
    def fixed(x):
        torch.manual_seed(1)
        return Dropout(0.5)(x)

    assert torch.autograd.gradcheck(fixed, torch.randn(3, 5, dtype=torch.float64).requires_grad_())


def test_dropout_is_the_identity_in_evaluation_and_at_rate_0():
    x = torch.randn(5, 6)
    assert Dropout(0.5).eval()(x).equal(x)
    assert Dropout(0.0).train()(x).equal(x)


def test_a_rate_near_1_is_finite():
    """A recipe allows any rate below 1; rounded to 256 levels it could be 1."""
    output = Dropout(0.999)(torch.ones(LARGE))
    assert output.isfinite().all()
    assert is_near(float((output != 0).float().mean()), 1 / 256)


def test_bfloat16_stays_bfloat16():
    x = torch.ones(100, dtype=torch.bfloat16)
    assert Dropout(0.5)(x).dtype == torch.bfloat16


@pytest.mark.slow
def test_a_compiled_model_uses_the_dropout_of_pytorch():
    """The graph has one call of PyTorch's dropout and nothing of ours."""
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    torch.compile(Dropout(0.5), backend=keep, fullgraph=True)(torch.ones(4, 4))
    (graph,) = graphs
    called = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    assert called == [nn.functional.dropout]
