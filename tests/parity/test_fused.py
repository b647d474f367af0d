"""Does the fused kernel give what the plain path gives, and is it taken where it should be?

The plain path is the definition; the kernel is only faster. `is_fusable = False` forces the plain
path, and a patched `_is_fusing_worth_it` forces the kernel where it would not pay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman import part
from dragoman.model import attention as attention_module
from dragoman.model.attention import SelfAttention
from dragoman.model.blueprint import Blueprint, draw_blueprint
from dragoman.model.mask import causal_mask, padding_mask
from dragoman.model.parts import Position, Reach, Similarity
from dragoman.model.position.rotary import turn_as_complex, turn_plainly
from dragoman.recipe import ModelRecipe

BATCH, HEADS, PLACES, SIZE = 3, 2, 7, 4
WIDTH = HEADS * SIZE
CPU = torch.device("cpu")


def chosen(kind: str, name: str, interface: type) -> Any:
    choice = part.Choice(name=name)
    return part.choose(f"model.{kind}", choice, kind, interface)


def is_dot_product(name: str) -> bool:
    similarity = chosen("similarity", name, Similarity)(SIZE)
    vectors = torch.ones(1, 1, 1, SIZE)
    return similarity.as_dot_product(vectors, vectors) is not None


DOT_PRODUCTS = [name for name in part.names("model.similarity") if is_dot_product(name)]
SOFTMAXES = [
    name for name in part.names("model.reach") if chosen("reach", name, Reach).cls.is_softmax
]

# How far two ways to the same number may lie apart, numbers being of the order of one.
TOLERANCE = {
    # Seven digits, of which sums in another order take one or two.
    torch.float32: 1e-5,
    # Some ten digits behind the point are left after a few sums of numbers near one.
    torch.float64: 1e-12,
    # Eight bits: two units in the last place of a number below four.
    torch.bfloat16: 2**-5,
}


def blueprint_of(**settings: Any) -> Blueprint:
    usual = {"width": WIDTH, "head_count": HEADS, "position": "none"}
    return draw_blueprint(ModelRecipe.model_validate(usual | settings))


def randomise(module: nn.Module) -> Any:
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def padding() -> Tensor:
    return padding_mask(torch.arange(PLACES) < torch.tensor([[PLACES], [3], [1]]))


MASKS: dict[str, tuple[int, int, Callable[[], Tensor]]] = {
    # The number of queries, the place of the first, and who sees whom.
    "padding": (PLACES, 0, padding),
    "causal": (PLACES, 0, lambda: causal_mask(0, PLACES, CPU)),
    "both": (PLACES, 0, lambda: padding() & causal_mask(0, PLACES, CPU)),
    "cache step": (1, PLACES - 1, lambda: causal_mask(PLACES - 1, 1, CPU)),
    "cache, two at once": (2, PLACES - 2, lambda: causal_mask(PLACES - 2, 2, CPU)),
    "source, from a cache": (2, 4, padding),
}


@pytest.fixture
def fuse_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_module, "_is_fusing_worth_it", lambda queries, has_dropout: True)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The queries of each call of the kernel."""
    kernel, counted = F.scaled_dot_product_attention, []

    def counting(queries: Tensor, *arguments: Any, **options: Any) -> Tensor:
        counted.append(queries)
        return kernel(queries, *arguments, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counting)
    return counted


def both_ways(
    module: nn.Module, attention: nn.Module, leaves: list[Tensor], run: Callable[[], Tensor]
) -> Iterator[tuple[Tensor, tuple[Tensor, ...]]]:
    """Output and gradients, first from the kernel and then from the definition."""
    direction = None
    for is_fusable in (True, False):
        attention.is_fusable = is_fusable
        output = run()
        if direction is None:  # Small, so that sums over many places stay of the order of one.
            direction = 0.25 * torch.randn_like(output)
        yield output, torch.autograd.grad(output, [*leaves, *module.parameters()], direction)


def test_the_lists_are_not_empty() -> None:
    assert {"dot", "scaled_dot", "cosine"} <= set(DOT_PRODUCTS)
    assert {"soft", "local"} <= set(SOFTMAXES)


@pytest.mark.usefixtures("fuse_always")
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("mask_name", MASKS)
@pytest.mark.parametrize("reach", SOFTMAXES)
@pytest.mark.parametrize("similarity", DOT_PRODUCTS)
def test_attention_is_the_same(
    similarity: str, reach: str, mask_name: str, dtype: torch.dtype, calls: list[Tensor]
) -> None:
    length, start, make_mask = MASKS[mask_name]
    options = {"window": 2} if reach == "local" else {}
    attention = attention_module.Attention(
        blueprint_of(similarity=similarity, reach={"name": reach, **options})
    )
    queries = torch.randn(BATCH, HEADS, length, SIZE, dtype=dtype, requires_grad=True)
    keys, values = (
        torch.randn(BATCH, HEADS, PLACES, SIZE, dtype=dtype, requires_grad=True) for _ in range(2)
    )

    (fused, fused_gradients), (plain, plain_gradients) = both_ways(
        attention,
        attention,
        [queries, keys, values],
        lambda: attention(queries, keys, values, make_mask(), Position(SIZE), start),
    )

    assert len(calls) == 1, "one way of the two is the kernel's"
    assert fused.dtype == plain.dtype == dtype
    tolerance = {"atol": TOLERANCE[dtype], "rtol": 0.0}
    torch.testing.assert_close(fused, plain, **tolerance)
    for ours, expected in zip(fused_gradients, plain_gradients, strict=True):
        torch.testing.assert_close(ours, expected, **tolerance)


