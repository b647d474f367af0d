"""What does a person see of a model's rooms, and of what they cost?"""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table

from dragoman.model.cost import Room


def show_cost(model: Room, length: int) -> None:
    """Print the tree of rooms; the model was measured on a sentence of this length."""
    Console(highlight=False).print(_table(model, length))


def _table(model: Room, length: int) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        caption=f"FLOPs are those of matrix products, forward, for a sentence of {length} tokens\n"
        f"on each side, divided by {length}. Training costs three times as much.",
        caption_justify="left",
    )
    table.add_column("room", no_wrap=True)
    for header in ("parameters", "FLOPs/token"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("class")
    for label, room in _branches(model, "", ""):
        costs = (_short(room.parameters), _short(room.flops / length))
        table.add_row(label, *costs, room.kind, style="bold" if room is model else None)
    return table


def _branches(room: Room, before: str, below: str) -> Iterator[tuple[str, Room]]:
    """Walk the tree; `before` is drawn in front of this room, `below` in front of those in it."""
    yield f"{before}{room.name}{', each' if room.count > 1 else ''}", room
    for index, inner in enumerate(room.rooms):
        is_last = index == len(room.rooms) - 1
        branch, trunk = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        yield from _branches(inner, below + branch, below + trunk)


def _short(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f}" if number else "·"
