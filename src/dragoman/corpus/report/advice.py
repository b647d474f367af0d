"""Derives advice from a report: what to check before training, the most important first."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.corpus.report.model import Report

_FEW_PAIRS = 10_000
_HINTS = {
    "wrong source language": "Check the order of the two files, and the languages.",
    "wrong target language": "Check the order of the two files, and the languages.",
    "exact duplicate": "Check whether the same corpus is named twice.",
    "in a test set": "Check whether the training corpus contains the test set.",
    "degenerate translation: repetition": "Check the model: it repeats itself on this text.",
    "degenerate translation: length": "Check whether the model fits this text.",
    "length ratio too large": "Check whether the lines of both files are still aligned.",
}


def advice(report: Report) -> list[str]:
    """Return what a person should check, the most important first."""
    return [
        *_shifted(report),
        *_dropped(report),
        *_other_language(report),
        *_training_text(report),
    ]


def share(part: int, whole: int) -> str:
    """Format a share in percent; 0.0 % and 100.0 % only if they are exact."""
    percent = 100 * part / max(1, whole)
    digits = 1 if 0.05 <= percent <= 99.95 or part in (0, whole) else 3
    return f"{percent:.{digits}f} %"


def _shifted(report: Report) -> Iterator[str]:
    for corpus in report.corpora:
        if corpus.shift:
            yield f"{corpus.name}: {corpus.shift}."


def _dropped(report: Report) -> Iterator[str]:
    for corpus in report.corpora:
        for reason, count in sorted(corpus.dropped.items(), key=lambda item: -item[1]):
            if corpus.split == "train" and count > 0.2 * corpus.rows:
                hint = _HINTS.get(reason, "Look at the examples in the report.")
                yield f"{corpus.name}: {share(count, corpus.rows)} dropped for “{reason}”. {hint}"


def _other_language(report: Report) -> Iterator[str]:
    for side in ("source", "target"):
        count = getattr(report.foreign, side)
        total = sum(getattr(report.detected, side).values())
        if count > 0.1 * total:
            yield (
                f"{share(count, total)} of the sampled {side} texts seem to be in another language "
                f"than {getattr(report.languages, side)}."
            )


def _training_text(report: Report) -> Iterator[str]:
    if report.splits.train < _FEW_PAIRS:
        yield (
            f"Fewer than {_FEW_PAIRS:,} training pairs: the model will translate only text that is "
            "very similar to them."
        )
    vocabulary = report.vocabulary
    for name, side in (("source", vocabulary.source), ("target", vocabulary.target)):
        if side.unknown_share > 0.001:
            percent = f"{100 * side.unknown_share:.2f} %"
            yield f"Unknown tokens on the {name} side: {percent} of the first shard."
    if vocabulary.too_long:
        yield f"Pairs left out because of corpus.max_tokens: {vocabulary.too_long:,}."
