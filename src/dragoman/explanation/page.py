"""Render an explanation as one HTML page.

The page is a template, a style sheet and scripts from the folder `html`, plus the numbers as JSON.
It is one file that needs nothing else; its Content-Security-Policy forbids it to load anything. A
token may contain any text; it goes into the page as data, never as markup.

Numbers are rounded once, here, to the decimals that the page shows. Weights are rounded to a
hundredth of a percent. Scores have more decimals, because the page divides them by their scale.
Arrays are stored as 16- or 32-bit integers in base64, times a power of ten.
"""

from __future__ import annotations

import base64
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from dragoman.explanation import heads
from dragoman.explanation.heads import Array, HeadSummary
from dragoman.explanation.html_page import END_LABEL, Frame, shared_file

if TYPE_CHECKING:
    from dragoman.explanation.explanation import (
        AttentionView,
        DotProduct,
        Explanation,
        OutputToken,
        SearchTrace,
    )

SCRIPTS = (
    "elements",
    "colors",
    "arrays",
    "base",
    "tokens",
    "attention",
    "arithmetic",
    "search",
    "main",
)
"""The script files, in the order in which they run."""
WEIGHT_DECIMALS = 4
VECTOR_DECIMALS, SCORE_DECIMALS = 3, 6
"""Upper limits; there are fewer decimals for numbers that are too large for their integers."""
ARRAY_CHARACTERS, MIN_VECTOR_CHARACTERS = 1_800_000, 500_000
"""Size budget for all arrays, and the part of it that queries and keys always get. Vectors beyond
the budget are left out, and the page says so."""


def render(explanation: Explanation) -> str:
    """Render the page."""
    title = f"{explanation.sentence} → {explanation.translation}"
    return _frame().render(title, to_data(explanation))


def style_and_script() -> tuple[str, str]:
    """Return the style sheet and the script, which are the same in every page."""
    frame = _frame()
    return frame.style, frame.script


def to_data(explanation: Explanation) -> dict[str, Any]:
    """Everything that the page shows, in types that JSON has."""
    sources, targets = explanation.source_tokens, [token.token for token in explanation.tokens]
    return {
        "sentence": explanation.sentence,
        "translation": explanation.translation,
        "directions": [_direction(explanation.sentence), _direction(explanation.translation)],
        "languages": explanation.languages,
        "model": explanation.model,
        "score": round(explanation.score, 4),
        "notes": explanation.notes,
        "source_tokens": sources,
        "decoder_input": explanation.decoder_input,
        "tokenCounts": [_count_without_end(sources), _count_without_end(targets)],
        "tokens": [_token_data(token) for token in explanation.tokens],
        "alignments": [_pack(weights, WEIGHT_DECIMALS) for weights in explanation.alignments],
        "attention": _attention_data(explanation.attention),
        "thresholds": {
            "dominant": heads.DOMINANT,
            "partial": heads.PARTIAL,
            "lift": heads.LIFT,
            "uniform": heads.UNIFORM,
            "peaked": heads.PEAKED,
            "different": heads.DIFFERENT,
        },
        "search": _search_data(explanation.search),
    }


def _count_without_end(tokens: Sequence[str]) -> int:
    """The number of tokens, not counting an end token, so that both sides are comparable."""
    has_end = bool(tokens) and tokens[-1] == END_LABEL
    return len(tokens) - has_end


def _token_data(token: OutputToken) -> dict[str, Any]:
    return {
        "token": token.token,
        "probability": _round_probability(token.probability),
        "alternatives": [
            [other, _round_probability(probability)] for other, probability in token.alternatives
        ],
    }


def _attention_data(views: Sequence[AttentionView]) -> list[dict[str, Any]]:
    remaining = max(ARRAY_CHARACTERS - sum(map(_map_size, views)), MIN_VECTOR_CHARACTERS)
    data = []
    # If not all vectors fit, cross-attention and upper layers come first.
    for view in sorted(views, key=lambda view: (view.role != "cross", -view.layer)):
        size = _vector_size(view)
        fits = size <= remaining
        remaining -= size if fits else 0
        data.append(_view_data(view, with_vectors=fits))
    return data


