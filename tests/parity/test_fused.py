"""Tests that the fused kernel equals the plain path, and when it is used.

The plain path is the definition; the kernel is only faster. `plain_attention` forces the plain
path, and a patched `_is_fused_kernel_faster` forces the kernel where it would be slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.model import attention as attention_module
from dragoman.model.attention import SelfAttention
from dragoman.model.mask import causal_mask, padding_mask
from dragoman.model.parts import AttentionKind, Position, Similarity
from dragoman.model.position.rotary import rotate_as_complex, rotate_pairs
from dragoman.model.resolve import ResolvedParts, resolve_parts
from dragoman.recipe import parts
from dragoman.recipe.schema import ModelRecipe
from support.contract import plain_attention

BATCH, HEADS, POSITIONS, SIZE = 3, 2, 7, 4
WIDTH = HEADS * SIZE
CPU = torch.device("cpu")


def chosen(kind: str, name: str, interface: type) -> Any:
    choice = parts.Choice(name=name)
    return parts.choose(f"model.{kind}", choice, kind, interface)


def is_dot_product(name: str) -> bool:
    similarity = chosen("similarity", name, Similarity)(SIZE)
    vectors = torch.ones(1, 1, 1, SIZE)
    return similarity.as_dot_product(vectors, vectors) is not None


DOT_PRODUCTS = [name for name in parts.names("model.similarity") if is_dot_product(name)]
SOFTMAXES = [
    name
    for name in parts.names("model.attention_kind")
    if chosen("attention_kind", name, AttentionKind).cls.is_softmax
]

# The largest difference between two computations of numbers of the order of one.
TOLERANCE = {
    # Seven digits; sums in another order lose one or two of them.
    torch.float32: 1e-5,
    # At least ten digits remain after a few sums of numbers near one.
    torch.float64: 1e-12,
    # Eight bits: two units in the last digit of a number below four.
    torch.bfloat16: 2**-5,
}


def resolve(**settings: Any) -> ResolvedParts:
    usual = {"width": WIDTH, "heads": HEADS, "position": "none"}
    return resolve_parts(ModelRecipe.model_validate(usual | settings))


def randomize(module: nn.Module) -> Any:
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def padding() -> Tensor:
    return padding_mask(torch.arange(POSITIONS) < torch.tensor([[POSITIONS], [3], [1]]))


MASKS: dict[str, tuple[int, int, Callable[[], Tensor]]] = {
    # The number of queries, the position of the first one, and the mask.
    "padding": (POSITIONS, 0, padding),
    "causal": (POSITIONS, 0, lambda: causal_mask(0, POSITIONS, CPU)),
    "both": (POSITIONS, 0, lambda: padding() & causal_mask(0, POSITIONS, CPU)),
    "cache step": (1, POSITIONS - 1, lambda: causal_mask(POSITIONS - 1, 1, CPU)),
    "cache, two at once": (2, POSITIONS - 2, lambda: causal_mask(POSITIONS - 2, 2, CPU)),
    "source, from a cache": (2, 4, padding),
}


@pytest.fixture
def fuse_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_module, "_is_fused_kernel_faster", lambda *_: True)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The queries of each call of the kernel."""
    kernel, counted = F.scaled_dot_product_attention, []

    def counting(queries: Tensor, *arguments: Any, **options: Any) -> Tensor:
        counted.append(queries)
        return kernel(queries, *arguments, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counting)
    return counted


def fused_and_plain(
    module: nn.Module, leaves: list[Tensor], run: Callable[[], Tensor]
) -> Iterator[tuple[Tensor, tuple[Tensor, ...]]]:
    """Output and gradients, first from the kernel and then from the definition."""
    direction = None
    for is_plain in (False, True):
        with plain_attention(is_plain):
            output = run()
        if direction is None:  # Small, so that sums over many positions stay of the order of one.
            direction = 0.25 * torch.randn_like(output)
        yield output, torch.autograd.grad(output, [*leaves, *module.parameters()], direction)


def test_the_lists_are_not_empty() -> None:
    assert {"dot", "scaled_dot", "cosine"} <= set(DOT_PRODUCTS)
    assert {"soft", "local"} <= set(SOFTMAXES)


@pytest.mark.usefixtures("fuse_always")
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("mask_name", MASKS)
@pytest.mark.parametrize("attention_kind", SOFTMAXES)
@pytest.mark.parametrize("similarity", DOT_PRODUCTS)
def test_fused_attention_equals_plain_attention(
    similarity: str, attention_kind: str, mask_name: str, dtype: torch.dtype, calls: list[Tensor]
) -> None:
    length, start, make_mask = MASKS[mask_name]
    options = {"window": 2} if attention_kind == "local" else {}
    attention = attention_module.Attention(
        resolve(similarity=similarity, attention_kind={"name": attention_kind, **options}),
        "encoder",
    )
    queries = torch.randn(BATCH, HEADS, length, SIZE, dtype=dtype, requires_grad=True)
    keys, values = (
        torch.randn(BATCH, HEADS, POSITIONS, SIZE, dtype=dtype, requires_grad=True)
        for _ in range(2)
    )

    (fused, fused_gradients), (plain, plain_gradients) = fused_and_plain(
        attention,
        [queries, keys, values],
        lambda: attention(queries, keys, values, make_mask(), Position(SIZE), start),
    )

    assert len(calls) == 1, "only one of the two runs uses the kernel"
    assert fused.dtype == plain.dtype == dtype
    tolerance = {"atol": TOLERANCE[dtype], "rtol": 0.0}
    torch.testing.assert_close(fused, plain, **tolerance)
    for ours, expected in zip(fused_gradients, plain_gradients, strict=True):
        torch.testing.assert_close(ours, expected, **tolerance)


