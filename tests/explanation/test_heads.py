"""Are heads measured and named by what they do?"""

import numpy as np
import pytest

from dragoman.explanation.heads import EVERYWHERE, MIXES, PICKS, judge

SIZE = 7
EVERY = np.ones((SIZE, SIZE), dtype=bool)
CAUSAL = np.tril(EVERY)


def looking(column, size=SIZE):
    """Each row looks at one column alone."""
    weights = np.zeros((size, size), dtype=np.float32)
    for row in range(size):
        weights[row, min(max(column(row), 0), size - 1)] = 1
    return weights


@pytest.mark.parametrize(
    ("kind", "mask", "column", "measure", "job"),
    [
        ("encoder", EVERY, lambda row: row, "diagonal", "looks at the token itself"),
        ("encoder", EVERY, lambda row: row - 1, "previous", "looks one token back"),
        ("encoder", EVERY, lambda row: row + 1, "next", "looks one token ahead"),
        ("encoder", EVERY, lambda _: 0, "first", "rests on the first token"),
        ("encoder", EVERY, lambda _: SIZE - 2, "last", "rests on the last word"),
        ("encoder", EVERY, lambda _: SIZE - 1, "end", "rests on the end"),
        ("decoder", CAUSAL, lambda row: row, "diagonal", "looks at the token just read"),
        ("decoder", CAUSAL, lambda row: row - 1, "previous", "looks one token back"),
        ("decoder", CAUSAL, lambda _: 0, "first", "rests on the beginning"),
        ("cross", EVERY, lambda row: row, "diagonal", "goes along the source in step"),
        ("cross", EVERY, lambda _: SIZE - 1, "end", "rests on the end"),
    ],
)
def test_a_head_that_does_one_thing_is_named_after_it(kind, mask, column, measure, job):
    head = judge(kind, looking(column), mask)
    assert head.job == job
    assert getattr(head, measure) == 1
    assert head.entropy == 0


def test_shares_are_means_over_rows_that_have_a_choice():
    weights = np.array([[1, 0, 0], [0.25, 0.75, 0], [0.5, 0.3, 0.2]])
    head = judge("decoder", weights, np.tril(np.ones((3, 3), dtype=bool)))
    assert head.diagonal == pytest.approx((0.75 + 0.2) / 2)
    assert head.previous == pytest.approx((0.25 + 0.3) / 2)
    assert head.first == pytest.approx((0.25 + 0.5) / 2)
    assert head.largest == pytest.approx((0.75 + 0.5) / 2)
    entropies = [-sum(w * np.log2(w) for w in row) for row in ([0.25, 0.75], [0.5, 0.3, 0.2])]
    assert head.entropy == pytest.approx(sum(entropies) / 2)
    evenness = [entropies[0] / np.log2(2), entropies[1] / np.log2(3)]
    assert head.evenness == pytest.approx(sum(evenness) / 2)
    assert (head.next, head.last, head.end) == (None, None, None)


def test_what_has_no_one_place():
    chance = np.random.default_rng(1)
    assert judge("cross", np.full((4, 9), 1 / 9), np.ones((4, 9), bool)).job == EVERYWHERE
    far = looking(lambda row: (3 * row + 2) % SIZE)
    assert judge("encoder", far, EVERY).job == PICKS
    mixed = chance.dirichlet(np.full(20, 0.5), size=20)
    assert judge("encoder", mixed, np.ones((20, 20), bool)).job == MIXES


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (1, 6)])
def test_the_smallest_maps_can_be_judged(kind, shape):
    head = judge(kind, np.full(shape, 1 / shape[1]), np.ones(shape, bool))
    assert 0 <= head.diagonal <= 1 + 1e-9
    assert head.job
