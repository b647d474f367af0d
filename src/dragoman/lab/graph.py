"""Path lengths in PyTorch's autograd graph: operations between a word and a result.

The nodes of the graph are operations on whole tensors, so the positions inside one tensor are not
separated. The shortest path is therefore a lower bound for the path of one word, and the longest
path an upper bound.
"""

from __future__ import annotations

from collections import deque

from torch.autograd.graph import Node

from dragoman.shapes import Tensor


def shortest_path(computed: Tensor, word: Tensor) -> int:
    """Operations on the shortest path from a leaf of the graph to a result."""
    assert computed.grad_fn is not None
    queue, visited = deque([(computed.grad_fn, 0)]), {computed.grad_fn}
    while queue:
        node, count = queue.popleft()
        if getattr(node, "variable", None) is word:
            return count  # The node that accumulates the gradient is not an operation.
        for previous, _ in node.next_functions:
            if previous is not None and previous not in visited:
                visited.add(previous)
                queue.append((previous, count + 1))
    raise AssertionError("the result does not depend on the word")


def longest_path(computed: Tensor) -> int:
    """Operations on the longest path from any leaf to a result, computed from the leaves up."""
    last = computed.grad_fn
    assert last is not None
    lengths: dict[Node, int] = {}
    stack = [last]
    while stack:
        node = stack[-1]
        inputs = [previous for previous, _ in node.next_functions if previous is not None]
        unknown = [previous for previous in inputs if previous not in lengths]
        if unknown:
            stack += unknown
            continue
        lengths[stack.pop()] = 1 + max((lengths[previous] for previous in inputs), default=-1)
    return lengths[last]
