"""The role of an attention module, for code that does not import PyTorch."""

from __future__ import annotations

from typing import Literal

Role = Literal["encoder", "decoder", "cross"]
"""encoder: source to source; decoder: target to target; cross: target to source."""
