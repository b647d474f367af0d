"""Where is the real text that some tests read?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared_data() -> Path:
    """Give the folder of shared data, or skip the test; where CI runs, it must be there."""
    named = os.environ.get("DRAGOMAN_DATA")
    folder = Path(named) if named else Path(__file__).parents[3] / "shared" / "data"
    if folder.is_dir():
        return folder
    reason = f"no folder {folder}; name the shared data with DRAGOMAN_DATA=..."
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
