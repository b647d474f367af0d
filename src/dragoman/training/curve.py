"""`curve.png`: training and validation loss above, validation BLEU below, by update.

A run with a general validation set has two lines of BLEU.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from matplotlib.figure import Figure

from dragoman.storage.files import atomic_write
from dragoman.training.journal import JournalEntry

_TRAINING, _VALIDATION, _BLEU, _GENERAL = "#9aa7b5", "#1f6f8b", "#b5432a", "#6b5b95"


def draw_curve(
    entries: Iterable[JournalEntry], path: Path, title: str, label_smoothing: float
) -> None:
    """Draw the entries of a journal as a PNG file."""
    entries = list(entries)
    progress = [entry for entry in entries if entry["kind"] == "progress"]
    validations = [entry for entry in entries if entry["kind"] == "validation"]
    skipped = [entry["step"] for entry in entries if entry["kind"] == "skipped"]
    figure = Figure(figsize=(8, 6), dpi=120, layout="constrained")
    loss_axes, bleu_axes = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    # Label smoothing raises the training loss, so that the two losses cannot be compared.
    smoothing = f"label smoothing {label_smoothing:g}" if label_smoothing else "not smoothed"
    training_label = f"training loss ({smoothing})"
    loss_axes.plot(*_series(progress, "loss"), color=_TRAINING, label=training_label)
    validation_label = "validation loss (not smoothed)"
    loss_axes.plot(
        *_series(validations, "loss"), "o-", color=_VALIDATION, ms=3, label=validation_label
    )
    loss_axes.set_ylabel("loss per token (nats)")
    loss_axes.legend(frameon=False, loc="upper right")
    general = [entry for entry in validations if "general_bleu" in entry]
    label = "in-domain" if general else None
    bleu_axes.plot(*_series(validations, "bleu"), "o-", color=_BLEU, ms=3, label=label)
    if general:
        series = _series(general, "general_bleu")
        bleu_axes.plot(*series, "s--", color=_GENERAL, ms=3, label="general")
        bleu_axes.legend(frameon=False, loc="lower right")
    bleu_axes.set_ylabel("validation BLEU (greedy)")
    scores = [entry["bleu"] for entry in validations]
    scores += [entry["general_bleu"] for entry in general]
    bleu_axes.set_ylim(0, max(1.1 * max(scores, default=0.0), 1.0))
    bleu_axes.set_xlim(left=0)
    bleu_axes.set_xlabel("updates")
    for best in [entry for entry in validations if entry["is_best"]][-1:]:
        point = (best["step"], best["bleu"])
        bleu_axes.annotate(
            f"best: {best['bleu']:.1f}", point, (-6, -14), textcoords="offset points", ha="right"
        )
        for axes in (loss_axes, bleu_axes):
            axes.axvline(best["step"], color="#cccccc", lw=0.8, zorder=0)
    for axes in (loss_axes, bleu_axes):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        for step in skipped:
            axes.axvline(step, color="#e0a030", lw=0.6, zorder=0)
    loss_axes.set_title(title, loc="left", fontsize=11)
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format="png")


def _series(entries: list[JournalEntry], name: str) -> tuple[list[int], list[float]]:
    return [entry["step"] for entry in entries], [entry[name] for entry in entries]
