"""Print a plan as one table for each stage."""

from __future__ import annotations

from collections.abc import Iterator

import typer

from dragoman.planning.figures import BudgetAnswer, Figure, Plan, Stage

_NAME, _VALUE = 34, 20
_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_COUNTS = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
_TIMES = ((172_800.0, 86_400.0, "d"), (7200.0, 3600.0, "h"), (120.0, 60.0, "min"))


def show_plan(plan: Plan) -> None:
    """Print all tables, the answer about the budget, and the notes."""
    typer.echo("\n".join(_lines(plan)))


def _lines(plan: Plan) -> Iterator[str]:
    yield f"Plan for {plan.machine}. Prices: {plan.currency}, of {plan.prices_date}."
    for stage in plan.stages:
        yield ""
        yield from _table(stage, plan.currency)
    yield ""
    yield "measured: a short run here, multiplied up. computed: from recipe and corpus."
    yield "estimated: from assumptions (docs/plan.md), as energy and money always are."
    for note in plan.notes:
        yield from _wrapped(f"! {note}")
    if plan.budget is not None:
        yield from _wrapped(_budget(plan.budget, plan.currency))


def _table(stage: Stage, currency: str) -> Iterator[str]:
    yield f"{stage.name:<{_NAME}}{'':>{_VALUE}}  basis"
    yield "─" * (_NAME + _VALUE + 11)
    for figure in stage.figures:
        name = figure.name.replace("_", " ").replace("flops", "FLOPs").replace("cpu", "CPU")
        name = name.replace("gpu", "GPU")
        yield f"{name:<{_NAME}}{_text(figure, currency):>{_VALUE}}  {figure.basis}"


def _text(figure: Figure, currency: str) -> str:
    value = figure.value
    if figure.unit in ("", "tokens"):
        is_short = value == int(value) and value < 1e6
        return f"{value:,.0f}" if is_short else _scaled(value, _COUNTS, "")
    texts = {
        "bytes": _scaled(value, _BYTES, "B"),
        "flops": f"{value:.2g}",
        "seconds": _duration(value),
        "kilowatt_hours": f"{value:,.0f} kWh" if value >= 1000 else f"{value:.3g} kWh",
        "money": f"{value:,.2f} {currency}",
    }
    return texts[figure.unit]


def _scaled(value: float, units: tuple[tuple[float, str], ...], smallest: str) -> str:
    for size, unit in units:
        if value >= size:
            return f"{value / size:,.1f} {unit}"
    return (
        f"{value:,.3g} {smallest}".strip() if value < 1000 else f"{value:,.0f} {smallest}".strip()
    )


def _duration(seconds: float) -> str:
    for least, size, unit in _TIMES:
        if seconds >= least:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.3g} s"


def _budget(answer: BudgetAnswer, currency: str) -> str:
    fits = "fits" if answer.fits else "does not fit"
    return (
        f"The plan costs {answer.money:,.2f} {currency} and {fits} the budget of "
        f"{answer.budget:,.2f} {currency}, which pays for at most {answer.max_updates:,} updates."
    )


def _wrapped(text: str) -> Iterator[str]:
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > 80:
            yield line
            line = "  " + word
        else:
            line = f"{line} {word}" if line else word
    yield line
