"""How did learning go, at one look?

A picture of the journal: the loss while learning and on the development text above, BLEU below.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from dragoman.durable import new_file

_TRAINING, _DEVELOPMENT, _BLEU = "#9aa7b5", "#1f6f8b", "#b5432a"


def draw_curve(lines: Iterable[dict[str, Any]], path: Path, title: str) -> None:
    """Draw the journal's lines into a PNG."""
    lines = list(lines)
    learned = [line for line in lines if line["kind"] == "learned"]
    validated = [line for line in lines if line["kind"] == "validated"]
    skipped = [line["step"] for line in lines if line["kind"] == "skipped"]
    figure = Figure(figsize=(8, 6), dpi=120, layout="constrained")
    losses, scores = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    losses.plot(*_curve(learned, "loss"), color=_TRAINING, label="training, smoothed truth")
    losses.plot(*_curve(validated, "loss"), "o-", color=_DEVELOPMENT, ms=3, label="development")
    losses.set_ylabel("loss of a token (nats)")
    losses.legend(frameon=False, loc="upper right")
    scores.plot(*_curve(validated, "bleu"), "o-", color=_BLEU, ms=3)
    scores.set_ylabel("BLEU, greedy")
    best_score = max((line["bleu"] for line in validated), default=0.0)
    scores.set_ylim(0, max(1.1 * best_score, 1.0))
    scores.set_xlim(left=0)
    scores.set_xlabel("updates")
    best = [line for line in validated if line["is_best"]][-1:]
    for line in best:
        where = (line["step"], line["bleu"])
        scores.annotate(
            f"best: {line['bleu']:.1f}", where, (-6, -14), textcoords="offset points", ha="right"
        )
        for axes in (losses, scores):
            axes.axvline(line["step"], color="#cccccc", lw=0.8, zorder=0)
    for axes in (losses, scores):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        for step in skipped:
            axes.axvline(step, color="#e0a030", lw=0.6, zorder=0)
    losses.set_title(title, loc="left", fontsize=11)
    with new_file(path) as temporary:
        figure.savefig(temporary, format="png")


def _curve(lines: list[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    return [line["step"] for line in lines], [line[name] for line in lines]
