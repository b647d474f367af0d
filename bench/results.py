"""Which figures stand in docs/results.md, and are they those of the runs?

    python bench/results.py RUNS [--new]

RUNS holds the trained runs, each in the folder that ROWS names; where the recipes were run as they
stand, it is `recipes`. A run is scored once, on every test set of its protocol through PyTorch, and
on the first also through CTranslate2 in float32 and int8. What came out goes to
docs/results/figures.json with the run's learning curve, and stays there when the run is gone;
`--new` scores again. Then the tables between the marks in docs/results.md are written from that
file, and the curves are drawn. The text is found through DRAGOMAN_DATA, or beside the repository.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

HOUSE = Path(__file__).parents[1]
PAGE = HOUSE / "docs" / "results.md"
FIGURES = HOUSE / "docs" / "results" / "figures.json"
TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")
BARE = ((32, 27.7), (48, 33.8), (64, 36.5), (80, 37.8))
"""Core-minutes and validation BLEU of the fastest bare PyTorch script we know, Adam, 2.4 M."""
COLOURS = ("#1f6f8b", "#b5432a", "#6a8f3c", "#7a5195", "#d18f1f", "#444444")


@dataclass(frozen=True, slots=True)
class Row:
    """One published row: a recipe, what was changed on the command line, and where it ran."""

    folder: str
    recipe: str
    changed: str
    target: str
    data: str = "multi30k"
    papers: bool = False
    tests: tuple[str, ...] = TESTS

    @property
    def name(self) -> str:
        """What the page calls it."""
        return f"{self.recipe} {self.changed}".strip()


ROWS = (
    Row("multi30k-en-de-papers/run", "multi30k-en-de-papers", "", "de", papers=True),
    Row("multi30k-en-de-papers/run-2", "multi30k-en-de-papers", "", "de", papers=True),
    Row("multi30k-en-de-papers/run-3", "multi30k-en-de-papers", "", "de", papers=True),
    Row("multi30k-en-de-papers/wide", "multi30k-en-de-papers", "wide", "de", papers=True),
    Row("multi30k-en-de-papers-taught/run", "multi30k-en-de-papers-taught", "", "de", papers=True),
    Row(
        "multi30k-en-de-papers-both-ways/run",
        "multi30k-en-de-papers-both-ways",
        "",
        "de",
        papers=True,
    ),
    Row("multi30k-en-fr-papers/run", "multi30k-en-fr-papers", "", "fr", papers=True),
    Row("multi30k-en-fr-papers-taught/run", "multi30k-en-fr-papers-taught", "", "fr", papers=True),
    Row("multi30k-en-de/run", "multi30k-en-de", "", "de"),
    Row("multi30k-en-fr/run", "multi30k-en-fr", "", "fr"),
)


def texts(row: Row, test: str) -> list[Path]:
    """Source and reference of a test set."""
    named = os.environ.get("DRAGOMAN_DATA")
    data = (Path(named) if named else HOUSE.parent / "shared" / "data") / row.data
    folder, middle = (data / "tok", ".lc.norm.tok") if row.papers else (data, "")
    return [folder / f"{test}{middle}.{side}.gz" for side in ("en", row.target)]


def score(row: Row, run: Path) -> dict[str, Any]:
    """Everything about a run that the page says."""
    from dragoman.model.cost import measure
    from dragoman.recipe import Recipe
    from dragoman.workflow import evaluation, exporting

    card = json.loads((run / "card.json").read_text(encoding="utf-8"))
    recipe = Recipe.model_validate(card["recipe"])
    found: dict[str, Any] = {
        "seed": recipe.seed,
        "parameters": measure(recipe, 15, 15).parameters,
        "flops": card["flops"],
        "updates": card["updates"],
        "core_minutes": round(60 * card["hours"] * card.get("threads", 1)),
        "development_bleu_greedy": card["development"]["bleu"],
        "tests": {},
    }

    def ask(place: Path, test: str, engine: str) -> dict[str, Any]:
        source, reference = texts(row, test)
        told = evaluation.evaluate(
            place, source=source, references=[reference], papers=row.papers, engine=engine
        )
        return {
            each.name: {
                "value": round(each.value, 2),
                "interval": [round(end, 2) for end in each.interval or ()],
                "signature": each.signature,
            }
            for each in told.systems[0].scores
        }

    for test in row.tests:
        found["tests"][test] = ask(run, test, "pytorch")
    with tempfile.TemporaryDirectory() as work:
        found["served"] = {}
        for kind in ("float32", "int8"):
            place = exporting.export(run, "ctranslate2", Path(work) / kind, kind)
            found["served"][kind] = ask(Path(place), row.tests[0], "ctranslate2")
    lines = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    found["curve"] = curve(lines, card.get("threads", 1))
    return found


def curve(lines: list[dict[str, Any]], threads: int) -> list[list[float]]:
    """Core-minutes, updates and BLEU of each validation; seconds stand with what was learned."""
    seconds = {each["step"]: each["seconds"] for each in lines if each["kind"] == "learned"}
    return [
        [round(seconds[each["step"]] * threads / 60, 1), each["step"], round(each["bleu"], 2)]
        for each in lines
        if each["kind"] == "validated" and each["step"] in seconds
    ]


def main_bleu(row: Row, scores: dict[str, Any]) -> dict[str, Any]:
    """The BLEU of the row's protocol."""
    names = [name for name in scores if name.startswith("BLEU")]
    return scores[names[-1] if row.papers else names[0]]


