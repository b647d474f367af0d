"""What does a person see of an explanation in a terminal?

The translation, how sure the model was of each token, and where it looked for it. The page says
more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dragoman.explanation.explanation import Explanation
from dragoman.explanation.heads import Numbers

_BLOCKS = " ░▒▓█"
"""From nothing to all; the colour of the page in five steps."""
_STEPS = (0.05, 0.2, 0.4, 0.7)
"""Weights from which on the next block is taken."""
_LABEL = 16
_INSTEAD = 3


def show_explanation(explanation: Explanation, page: Path, pictures: Sequence[Path] = ()) -> None:
    """Print a summary, and where the rest of it is."""
    # Tokens are no markup, whatever they hold.
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(Text(_printable(explanation.sentence), overflow="fold"))
    console.print(Text(f"→ {_printable(explanation.translation)}", style="bold", overflow="fold"))
    for note in explanation.notes:
        console.print(Text(f"! {note}"))
    console.print(_words(explanation))
    if explanation.alignment is not None:
        console.print(_looks(explanation, explanation.alignment, console.width))
        console.print(Text(_key(), overflow="fold"))
    else:
        console.print(Text("The model has no cross-attention, so it shows no alignment.\n"))
    console.print(Text(f"Wrote {page}", overflow="fold"))
    for folder in {each.parent for each in pictures}:
        console.print(Text(f"Drew {len(pictures)} pictures in {folder}", overflow="fold"))


def _words(explanation: Explanation) -> Table:
    table = _table("written", "probability", "instead")
    table.columns[1].justify = "right"
    for word in explanation.words:
        others = [
            f"{_label(token)} {_percent(chance)}" for token, chance in word.alternatives[:_INSTEAD]
        ]
        table.add_row(_label(word.token), _percent(word.probability), "   ".join(others))
    return table


def _looks(explanation: Explanation, weights: Numbers, width: int) -> Table:
    """A line for each token written: a block for each token read, and the largest in words."""
    # What the labels and the margins leave.
    broad = min((width - 2 * _LABEL - 16) // len(explanation.source), 2)
    table = _table("written", *(["read →"] if broad else []), "looks most at")
    for word, row in zip(explanation.words, weights, strict=True):
        place = int(row.argmax())
        blocks = [_blocks(row.tolist(), broad)] if broad else []
        most = f"{_label(explanation.source[place])} {_percent(float(row[place]))}"
        table.add_row(_label(word.token), *blocks, most)
    return table


def _blocks(row: Sequence[float], broad: int) -> str:
    return "".join(_BLOCKS[sum(weight >= step for step in _STEPS)] * broad for weight in row)


def _key() -> str:
    steps = zip(_BLOCKS[1:], _STEPS, strict=True)
    told = ", ".join(f"{block} {100 * step:.0f} %" for block, step in steps)
    return f"Top cross-attention, mean of its heads: {told} or more."


def _label(token: str) -> str:
    text = _printable(token.replace("▁", "␣"))
    return text if cell_len(text) <= _LABEL else f"{set_cell_size(text, _LABEL - 1).rstrip()}…"


def _printable(text: str) -> str:
    """A model may write anything; a terminal obeys some of it."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _table(*titles: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        table.add_column(title, no_wrap=title != "instead", overflow="fold")
    return table
