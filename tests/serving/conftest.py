"""Engine processes of tests find the stub engine."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _engines_find_the_tests(monkeypatch, request):
    folders = [str(request.config.rootpath / name) for name in ("src", "tests")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))
