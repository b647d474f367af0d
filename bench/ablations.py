"""Change one setting of a small Transformer at a time, and write docs/ablations.md.

    python bench/ablations.py run [--seeds 1 2 3] [--only "one head"]
    python bench/ablations.py write

`run` trains and scores every row that docs/ablations/figures.json does not have yet, and saves each
seed at once, so it can be stopped and continued. The text is Multi30k, English to German, tokenized
as in papers (found through DRAGOMAN_DATA); runs are kept in `lab-runs` or DRAGOMAN_LAB. `write`
writes the table between the marks of docs/ablations.md and draws the figure.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from matplotlib import rc_context
from matplotlib.figure import Figure

from dragoman.evaluation.metrics import TOKENIZED_BLEU, measure
from dragoman.inference.translator import Translator
from dragoman.lab.baselines import CONVOLUTIONAL, RECURRENT, TRANSFORMER, Budget
from dragoman.lab.translation_runs import ParallelText, multi30k, train_run
from dragoman.lab.uncertainty import confidence_interval, difference_interval
from dragoman.storage.files import write_text

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "ablations.md"
FIGURES = ROOT / "docs" / "ablations" / "figures.json"
PICTURE = ROOT / "docs" / "ablations" / "ablations.svg"
BEGIN, END = "<!-- table -->\n", "<!-- end -->\n"
BUDGET = Budget(updates=1_000, tokens=2_048, vocabulary=4_000, dropout=0.1)
BASE = "base"
SEEDS = (1, 2, 3)
"""An ensemble has the models of a seed and of the seeds after it; the first follows the last."""


@dataclass(frozen=True, slots=True)
class Row:
    """One change: settings of the training, of the search, or how many models are averaged."""

    name: str
    changes: Mapping[str, str] = field(default_factory=dict)
    """Settings of the recipe that differ from the base."""
    model: str = TRANSFORMER
    beam_size: int = 5
    length_penalty: float | None = None
    """None: the best of the validation text."""
    ensemble: int = 1
    """How many base models of consecutive seeds translate together."""


ROWS = (
    Row(BASE),
    Row("label smoothing 0", {"training.label_smoothing": "0"}),
    Row("label smoothing 0.2", {"training.label_smoothing": "0.2"}),
    Row("inverse square root", {"training.schedule": "inverse_sqrt"}),
    Row("warm-up 1 %", {"training.warmup_steps": "10"}),
    Row("warm-up 30 %", {"training.warmup_steps": "300"}),
    Row("Muon", {"training.optimizer": "muon", "training.learning_rate": "0.004"}),
    Row("one head", {"model.heads": "1"}),
    Row("two heads", {"model.heads": "2"}),
    Row("eight heads", {"model.heads": "8"}),
    Row("output matrix tied", {"model.tied_embeddings": "output"}),
    Row("nothing tied", {"model.tied_embeddings": "none"}),
    Row("no averaging", {"training.ema_decay": "0"}),
    Row("post-norm", {"model.norm": "post"}),
    Row("learned positions", {"model.position": "learned"}),
    Row("rotary positions", {"model.position": "rotary"}),
    Row("LSTM with attention", model=RECURRENT),
    Row("CNN with attention", model=CONVOLUTIONAL),
    Row("beam size 1", beam_size=1),
    Row("beam size 10", beam_size=10),
    Row("length penalty 0", length_penalty=0.0),
    Row("length penalty 2", length_penalty=2.0),
    Row("ensemble of two", ensemble=2),
    Row("ensemble of three", ensemble=3),
)


def settings_of(row: Row) -> tuple[str, ...]:
    """Return the recipe settings of a row: those of the base, with the changes."""
    base = dict(setting.split("=", 1) for setting in BUDGET.settings(row.model))
    return tuple(f"{name}={value}" for name, value in (base | dict(row.changes)).items())


def score(text: ParallelText, row: Row, seed: int) -> dict[str, float]:
    """Train what is not trained yet, translate the test text, and score it."""
    first = SEEDS.index(seed)
    members = [SEEDS[(first + offset) % len(SEEDS)] for offset in range(row.ensemble)]
    trained = [train_run(text, settings_of(row), member) for member in members]
    result = trained[0].result
    penalty = result.length_penalty if row.length_penalty is None else row.length_penalty
    sources, references = zip(*text.test, strict=True)
    with Translator.load([one.folder for one in trained]) as translator:
        translations = translator.translate(
            list(sources), beam_size=row.beam_size, length_penalty=penalty
        )
    scores = {
        one.name: one.value
        for one in measure(
            [translation.text for translation in translations],
            [references],
            tokenized=True,
            resamples=0,
        )
    }
    return {
        "bleu": scores[TOKENIZED_BLEU],
        "chrf": scores["chrF2"],
        "length_penalty": penalty,
        "parameters": row.ensemble * result.parameters,
        "flops": row.ensemble * result.flops,
        "minutes": sum(one.result.minutes for one in trained),
    }


def read_figures() -> dict[str, dict[str, dict[str, float]]]:
    """Return row name → seed → scores."""
    if not FIGURES.exists():
        return {}
    figures: dict[str, dict[str, dict[str, float]]] = json.loads(FIGURES.read_text("utf-8"))
    return figures


def run(seeds: Sequence[int], only: str, *, new: bool) -> None:
    """Score every row and seed that is missing; with `new`, also the others."""
    text = multi30k()
    for seed in seeds:
        for row in ROWS:
            if only and row.name != only:
                continue
            if str(seed) in read_figures().get(row.name, {}) and not new:
                continue
            if row.ensemble == len(SEEDS) and seed != SEEDS[0]:  # The same models again.
                continue
            scores = score(text, row, seed)
            figures = read_figures()  # Another process may have added its own meanwhile.
            figures.setdefault(row.name, {})[str(seed)] = scores
            write_text(FIGURES, json.dumps(figures, indent=1) + "\n")
            print(row.name, seed, scores, flush=True)


def values(scored: Mapping[str, Mapping[str, float]], name: str) -> list[float]:
    """Return one number for each seed, in the order of the seeds."""
    return [scored[seed][name] for seed in sorted(scored, key=int)]


def table(figures: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Return the Markdown table: means over seeds, and the difference from the base."""
    lines = [
        "| change | seeds | BLEU | difference (95 %) | chrF (difference) | parameters | FLOPs "
        "| minutes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        if row.name not in figures:
            continue
        scored = figures[row.name]
        shared = sorted((seed for seed in scored if seed in figures[BASE]), key=int)
        bleu, chrf = (f"{mean(values(scored, metric)):.1f}" for metric in ("bleu", "chrf"))
        interval = ""
        if row.name != BASE and len(shared) >= 2:
            of_bleu, of_chrf = (
                difference_interval(
                    [figures[BASE][seed][metric] for seed in shared],
                    [scored[seed][metric] for seed in shared],
                )
                for metric in ("bleu", "chrf")
            )
            interval = f"{of_bleu.mean:+.1f} ({of_bleu.low:+.1f} to {of_bleu.high:+.1f})"
            chrf += f" ({of_chrf.mean:+.1f})"
        cells = [row.name, str(len(scored)), bleu, interval, chrf]
        cells.append(f"{mean(values(scored, 'parameters')) / 1e6:.2f} M")
        cells.append(f"{mean(values(scored, 'flops')):.1e}")
        cells.append(f"{mean(values(scored, 'minutes')):.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def draw(figures: Mapping[str, Mapping[str, Mapping[str, float]]], path: Path) -> None:
    """Draw how much the BLEU of each row differs from the base: each seed, the mean, its interval.

    Rows have different numbers of seeds, so only runs with the same seed are compared.
    """
    rows = [row for row in ROWS if row.name in figures and row.name != BASE]
    figure = Figure(figsize=(7, 0.26 * len(rows) + 1), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color="#8a8f98", linewidth=1, linestyle=":")
    for index, row in enumerate(rows):
        changes = [
            scores["bleu"] - figures[BASE][seed]["bleu"]
            for seed, scores in figures[row.name].items()
            if seed in figures[BASE]
        ]
        interval = confidence_interval(changes)
        axes.plot(changes, [index] * len(changes), "o", color="#0072b2", alpha=0.4, markersize=4)
        axes.plot([interval.low, interval.high], [index, index], color="#0072b2", linewidth=1)
        axes.plot([interval.mean], [index], "D", color="#0072b2", markersize=5)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("BLEU minus that of the base (dots: seeds; diamond: mean with 95 % interval)")
    axes.spines[["top", "right"]].set_visible(False)
    with rc_context({"svg.hashsalt": path.stem}):  # The same figures give the same file.
        figure.savefig(path, metadata={"Date": None})


def write() -> None:
    """Write the table and the picture."""
    figures = read_figures()
    page = PAGE.read_text("utf-8")
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(page[:begin] + table(figures) + page[end:], "utf-8")
    draw(figures, PICTURE)


def main() -> None:
    """Run or write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "write"))
    parser.add_argument("--seeds", type=int, nargs="+", choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--only", default="", help="the name of one row; default: all")
    parser.add_argument("--new", action="store_true", help="score again what has figures")
    arguments = parser.parse_args()
    if arguments.what == "run":
        run(arguments.seeds, arguments.only, new=arguments.new)
    else:
        write()


if __name__ == "__main__":
    main()
