"""Heads are measured and described by what they do."""

import re

import numpy as np
import pytest

from dragoman.explanation.heads import (
    LIFT,
    NO_PATTERN,
    PARTIAL,
    PEAKED_TEXT,
    UNIFORM_TEXT,
    describe_head,
    describe_heads,
)

SIZE = 7
EVERY = np.ones((SIZE, SIZE), dtype=bool)
CAUSAL = np.tril(EVERY)


def attending_to(column, size=SIZE):
    """Each row attends to one column only."""
    weights = np.zeros((size, size), dtype=np.float32)
    for row in range(size):
        weights[row, min(max(column(row), 0), size - 1)] = 1
    return weights


@pytest.mark.parametrize(
    ("role", "mask", "column", "measure", "description"),
    [
        ("encoder", EVERY, lambda row: row, "diagonal", "token itself"),
        ("encoder", EVERY, lambda row: row - 1, "previous", "previous token"),
        ("encoder", EVERY, lambda row: row + 1, "next", "next token"),
        ("encoder", EVERY, lambda _: 0, "first", "first token"),
        ("encoder", EVERY, lambda _: SIZE - 2, "last", "last token before the end"),
        ("encoder", EVERY, lambda _: SIZE - 1, "end", "end token"),
        ("decoder", CAUSAL, lambda row: row, "diagonal", "current input token"),
        ("decoder", CAUSAL, lambda row: row - 1, "previous", "previous token"),
        ("decoder", CAUSAL, lambda _: 0, "first", "begin token"),
        ("cross", EVERY, lambda row: row, "diagonal", "source in order"),
        ("cross", EVERY, lambda row: row - 1, "previous", "source in order, one token back"),
        ("cross", EVERY, lambda row: row + 1, "next", "source in order, one token ahead"),
        ("cross", EVERY, lambda _: SIZE - 1, "end", "end token"),
    ],
)
def test_a_head_that_does_one_thing_is_described_by_it(role, mask, column, measure, description):
    head = describe_head(role, attending_to(column), mask)
    assert head.description == f"{description} (100%)"
    assert getattr(head, measure) == 1
    assert head.entropy == 0


def test_shares_are_means_over_rows_with_a_choice():
    weights = np.array([[1, 0, 0], [0.25, 0.75, 0], [0.5, 0.3, 0.2]])
    head = describe_head("decoder", weights, np.tril(np.ones((3, 3), dtype=bool)))
    assert head.diagonal == pytest.approx((0.75 + 0.2) / 2)
    assert head.previous == pytest.approx((0.25 + 0.3) / 2)
    assert head.first == pytest.approx((0.25 + 0.5) / 2)
    assert head.largest == pytest.approx((0.75 + 0.5) / 2)
    entropies = [-sum(w * np.log2(w) for w in row) for row in ([0.25, 0.75], [0.5, 0.3, 0.2])]
    assert head.entropy == pytest.approx(sum(entropies) / 2)
    evenness = [entropies[0] / np.log2(2), entropies[1] / np.log2(3)]
    assert head.evenness == pytest.approx(sum(evenness) / 2)
    assert (head.next, head.last, head.end) == (None, None, None)


def test_heads_without_a_dominant_place():
    rng = np.random.default_rng(1)
    even = describe_head("cross", np.full((4, 9), 1 / 9), np.ones((4, 9), bool))
    assert even.description == UNIFORM_TEXT
    far = attending_to(lambda row: (3 * row + 2) % SIZE)
    assert describe_head("encoder", far, EVERY).description == PEAKED_TEXT
    mixed = rng.dirichlet(np.full(20, 0.5), size=20)
    head = describe_head("encoder", mixed, np.ones((20, 20), bool))
    assert head.description == NO_PATTERN == "no clear pattern"


@pytest.mark.parametrize("role", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (1, 6)])
def test_the_smallest_maps_can_be_described(role, shape):
    head = describe_head(role, np.full(shape, 1 / shape[1]), np.ones(shape, bool))
    assert 0 <= head.diagonal <= 1 + 1e-9
    assert head.description


