"""What happened in a run?

One JSON object a line in `journal.jsonl`, each with its kind and step. A run that goes on from a
checkpoint cuts the journal off behind it, so that it tells one story, as if nothing had happened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dragoman.durable import write_text
from dragoman.errors import MissingExtraError


class Journal:
    """Appends to the journal of a run; `board` also writes TensorBoard's files."""

    def __init__(self, path: Path, step: int, *, has_board: bool = False) -> None:
        kept = [line for line in read_journal(path) if line["step"] <= step]
        write_text(path, "".join(f"{json.dumps(line)}\n" for line in kept))
        self._file = path.open("a", encoding="utf-8")
        self._board: Any = None
        if has_board:
            try:
                from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  (an extra)
            except ModuleNotFoundError:
                raise MissingExtraError("training.tensorboard", "tensorboard", "track") from None

            self._board = SummaryWriter(path.parent / "tensorboard", purge_step=step + 1)

    def write(self, kind: str, step: int, **facts: Any) -> None:
        """Write a line; it is there when this returns, though a power cut may take it."""
        self._file.write(json.dumps({"kind": kind, "step": step, **facts}) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in _numbers(facts):
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Read the lines that are whole."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                return  # A crash cut it; it would be written again.
            try:
                yield json.loads(line)
            except ValueError:
                return


def _numbers(facts: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    return ((name, value) for name, value in facts.items() if isinstance(value, int | float))
