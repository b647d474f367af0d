"""No positions: self-attention then ignores the order  ([NLU], [CS224N], [CS182]; claim C5).

q, k, v unchanged
"""

from __future__ import annotations

from dragoman.model.parts import Position


class NoPosition(Position):
    """All hooks are the identity."""
