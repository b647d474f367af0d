"""From a run and a sentence to a page, and pictures where they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dragoman.errors import DataError
from dragoman.explanation.explain import explain
from dragoman.explanation.explanation import Explanation


def explain_sentence(
    run: str | Path,
    sentence: str,
    settings: Sequence[str] = (),
    *,
    language: str = "",
    page: Path,
    figures: Path | None = None,
) -> tuple[Explanation, list[Path]]:
    """Explain, write the page, and draw; give the explanation and where the pictures are."""
    strange = [each for each in settings if "=" not in each]
    if strange:
        raise DataError(
            f"found {strange[0]!r} behind the sentence, expected settings as decoding.beam=3; put "
            'the sentence in quotation marks, and name one run: dragoman explain RUN "a sentence"'
        )
    explanation = explain(run, sentence, settings, language=language)
    explanation.save(page)
    if figures is None:
        return explanation, []
    from dragoman.explanation.draw import draw  # noqa: PLC0415  (only pictures need matplotlib)

    return explanation, draw(explanation, figures)
