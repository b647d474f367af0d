"""The five lectures whose claims the lab tests: short form to title."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

LECTURES: Mapping[str, str] = {
    "NLU": "NLU Lecture 10: Transformer",
    "CS224N": "CS224N Lecture 9: Transformer",
    "NLP10": "NLP 10: Transformer",
    "APPLY-DL": "Applied Deep Learning L56.1: Transformer",
    "CS182": "CS 182 Lecture 12: Transformers",
}


def lectures_of(sources: Iterable[tuple[str, str, str]]) -> tuple[str, ...]:
    """Return the short forms of the lectures that are cited, each once, in the order given."""
    return tuple(dict.fromkeys(lecture for lecture, *_ in sources))
