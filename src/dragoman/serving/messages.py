"""Messages between the server and its engine processes: a length, and then JSON.

No pickle: a message can only be numbers and texts. The first message of an engine describes its
model. Every other message is a batch, or the answer to a batch.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, BinaryIO

from pydantic import BaseModel, ConfigDict

from dragoman.documents.methods import SegmentRequest
from dragoman.inference.joining import Translation

LENGTH = struct.Struct(">I")
MAX_BYTES = 1 << 28


class EngineInfo(BaseModel):
    """What an engine says about its model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""
    """The name of the run's folder."""
    source: str = ""
    target: str = ""
    version: str = ""
    """The beginning of the hash of the model."""
    engine: str = ""
    has_span_tokens: bool = False
    has_term_tokens: bool = False
    max_hypotheses: int = 1
    beam_size: int = 1
    slots: int = 1
    """Batches that it translates at the same time."""
    error: str = ""
    """Why the model could not be loaded; all other fields are empty then."""


def frame(value: object) -> bytes:
    """Return a message as bytes."""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )
    return LENGTH.pack(len(data)) + data


def parse(data: bytes) -> Any:
    """Return the value of a message without its length."""
    return json.loads(data.decode("utf-8", "surrogatepass"))


def read_frame(stream: BinaryIO) -> Any | None:
    """Read the next message; None at the end."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    data = stream.read(length)
    return parse(data) if len(data) == length else None


def batch_message(number: int, request: SegmentRequest) -> bytes:
    """Return the message that sends a batch to an engine."""
    return frame([number, request.texts, request.with_alignment, request.num_hypotheses])


def read_batch(value: Any) -> tuple[int, SegmentRequest]:
    """Return the number of a batch and the batch."""
    number, texts, with_alignment, num_hypotheses = value
    return number, SegmentRequest(tuple(texts), with_alignment, num_hypotheses)


def answer_message(number: int, answers: Sequence[Translation], *, with_tokens: bool) -> bytes:
    """Return the message that answers a batch; tokens are only sent if they are needed."""
    rows = [
        [one.text, one.score, one.flags, one.alternatives]
        + ([one.source_tokens, one.tokens, one.alignment] if with_tokens else [])
        for one in answers
    ]
    return frame([number, rows, ""])


def failure_message(number: int, reason: str) -> bytes:
    """Return the message that says that a batch failed."""
    return frame([number, [], reason])


def read_answer(value: Any) -> tuple[int, list[Translation], str]:
    """Return the number of a batch, its translations, and the reason if it failed."""
    number, rows, reason = value
    return number, [_translation(*row) for row in rows], reason


def _translation(
    text: str,
    score: float,
    flags: list[str],
    alternatives: list[str],
    source_tokens: Sequence[str] = (),
    tokens: Sequence[str] = (),
    alignment: Sequence[tuple[int, int]] = (),
) -> Translation:
    pairs = tuple((source, target) for source, target in alignment)
    return Translation(
        text, score, tuple(source_tokens), tuple(tokens), pairs, tuple(flags), tuple(alternatives)
    )
