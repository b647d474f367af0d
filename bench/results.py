"""Score the published runs and write the tables of docs/results.md.

    python bench/results.py RUNS [--new]

RUNS contains the trained runs, each in the folder that bench/result_rows.py names; if the recipes
were run in place, it is `recipes`. A run is scored once: on every test set of its protocol through
PyTorch, and on the first one also through CTranslate2 in float32 and int8. If a test set is new for
its row, the run is scored again. The scores go to docs/results/figures.json with the learning curve
of the run, and stay there when the run is gone; `--new` scores again. Then the tables between the
marks in docs/results.md are written from that file, and the curves are drawn. The text is found
through DRAGOMAN_DATA, or beside the repository.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import tempfile
from collections.abc import Iterable
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from result_rows import FROZEN_TESTS, ROWS, TESTS, Cost, Row

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
FIGURES = ROOT / "docs" / "results" / "figures.json"
BARE = ((32, 27.7), (48, 33.8), (64, 36.5), (80, 37.8))
"""Core-minutes and validation BLEU of the fastest bare PyTorch script we know (Adam, 2.4 M)."""
BARE_TEST = ((32, 28.6), (48, 35.2), (64, 37.1), (80, 38.2))
"""The same for test 2016."""
LANGUAGES = {"de": "German", "fr": "French"}
COLORS = (
    "#1f6f8b",
    "#b5432a",
    "#6a8f3c",
    "#7a5195",
    "#d18f1f",
    "#444444",
    "#c9558f",
    "#2fa39a",
    "#8c6d4f",
    "#8fb8de",
    "#000000",
    "#e0218a",
)


def texts(row: Row, run: Path, test: str) -> list[Path]:
    """Source and reference of a test set; a held-out set is in the prepared folder."""
    if not row.data:
        return [run.parent / "prepared" / f"test.{side}" for side in ("source", "target")]
    named = os.environ.get("DRAGOMAN_DATA")
    data = (Path(named) if named else ROOT.parent / "shared" / "data") / row.data
    folder, middle = (data / "tok", ".lc.norm.tok") if row.tokenized else (data, "")
    return [folder / f"{test}{middle}.{side}.gz" for side in (row.source, row.target)]


def score(row: Row, run: Path) -> dict[str, Any]:
    """Measure everything that the page says about a run."""
    from dragoman.model.cost import measure
    from dragoman.recipe.schema import Recipe
    from dragoman.workflow import evaluation, exporting

    card = json.loads((run / "card.json").read_text(encoding="utf-8"))
    recipe = Recipe.model_validate(card["recipe"])
    figure: dict[str, Any] = {
        "seed": recipe.seed,
        "parameters": measure(recipe, 15, 15).parameters,
        "flops": card["flops"],
        "updates": card["updates"],
        "cores": card.get("threads", 1) * card.get("world_size", 1),
        "is_processor_time": card.get("cpu_hours") is not None,
        "core_minutes": round(60 * core_hours(card)),
        "validation_bleu_greedy": card["validation"]["value"],
        "tests": {},
    }

    def evaluate(model: Path, test: str, engine: str) -> dict[str, Any]:
        source, reference = texts(row, run, test)
        evaluation_result = evaluation.evaluate(
            model, source=source, references=[reference], tokenized=row.tokenized, engine=engine
        )
        return {
            score.name: {
                "value": round(score.value, 2),
                "interval": [round(bound, 2) for bound in score.interval or ()],
                "signature": score.signature,
            }
            for score in evaluation_result.systems[0].scores
        }

    for test in row.tests:
        figure["tests"][test] = evaluate(run, test, "pytorch")
    with tempfile.TemporaryDirectory() as work:
        figure["exported"] = {}
        for kind in ("float32", "int8"):
            folder = Path(work) / kind
            exporting.export(run, to="ctranslate2", output=folder, quantization=kind)
            figure["exported"][kind] = evaluate(folder, row.tests[0], "ctranslate2")
    lines = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    figure["curve"] = curve(lines, 60 * core_hours(card))
    return figure


def curve(lines: list[dict[str, Any]], core_minutes: float) -> list[list[float]]:
    """Core-minutes, updates and BLEU of each validation; the last one is at the whole cost."""
    seconds = {line["step"]: line["seconds"] for line in lines if line["kind"] == "progress"}
    factor = core_minutes / max(seconds.values())
    return [
        [round(seconds[line["step"]] * factor, 1), line["step"], round(line["bleu"], 2)]
        for line in lines
        if line["kind"] == "validation" and line["step"] in seconds
    ]


def core_hours(card: dict[str, Any]) -> float:
    """The processor time of a run; of older runs, which did not measure it, time × cores."""
    processes = card.get("world_size", 1)
    if (cpu_hours := card.get("cpu_hours")) is not None:
        return float(cpu_hours) * processes
    return float(card["hours"]) * card.get("threads", 1) * processes


def main_bleu(row: Row, scores: dict[str, Any]) -> dict[str, Any]:
    """The BLEU of the row's protocol."""
    names = [name for name in scores if name.startswith("BLEU")]
    return scores[names[-1] if row.tokenized else names[0]]


