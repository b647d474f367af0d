"""The equations of the lectures, computed one number at a time.

Every equation is written here a second time, from the lectures (and where they only ask for it,
from the paper that is named): in float64, in plain loops over sentence, head, query and key, with
nothing clever. It shares no code with the package, not even a helper, so that a mistake would have
to be made twice.

A vector is a list of numbers, a sequence is a list of vectors, and each number is a float64 tensor
without dimensions, so autograd gives the reference gradients too. `loose` takes a tensor apart
into such lists, `tight` puts one together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

Number: TypeAlias = Tensor
Vector: TypeAlias = list[Number]
Matrix: TypeAlias = list[Vector]
Heads: TypeAlias = list[list[list[Vector]]]
"""sentence, head, position → vector"""


def loose(tensor: Tensor) -> Any:
    """Take a tensor apart: lists of lists of numbers."""
    return [loose(row) for row in tensor.unbind()] if tensor.dim() else tensor


def tight(lists: Any) -> Tensor:
    """Put numbers together again."""
    return torch.stack([tight(row) for row in lists]) if isinstance(lists, list) else lists


# Small sums.


def inner(left: Vector, right: Vector) -> Number:
    """Σᵢ leftᵢ · rightᵢ"""
    total = torch.zeros((), dtype=torch.float64)
    for index in range(len(left)):
        total = total + left[index] * right[index]
    return total


def sum_of(left: Vector, right: Vector) -> Vector:
    """left + right"""
    return [left[index] + right[index] for index in range(len(left))]


def apply(matrix: Matrix, vector: Vector) -> Vector:
    """W x"""
    return [inner(row, vector) for row in matrix]


# Similarities: s(q, k).


def dot(query: Vector, key: Vector) -> Number:
    """qᵀ k"""
    return inner(query, key)


def scaled_dot(query: Vector, key: Vector) -> Number:
    """qᵀ k / √d, where d is the size of the query"""
    return inner(query, key) / math.sqrt(len(query))


def cosine(query: Vector, key: Vector, scale: float) -> Number:
    """scale · qᵀ k / (‖q‖ · ‖k‖); the lecture's scale is one"""
    lengths = torch.sqrt(inner(query, query)) * torch.sqrt(inner(key, key))
    return scale * inner(query, key) / lengths


def additive(
    query: Vector, key: Vector, for_query: Matrix, for_key: Matrix, score: Vector
) -> Number:
    """vᵀ tanh(W q + U k)"""
    hidden = sum_of(apply(for_query, query), apply(for_key, key))
    return inner(score, [torch.tanh(value) for value in hidden])


def concat(query: Vector, key: Vector, for_pair: Matrix, score: Vector) -> Number:
    """vᵀ tanh(W [q; k])"""
    return inner(score, [torch.tanh(value) for value in apply(for_pair, query + key)])


# Attention kinds: the weights of the keys of one query.


def soft(scores: Vector, visible: list[bool]) -> Vector:
    """aᵢ = exp(sᵢ) / Σⱼ exp(sⱼ) over the visible keys; zero for the others"""
    nothing = torch.zeros((), dtype=torch.float64)
    total = nothing
    for score, seen in zip(scores, visible, strict=True):
        if seen:
            total = total + torch.exp(score)
    return [
        torch.exp(score) / total if seen else nothing
        for score, seen in zip(scores, visible, strict=True)
    ]


def hard(scores: Vector, visible: list[bool]) -> Vector:
    """aᵢ = 1 for the first visible key with the largest score, else 0"""
    best = -1
    for index, seen in enumerate(visible):
        if seen and (best < 0 or scores[index] > scores[best]):
            best = index
    return [torch.tensor(float(index == best), dtype=torch.float64) for index in range(len(scores))]


def hard_straight_through(scores: Vector, visible: list[bool]) -> Vector:
    """The values of `hard` with the gradients of `soft`  (Bengio et al., 2013)"""
    return [
        choice + (weight - weight.detach())
        for choice, weight in zip(hard(scores, visible), soft(scores, visible), strict=True)
    ]


def in_window(place: int, visible: list[bool], real: int, window: int) -> list[bool]:
    """Visible and |i − c| ≤ window, where c = min(place, real keys − 1)"""
    centre = min(place, real - 1)
    return [
        visible[index] and centre - window <= index <= centre + window
        for index in range(len(visible))
    ]


# Heads: how a vector of the model becomes one of a head, and back. Each has its own matrix.


def chunk(x: Vector, head: int, heads: int) -> Vector:
    """The head's own part of the vector."""
    size = len(x) // heads
    return [x[head * size + index] for index in range(size)]


def bare(x: Vector, heads: int) -> list[Vector]:
    """xʰ: nothing is learned"""
    return [chunk(x, head, heads) for head in range(heads)]


def narrow(x: Vector, matrices: list[Matrix], biases: list[Vector]) -> list[Vector]:
    """Wʰ xʰ + bʰ, W of size k/h × k/h"""
    heads = len(matrices)
    return [
        sum_of(apply(matrices[head], chunk(x, head, heads)), biases[head]) for head in range(heads)
    ]


def standard(x: Vector, matrices: list[Matrix], biases: list[Vector]) -> list[Vector]:
    """Wʰ x + bʰ, W of size k/h × k"""
    assert len(matrices) * len(matrices[0]) == len(matrices[0][0]) == len(x)
    return [sum_of(apply(matrices[head], x), biases[head]) for head in range(len(matrices))]


