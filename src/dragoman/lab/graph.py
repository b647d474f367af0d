"""How many operations lie between a word and what is computed from it?

PyTorch keeps a graph of what it computed, to send gradients back. Its nodes are operations on whole
tensors, so places of one tensor are not told apart: the shortest way is the least that a word can
have gone, the longest the most.
"""

from __future__ import annotations

from collections import deque

from torch.autograd.graph import Node

from dragoman.shapes import Tensor


def shortest(computed: Tensor, word: Tensor) -> int:
    """Operations on the shortest way from a leaf of the graph."""
    assert computed.grad_fn is not None
    waiting, seen = deque([(computed.grad_fn, 0)]), {computed.grad_fn}
    while waiting:
        node, count = waiting.popleft()
        if getattr(node, "variable", None) is word:
            return count  # Where gradients gather is no operation.
        for before, _ in node.next_functions:
            if before is not None and before not in seen:
                seen.add(before)
                waiting.append((before, count + 1))
    raise AssertionError("what was computed does not depend on the word")


def longest(computed: Tensor) -> int:
    """Operations on the longest way from any leaf, found from the leaves on."""
    last = computed.grad_fn
    assert last is not None
    lengths: dict[Node, int] = {}
    waiting = [last]
    while waiting:
        node = waiting[-1]
        before = [each for each, _ in node.next_functions if each is not None]
        unknown = [each for each in before if each not in lengths]
        if unknown:
            waiting += unknown
            continue
        lengths[waiting.pop()] = 1 + max((lengths[each] for each in before), default=-1)
    return lengths[last]