@pytest.mark.parametrize("heads", parts.names("model.head_kind"))
@pytest.mark.parametrize("attention_kind", SOFTMAXES)
@pytest.mark.parametrize("similarity", DOT_PRODUCTS)
def test_fused_steps_with_a_cache_equal_plain_steps(
    similarity: str, attention_kind: str, heads: str, calls: list[Tensor]
) -> None:
    resolved = resolve(
        similarity=similarity, attention_kind=attention_kind, head_kind=heads, position="rotary"
    )
    module = randomize(SelfAttention(resolved, "encoder"))
    position = resolved.build_position(0)
    x = torch.randn(BATCH, POSITIONS, WIDTH, requires_grad=True)

    def run() -> Tensor:
        steps, past = [], None
        for start, stop in ((0, 4), (4, 5), (5, 7)):
            mask = causal_mask(start, stop - start, CPU)
            step, past = module(x[:, start:stop], mask, position, past)
            steps.append(step)
        return torch.cat(steps, dim=1)

    (fused, fused_gradients), (plain, plain_gradients) = fused_and_plain(module, [x], run)

    assert len(calls) == 3, "three steps of the kernel, none of the plain path"
    tolerance = {"atol": TOLERANCE[torch.float32], "rtol": 0.0}
    torch.testing.assert_close(fused, plain, **tolerance)
    for ours, expected in zip(fused_gradients, plain_gradients, strict=True):
        torch.testing.assert_close(ours, expected, **tolerance)


# When the kernel is used.


@pytest.fixture
def _precision_restored() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def run_once(
    precision: str = "highest",
    dtype: torch.dtype = torch.float32,
    is_plain: bool = False,
    is_training: bool = False,
    **settings: Any,
) -> None:
    torch.set_float32_matmul_precision(precision)
    resolved = resolve(**settings)
    module = randomize(SelfAttention(resolved, "encoder")).to(dtype).train(is_training)
    position = randomize(resolved.build_position(0)).to(dtype)
    with plain_attention(is_plain):
        module(torch.randn(BATCH, POSITIONS, WIDTH, dtype=dtype), padding(), position)


USED = {
    "paper": {},
    "dot": {"similarity": "dot"},
    "cosine": {"similarity": "cosine"},
    "local": {"attention_kind": "local"},
    "rotary": {"position": "rotary"},
    "training": {"is_training": True},
    "attention dropout, but not in training": {"attention_dropout": 0.5},
}

NOT_USED = {
    # Float32 matrix products then run in bfloat16 on some CPUs, and the kernel is very slow.
    "medium precision": {"precision": "medium"},
    "high precision": {"precision": "high"},
    "additive": {"similarity": "additive"},
    "concat": {"similarity": "concat"},
    "hard": {"attention_kind": "hard"},
    "shaw": {"position": "shaw"},
    "observed": {"is_plain": True},
    "attention dropout in training": {"attention_dropout": 0.5, "is_training": True},
    "bfloat16": {"dtype": torch.bfloat16},
    "float64": {"dtype": torch.float64},
}


@pytest.mark.usefixtures("_precision_restored")
@pytest.mark.parametrize("settings", USED.values(), ids=USED)
def test_the_kernel_is_used(settings: dict[str, Any], calls: list[Tensor]) -> None:
    run_once(**settings)
    assert len(calls) == 1


@pytest.mark.usefixtures("_precision_restored")
@pytest.mark.parametrize("settings", NOT_USED.values(), ids=NOT_USED)
def test_the_kernel_is_not_used(settings: dict[str, Any], calls: list[Tensor]) -> None:
    run_once(**settings)
    assert not calls


@pytest.mark.usefixtures("fuse_always")
@pytest.mark.parametrize("name", ["additive", "hard", "shaw", "observed"])
def test_parts_that_cannot_be_fused_never_use_the_kernel(name: str, calls: list[Tensor]) -> None:
    """On a GPU the kernel is always faster; then only the parts can exclude it."""
    run_once(**NOT_USED[name])
    assert not calls


def test_rotating_as_complex_numbers_equals_rotating_pairs() -> None:
    """Values and gradients, also for heads that are interleaved in memory."""
    generator = torch.Generator().manual_seed(11)
    angles = torch.rand(POSITIONS, SIZE // 2, generator=generator, dtype=torch.float64)
    results = []
    for rotate in (rotate_pairs, rotate_as_complex):
        generator.manual_seed(12)
        x = torch.randn(BATCH, POSITIONS, HEADS, SIZE, generator=generator, dtype=torch.float64)
        x.requires_grad_()
        rotated = rotate(x.transpose(1, 2), angles.sin(), angles.cos())
        weights = torch.randn(rotated.shape, generator=generator, dtype=torch.float64)
        (gradient,) = torch.autograd.grad((rotated * weights).sum(), x)
        results.append((rotated.detach(), gradient))
    for plain, fast in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, rtol=0, atol=TOLERANCE[torch.float64])
