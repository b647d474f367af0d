"""How do the figures of the lab look?

Colours that colour-blind people can tell apart (Okabe and Ito, 2008), in one order for all; no
frame, a faint grid, and titles that say what is to be seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
)
GREY = "#8a8f98"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)


def tidy(axes: Axes, title: str, across: str = "", up: str = "") -> None:
    """Give axes their title and labels, and take away what does not speak."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)


def dots(
    axes: Axes,
    across: float,
    values: Sequence[float],
    ends: tuple[float, float, float],
    colour: str,
) -> None:
    """Show every seed as a dot, and beside them the mean with its interval."""
    axes.plot([across] * len(values), values, "o", color=colour, alpha=0.35, markersize=5)
    middle, low, high = ends
    axes.errorbar(
        across + 0.15,
        middle,
        yerr=[[middle - low], [high - middle]],
        fmt="D",
        color=colour,
        markersize=5,
        capsize=3,
    )
