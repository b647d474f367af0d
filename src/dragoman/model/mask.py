"""Who may look at whom?

A mask is True where one may look. Hiding is −∞ before the softmax, so that what is left still
sums to one (seeds 001, 003, 004).
"""

from __future__ import annotations

import torch

from dragoman.shapes import Bool, Tensor


def padding_mask(is_real: Bool[Tensor, "B S"]) -> Bool[Tensor, "B 1 1 S"]:
    """Let every query see every real token, and no padding."""
    return is_real[:, None, None, :]


def causal_mask(start: int, length: int, device: torch.device) -> Bool[Tensor, "1 1 T S"]:
    """Let `length` queries, the first of them at `start`, see themselves and what came before.

    Seed 003 sums to t − 1: it counts targets, where we count the shifted inputs. The shift to
    the right makes them the same.
    """
    queries = torch.arange(start, start + length, device=device)
    keys = torch.arange(start + length, device=device)
    return (keys <= queries[:, None])[None, None]
