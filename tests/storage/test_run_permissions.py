"""All files of a run have the same permissions, so that a server of another user can read them."""

import stat

import pytest

from support import digits, trainees


@pytest.mark.slow
def test_every_file_of_a_run_has_the_same_mode(tmp_path):
    training = {"steps": 2, "save_every": 1, "validate_every": 2}
    try:
        run = trainees.train(digits.write(tmp_path, training=training))
    finally:
        trainees.kill_all()
    new_file = tmp_path / "new"
    new_file.touch()
    modes = {
        path.relative_to(run).as_posix(): oct(stat.S_IMODE(path.stat().st_mode))
        for path in run.rglob("*")
        if path.is_file()
    }
    assert {"model.safetensors", "card.json", "recipe.yaml"} <= set(modes)
    assert any(name.startswith("checkpoints/") for name in modes)
    expected = oct(stat.S_IMODE(new_file.stat().st_mode))
    assert {name: mode for name, mode in modes.items() if mode != expected} == {}
