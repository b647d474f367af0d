"""`dragoman doctor` examines the real machine, and each advice can be followed."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dragoman.storage.machine import available_cpus, vector_instructions
from dragoman.workflow import diagnosis
from dragoman.workflow.diagnosis import Check, diagnose

ROOT = Path(__file__).parents[2]


def doctor(*arguments, **variables):
    return subprocess.run(
        [sys.executable, "-m", "dragoman", "doctor", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | variables,
    )


@pytest.mark.slow
def test_the_report_fits_into_a_terminal():
    done = doctor()
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    for name in ("Python", "PyTorch", "GPU", "CTranslate2", "CPU", "Memory", "Disk", "Extras"):
        assert f"  {name:<14}" in done.stdout


@pytest.mark.slow
def test_unused_cpus_are_noticed():
    checks = json.loads(doctor("--json", OMP_NUM_THREADS="1").stdout)
    (torch,) = (check for check in checks if check["name"] == "PyTorch")
    has_more = available_cpus() > 1
    assert torch["status"] == ("advice" if has_more else "ok")
    assert ("unset OMP_NUM_THREADS" in torch["advice"]) == has_more


def test_whatever_is_not_in_order_comes_with_advice(tmp_path):
    checks = diagnose(tmp_path)
    assert all(check.advice for check in checks if check.status != "ok")
    assert len({check.name for check in checks}) == len(checks)


def test_the_extras_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = diagnosis._extra_packages()
    assert set(extras) == set(project["optional-dependencies"]) - {"all"}
    assert "torch" in extras["train"]
    # `evaluate` names the extra `infer`, whose packages belong to it too.
    assert extras["evaluate"] > extras["infer"]
    # `cluster` names an extra of another package: `daft[ray]`.
    assert "ray" in extras["cluster"]


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    real = diagnosis._is_distribution
    monkeypatch.setattr(diagnosis, "_is_distribution", lambda name: name != "ray" and real(name))
    monkeypatch.setattr(diagnosis, "_extra_packages", lambda: {"x": {"ray"}, "y": {"torch"}})
    assert list(diagnosis._check_extras()) == [
        Check("Extras", "y"),
        Check("Extra x", "not installed: ray", advice="pip install 'dragoman[x]'"),
    ]


def test_instructions_and_stolen_time_are_read_from_the_system(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text(
        "processor : 0\nflags : fpu avx2 avx_vnni avx512_vnni\n"
    )
    assert vector_instructions(tmp_path) == ["AVX2", "VNNI"]
    assert vector_instructions(tmp_path / "absent") == []
    assert diagnosis._stolen_share(tmp_path / "absent") == 0
    (tmp_path / "proc" / "stat").write_text("cpu  10 0 10 70 0 0 0 10 0 0\n")
    assert diagnosis._stolen_share(tmp_path) == 0  # The counters did not move.
