"""The lecture pages show the verdicts of the lab, and their recipe lines are valid."""

import importlib.util
import re
from pathlib import Path

import pytest
import yaml

from dragoman.lab.finding import read_findings
from dragoman.lab.lectures import LECTURES
from dragoman.recipe.files import load_recipe

ROOT = Path(__file__).parents[2]
SETTING = re.compile(r"`((?:model|tokenizer): \{.*?\})` *(?:\||\)|\.|,)")


def load_bench():
    spec = importlib.util.spec_from_file_location("bench_lectures", ROOT / "bench" / "lectures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BENCH = load_bench()


@pytest.mark.parametrize("short_form", LECTURES)
def test_a_page_has_the_verdicts_of_the_lab(short_form):
    """After a change of the lab, type: python bench/lectures.py"""
    text = BENCH.page_of(short_form).read_text(encoding="utf-8")
    findings = read_findings(ROOT / "docs" / "lab")
    assert any(short_form in finding.lectures for finding in findings)
    assert text == BENCH.with_experiments(text, short_form, findings)
    assert text.startswith(f"# {LECTURES[short_form]}\n")
    for heading in ("Experiments", "Exercises", "Errata"):
        assert f"\n## {heading}\n" in text


@pytest.mark.parametrize("short_form", LECTURES)
def test_the_recipe_lines_of_a_page_are_valid(short_form, tmp_path):
    lines = SETTING.findall(BENCH.page_of(short_form).read_text(encoding="utf-8"))
    assert len(lines) >= 5
    for line in lines:
        path = tmp_path / "recipe.yaml"
        path.write_text(f"preset: small\n{line}\n", encoding="utf-8")
        recipe = load_recipe(path)
        ((section, settings),) = yaml.safe_load(line).items()
        for name, value in settings.items():
            loaded = getattr(getattr(recipe, section), name)
            # A part ({name: cosine, scale: 10}), a group of settings, or one value.
            expected = value if isinstance(value, dict) else {"name": value}
            if "name" in expected:
                assert getattr(loaded, "name", loaded) == expected["name"]
            else:
                assert {key: getattr(loaded, key) for key in expected} == expected


def test_every_question_has_a_solution():
    solutions = (ROOT / "docs" / "lectures" / "solutions.md").read_text(encoding="utf-8")
    for short_form in LECTURES:
        page = BENCH.page_of(short_form).read_text(encoding="utf-8")
        questions = page.partition("## Exercises")[2].partition("## Errata")[0]
        answers = solutions.partition(f"## {short_form}\n")[2].partition("\n## ")[0]
        assert f"(solutions.md#{short_form.lower()})" in page
        numbers = re.findall(r"(?m)^(\d)\. ", questions)
        assert numbers
        assert re.findall(r"(?m)^(\d)\. ", answers) == numbers
