"""Where do the tests look for the shared data?"""

from __future__ import annotations

from pathlib import Path

import pytest

from support import shared_data

BESIDE = Path(__file__).parents[3] / "shared" / "data"


def test_without_a_setting_the_data_is_looked_for_beside_the_project(monkeypatch):
    monkeypatch.delenv("DRAGOMAN_DATA", raising=False)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(Path, "is_dir", lambda folder: folder == BESIDE)
    assert shared_data.shared_data() == BESIDE


@pytest.mark.parametrize(("ci", "outcome"), [("1", pytest.fail), ("", pytest.skip)])
def test_missing_data_fails_in_ci_and_is_skipped_elsewhere(ci, outcome, monkeypatch, tmp_path):
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path / "missing"))
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome.Exception, match="name the shared data"):
        shared_data.shared_data()