def wide(x: Vector, matrices: list[Matrix], biases: list[Vector]) -> list[Vector]:
    """Wʰ x + bʰ, W of size k × k"""
    assert len(matrices[0]) == len(matrices[0][0]) == len(x)
    return [sum_of(apply(matrices[head], x), biases[head]) for head in range(len(matrices))]


def concatenation(heads: list[Vector]) -> Vector:
    """[y¹; …; yʰ]"""
    return [number for vector in heads for number in vector]


def joined(heads: list[Vector], matrix: Matrix, bias: Vector) -> Vector:
    """Wo [y¹; …; yʰ] + bo"""
    return sum_of(apply(matrix, concatenation(heads)), bias)


def over_sentences(split: Callable[[Vector], list[Vector]], x: list[list[Vector]]) -> Heads:
    """Split every vector of every sentence: (sentence, position) → (sentence, head, position)"""
    cut = [[split(vector) for vector in sentence] for sentence in x]
    return [
        [[places[place][head] for place in range(len(places))] for head in range(len(places[0]))]
        for places in cut
    ]


def over_positions(join: Callable[[list[Vector]], Vector], mixed: Heads) -> list[list[Vector]]:
    """Join the heads at every position: (sentence, head, position) → (sentence, position)"""
    return [
        [join([head[place] for head in sentence]) for place in range(len(sentence[0]))]
        for sentence in mixed
    ]


# Positions as vectors: p(t).


def naive(place: int, size: int, scale: float) -> Vector:
    """scale · (t, …, t)"""
    return [torch.tensor(scale * place, dtype=torch.float64) for _ in range(size)]


def sinusoidal(place: int, size: int, base: float, layout: str) -> Vector:
    """sin(t / base^(2i/d)) and cos(t / base^(2i/d)), in one of three orders"""
    sines, cosines = [], []
    for pair in range((size + 1) // 2):
        angle = place / base ** (2 * pair / size)
        sines.append(math.sin(angle))
        cosines.append(math.cos(angle))
    waves = []
    for index in range(size):
        if layout == "halves":
            waves.append((sines + cosines)[index])
        else:
            is_sine = (index % 2 == 0) == (layout == "interleaved")
            waves.append((sines if is_sine else cosines)[index // 2])
    return [torch.tensor(wave, dtype=torch.float64) for wave in waves]


def learned(place: int, table: Matrix) -> Vector:
    """The row of the position."""
    return table[place]


# How vectors enter the model.


def added(x: Vector, position: Vector) -> Vector:
    """x + p"""
    return sum_of(x, position)


def concatenated(x: Vector, position: Vector, word_features: int) -> Vector:
    """[x; p]; in a layer above the bottom, p replaces what was concatenated below"""
    return x[:word_features] + position


# Positions that act inside attention.


def rotary(x: Vector, place: int, base: float) -> Vector:
    """(x[2i], x[2i+1]) is rotated by the angle t / base^(2i/d)  (Su et al., 2021)"""
    turned = []
    for pair in range(len(x) // 2):
        angle = place / base ** (2 * pair / len(x))
        first, second = x[2 * pair], x[2 * pair + 1]
        turned.append(first * math.cos(angle) - second * math.sin(angle))
        turned.append(first * math.sin(angle) + second * math.cos(angle))
    return turned


def shaw(x: Vector, query_place: int, key_place: int, table: Matrix) -> Vector:
    """k + a of the distance, or v + b; beyond its end the table repeats  (Shaw et al., 2018)"""
    furthest = (len(table) - 1) // 2
    distance = max(-furthest, min(furthest, key_place - query_place))
    return sum_of(x, table[distance + furthest])


# Attention.

Shift: TypeAlias = Callable[[Vector, int, int], Vector]
"""A key or value, changed by the positions of the query and of the key."""


def unshifted(x: Vector, query_place: int, key_place: int) -> Vector:
    """No change."""
    return x


def compare(
    similarity: Callable[[Vector, Vector], Number],
    queries: Heads,
    keys: Heads,
    start: int = 0,
    shift: Shift = unshifted,
) -> Heads:
    """s(qₜ, kᵢ) for each sentence, head, query and key"""
    scores = []
    for sentence in range(len(queries)):
        scores.append([])
        for head in range(len(queries[sentence])):
            scores[-1].append([])
            for index, query in enumerate(queries[sentence][head]):
                scores[-1][-1].append(
                    [
                        similarity(query, shift(key, start + index, place))
                        for place, key in enumerate(keys[sentence][head])
                    ]
                )
    return scores


def weigh(
    attention_kind: Callable[[Vector, list[bool]], Vector],
    scores: Heads,
    visible: list[list[list[bool]]],
) -> Heads:
    """The weights of each query; `visible` is (sentence, query, key) → bool"""
    return [
        [
            [attention_kind(row, visible[sentence][index]) for index, row in enumerate(rows)]
            for rows in scores[sentence]
        ]
        for sentence in range(len(scores))
    ]


def mix(weights: Heads, values: Heads, start: int = 0, shift: Shift = unshifted) -> Heads:
    """Σᵢ wₜᵢ vᵢ for each sentence, head and query"""
    mixed = []
    for sentence in range(len(weights)):
        mixed.append([])
        for head in range(len(weights[sentence])):
            mixed[-1].append([])
            for index, row in enumerate(weights[sentence][head]):
                total = [torch.zeros((), dtype=torch.float64)] * len(values[sentence][head][0])
                for place, weight in enumerate(row):
                    value = shift(values[sentence][head][place], start + index, place)
                    total = sum_of(total, [weight * number for number in value])
                mixed[-1][-1].append(total)
    return mixed
