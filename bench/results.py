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
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

HOUSE = Path(__file__).parents[1]
PAGE = HOUSE / "docs" / "results.md"
FIGURES = HOUSE / "docs" / "results" / "figures.json"
TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")
BARE = ((32, 27.7), (48, 33.8), (64, 36.5), (80, 37.8))
"""Core-minutes and validation BLEU of the fastest bare PyTorch script we know, Adam, 2.4 M."""
BARE_TEST = ((32, 28.6), (48, 35.2), (64, 37.1), (80, 38.2))
"""The same of test 2016."""
LANGUAGES = {"de": "German", "fr": "French"}
COLOURS = (
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
)


@dataclass(frozen=True, slots=True)
class Row:
    """One published row: where it ran, from which text, and what was changed of its recipe."""

    folder: str
    target: str
    changed: str = ""
    data: str = "multi30k"
    papers: bool = False
    tests: tuple[str, ...] = TESTS
    goes_on_from: str = ""
    """A row whose weights were its first."""
    teachers: tuple[str, ...] = ()
    """Other rows that must have run before."""
    teachers_unlisted: int = 0
    """Core-minutes of those that are no rows."""

    @property
    def recipe(self) -> str:
        """The file in `recipes`."""
        return self.folder.partition("/")[0]

    @property
    def name(self) -> str:
        """What the page calls it."""
        return f"{self.recipe} {self.changed}".strip()


HELD_OUT = ("held out",)
SINUSOIDS = "multi30k-en-de-papers/sinusoids"
TEACHERS = (SINUSOIDS, "multi30k-en-de-papers/wide")
BACK, BACK_SINUSOIDS = 14, 32
"""Core-minutes of the models from German to English."""
ROWS = (
    Row("multi30k-en-de-papers/run", "de", papers=True),
    Row("multi30k-en-de-papers/half", "de", "half", papers=True),
    Row("multi30k-en-de-papers/short", "de", "short", papers=True),
    Row(
        "multi30k-en-de-papers-thrice/run",
        "de",
        papers=True,
        goes_on_from="multi30k-en-de-papers/run",
        teachers=("multi30k-en-de-papers/half",),
        teachers_unlisted=BACK,
    ),
    Row(SINUSOIDS, "de", "sinusoids", papers=True),
    Row("multi30k-en-de-papers/wide", "de", "sinusoids, wide", papers=True),
    Row("multi30k-en-de-papers/sinusoids-short", "de", "sinusoids, short", papers=True),
    Row("multi30k-en-de-papers-taught/run", "de", papers=True, teachers=TEACHERS),
    *(
        Row(
            f"multi30k-en-de-papers-both-ways/{run}",
            "de",
            papers=True,
            teachers=TEACHERS,
            teachers_unlisted=BACK_SINUSOIDS,
        )
        for run in ("run", "run-2", "run-3")
    ),
    Row(
        "multi30k-en-de-papers-less-dropout/run",
        "de",
        papers=True,
        goes_on_from="multi30k-en-de-papers-both-ways/run",
        teachers=TEACHERS,
        teachers_unlisted=BACK_SINUSOIDS,
    ),
    Row(
        "multi30k-en-de-papers-second-generation/run",
        "de",
        papers=True,
        goes_on_from="multi30k-en-de-papers-less-dropout/run",
        teachers=(*TEACHERS, "multi30k-en-de-papers-both-ways/run-2"),
        teachers_unlisted=BACK_SINUSOIDS,
    ),
    Row("multi30k-en-fr-papers/run", "fr", papers=True),
    Row("multi30k-en-fr-papers/sinusoids", "fr", "sinusoids", papers=True),
    Row("multi30k-en-fr-papers-taught/run", "fr", papers=True),
    Row("multi30k-en-fr-papers-both-ways/run", "fr", papers=True),
    Row(
        "multi30k-en-fr-papers-less-dropout/run",
        "fr",
        papers=True,
        goes_on_from="multi30k-en-fr-papers-both-ways/run",
    ),
    Row(
        "multi30k-en-fr-papers-second-generation/run",
        "fr",
        papers=True,
        goes_on_from="multi30k-en-fr-papers-less-dropout/run",
    ),
    Row("multi30k-en-de/half", "de", "half"),
    Row("multi30k-en-fr/half", "fr", "half"),
    Row("tatoeba-en-de/run", "de", data="", tests=HELD_OUT),
)


def texts(row: Row, run: Path, test: str) -> list[Path]:
    """Source and reference of a test set; what was held out stands with what was prepared."""
    if not row.data:
        return [run.parent / "prepared" / f"test.{side}" for side in ("source", "target")]
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
    cores = card.get("threads", 1) * card.get("ranks", 1)
    found: dict[str, Any] = {
        "seed": recipe.seed,
        "parameters": measure(recipe, 15, 15).parameters,
        "flops": card["flops"],
        "updates": card["updates"],
        "cores": cores,
        "core_minutes": round(60 * card["hours"] * cores),
        "development_bleu_greedy": card["development"]["bleu"],
        "tests": {},
    }

    def ask(place: Path, test: str, engine: str) -> dict[str, Any]:
        source, reference = texts(row, run, test)
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
    found["curve"] = curve(lines, cores)
    return found