def _view_data(view: AttentionView, *, with_vectors: bool) -> dict[str, Any]:
    product = view.product
    return {
        "role": view.role,
        "layer": view.layer,
        "shape": view.weights.shape,
        "weights": _pack(view.weights, WEIGHT_DECIMALS),
        "scores": _pack(view.scores, _fitting_decimals(view.scores, SCORE_DECIMALS, 32), 32),
        "mask": base64.b64encode(np.packbits(view.mask.flatten()).tobytes()).decode(),
        "similarity": view.similarity,
        "attentionKind": view.attention_kind,
        "isSoftmax": view.is_softmax,
        "vectors": None if product is None else _vector_data(product, with_vectors),
        "heads": [_head_data(head) for head in view.heads],
    }


def _vector_data(product: DotProduct, with_vectors: bool) -> dict[str, Any]:
    data = {
        "scale": product.scale,
        "size": product.queries.shape[-1],
        "isLeftOut": not with_vectors,
    }
    if not with_vectors:
        return data
    decimals = min(
        _fitting_decimals(vectors, VECTOR_DECIMALS) for vectors in (product.queries, product.keys)
    )
    return data | {
        "queries": _pack(product.queries, decimals),
        "keys": _pack(product.keys, decimals),
    }


def _head_data(head: HeadSummary) -> dict[str, Any]:
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in asdict(head).items()
    }


def _search_data(trace: SearchTrace) -> dict[str, Any]:
    return {
        "name": trace.name,
        "beamSize": trace.beam_size,
        "lengthNormalization": trace.length_normalization,
        "lengthPenalty": trace.length_penalty,
        "coveragePenalty": trace.coverage_penalty,
        "steps": [
            [
                [
                    hypothesis.parent,
                    hypothesis.token,
                    hypothesis.text,
                    round(hypothesis.score, 4),
                    hypothesis.outcome,
                ]
                for hypothesis in step
            ]
            for step in trace.steps
        ],
        "finished": [
            [
                hypothesis.text,
                hypothesis.length,
                round(hypothesis.total, 4),
                round(hypothesis.score, 4),
            ]
            for hypothesis in trace.finished
        ],
    }


def _pack(values: Array, decimals: int, bits: int = 16) -> dict[str, Any]:
    """Numbers rounded to some decimals, as integers in base64."""
    integers = np.rint(values.astype(np.float64) * 10.0**decimals).astype(f"<i{bits // 8}")
    text = base64.b64encode(integers.tobytes()).decode()
    return {"decimals": decimals, "bits": bits, "data": text}


def _fitting_decimals(values: Array, limit: int, bits: int = 16) -> int:
    """How many decimals fit into the integers, at most `limit`."""
    largest = float(np.abs(values).max(initial=0.0))
    fitting = math.floor(math.log10((2 ** (bits - 1) - 1) / largest)) if largest else limit
    return min(fitting, limit)


def _map_size(view: AttentionView) -> int:
    """Characters of weights and scores; base64 needs four characters for three bytes."""
    return view.weights.size * (2 + 4) * 4 // 3


def _vector_size(view: AttentionView) -> int:
    """Characters of queries and keys."""
    if view.product is None:
        return 0
    return (view.product.queries.size + view.product.keys.size) * 2 * 4 // 3


def _round_probability(value: float) -> float:
    return float(f"{value:.6g}")


def _direction(text: str) -> str:
    """The writing direction, given by the first letter that has one."""
    classes = (unicodedata.bidirectional(letter) for letter in text)
    first = next((name for name in classes if name in ("L", "R", "AL")), "L")
    return "ltr" if first == "L" else "rtl"


def _frame() -> Frame:
    return Frame.read(
        shared_file("page.html"),
        [shared_file("base.css"), shared_file("style.css")],
        [shared_file(f"{name}.js") for name in SCRIPTS],
    )
