"""What a user sees during training."""

import io

import pytest
from rich.console import Console

from dragoman.cli.display.training import TrainingDisplay
from dragoman.training.events import (
    Message,
    Scores,
    TrainingProgress,
    TrainingSummary,
    UpdateCompleted,
    ValidationResult,
)
from support.sets import first_quick

SUMMARY = TrainingSummary(
    step=0,
    steps=2200,
    minutes=0,
    model="transformer, 2+2 layers, width 128",
    parameters=1_012_345,
    pairs=5000,
    device="cpu",
    threads=1,
    precision="float32",
    world_size=1,
)


def display(*, is_terminal):
    console = Console(
        file=io.StringIO(),
        force_terminal=is_terminal,
        width=100,
        highlight=False,
        color_system=None,
    )
    return TrainingDisplay(console)


def shown(*events, is_terminal=False):
    """All text that is printed for these events."""
    screen = display(is_terminal=is_terminal)
    with screen:
        for event in events:
            screen.show(event)
        screen._bar.refresh()
    return screen.console.file.getvalue()


def test_the_summary_says_what_is_trained():
    text = shown(SUMMARY)
    for line in (
        "model: transformer, 2+2 layers, width 128, 1.0 M parameters",
        "data: 5,000 sentence pairs",
        "device: cpu (no GPU found), 1 thread, float32",
        "updates: 2,200",
    ):
        assert line in text
    assert "resuming" not in text


def test_a_resumed_run_says_where_it_resumes():
    resumed = TrainingSummary(
        **{name: getattr(SUMMARY, name) for name in SUMMARY.__slots__} | {"step": 73}
    )
    assert "resuming at update 73" in shown(resumed)


def test_the_bar_moves_at_every_update_with_elapsed_and_remaining_time():
    """Also when updates are more than 30 s apart."""
    text = shown(SUMMARY, UpdateCompleted(1, 45.0, 98955.0), is_terminal=True)
    assert "1 of 2,200" in text
    assert "0:00:45" in text
    assert "1 day, 3:29:15 left" in text


def test_the_bar_shows_the_bleu_of_the_last_validation():
    events = [
        SUMMARY,
        ValidationResult(1100, Scores(0.5, 91.25), True),
        TrainingProgress(2200, 1.5, 1e-3, 0.5, 1000.0),
        ValidationResult(2200, Scores(0.25, 98.75), True),
    ]
    text = shown(*events, is_terminal=True)
    last_bar = text.rpartition("training loss 1.500")[2]
    assert "BLEU 98.8" in last_bar
    assert "BLEU 91.2" not in last_bar


def test_losses_are_labeled():
    text = shown(
        SUMMARY,
        TrainingProgress(50, 1.5, 1e-3, 0.5, 1000.0),
        ValidationResult(50, Scores(0.5, 12.0), False),
    )
    assert "training loss 1.500" in text
    assert "validation loss 0.500 (not smoothed) BLEU 12.0" in text


def test_the_bleu_of_a_general_validation_set_is_shown_beside_the_other():
    text = shown(SUMMARY, ValidationResult(50, Scores(0.5, 12.0, 40.25), False))
    assert "BLEU 12.0 (general 40.2)" in text


def test_text_in_messages_is_not_taken_for_markup():
    assert "found [bold]x[/bold]" in shown(SUMMARY, Message(3, "found [bold]x[/bold]"))


def test_other_ranks_print_nothing(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert shown(SUMMARY, Message(3, "text")) == ""


@pytest.mark.parametrize("name", first_quick(["a run$(touch x)", "run"]))
def test_the_next_commands_are_quoted_for_the_shell(tmp_path, monkeypatch, capsys, name):
    import shlex

    from dragoman.cli.train import train
    from dragoman.training import finish
    from dragoman.workflow import training
    from support import digits

    monkeypatch.setattr(finish, "draw_curve", lambda *_: None)
    monkeypatch.setattr(training, "export_to_ctranslate2", lambda _: "")
    recipe = digits.write(tmp_path, training={"steps": 1, "folder": name})
    monkeypatch.chdir(tmp_path)
    train(recipe)
    output = capsys.readouterr().out
    assert f"dragoman evaluate {shlex.quote(name)}" in output
    assert f"dragoman translate {shlex.quote(name)}" in output
    train(recipe)
    output = capsys.readouterr().out
    assert "this run is already finished: training.steps=1 is reached" in output
    assert f"dragoman train {shlex.quote(str(recipe))} training.steps=2\n" in output


def test_the_command_to_train_longer_works_with_a_linear_schedule(tmp_path, monkeypatch, capsys):
    import shlex

    from dragoman.cli.train import train
    from dragoman.training import finish
    from dragoman.workflow import training
    from support import digits

    monkeypatch.setattr(finish, "draw_curve", lambda *_: None)
    monkeypatch.setattr(training, "export_to_ctranslate2", lambda _: "")
    recipe = digits.write(tmp_path, training={"steps": 1, "schedule": "linear", "warmup_steps": 1})
    train(recipe)
    capsys.readouterr()
    train(recipe)
    (line,) = (text for text in capsys.readouterr().out.splitlines() if "train longer" in text)
    _, _, *arguments = shlex.split(line.partition(":")[2])
    train(recipe, arguments[1:])
    assert "training.steps=2 is reached" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("limits", "longer"),
    [
        ({"minutes": 1e-9}, "training.minutes=2e-09"),
        ({"patience": 1, "validate_every": 1, "min_delta": 1000.0}, "training.patience=2"),
    ],
)
def test_the_command_to_train_longer_raises_the_limit_that_was_reached(
    tmp_path, monkeypatch, capsys, limits, longer
):
    from dragoman.cli.train import train
    from dragoman.training import finish
    from dragoman.workflow import training
    from support import digits

    monkeypatch.setattr(finish, "draw_curve", lambda *_: None)
    monkeypatch.setattr(training, "export_to_ctranslate2", lambda _: "")
    recipe = digits.write(tmp_path, training={"steps": 100, **limits})
    train(recipe)
    capsys.readouterr()
    train(recipe)
    (line,) = (text for text in capsys.readouterr().out.splitlines() if "train longer" in text)
    assert line.endswith(f" {longer}")
