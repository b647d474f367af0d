"""An engine process without a model: it translates with simple or bad functions.

It is the real worker with another translator. Its run is a folder with `stub.json`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from dragoman.artifact import resolve_model
from dragoman.serving.messages import EngineInfo
from dragoman.serving.worker import Worker, WorkerSettings, run_worker
from support.segment_models import drop, echo, hostile, translation

FUNCTIONS = {
    "echo": echo,
    "upper": str.upper,
    "drop": drop,
    "hostile": hostile(7),
    "brackets": lambda text: f"[{text}]",
}
CRASH = "segfault please"


class StubModel:
    """Translates with a function; each token costs time, and one text ends the process."""

    def __init__(self, stub: dict) -> None:
        self.function = FUNCTIONS[stub.get("function", "echo")]
        self.seconds_per_token = stub.get("seconds_per_token", 0.0)
        self.prefix = stub.get("prefix", "")
        if stub.get("asks_for_reload"):
            os.kill(os.getppid(), signal.SIGHUP)

    def translate_segments(self, texts, *, with_alignment, num_hypotheses):
        """Translate texts without newlines."""
        if any(CRASH in text for text in texts):
            os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(self.seconds_per_token * sum(1 + len(text) / 3.5 for text in texts))
        return [
            translation(
                text,
                self.prefix + self.function(text),
                [f"{self.function(text)} ({rank})" for rank in range(1, num_hypotheses)],
            )
            for text in texts
        ]


class StubWorker(Worker):
    """The real worker with a stub model."""

    def __init__(self, settings: WorkerSettings) -> None:
        run = Path(settings.run)
        stub = json.loads((resolve_model(run) / "stub.json").read_text())
        if stub.get("is_broken"):
            raise OSError(5, "broken stub")
        self.model = StubModel(stub)
        self.info = EngineInfo(
            name=run.name,
            source=stub.get("source", "en"),
            target=stub.get("target", "de"),
            version=stub.get("version", "1"),
            engine="stub",
            has_span_tokens=stub.get("has_span_tokens", False),
            max_hypotheses=4,
            beam_size=4,
            slots=stub.get("slots", 2),
        )
        self._writing = threading.Lock()


if __name__ == "__main__":
    run_worker(StubWorker, sys.argv[1])
