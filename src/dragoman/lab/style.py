"""The look of the lab's figures.

Colors that color-blind readers can tell apart (Okabe and Ito, 2008), in one order for all figures;
no frame, a faint grid, and titles that say what the panel shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from statistics import mean

from matplotlib.axes import Axes

from dragoman.lab.uncertainty import Interval, confidence_interval

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


def plot_differences(axes: Axes, rows: Sequence[tuple[str, Interval, str]]) -> None:
    """Plot labeled differences with their 95 % intervals, one below the other, and a line at 0.

    A difference counts if its interval does not contain 0.
    """
    for place, (_, (middle, low, high), color) in enumerate(rows):
        axes.errorbar(
            middle,
            place,
            xerr=[[middle - low], [high - middle]],
            fmt="D",
            color=color,
            markersize=5,
            capsize=3,
        )
    axes.axvline(0, color="black", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(rows)), [label for label, _, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)


def plot_at_cost(
    axes: Axes, costs: Sequence[float], scores: Sequence[float], color: str, marker: str, label: str
) -> None:
    """Plot the score of every seed at its cost, and the mean larger."""
    axes.scatter(costs, scores, alpha=0.4, s=14, color=color, marker=marker)
    middle = ([mean(costs)], [mean(scores)])
    axes.scatter(*middle, label=label, s=45, color=color, marker=marker)
