"""What a plan consists of: figures with their unit, and how each of them was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

Basis = Literal["computed", "measured", "estimated"]
"""Computed: follows from the recipe, or from the prepared corpus, by arithmetic.
Measured: from a short run on this machine (`--measure`), multiplied up to the whole run.
Estimated: from assumptions, which `machines.yaml` and docs/plan.md list."""
StageName = Literal["preparation", "training", "translation"]
STAGES: tuple[StageName, ...] = ("preparation", "training", "translation")
Unit = Literal["", "bytes", "flops", "seconds", "kilowatt_hours", "money", "tokens"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process and its children used."""

    cpu_seconds: float
    peak_bytes: float
    written_bytes: float


class Figure(_Frozen):
    """One row of a table."""

    name: str
    """In snake case, for programs; spaces replace the underscores on a terminal."""
    value: float
    unit: Unit = ""
    basis: Basis = "estimated"


class Stage(_Frozen):
    """The figures of preparation, training or translation."""

    name: StageName
    figures: tuple[Figure, ...]

    def value(self, name: str) -> float:
        """Return one of the figures."""
        return next(figure.value for figure in self.figures if figure.name == name)


class BudgetAnswer(_Frozen):
    """Whether a plan fits a budget."""

    budget: float
    money: float
    """What all stages cost together."""
    fits: bool
    max_updates: int
    """The largest number of updates that the budget pays for, after the other stages."""


class Plan(_Frozen):
    """What a recipe will cost."""

    version: Literal[1] = 1
    machine: str
    """For example: 8 × A100-80GB."""
    currency: str
    prices_date: str
    stages: tuple[Stage, ...]
    notes: tuple[str, ...] = ()
    """Assumptions that the user can replace, and warnings."""
    budget: BudgetAnswer | None = None

    def stage(self, name: str) -> Stage:
        """Return one of the stages."""
        return next(stage for stage in self.stages if stage.name == name)
