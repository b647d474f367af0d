"""How does a finding look in a terminal?"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.padding import Padding

_STYLES = {"holds": "bold green", "holds in part": "bold yellow", "does not hold here": "bold red"}


def show_finding(told: dict[str, Any]) -> None:
    """Print the verdict, and why."""
    console = Console(highlight=False)
    console.print(f"[bold]{told['claim']}[/]  {told['says']}", soft_wrap=False)
    style = _STYLES[told["verdict"]]
    is_doubtful = told["size"] == "quick" and not told["is_certain"]
    doubt = "quick, so perhaps by chance; " if is_doubtful else ""
    words = f"[{style}]{told['verdict']}[/]. {told['because']} ({doubt}{told['seconds']:.0f} s)"
    console.print(Padding(words, (0, 0, 1, 4)))
