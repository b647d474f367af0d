"""What the dashboard reads of a run: recipe, journal and samples."""

import json

import pytest

from dragoman.dashboard import run_data
from dragoman.dashboard.page import render
from dragoman.dashboard.run_data import Position, read_points, read_run, run_names
from dragoman.dashboard.samples import append_samples, keep_samples, read_samples
from dragoman.errors import ArtifactError, DataError
from dragoman.storage.mirror import local_path
from dragoman.training.journal import JOURNAL, SAMPLES, Journal
from dragoman.workflow.dashboard import write_dashboard
from support.dashboard import sample, write_run


def test_a_run_is_read_from_its_folder(tmp_path):
    run = read_run(write_run(tmp_path / "run"))
    assert run.heading.name == "run"
    assert run.heading.languages == ("en", "de")
    assert run.heading.cost == "", "the run is not finished"
    assert [point.step for point in run.points.progress] == list(range(1, 31))
    assert run.points.validations[0].bleu == 12.5
    assert run.points.skipped == (31,)
    assert run.points.samples == (sample(30),)


def test_a_page_that_is_open_gets_only_what_is_new(tmp_path):
    folder = write_run(tmp_path / "run")
    first = read_points(folder, Position())
    assert not read_points(folder, first.position).progress
    line = json.dumps({"kind": "validation", "step": 40, "loss": 1.0, "bleu": 20.0})
    with (folder / JOURNAL).open("a", encoding="utf-8") as file:
        file.write(line)
    unfinished = read_points(folder, first.position)
    assert not unfinished.validations, "its line is still being written"
    assert unfinished.position == first.position
    with (folder / JOURNAL).open("a", encoding="utf-8") as file:
        file.write("\n")
    append_samples(folder, sample(40))
    second = read_points(folder, unfinished.position)
    assert [validation.step for validation in second.validations] == [40]
    assert [samples.step for samples in second.samples] == [40]
    assert not second.progress


def test_numbers_that_are_not_finite_do_not_break_the_page(tmp_path):
    folder = write_run(tmp_path / "run")
    with Journal(folder / JOURNAL, 100) as journal:
        journal.write("validation", 50, loss=float("nan"), bleu=0.0, is_best=False)
        journal.write("progress", 51, loss=float("inf"), seconds=1.0)
    run = read_run(folder)
    assert run.points.validations[-1].loss is None
    assert run.points.progress[-1].loss is None
    page = render([run])
    data = page.partition('id="data">')[2].partition("</script>")[0]
    json.loads(data, parse_constant=pytest.fail)


def test_text_of_users_is_data_never_markup(tmp_path):
    page = render([read_run(write_run(tmp_path / "run"))])
    assert "<img" not in page
    assert "\\u003cimg" in page


def test_a_long_run_gives_a_small_page_with_its_first_and_last_entry(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", steps=200)
    for step in range(1, 60):
        append_samples(folder, sample(200 + step))
    monkeypatch.setattr(run_data, "MAX_PROGRESS", 7)
    points = read_run(folder).points
    steps = [point.step for point in points.progress]
    assert len(steps) == 7
    assert (steps[0], steps[-1]) == (1, 200)
    assert len(points.samples) == run_data.MAX_SAMPLES
    assert points.samples[-1].step == 259


def test_a_resumed_run_removes_later_samples(tmp_path):
    folder = write_run(tmp_path / "run")
    append_samples(folder, sample(40))
    with (folder / SAMPLES).open("a", encoding="utf-8") as file:
        file.write('{"step": 50, "sent')
    keep_samples(folder, 39)
    assert [samples for samples, _ in read_samples(folder)] == [sample(30)]


def test_two_runs_are_named_by_their_folders_or_their_paths(tmp_path):
    assert run_names([tmp_path / "a", tmp_path / "b"]) == ["a", "b"]
    same = [tmp_path / "a" / "run", tmp_path / "b" / "run"]
    assert run_names(same) == [str(path) for path in same]


def test_what_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(ArtifactError, match=r"no recipe\.yaml"):
        write_dashboard([tmp_path])
    with pytest.raises(DataError, match="expected one or two"):
        write_dashboard([tmp_path] * 3)


def test_a_run_in_a_store_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    folder = write_run(tmp_path / "store" / "run")
    run = read_run(local_path(f"file://{folder}"))
    assert run.heading.name == "run"
    assert run.points == read_run(folder).points


@pytest.mark.parametrize("text", ["", "{}", '{"cost": 3}'])
def test_a_damaged_card_does_not_hide_the_curves(tmp_path, text):
    folder = write_run(tmp_path / "run")
    (folder / "format.json").write_text("{}")
    (folder / "card.json").write_text(text)
    run = read_run(folder)
    assert run.heading.cost == ""
    assert run.points.progress
