"""An engine process: `python -m dragoman.serving.worker` translates batches for the server.

The model lives in its own process, so that a crash in native code does not end the server, and a
model that is no longer used gives all its memory back. Batches come on standard input, answers go
to standard output. The process ends when its input ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ConfigDict

from dragoman.documents.methods import SegmentRequest
from dragoman.errors import ArtifactError, DragomanError
from dragoman.inference.translator import Translator
from dragoman.serving.messages import (
    EngineInfo,
    answer_message,
    failure_message,
    frame,
    read_batch,
    read_frame,
)
from dragoman.storage.machine import available_cpus
from dragoman.workflow.documents import options_for, segment_model


class WorkerSettings(BaseModel):
    """What the server tells an engine at its start, as JSON in the first argument."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    threads: int = 0


def run_worker(worker_class: type[Worker], argument: str) -> None:
    """Load the model, say what it is, and translate until the input ends."""
    settings = WorkerSettings.model_validate_json(argument)
    # Ctrl+C goes to all processes of the terminal; only the server decides when engines end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = sys.stdin.buffer
    # What a library prints must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        worker = worker_class(settings)
    except (DragomanError, OSError) as error:
        answers.write(frame(EngineInfo(error=str(error)).model_dump(mode="json")))
        answers.flush()
        sys.exit(1)
    try:
        worker.serve(requests, answers)
    except BrokenPipeError:
        # The server ended while the model was loaded. Ending at once does not write again.
        os._exit(0)


class Worker:
    """A model that translates batches in threads."""

    def __init__(self, settings: WorkerSettings) -> None:
        run = Path(settings.run)
        self.translator = Translator.load(run, threads=settings.threads)
        self.model = segment_model(self.translator)
        translator = self.translator
        languages = translator.recipe.languages
        if not (languages.source and languages.target):
            raise ArtifactError(
                f"{settings.run!r} does not name its languages; a server needs one source and one "
                "target language. Import it again with its languages, for example: dragoman import "
                "MODEL en-fr --languages en-fr"
            )
        options = options_for(translator)
        is_native = translator.engine.name == "ctranslate2"
        self.info = EngineInfo(
            name=run.resolve().name,
            source=languages.source,
            target=languages.target,
            version=translator.model_hash[:12],
            engine=translator.engine.name,
            has_span_tokens=options.has_span_tokens,
            has_term_tokens=options.has_term_tokens,
            max_hypotheses=options.max_hypotheses,
            beam_size=translator.settings.beam_size if translator.settings.search == "beam" else 1,
            # PyTorch uses all threads for one batch.
            slots=(settings.threads or available_cpus()) if is_native else 1,
        )
        self._writing = threading.Lock()

    def serve(self, requests: BinaryIO, answers: BinaryIO) -> None:
        """Translate batches until the input ends."""
        self._write(answers, frame(self.info.model_dump(mode="json")))
        with ThreadPoolExecutor(self.info.slots) as pool:
            while (value := read_frame(requests)) is not None:
                number, batch = read_batch(value)
                pool.submit(self._answer, answers, number, batch)

    def _answer(self, answers: BinaryIO, number: int, batch: SegmentRequest) -> None:
        try:
            translations = self.model.translate_segments(
                batch.texts,
                with_alignment=batch.with_alignment,
                num_hypotheses=min(batch.num_hypotheses, self.info.beam_size),
            )
            message = answer_message(number, translations, with_tokens=batch.with_alignment)
        except Exception as error:
            # Only the type: a message may contain text of a client.
            message = failure_message(number, type(error).__name__)
        self._write(answers, message)

    def _write(self, answers: BinaryIO, message: bytes) -> None:
        with self._writing:
            answers.write(message)
            answers.flush()


if __name__ == "__main__":
    run_worker(Worker, sys.argv[1])