def table(figures: dict[str, Any]) -> str:
    """The rows that have figures."""
    lines = [
        "| recipe | seed | test | BLEU (95 %) | chrF | parameters | FLOPs | core-minutes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        found = figures.get(row.folder)
        if found is None:
            continue
        for number, (test, scores) in enumerate(found["tests"].items()):
            bleu = main_bleu(row, scores)
            low, high = bleu["interval"]
            first = f"{row.name} | {found['seed']}" if number == 0 else " | "
            cost = (
                f"{found['parameters'] / 1e6:.2f} M | {found['flops']:.1e} | "
                f"{found['core_minutes']}"
                if number == 0
                else " | | "
            )
            lines.append(
                f"| {first} | {test.replace('_flickr', '').replace('_', ' ')} | "
                f"**{bleu['value']:.2f}** ({low:.1f}–{high:.1f}) | "
                f"{scores['chrF2']['value']:.2f} | {cost} |"
            )
    return "\n".join(lines)


def served(figures: dict[str, Any]) -> str:
    """What serving costs in quality."""
    lines = [
        "| recipe | seed | PyTorch | CTranslate2 float32 | CTranslate2 int8 |",
        "|---|---|---|---|---|",
    ]
    for row in ROWS:
        if found := figures.get(row.folder):
            plain = main_bleu(row, found["tests"][row.tests[0]])["value"]
            others = [main_bleu(row, found["served"][kind])["value"] for kind in ("float32", "int8")]
            cells = " | ".join(f"{each:.2f} ({each - plain:+.2f})" for each in others)
            lines.append(f"| {row.name} | {found['seed']} | {plain:.2f} | {cells} |")
    return "\n".join(lines)


def signatures(figures: dict[str, Any]) -> str:
    """By which others can repeat the numbers."""
    seen = {}
    for row in ROWS:
        if found := figures.get(row.folder):
            for name, each in found["tests"][row.tests[0]].items():
                seen[f"{name}, {'papers' if row.papers else 'ours'}"] = each["signature"]
    return "\n".join(f"- {name}: `{each}`" for name, each in seen.items() if "TER" not in name)


def draw(figures: dict[str, Any], path: Path) -> None:
    """BLEU on the development text against minutes of one core."""
    figure = Figure(figsize=(8, 4.8), dpi=110, layout="constrained")
    axes = figure.subplots()
    rows = [row for row in ROWS if row.folder in figures]
    for row, colour in zip(rows, COLOURS * 3, strict=False):
        minutes, _, bleu = zip(*figures[row.folder]["curve"], strict=True)
        label = f"{row.name}, seed {figures[row.folder]['seed']}"
        axes.plot(minutes, bleu, "o-", ms=3, lw=1.4, color=colour, label=label)
    minutes, bleu = zip(*BARE, strict=True)
    label = "an untuned bare script (beam 5)"
    axes.plot(minutes, bleu, "s--", ms=3, lw=1, color="#999999", label=label)
    axes.set_xlabel("minutes of one core")
    axes.set_ylabel("BLEU of the development text, greedy search")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right", fontsize=8)
    figure.savefig(path, format="png")


def main() -> None:
    """Score what is new, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--new", action="store_true", help="score again what was scored")
    given = parser.parse_args()
    figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.is_file() else {}
    for row in ROWS:
        run = given.runs / row.folder
        if (run / "card.json").is_file() and (given.new or row.folder not in figures):
            figures[row.folder] = score(row, run)
            print(f"{row.folder}: scored", flush=True)
    FIGURES.parent.mkdir(exist_ok=True)
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    draw(figures, FIGURES.parent / "curves.png")
    page = PAGE.read_text(encoding="utf-8")
    for name, text in (
        ("figures", table(figures)),
        ("served", served(figures)),
        ("signatures", signatures(figures)),
    ):
        marked = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page = marked.sub(lambda match, new=text: f"{match[1]}{new}\n{match[2]}", page)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
