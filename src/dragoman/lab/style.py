"""The look of the lab's figures.

Colors that color-blind readers can tell apart (Okabe and Ito, 2008), in one order for all figures;
no frame, a faint grid, and titles that say what the panel shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from matplotlib.axes import Axes

from dragoman.lab.uncertainty import confidence_interval

BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
)
GRAY = "#8a8f98"
APART = "Lines at the same height are drawn a little apart."
"""The title of the legend where lines are moved up or down, so that none hides another."""
SIDE_BY_SIDE = "Points at the same place are drawn side by side."
"""The title of the legend where lines are moved to the left or right."""
COLORS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)


def label_axes(axes: Axes, title: str, x_label: str = "", y_label: str = "") -> None:
    """Set title and labels; remove the frame."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)


def percent_axis(axes: Axes) -> None:
    """Show the y axis, which holds shares, in percent."""
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


def plot_seeds(
    axes: Axes, x: float, values: Sequence[float], color: str, highest: float = inf
) -> None:
    """Plot every seed as a dot, and beside them the mean with its 95 % interval.

    The interval is drawn up to `highest`, the greatest value that is possible.
    """
    axes.plot([x] * len(values), values, "o", color=color, alpha=0.35, markersize=5)
    middle, low, high = confidence_interval(values)
    axes.errorbar(
        x + 0.15,
        middle,
        yerr=[[middle - low], [min(high, highest) - middle]],
        fmt="D",
        color=color,
        markersize=5,
        capsize=3,
    )
