"""Chooses the cases of a sweep that run with `make check`; CI runs all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_quick(cases: Iterable[Any], count: int = 1) -> list[Any]:
    """Return the cases for `parametrize`, all but the first `count` marked slow.

    A case with several arguments is a tuple, as for `parametrize`.
    """
    marked = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        marked.append(case if number < count else pytest.param(*values, marks=pytest.mark.slow))
    return marked