def curve(lines: list[dict[str, Any]], cores: int) -> list[list[float]]:
    """Core-minutes, updates and BLEU of each validation; seconds stand with what was learned."""
    seconds = {each["step"]: each["seconds"] for each in lines if each["kind"] == "learned"}
    return [
        [round(seconds[each["step"]] * cores / 60, 1), each["step"], round(each["bleu"], 2)]
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
                f"| {first} | {_plainly(test)} | "
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
            kinds = found["served"].values()
            others = [main_bleu(row, scores)["value"] for scores in kinds]
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


def seeds(figures: dict[str, Any]) -> str:
    """How much of a figure is chance: the recipes that ran with several seeds."""
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
            found = [main_bleu(row, figures[row.folder]["tests"][test])["value"] for row in rows]
            first = f"{name} | {count}" if number == 0 else " | "
            lines.append(
                f"| {first} | {_plainly(test)} | **{sum(found) / len(found):.2f}** | "
                f"{min(found):.2f} | {max(found):.2f} |"
            )
    return "\n".join(lines)


def minutes_before(row: Row, figures: dict[str, Any]) -> int:
    """Core-minutes of the runs that a run goes on from."""
    minutes, rows = 0, {each.folder: each for each in ROWS}
    while row.goes_on_from:
        row = rows[row.goes_on_from]
        minutes += figures[row.folder]["core_minutes"]
    return minutes


def all_minutes(figures: dict[str, Any]) -> list[tuple[int, float, str]]:
    """Core-minutes with all teachers, BLEU of test 2016 in the papers' German, and name."""
    return sorted(
        (
            figures[row.folder]["core_minutes"]
            + minutes_before(row, figures)
            + sum(figures[each]["core_minutes"] for each in row.teachers)
            + row.teachers_unlisted,
            main_bleu(row, figures[row.folder]["tests"][TESTS[0]])["value"],
            f"{row.name}, seed {figures[row.folder]['seed']}",
        )
        for row in ROWS
        if row.folder in figures and row.papers and row.target == "de"
    )


def minutes_table(figures: dict[str, Any]) -> str:
    """What a BLEU costs, teachers included, beside the bare script."""
    lines = ["| core-minutes, teachers included | BLEU, test 2016 | |", "|---|---|---|"]
    found = all_minutes(figures) + [(*each, "*an untuned bare script*") for each in BARE_TEST]
    lines += [f"| {minutes} | {bleu:.1f} | {name} |" for minutes, bleu, name in sorted(found)]
    return "\n".join(lines)


def _plainly(test: str) -> str:
    return test.replace("_flickr", "").replace("_", " ")


def draw(figures: dict[str, Any], path: Path) -> None:
    """BLEU on the development text against minutes of one core; a panel for each text.

    Of several seeds the first is drawn, and of a panel the upper half: what is below was passed
    by all in their first minutes.
    """
    panels: dict[str, list[Row]] = {}
    firsts = {row.name: row for row in reversed(ROWS) if row.folder in figures}
    for row in ROWS:
        if firsts.get(row.name) == row:
            text = row.recipe.partition("-")[0].capitalize()
            protocol = "papers’" if row.papers else "our"
            title = f"{text}, English to {LANGUAGES[row.target]}, {protocol} protocol"
            panels.setdefault(title, []).append(row)
    lines = -(-len(panels) // 2)
    figure = Figure(figsize=(11, 4.8 * lines), dpi=100, layout="constrained")
    every = figure.subplots(lines, 2, squeeze=False).flatten()
    for number, (axes, (title, rows)) in enumerate(zip(every, panels.items(), strict=False)):
        best = 0.0
        for row, colour in zip(rows, cycle(COLOURS), strict=False):
            before = minutes_before(row, figures)
            minutes, _, bleu = zip(*figures[row.folder]["curve"], strict=True)
            minutes = [before + each for each in minutes]
            best = max(best, *bleu)
            short = row.name.removeprefix(rows[0].recipe).strip("- ") or "as it stands"
            axes.plot(minutes, bleu, "o-", ms=2.5, lw=1.4, color=colour, label=short)
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
    figure.supylabel("BLEU of the development text, greedy search", fontsize=10)
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
        ("seeds", seeds(figures)),
        ("minutes", minutes_table(figures)),
        ("served", served(figures)),
        ("signatures", signatures(figures)),
    ):
        marked = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page = marked.sub(lambda match, new=text: f"{match[1]}{new}\n{match[2]}", page)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
