"""How does an explanation become a page?

A template, a style and a script, which lie beside this file, and the numbers as JSON: one file that
needs nothing else, and may load nothing else, for its own policy forbids it. A token may hold any
text; it goes into the page as data and never as markup.

Numbers are rounded once, here, to as many decimals as the page shows, so what is shown is what
was recorded. Weights are told in hundredths of a percent. Scores alone have more: the page divides
them by their scale. Arrays are integers of 16 or 32 bits in base64, times a power of ten.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import unicodedata
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from dragoman.explanation import heads
from dragoman.explanation.heads import Numbers

if TYPE_CHECKING:
    from dragoman.explanation.explanation import Explanation, Look, SearchStory

WEIGHT_DECIMALS = 4
VECTOR_DECIMALS, SCORE_DECIMALS = 3, 6
"""At most; fewer where numbers are so large that their bits have no room."""
ROOM, LEAST = 1_800_000, 500_000
"""Characters for all arrays, and for queries and keys where maps leave less than that. Vectors that
have no room are left out, and the page says so."""


def render(explanation: Explanation) -> str:
    """Write the page."""
    beside = files("dragoman.explanation")
    template, style, script = (
        (beside / f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    # In a script element, only < could end the data; json has a second spelling for it.
    data = json.dumps(as_data(explanation), separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "policy": "default-src 'none'; "
        f"style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'",
        "title": escape(f"{explanation.sentence} → {explanation.translation}"),
        "style": style,
        "script": script,
        "data": data,
    }
    # In one go: what is put in is not looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def as_data(explanation: Explanation) -> dict[str, Any]:
    """Everything that the page shows, as JSON can hold it."""
    left = max(ROOM - sum(map(_map_size, explanation.looks)), LEAST)
    looks = []
    # The vectors of the top come first, and of cross-attention before all, if not all have room.
    order = sorted(explanation.looks, key=lambda each: (each.kind != "cross", -each.layer))
    for look in order:
        size = _vector_size(look)
        has_room = size <= left
        left -= size if has_room else 0
        looks.append(_look(look, has_room))
    words = [
        {
            "token": word.token,
            "probability": _probability(word.probability),
            "alternatives": [[token, _probability(each)] for token, each in word.alternatives],
        }
        for word in explanation.words
    ]
    return {
        "sentence": explanation.sentence,
        "translation": explanation.translation,
        "directions": [_direction(explanation.sentence), _direction(explanation.translation)],
        "languages": explanation.languages,
        "model": explanation.model,
        "score": round(explanation.score, 4),
        "notes": explanation.notes,
        "source": explanation.source,
        "read": explanation.read,
        "words": words,
        "alignments": [_fixed(each, WEIGHT_DECIMALS) for each in explanation.alignments],
        "looks": looks,
        "thresholds": {"main": heads.MAIN, "even": heads.EVEN, "sharp": heads.SHARP},
        "search": _search(explanation.search),
    }


def _look(look: Look, with_vectors: bool) -> dict[str, Any]:
    product = look.product
    vectors = None
    if product is not None:
        vectors = {"scale": product.scale, "size": product.queries.shape[-1], "isLeftOut": True}
        if with_vectors:
            decimals = min(
                _decimals(each, VECTOR_DECIMALS) for each in (product.queries, product.keys)
            )
            vectors |= {
                "isLeftOut": False,
                "queries": _fixed(product.queries, decimals),
                "keys": _fixed(product.keys, decimals),
            }
    measures = [
        {
            name: value if isinstance(value, str) or value is None else round(value, 4)
            for name in heads.Head.__slots__
            for value in (getattr(head, name),)
        }
        for head in look.heads
    ]
    return {
        "kind": look.kind,
        "layer": look.layer,
        "shape": look.weights.shape,
        "weights": _fixed(look.weights, WEIGHT_DECIMALS),
        "scores": _fixed(look.scores, _decimals(look.scores, SCORE_DECIMALS, 32), 32),
        "mask": base64.b64encode(np.packbits(look.mask.flatten()).tobytes()).decode(),
        "similarity": look.similarity,
        "reach": look.reach,
        "isSoftmax": look.is_softmax,
        "vectors": vectors,
        "heads": measures,
    }


def _search(story: SearchStory) -> dict[str, Any]:
    return {
        "name": story.name,
        "width": story.width,
        "lengthForm": story.length_form,
        "lengthPenalty": story.length_penalty,
        "steps": [
            [[each.parent, each.token, each.text, round(each.score, 4), each.fate] for each in step]
            for step in story.steps
        ],
        "finalists": [
            [each.text, each.length, round(each.total, 4), round(each.score, 4)]
            for each in story.finalists
        ],
    }


def _fixed(values: Numbers, decimals: int, bits: int = 16) -> dict[str, Any]:
    """Numbers of so many decimals, as integers."""
    whole = np.rint(values.astype(np.float64) * 10.0**decimals).astype(f"<i{bits // 8}")
    text = base64.b64encode(whole.tobytes()).decode()
    return {"decimals": decimals, "bits": bits, "data": text}


def _decimals(values: Numbers, most: int, bits: int = 16) -> int:
    """How many decimals have room."""
    largest = float(np.abs(values).max(initial=0.0))
    room = math.floor(math.log10((2 ** (bits - 1) - 1) / largest)) if largest else most
    return min(room, most)


def _map_size(look: Look) -> int:
    """Characters of weights and scores: base64 has four for three bytes."""
    return look.weights.size * (2 + 4) * 4 // 3


def _vector_size(look: Look) -> int:
    """Characters of queries and keys."""
    if look.product is None:
        return 0
    return (look.product.queries.size + look.product.keys.size) * 2 * 4 // 3


def _probability(value: float) -> float:
    return float(f"{value:.6g}")


def _direction(text: str) -> str:
    """Where a text begins: at the first letter that says so."""
    kinds = (unicodedata.bidirectional(each) for each in text)
    first = next((kind for kind in kinds if kind in ("L", "R", "AL")), "L")
    return "ltr" if first == "L" else "rtl"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
