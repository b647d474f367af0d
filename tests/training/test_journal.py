"""Does the journal tell one story, whatever happened?"""

import json

import pytest

from dragoman.training.journal import Journal, read_journal


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def write(path, after, steps, **options):
    with Journal(path, after, **options) as journal:
        for step in steps:
            journal.write("learned", step, loss=1 / step)


def steps(path):
    return [line["step"] for line in read_journal(path)]


def test_a_line_is_there_when_write_returns(path):
    with Journal(path, 0) as journal:
        journal.write("learned", 1, loss=2.5, place=[0, 1, 2])
        (line,) = path.read_text(encoding="utf-8").splitlines()
        assert json.loads(line) == {"kind": "learned", "step": 1, "loss": 2.5, "place": [0, 1, 2]}


def test_going_on_cuts_off_what_is_behind_the_step(path):
    write(path, 0, range(1, 8))
    write(path, 5, [6])
    assert steps(path) == [1, 2, 3, 4, 5, 6]
    write(path, 0, [])
    assert steps(path) == []


def test_a_story_with_interruptions_is_the_story_without(path, tmp_path):
    other = tmp_path / "other.jsonl"
    write(path, 0, range(1, 13))
    write(other, 0, range(1, 8))
    write(other, 5, range(6, 11))
    write(other, 10, range(11, 13))
    assert other.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "torn", ['{"kind": "learned", "st', '{"kind": "learned", "step": 3, "loss": 1}', "{\n"]
)
def test_a_torn_last_line_is_ignored_and_written_over(path, torn):
    """Without its line end a line may be cut anywhere, even where it can be read."""
    write(path, 0, [1, 2])
    with path.open("a", encoding="utf-8") as file:
        file.write(torn)
    assert steps(path) == [1, 2]
    write(path, 2, [3])
    assert steps(path) == [1, 2, 3]


def test_where_there_is_no_journal_there_are_no_lines(path):
    assert steps(path) == []


def board(path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(path.parent / "tensorboard"))
    accumulator.Reload()
    return accumulator


def test_tensorboard_gets_the_numbers_when_asked(path):
    with Journal(path, 0, has_board=True) as journal:
        for step in (1, 2, 3):
            journal.write("learned", step, loss=1 / step, place=[0, 1, 2])
        journal.write("validated", 3, bleu=20.5)
    found = board(path)
    assert sorted(found.Tags()["scalars"]) == ["learned/loss", "validated/bleu"]
    (score,) = found.Scalars("validated/bleu")
    assert (score.step, score.value) == (3, 20.5)


def test_tensorboard_forgets_what_was_cut_off(path):
    write(path, 0, range(1, 8), has_board=True)
    with Journal(path, 5, has_board=True) as journal:
        journal.write("learned", 6, loss=9.0)
    found = {each.step: each.value for each in board(path).Scalars("learned/loss")}
    assert sorted(found) == [1, 2, 3, 4, 5, 6]
    assert found[6] == 9.0


def test_not_asked_it_writes_nothing_else(path):
    write(path, 0, [1])
    assert [each.name for each in path.parent.iterdir()] == [path.name]