@pytest.mark.parametrize("heads", part.names("model.heads"))
@pytest.mark.parametrize("reach", SOFTMAXES)
@pytest.mark.parametrize("similarity", DOT_PRODUCTS)
def test_steps_from_a_cache_are_the_same(
    similarity: str, reach: str, heads: str, calls: list[Tensor]
) -> None:
    blueprint = blueprint_of(similarity=similarity, reach=reach, heads=heads, position="rotary")
    module = randomise(SelfAttention(blueprint))
    position = blueprint.build_position(0)
    x = torch.randn(BATCH, PLACES, WIDTH, requires_grad=True)

    def run() -> Tensor:
        steps, seen = [], None
        for start, stop in ((0, 4), (4, 5), (5, 7)):
            mask = causal_mask(start, stop - start, CPU)
            step, seen = module(x[:, start:stop], mask, position, seen)
            steps.append(step)
        return torch.cat(steps, dim=1)

    (fused, fused_gradients), (plain, plain_gradients) = both_ways(
        module, module.attention, [x], run
    )

    assert len(calls) == 3, "three steps of the kernel, none of the plain path"
    tolerance = {"atol": TOLERANCE[torch.float32], "rtol": 0.0}
    torch.testing.assert_close(fused, plain, **tolerance)
    for ours, expected in zip(fused_gradients, plain_gradients, strict=True):
        torch.testing.assert_close(ours, expected, **tolerance)


# When is the kernel taken?


@pytest.fixture
def _precision_restored() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def run_once(
    precision: str = "highest",
    dtype: torch.dtype = torch.float32,
    is_fusable: bool = True,
    is_training: bool = False,
    **settings: Any,
) -> None:
    torch.set_float32_matmul_precision(precision)
    blueprint = blueprint_of(**settings)
    module = randomise(SelfAttention(blueprint)).to(dtype).train(is_training)
    module.attention.is_fusable = is_fusable
    position = randomise(blueprint.build_position(0)).to(dtype)
    module(torch.randn(BATCH, PLACES, WIDTH, dtype=dtype), padding(), position)


TAKEN = {
    "paper": {},
    "dot": {"similarity": "dot"},
    "cosine": {"similarity": "cosine"},
    "local": {"reach": "local"},
    "rotary": {"position": "rotary"},
    "training": {"is_training": True},
    "attention dropout, but not in training": {"attention_dropout": 0.5},
}

NOT_TAKEN = {
    # Float32 matmuls then run in bfloat16 where the CPU can, and the kernel collapses.
    "medium precision": {"precision": "medium"},
    "high precision": {"precision": "high"},
    "additive": {"similarity": "additive"},
    "concat": {"similarity": "concat"},
    "hard": {"reach": "hard"},
    "shaw": {"position": "shaw"},
    "someone wants the weights": {"is_fusable": False},
    "attention dropout in training": {"attention_dropout": 0.5, "is_training": True},
    "bfloat16": {"dtype": torch.bfloat16},
    "float64": {"dtype": torch.float64},
}


@pytest.mark.usefixtures("_precision_restored")
@pytest.mark.parametrize("settings", TAKEN.values(), ids=TAKEN)
def test_the_kernel_is_taken(settings: dict[str, Any], calls: list[Tensor]) -> None:
    run_once(**settings)
    assert len(calls) == 1


@pytest.mark.usefixtures("_precision_restored")
@pytest.mark.parametrize("settings", NOT_TAKEN.values(), ids=NOT_TAKEN)
def test_the_kernel_is_not_taken(settings: dict[str, Any], calls: list[Tensor]) -> None:
    run_once(**settings)
    assert not calls


@pytest.mark.usefixtures("fuse_always")
@pytest.mark.parametrize("name", ["additive", "hard", "shaw", "someone wants the weights"])
def test_what_cannot_be_fused_is_not_even_if_it_paid(name: str, calls: list[Tensor]) -> None:
    """On a GPU fusing always pays; the parts alone then keep the kernel away."""
    run_once(**NOT_TAKEN[name])
    assert not calls


def test_turning_as_complex_numbers_is_turning_plainly() -> None:
    """Values and gradients, also of heads that stand side by side in memory."""
    generator = torch.Generator().manual_seed(11)
    angles = torch.rand(PLACES, SIZE // 2, generator=generator, dtype=torch.float64)
    found = []
    for turn in (turn_plainly, turn_as_complex):
        generator.manual_seed(12)
        x = torch.randn(BATCH, PLACES, HEADS, SIZE, generator=generator, dtype=torch.float64)
        x.requires_grad_()
        turned = turn(x.transpose(1, 2), angles.sin(), angles.cos())
        weights = torch.randn(turned.shape, generator=generator, dtype=torch.float64)
        (gradient,) = torch.autograd.grad((turned * weights).sum(), x)
        found.append((turned.detach(), gradient))
    for plain, fast in zip(*found, strict=True):
        torch.testing.assert_close(fast, plain, rtol=0, atol=TOLERANCE[torch.float64])
