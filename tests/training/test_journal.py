"""The journal of an interrupted run equals that of a run without interruption."""

import json

import pytest

from dragoman.training.journal import Journal, read_journal


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def write(path, resume_step, steps, **options):
    with Journal(path, resume_step, **options) as journal:
        for step in steps:
            journal.write("progress", step, loss=1 / step)


def steps(path):
    return [entry["step"] for entry in read_journal(path)]


def test_an_entry_is_in_the_file_when_write_returns(path):
    with Journal(path, 0) as journal:
        journal.write("skipped", 1, position=[0, 1, 2])
        (line,) = path.read_text(encoding="utf-8").splitlines()
        assert json.loads(line) == {"kind": "skipped", "step": 1, "position": [0, 1, 2]}


def test_resuming_removes_entries_after_the_checkpoint(path):
    write(path, 0, range(1, 8))
    write(path, 5, [6])
    assert steps(path) == [1, 2, 3, 4, 5, 6]
    write(path, 0, [])
    assert steps(path) == []


def test_a_journal_with_interruptions_equals_one_without(path, tmp_path):
    other = tmp_path / "other.jsonl"
    write(path, 0, range(1, 13))
    write(other, 0, range(1, 8))
    write(other, 5, range(6, 11))
    write(other, 10, range(11, 13))
    assert other.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "partial", ['{"kind": "progress", "st', '{"kind": "progress", "step": 3, "loss": 1}', "{\n"]
)
def test_an_incomplete_last_line_is_ignored_and_replaced(path, partial):
    """A line without a newline may be incomplete, even if it can be parsed."""
    write(path, 0, [1, 2])
    with path.open("a", encoding="utf-8") as file:
        file.write(partial)
    assert steps(path) == [1, 2]
    write(path, 2, [3])
    assert steps(path) == [1, 2, 3]


def test_a_missing_journal_has_no_entries(path):
    assert steps(path) == []


def tensorboard(path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(path.parent / "tensorboard"))
    accumulator.Reload()
    return accumulator


def test_tensorboard_gets_the_numbers_if_asked(path):
    with Journal(path, 0, has_tensorboard=True) as journal:
        for step in (1, 2, 3):
            journal.write("progress", step, loss=1 / step, position=[0, 1, 2])
        journal.write("validation", 3, bleu=20.5)
    events = tensorboard(path)
    assert sorted(events.Tags()["scalars"]) == ["progress/loss", "validation/bleu"]
    (score,) = events.Scalars("validation/bleu")
    assert (score.step, score.value) == (3, 20.5)


def test_tensorboard_drops_entries_after_the_checkpoint(path):
    write(path, 0, range(1, 8), has_tensorboard=True)
    with Journal(path, 5, has_tensorboard=True) as journal:
        journal.write("progress", 6, loss=9.0)
    losses = {scalar.step: scalar.value for scalar in tensorboard(path).Scalars("progress/loss")}
    assert sorted(losses) == [1, 2, 3, 4, 5, 6]
    assert losses[6] == 9.0


def test_without_tensorboard_no_other_file_is_written(path):
    write(path, 0, [1])
    assert [file.name for file in path.parent.iterdir()] == [path.name]
