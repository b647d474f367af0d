"""Terminal output of `dragoman explain`: a summary of the page.

It shows the translation, the probability of each token with its alternatives, and the source token
with the largest attention weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dragoman.cli.console import printable
from dragoman.explanation.explanation import Explanation
from dragoman.explanation.heads import Array

_BLOCKS = " ░▒▓█"
"""The color scale of the page in five steps."""
_THRESHOLDS = (0.05, 0.2, 0.4, 0.7)
"""Weights from which on the next block is used."""
_LABEL_WIDTH = 16
_ALTERNATIVES = 3


def show_explanation(explanation: Explanation, page: Path, figures: Sequence[Path] = ()) -> None:
    """Print a summary and the paths of the files."""
    # Tokens are not markup, whatever they contain.
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(Text(printable(explanation.sentence), overflow="fold"))
    console.print(Text(f"→ {printable(explanation.translation)}", style="bold", overflow="fold"))
    for note in explanation.notes:
        console.print(Text(f"! {note}"))
    console.print(_token_table(explanation))
    if explanation.alignment is not None:
        console.print(_attention_table(explanation, explanation.alignment, console.width))
        console.print(Text(_legend(), overflow="fold"))
    else:
        console.print(Text("The model has no cross-attention, so there is no alignment.\n"))
    console.print(Text(f"Wrote {page}", overflow="fold"))
    for folder in {path.parent for path in figures}:
        console.print(Text(f"Wrote {len(figures)} figures to {folder}", overflow="fold"))


def _token_table(explanation: Explanation) -> Table:
    table = _table("output", "probability", "alternatives")
    table.columns[1].justify = "right"
    for token in explanation.tokens:
        alternatives = [
            f"{_label(other)} {_percent(probability)}"
            for other, probability in token.alternatives[:_ALTERNATIVES]
        ]
        table.add_row(_label(token.token), _percent(token.probability), "   ".join(alternatives))
    return table


def _attention_table(explanation: Explanation, weights: Array, width: int) -> Table:
    """One line for each output token: a block for each source token, and the largest weight."""
    # The labels and the margins need two label widths and 16 columns.
    block_width = min((width - 2 * _LABEL_WIDTH - 16) // len(explanation.source_tokens), 2)
    table = _table("output", *(["source →"] if block_width else []), "largest weight")
    for token, row in zip(explanation.tokens, weights, strict=True):
        position = int(row.argmax())
        blocks = [_blocks(row.tolist(), block_width)] if block_width else []
        largest = f"{_label(explanation.source_tokens[position])} {_percent(float(row[position]))}"
        table.add_row(_label(token.token), *blocks, largest)
    return table


def _blocks(row: Sequence[float], width: int) -> str:
    return "".join(
        _BLOCKS[sum(weight >= threshold for threshold in _THRESHOLDS)] * width for weight in row
    )


def _legend() -> str:
    pairs = zip(_BLOCKS[1:], _THRESHOLDS, strict=True)
    steps = ", ".join(f"{block} {100 * threshold:.0f} %" for block, threshold in pairs)
    return f"Top cross-attention, mean of its heads: {steps} or more."


def _label(token: str) -> str:
    text = printable(token.replace("▁", "␣"))
    if cell_len(text) <= _LABEL_WIDTH:
        return text
    return f"{set_cell_size(text, _LABEL_WIDTH - 1).rstrip()}…"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _table(*titles: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        table.add_column(title, no_wrap=title != "alternatives", overflow="fold")
    return table
