"""`dragoman demo` leads from nothing to an explained translation, with and without questions."""

import os
import pty
import select
import subprocess
import sys
import time

import pytest
import yaml

from dragoman.workflow import demonstration

COMMAND = [sys.executable, "-m", "dragoman", "demo"]
SHORT = {
    "steps": 4,
    "warmup_steps": 2,
    "validate_every": 4,
    "save_every": 4,
    "validation_pairs": 20,
    "tokens_per_update": 128,
    "micro_batch": 128,
}


@pytest.fixture
def folder(tmp_path):
    """A folder with a short corpus and a training that takes seconds."""
    recipe = demonstration.make_corpus(tmp_path / "demo")
    for split, count in (("train", 800), ("validation", 20), ("test", 20)):
        for language in ("en", "de"):
            path = recipe.parent / f"{split}.{language}"
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            path.write_text("".join(lines[:count]), encoding="utf-8")
    settings = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    settings |= {"training": SHORT, "tokenizer": {"vocabulary_size": 400}}
    recipe.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return recipe.parent


def play(command, answers, cwd, environment):
    """Run a command on a terminal, and give each answer when its question appears."""
    driver, terminal = pty.openpty()
    process = subprocess.Popen(
        command, cwd=cwd, env=environment, stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    shown, waiting = "", list(answers)
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        if select.select([driver], [], [], 1)[0]:
            try:
                shown += os.read(driver, 65536).decode("utf-8", "replace")
            except OSError:  # The other end was closed.
                break
        elif process.poll() is not None:
            break
        if waiting and waiting[0][0] in shown:
            os.write(driver, f"{waiting.pop(0)[1]}\n".encode())
    os.close(driver)
    assert not waiting, shown
    return process.wait(10), shown


@pytest.mark.slow
def test_a_person_types_a_sentence_and_the_page_opens(folder, tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    code, shown = play(
        [*COMMAND, "demo"],
        [("English [", "seven euros"), ("Start the server", "n")],
        tmp_path,
        os.environ | {"COLUMNS": "80", "BROWSER": str(browser)},
    )
    assert code == 0, shown
    page = folder / "explanation.html"
    assert "seven euros" in page.read_text(encoding="utf-8")
    assert (tmp_path / "opened").read_text().strip() == page.as_uri()
    for step in range(1, 6):
        assert f"{step}/5  " in shown
    assert "of 20 translated exactly" in shown
    assert "dragoman serve demo/run" in shown


@pytest.mark.slow
def test_without_questions_everything_is_done_and_a_second_run_is_short(folder, tmp_path):
    environment = os.environ | {"COLUMNS": "80", "BROWSER": "false"}
    outputs = []
    for _ in range(2):
        done = subprocess.run(
            [*COMMAND, "demo", "--no-input"],
            capture_output=True, text=True, encoding="utf-8", cwd=tmp_path, env=environment,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert demonstration.SENTENCE in done.stdout
        outputs.append(done.stdout)
    assert max(map(len, "".join(outputs).splitlines())) <= 80
    # The second run finds a finished training.
    assert "validation loss" in outputs[0]
    assert "validation loss" not in outputs[1]


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_demo_learns_its_task(tmp_path):
    """The whole demo, as a new user runs it."""
    done = subprocess.run(
        [*COMMAND, "--no-input"],
        capture_output=True, text=True, encoding="utf-8", cwd=tmp_path, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    match = demonstration.score(tmp_path / "demo" / "run", tmp_path / "demo")
    assert match.total == 2_000
    assert match.exact >= 0.98 * match.total
    assert "Der Zug fährt um halb drei ab." in done.stdout
