"""`dragoman plan` as a user types it: tables, JSON, budgets, and bad input."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from dragoman.cli.app import app
from dragoman.errors import DataError, RecipeError
from dragoman.planning.machines import _FILE, CORE, choose_machines, read_prices
from dragoman.workflow.planning import PlanOptions, plan

ONE_LAYER = ("model.encoder_layers=1", "model.decoder_layers=1")
TINY = ["plan", "tiny", *ONE_LAYER, "--pairs", "4500000"]


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)], prog_name="dragoman")


def test_the_tables_fit_in_80_columns():
    shown = run(*TINY, "--gpus", "8xA100", "--budget", 500)
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    assert max(map(len, lines)) <= 80
    assert "Plan for 8 × A100-80GB" in lines[0]
    for name in ("preparation", "training", "translation"):
        assert sum(line.startswith(f"{name} ") for line in lines) == 1
    rows = [line for line in lines if line.startswith("time per update")]
    assert rows[0].split()[-1] == "estimated"
    assert "fits the budget of 500.00 USD" in shown.output


@pytest.mark.slow
def test_json_is_for_programs():
    content = json.loads(run("plan", "base", *TINY[-2:], "--gpus", "8xP100", "--json").output)
    stages = {stage["name"]: stage for stage in content["stages"]}
    rows = {row["name"]: row for row in stages["training"]["figures"]}
    assert rows["parameters"]["value"] == 63_082_496
    assert rows["parameters"]["basis"] == "computed"
    assert rows["time"]["unit"] == "seconds"
    # The paper's run took 12 hours on these devices.
    assert 0.7 < rows["time"]["value"] / (12 * 3600) < 1.3


def test_the_budget_pays_for_the_updates_that_are_stated():
    options = PlanOptions(gpus="1xT4", pairs=1000, sentences=1000)
    whole = plan("tiny", ONE_LAYER, options)
    money = sum(stage.value("money") for stage in whole.stages)
    short = plan("tiny", ONE_LAYER, PlanOptions(**_fields(options), budget=money / 2)).budget
    assert not short.fits
    assert short.money == pytest.approx(money)
    paid = plan("tiny", [*ONE_LAYER, f"training.steps={short.max_updates}"], options)
    assert sum(stage.value("money") for stage in paid.stages) <= money / 2
    more = plan("tiny", [*ONE_LAYER, f"training.steps={short.max_updates + 1}"], options)
    assert sum(stage.value("money") for stage in more.stages) > money / 2


def _fields(options):
    return {
        name: getattr(options, name)
        for name in ("gpus", "machines", "cores", "pairs", "tokens_per_pair", "sentences")
    }


def test_several_machines_transfer_over_the_network():
    near, far = (
        plan("tiny", ONE_LAYER, PlanOptions(gpus="8xH100", machines=count, pairs=1_000_000)).stage(
            "training"
        )
        for count in (1, 2)
    )
    assert far.value("network_per_update_and_rank") > near.value("network_per_update_and_rank") > 0
    assert (
        plan("tiny", ONE_LAYER, PlanOptions(pairs=10))
        .stage("training")
        .value("network_per_update_and_rank")
        == 0
    )


def test_the_time_limit_of_a_recipe_limits_the_updates():
    limited = plan("tiny", [*ONE_LAYER, "training.minutes=0.1"], PlanOptions(pairs=1000)).stage(
        "training"
    )
    assert limited.value("updates") < 1000


def test_validations_and_checkpoints_count_for_the_time_limit():
    settings = ["training.minutes=10", "training.validate_every=10", "training.save_every=10"]
    options = PlanOptions(pairs=1000)
    limited = plan("tiny", [*ONE_LAYER, *settings], options).stage("training")
    assert limited.value("updates") > 1
    start_seconds = 12
    assert limited.value("time") == pytest.approx(600 + start_seconds, rel=0.1)


def test_own_prices_replace_the_built_in_ones(tmp_path):
    content = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    content["currency"] = "EUR"
    content["devices"]["Own-1"] = content["devices"]["P100"] | {"price_per_hour": 100}
    path = tmp_path / "prices.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    shown = run(*TINY, "--gpus", "own", "--prices", path)
    assert "EUR" in shown.output
    assert "1 × Own-1" in shown.output


def test_every_device_has_sources():
    sources = read_prices().sources
    named = {name.strip() for names in sources for name in names.split(",")}
    assert set(read_prices().devices) | {"all"} == named
    assert "assumption" in sources["all"]["price_per_hour"]


def test_a_prefix_names_the_larger_of_two_sizes():
    assert choose_machines(read_prices(), "8xa100", 1, 0).name == "8 × A100-80GB"
    assert choose_machines(read_prices(), "A100-40gb", 1, 0).memory == 40e9


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["plan", "tiny"], "--pairs 4500000"),
        ([*TINY, "--gpus", "8xB9000"], "expected one of: P100"),
        ([*TINY, "--gpus", "0xA100"], "expected COUNTxDEVICE"),
        ([*TINY, "--machines", "2"], "--gpus 8xA100-80GB"),
        ([*TINY, "--prices", "missing.yaml"], "no file 'missing.yaml'"),
    ],
)
def test_mistakes_are_explained(arguments, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = run(*arguments)
    assert isinstance(shown.exception, DataError)
    assert expected in str(shown.exception)


def test_an_unknown_recipe_is_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert isinstance(run("plan", "bse", "--pairs", "10").exception, RecipeError)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("devices: [", "not YAML"),
        ("date: 2026-01-01", "currency"),
        (None, f"no device {CORE!r}"),
    ],
)
def test_bad_price_files_are_explained(text, expected, tmp_path):
    path = tmp_path / "prices.yaml"
    if text is None:
        content = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
        del content["devices"][CORE]
        text = yaml.safe_dump(content)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=expected):
        read_prices(path)
