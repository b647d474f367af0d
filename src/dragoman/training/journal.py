"""The journal of a run: `journal.jsonl`, one JSON object per line.

Each entry has a `kind` and a `step`:

    progress      loss, learning_rate, grad_norm, tokens_per_second, seconds
    validation    loss, bleu, is_best, and general_bleu if there is a general validation set
    skipped       position: an update was skipped, its loss or gradient was not finite
    save_failed   reason: a checkpoint was not saved

A resumed run first removes the entries after its checkpoint. The journal is then the same as that
of a run that was not interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from dragoman.errors import MissingExtraError
from dragoman.storage.files import write_text

JOURNAL = "journal.jsonl"
"""The name of the file."""
SAMPLES = "samples.jsonl"
"""A file beside it: sample translations (`dashboard/samples.py`)."""
EntryKind = Literal["progress", "validation", "skipped", "save_failed"]
JournalEntry = dict[str, Any]


class Journal:
    """Appends entries to the journal of a run, and to TensorBoard files if asked."""

    def __init__(self, path: Path, step: int, *, has_tensorboard: bool = False) -> None:
        kept = [entry for entry in read_journal(path) if entry["step"] <= step]
        write_text(path, "".join(f"{json.dumps(entry)}\n" for entry in kept))
        self._file = path.open("a", encoding="utf-8")
        self._tensorboard: Any = None
        if has_tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  (an extra)
            except ModuleNotFoundError:
                raise MissingExtraError("training.tensorboard", "tensorboard", "track") from None

            self._tensorboard = SummaryWriter(path.parent / "tensorboard", purge_step=step + 1)

    def write(self, kind: EntryKind, step: int, **facts: Any) -> None:
        """Write one entry; it is flushed to the operating system, but not to the disk."""
        self._file.write(json.dumps({"kind": kind, "step": step, **facts}) + "\n")
        self._file.flush()
        if self._tensorboard is not None:
            for name, value in _numbers(facts):
                self._tensorboard.add_scalar(f"{kind}/{name}", value, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if self._tensorboard is not None:
            self._tensorboard.close()


def read_journal(path: Path) -> Iterator[JournalEntry]:
    """Yield the complete entries of a journal; none if there is no file."""
    for line, _ in read_lines(path):
        try:
            yield json.loads(line)
        except ValueError:
            return


def read_lines(path: Path, offset: int = 0) -> Iterator[tuple[bytes, int]]:
    """Yield the complete lines from an offset in bytes on, each with the offset after it.

    The last line is incomplete if the process was killed while writing, or is writing now.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            yield line, offset


def _numbers(facts: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    return ((name, value) for name, value in facts.items() if isinstance(value, int | float))
