"""Is dropout by bytes PyTorch's dropout, only faster?"""

import pytest
import torch
from torch import nn

from dragoman.model.dropout import Dropout

LARGE = 1_000_000
SIGMAS = 5
"""How far a share may lie from its probability: chance alone does it once in a million."""


def is_near(share, probability):
    return abs(share - probability) <= SIGMAS * (probability * (1 - probability) / LARGE) ** 0.5


def kept(dropout, x):
    return (dropout(x) != 0).float()


@pytest.mark.parametrize("levels", [1, 26, 64, 128, 255])
def test_the_share_that_stays_and_its_scale_are_pytorchs(levels):
    """At probabilities of n/256 the two are the same distribution."""
    probability = levels / 256
    ones = torch.ones(LARGE)
    for dropout in (Dropout(probability), nn.Dropout(probability)):
        found = dropout(ones)
        assert is_near(float((found != 0).float().mean()), 1 - probability)
        # What is scaled by float32(1 / (1 − p)) is exact to its last bit.
        torch.testing.assert_close(
            found[found != 0].unique(), torch.tensor([1 / (1 - probability)]), rtol=1e-7, atol=0
        )


@pytest.mark.parametrize("probability", [0.1, 0.3])
def test_other_probabilities_are_rounded_and_the_mean_stays(probability):
    found = Dropout(probability)(torch.ones(LARGE))
    rounded = round(256 * probability) / 256
    assert abs(rounded - probability) <= 1 / 512
    assert is_near(float((found != 0).float().mean()), 1 - rounded)
    # It is scaled by what is really kept, so on average nothing is gained or lost.
    spread = (rounded / (1 - rounded) / LARGE) ** 0.5
    assert abs(float(found.double().mean()) - 1) <= SIGMAS * spread


def test_features_are_left_out_independently_of_their_neighbours():
    """Eight features come from one draw: any two of them must still be strangers."""
    is_kept = (Dropout(0.5)(torch.ones(LARGE // 8, 8)) != 0).float() - 0.5
    together = is_kept.T @ is_kept / len(is_kept)
    apart = together - torch.diag(torch.diag(together))
    # A product of two signs of ±½ deviates by ¼.
    assert float(apart.abs().max()) <= SIGMAS * 0.25 / len(is_kept) ** 0.5


def test_the_same_seed_gives_the_same_mask_and_the_next_draw_another():
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
def test_any_shape_stays_as_it_is(shape):
    assert Dropout(0.5)(torch.ones(shape)).shape == shape


def test_the_gradient_is_the_mask_times_the_scale():
    x = torch.randn(50, 30, requires_grad=True)
    ahead = torch.randn(50, 30)
    found = Dropout(0.25)(x)
    found.backward(ahead)
    mask = (found.detach() != 0).float()
    assert 0 < float(mask.mean()) < 1
    # 256/192 is the scale; one rounding each way.
    torch.testing.assert_close(found.detach(), x.detach() * mask / 0.75, rtol=1e-6, atol=0)
    torch.testing.assert_close(x.grad, ahead * mask / 0.75, rtol=1e-6, atol=0)


def test_autograd_agrees_with_finite_differences():
    def fixed(x):
        torch.manual_seed(1)
        return Dropout(0.5)(x)

    assert torch.autograd.gradcheck(fixed, torch.randn(3, 5, dtype=torch.float64).requires_grad_())


def test_evaluation_and_zero_are_the_identity():
    x = torch.randn(5, 6)
    assert Dropout(0.5).eval()(x).equal(x)
    assert Dropout(0.0).train()(x).equal(x)


def test_almost_everything_can_be_left_out():
    """A recipe allows any rate below one; the nearest of 256 levels may be all of them."""
    found = Dropout(0.999)(torch.ones(LARGE))
    assert found.isfinite().all()
    assert is_near(float((found != 0).float().mean()), 1 / 256)


def test_bfloat16_stays_bfloat16():
    x = torch.ones(100, dtype=torch.bfloat16)
    assert Dropout(0.5)(x).dtype == torch.bfloat16


def test_a_compiler_gets_pytorchs_own():
    """Its graph holds one dropout of PyTorch's and nothing of ours."""
    found = []

    def keep(graph, _):
        found.append(graph)
        return graph.forward

    torch._dynamo.reset()
    torch.compile(Dropout(0.5), backend=keep, fullgraph=True)(torch.ones(4, 4))
    (graph,) = found
    called = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    assert called == [nn.functional.dropout]
