"""None: no place is told; self-attention is then blind to order  (seeds 000, 001, 004; C5)."""

from __future__ import annotations

from dragoman.model.parts import Position


class NoPosition(Position):
    """All doors stay shut."""