def table(figures: dict[str, Any], *, is_synthetic: bool) -> str:
    """The table of scores of plain training, or of training with synthetic text."""
    lines = [
        "| recipe | seed | test | BLEU (95 %) | chrF | parameters | FLOPs | core-minutes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        figure = figures.get(row.folder)
        if figure is None or row.is_synthetic != is_synthetic:
            continue
        for number, (test, scores) in enumerate(figure["tests"].items()):
            bleu = main_bleu(row, scores)
            low, high = bleu["interval"]
            first = f"{row.name} | {figure['seed']}" if number == 0 else " | "
            cost = (
                f"{figure['parameters'] / 1e6:.2f} M | {figure['flops']:.1e} | "
                f"{figure['core_minutes']}"
                if number == 0
                else " | | "
            )
            lines.append(
                f"| {first} | {_label(test)} | "
                f"**{bleu['value']:.2f}** ({low:.1f}–{high:.1f}) | "
                f"{scores['chrF2']['value']:.2f} | {cost} |"
            )
    return "\n".join(lines)


def reference_lengths() -> str:
    """The number of reference tokens of each test set, in the tokenized protocol."""
    lines = ["| test | German | French |", "|---|---|---|"]
    for test in FROZEN_TESTS:
        counts = []
        for target in ("de", "fr"):
            row = Row("", target, tokenized=True)
            _, reference = texts(row, Path(), test)
            counts.append(len(gzip.decompress(reference.read_bytes()).split()))
        lines.append(f"| {_label(test)} | {counts[0]:,} | {counts[1]:,} |")
    return "\n".join(lines)


def exported(figures: dict[str, Any]) -> str:
    """The table of scores after export."""
    lines = [
        "| recipe | seed | PyTorch | CTranslate2 float32 | CTranslate2 int8 |",
        "|---|---|---|---|---|",
    ]
    for row in ROWS:
        if figure := figures.get(row.folder):
            plain = main_bleu(row, figure["tests"][row.tests[0]])["value"]
            kinds = figure["exported"].values()
            others = [main_bleu(row, scores)["value"] for scores in kinds]
            cells = " | ".join(f"{bleu:.2f} ({bleu - plain:+.2f})" for bleu in others)
            lines.append(f"| {row.name} | {figure['seed']} | {plain:.2f} | {cells} |")
    return "\n".join(lines)


def signatures(figures: dict[str, Any]) -> str:
    """The sacreBLEU signatures."""
    signatures_by_name = {}
    for row in ROWS:
        if figure := figures.get(row.folder):
            for name, score in figure["tests"][row.tests[0]].items():
                signatures_by_name[f"{name}, {'tokenized' if row.tokenized else 'raw'}"] = score[
                    "signature"
                ]
    return "\n".join(
        f"- {name}: `{text}`" for name, text in signatures_by_name.items() if "TER" not in name
    )


def seeds(figures: dict[str, Any]) -> str:
    """The table of recipes with several seeds."""
    runs: dict[str, list[Row]] = {}
    for row in ROWS:
        if row.folder in figures:
            runs.setdefault(row.name, []).append(row)
    lines = ["| recipe | seeds | test | mean BLEU | from | to |", "|---|---|---|---|---|---|"]
    for name, rows in runs.items():
        if len(rows) < 2:
            continue
        count = len({figures[row.folder]["seed"] for row in rows})
        for number, test in enumerate(rows[0].tests):
            figure = [main_bleu(row, figures[row.folder]["tests"][test])["value"] for row in rows]
            first = f"{name} | {count}" if number == 0 else " | "
            lines.append(
                f"| {first} | {_label(test)} | **{sum(figure) / len(figure):.2f}** | "
                f"{min(figure):.2f} | {max(figure):.2f} |"
            )
    return "\n".join(lines)


def cost_before(row: Row, figures: dict[str, Any]) -> Cost:
    """The cost of the runs that a run continues."""
    rows = {listed.folder: listed for listed in ROWS}
    before: list[Cost] = []
    while row.continues:
        row = rows[row.continues]
        before.append(cost(figures[row.folder]))
    return add_costs(before)


def cost(figure: dict[str, Any]) -> Cost:
    """The cost of one run."""
    return Cost(figure["core_minutes"], figure["flops"])


def add_costs(costs: Iterable[Cost]) -> Cost:
    """Their sum."""
    costs = list(costs)
    return Cost(sum(one.minutes for one in costs), sum(one.flops for one in costs))


def full_cost(row: Row, figures: dict[str, Any]) -> Cost:
    """The cost from the beginning, with all teachers."""
    teachers = [cost(figures[teacher]) for teacher in row.teachers]
    own, before = cost(figures[row.folder]), cost_before(row, figures)
    return add_costs((own, before, row.unlisted, *teachers))


def cost_table(figures: dict[str, Any], *, is_synthetic: bool) -> str:
    """BLEU of test 2016 (tokenized) by full cost; plain training beside the bare script."""
    points = [
        (
            row.target,
            full_cost(row, figures),
            main_bleu(row, figures[row.folder]["tests"][TESTS[0]])["value"],
            f"{row.name}, seed {figures[row.folder]['seed']}",
        )
        for row in ROWS
        if row.folder in figures and row.tokenized and row.source == "en"
        if row.is_synthetic == is_synthetic
    ]
    if not is_synthetic:
        bare = "*an untuned bare script*"
        points += [("de", Cost(minutes, 0.0), bleu, bare) for minutes, bleu in BARE_TEST]
    lines = ["| | core-minutes | FLOPs | BLEU, test 2016 | recipe |", "|---|---|---|---|---|"]
    for target, (minutes, flops), bleu, name in sorted(points):
        amount = f"{flops:.1e}" if flops else ""
        lines.append(f"| {target} | {minutes} | {amount} | {bleu:.1f} | {name} |")
    return "\n".join(lines)


def _label(test: str) -> str:
    return test.replace("_flickr", "").replace("_", " ")


def draw(figures: dict[str, Any], path: Path) -> None:
    """Draw validation BLEU against minutes of one core, one panel per text.

    Only the first of several seeds and the upper half of each panel are drawn.
    """
    panels: dict[str, list[Row]] = {}
    firsts = {row.name: row for row in reversed(ROWS) if row.folder in figures}
    for row in ROWS:
        if firsts.get(row.name) == row and row.source == "en":
            text = row.recipe.partition("-")[0].capitalize()
            protocol = "tokenized" if row.tokenized else "raw"
            title = f"{text}, English to {LANGUAGES[row.target]}, {protocol} protocol"
            panels.setdefault(title, []).append(row)
    lines = -(-len(panels) // 2)
    figure = Figure(figsize=(11, 4.8 * lines), dpi=100, layout="constrained")
    every = figure.subplots(lines, 2, squeeze=False).flatten()
    for number, (axes, (title, rows)) in enumerate(zip(every, panels.items(), strict=False)):
        best = 0.0
        # Synthetic text: triangles. There are more rows than colors, so only both tell rows apart.
        for row, color in zip(rows, cycle(COLORS), strict=False):
            before = cost_before(row, figures).minutes
            minutes, _, bleu = zip(*figures[row.folder]["curve"], strict=True)
            minutes = [before + passed for passed in minutes]
            best = max(best, *bleu)
            short = row.name.removeprefix(rows[0].recipe).strip("- ") or "unchanged"
            line = "^:" if row.is_synthetic else "o-"
            axes.plot(minutes, bleu, line, ms=3, lw=1.4, color=color, label=short)
        if number == 0:
            minutes, bleu = zip(*BARE, strict=True)
            label = "an untuned bare script (beam 5)"
            axes.plot(minutes, bleu, "s--", ms=3, lw=1, color="#999999", label=label)
        axes.set_title(title, fontsize=10, loc="left")
        axes.set_ylim(best / 2, best + 1)
        axes.set_xlim(left=0)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="lower right", fontsize=8)
    for axes in every[len(panels) :]:
        axes.remove()
    figure.supxlabel("minutes of one core", fontsize=10)
    figure.supylabel("BLEU on the validation set, greedy search", fontsize=10)
    figure.savefig(path, format="png")


def main() -> None:
    """Score new runs and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--new", action="store_true", help="score again what was scored")
    given = parser.parse_args()
    figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.is_file() else {}
    for row in ROWS:
        run = given.runs / row.folder
        scored = figures.get(row.folder, {}).get("tests", {})
        if (run / "card.json").is_file() and (given.new or not scored.keys() >= set(row.tests)):
            figures[row.folder] = score(row, run)
            print(f"{row.folder}: scored", flush=True)
    FIGURES.parent.mkdir(exist_ok=True)
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    draw(figures, FIGURES.parent / "curves.png")
    page = PAGE.read_text(encoding="utf-8")
    for name, text in (
        ("plain", table(figures, is_synthetic=False)),
        ("synthetic", table(figures, is_synthetic=True)),
        ("lengths", reference_lengths()),
        ("seeds", seeds(figures)),
        ("cost of plain training", cost_table(figures, is_synthetic=False)),
        ("cost with synthetic text", cost_table(figures, is_synthetic=True)),
        ("exported", exported(figures)),
        ("signatures", signatures(figures)),
    ):
        marked = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page = marked.sub(lambda match, new=text: f"{match[1]}{new}\n{match[2]}", page)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
