"""Print the modules of a model and their costs as a tree."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table

from dragoman.model.cost import ModuleCost


def show_cost(model: ModuleCost, length: int) -> None:
    """Print the tree of modules; the costs were measured on a sentence of this length."""
    Console(highlight=False).print(_table(model, length))


def _table(model: ModuleCost, length: int) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        caption=f"FLOPs: matrix products of the forward pass, for a sentence of {length} tokens "
        f"on each side, divided by {length}. Training costs three times as much. The rows below a "
        "row add up to it, except for rounding. Equal modules share a row, which has the costs of "
        "all of them.",
        caption_justify="left",
    )
    table.add_column("module", no_wrap=True)
    for header in ("parameters", "FLOPs/token"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("class")
    for label, module in _branches(model, "", ""):
        costs = (_short(module.parameters), _short(module.flops / length))
        kind = f"{module.count} × {module.kind}" if module.count > 1 else module.kind
        table.add_row(label, *costs, kind, style="bold" if module is model else None)
    return table


def _branches(module: ModuleCost, prefix: str, indent: str) -> Iterator[tuple[str, ModuleCost]]:
    """Walk the tree; `prefix` is drawn before this module, `indent` before its children."""
    yield f"{prefix}{module.name}", module
    for index, child in enumerate(module.children):
        is_last = index == len(module.children) - 1
        branch, trunk = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        yield from _branches(child, indent + branch, indent + trunk)


def _short(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f}" if number else "·"
