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


def cite(short_forms: Iterable[str]) -> str:
    """Cite lectures by their short forms: [NLU] [CS182]."""
    return " ".join(f"[{short_form}]" for short_form in short_forms)