def mixed_head(share, column, size=20):
    """Each row has a share of its weight at one column; the rest is spread unevenly."""
    weights = np.random.default_rng(1).dirichlet(np.full(size, 0.5), size=size)
    weights *= 1 - share
    for row in range(size):
        weights[row, min(max(column(row), 0), size - 1)] += share
    return weights


def test_heads_with_different_partial_patterns_have_different_descriptions():
    everything = np.ones((20, 20), bool)
    descriptions = [
        describe_head("encoder", mixed_head(0.3, column), everything).description
        for column in (lambda row: row, lambda row: row - 1, lambda row: row + 1, lambda _: 19)
    ]
    assert [re.sub(r" \(\d+%\)", "", description) for description in descriptions] == [
        *("partly token itself", "partly previous token", "partly next token", "partly end token"),
    ]


def test_heads_with_the_same_pattern_differ_in_their_share():
    """All heads of a trained cross-attention may follow the source in order, more or less."""
    everything = np.ones((9, 9), bool)
    descriptions = [
        describe_head("cross", mixed_head(share, lambda row: row, size=9), everything).description
        for share in (0.4, 0.6, 0.8)
    ]
    assert len(set(descriptions)) == 3
    assert all("source in order" in description for description in descriptions)
    assert descriptions[0].startswith("partly ")


def test_heads_of_a_layer_with_the_same_pattern_are_described_by_their_difference():
    """Four heads without a clear pattern; two of them attend more to one place than the others."""
    rng = np.random.default_rng(4)
    plain = [rng.dirichlet(np.full(20, 0.5), size=20) for _ in range(4)]
    more_end, more_previous = plain[1], plain[2]
    more_end *= 0.8
    more_end[:, 19] += 0.2
    more_previous *= 0.8
    for row in range(1, 20):
        more_previous[row, row - 1] += 0.2
    heads = describe_heads("encoder", np.stack(plain), np.ones((20, 20), bool))
    assert all(head.description.startswith(NO_PATTERN) for head in heads)
    assert re.search(r"; end token \+\d+ points$", heads[1].description)
    assert re.search(r"; previous token \+\d+ points$", heads[2].description)
    assert len({head.description for head in heads}) == 4


def test_a_head_that_is_alone_with_its_pattern_needs_no_comparison():
    weights = np.stack([attending_to(lambda row: row), attending_to(lambda row: row - 1)])
    descriptions = [head.description for head in describe_heads("encoder", weights, EVERY)]
    assert descriptions[0] == describe_head("encoder", weights[0], EVERY).description
    assert not any(";" in description for description in descriptions)


def test_equal_heads_get_equal_descriptions():
    weights = np.stack([attending_to(lambda row: row)] * 3)
    alone = describe_head("decoder", weights[0], CAUSAL).description
    assert [head.description for head in describe_heads("decoder", weights, CAUSAL)] == [alone] * 3


def test_heads_that_differ_in_their_focus_only_are_described_by_it():
    """Hard to tell by places: one of three heads spreads its weight over fewer random columns."""
    rng = np.random.default_rng(2)
    spread = [rng.dirichlet(np.full(40, alpha), size=40) for alpha in (0.6, 0.6, 0.25)]
    heads = describe_heads("encoder", np.stack(spread), np.ones((40, 40), bool))
    assert heads[2].description == f"{NO_PATTERN}; more focused"


def test_in_cross_attention_the_line_connects_both_ends():
    weights = np.zeros((3, 7))
    for row, column in enumerate((0, 3, 6)):
        weights[row, column] = 1
    head = describe_head("cross", weights, np.ones((3, 7), bool))
    assert (head.diagonal, head.previous, head.next) == (1, 0, 0)


def test_a_share_that_uniform_attention_also_has_is_no_pattern():
    """With three source tokens, uniform attention has a third of its weight on the diagonal."""
    weights = np.array([[0.5, 0.45, 0.05], [0.1, 0.45, 0.45], [0.05, 0.5, 0.45]])
    head = describe_head("cross", weights, np.ones((3, 3), bool))
    assert PARTIAL <= head.diagonal < LIFT / 3
    assert head.description == NO_PATTERN
