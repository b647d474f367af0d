"""Servers with stub engines, for tests."""

from __future__ import annotations

import contextlib
import json

from dragoman.serving.models import Models
from dragoman.serving.service import Service
from dragoman.serving.worker import WorkerSettings

STUB = "support.stub_worker"


def write_stub(folder, **stub):
    """Write the run of a stub engine; its options are those of `stub_worker.StubModel`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stub.json").write_text(json.dumps(stub))
    # A new file marks a new version for the watcher.
    (folder / "card.json").write_text(json.dumps(stub))
    return folder


@contextlib.asynccontextmanager
async def serving(*runs, batch_tokens=200):
    """Start engines; give the service and its models."""
    models = Models(
        [WorkerSettings(run=str(run)) for run in runs],
        batch_tokens=batch_tokens,
        module=STUB,
    )
    await models.start()
    try:
        yield Service(models), models
    finally:
        await models.close()
