"""Runs the steps of a translation: each waits for the queue of its model, not in a thread."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass

from dragoman.documents.methods import Options, SegmentRequest, Steps
from dragoman.documents.translation import UnitResult
from dragoman.serving.engines import ModelVersion

_SEGMENT_CHARACTERS = 600
"""Longer sentences are split, so that no segment needs much longer than the others."""


@dataclass(frozen=True, slots=True)
class Turn:
    """How a request waits in the queue."""

    client: str
    deadline: float
    is_bulk: bool
    in_thread: bool


@dataclass(frozen=True, slots=True)
class _Finished:
    results: list[UnitResult]


async def drive(
    steps: Steps[list[UnitResult]], version: ModelVersion, turn: Turn
) -> list[UnitResult]:
    """Run the steps of a translation with one version of a model."""

    def advance(send: Callable[[], SegmentRequest]) -> SegmentRequest | _Finished:
        try:
            return send()
        except StopIteration as finished:  # It cannot leave a coroutine.
            return _Finished(finished.value)

    async def run(send: Callable[[], SegmentRequest]) -> SegmentRequest | _Finished:
        # What works on a long text for more than a moment must not stop the event loop.
        return await asyncio.to_thread(advance, send) if turn.in_thread else advance(send)

    value = await run(steps.__next__)
    while isinstance(value, SegmentRequest):
        answers = await version.queue.translate(
            value, client=turn.client, deadline=turn.deadline, is_bulk=turn.is_bulk
        )
        value = await run(functools.partial(steps.send, answers))
    return value.results


def options_of(
    version: ModelVersion,
    *,
    splits_sentences: bool = True,
    num_alternatives: int = 0,
    with_alignment: bool = False,
) -> Options:
    """Return how this model translates the segments of a request."""
    info = version.info
    return Options(
        source_language=info.source,
        target_language=info.target,
        has_span_tokens=info.has_span_tokens,
        has_term_tokens=info.has_term_tokens,
        max_hypotheses=info.max_hypotheses,
        splits_sentences=splits_sentences,
        max_segment_characters=_SEGMENT_CHARACTERS,
        num_alternatives=min(num_alternatives, info.beam_size - 1),
        with_alignment=with_alignment,
    )
