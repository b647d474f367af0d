"""Attention masks.

A mask is True where a query may attend to a key. Hidden scores become −∞ before the softmax, so
that the visible weights still sum to one ([CS224N], [APPLY-DL], [CS182]).
"""

from __future__ import annotations

import torch

from dragoman.shapes import Bool, Tensor


def padding_mask(is_real: Bool[Tensor, "B S"]) -> Bool[Tensor, "B 1 1 S"]:
    """Let every query attend to every real token, and to no padding."""
    return is_real[:, None, None, :]


def causal_mask(start: int, length: int, device: torch.device) -> Bool[Tensor, "1 1 T S"]:
    """Let `length` queries, the first at `start`, attend to themselves and to what is before them.

    [APPLY-DL] sums to t − 1 because it counts targets. We count the inputs, which are the targets
    shifted to the right by one, so both are the same.
    """
    queries = torch.arange(start, start + length, device=device)
    keys = torch.arange(start + length, device=device)
    return (keys <= queries[:, None])[None, None]
