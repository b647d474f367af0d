"""Small models, really built, whose translations are explained.

translator = small_translator()                       a model of noise, that ends its sentences
translator = small_translator(model={"similarity": "cosine"}, beam=4)
data = page_data(explanation)                         what the page holds
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import numpy as np
import torch

from dragoman.decoding.pytorch import PyTorch
from dragoman.engines import Served
from dragoman.explanation.explanation import Explanation
from dragoman.model.build import build_model
from dragoman.model.initialisation import initialise
from dragoman.tokenizer.interface import END, Tokenizer
from dragoman.translator import Translator
from translator_models import NOISE, WILLINGNESS, recipe, tokenizer

SENTENCE = "One two and so five, seven; nine."
TWO_LAYERS = {"encoder_layers": 2, "decoder_layers": 2}


def small_translator(
    kind: str = "sentencepiece",
    *,
    seed: int = 1,
    model: dict[str, Any] | None = None,
    learned: Tokenizer | None = None,
    **settings: Any,
) -> Translator:
    """A model of noise in two layers, which PyTorch serves."""
    chosen = recipe(kind, seed=seed, model={**TWO_LAYERS, **(model or {})}, **settings)
    learned = learned or tokenizer(kind)
    built = build_model(chosen.model, learned.size, learned.size).eval().requires_grad_(False)
    initialise(built, seed)
    chance = torch.Generator().manual_seed(seed)
    for parameter in built.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=chance), alpha=NOISE)
    assert built.output.bias is not None
    built.output.bias[END] += WILLINGNESS
    return Translator(Served(PyTorch(built), chosen, (learned, learned), "0123456789abcdef"))


def page_data(explanation: Explanation) -> dict[str, Any]:
    """The data of the page, found where the page's script looks for it."""
    page = explanation.to_html()
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def numbers(packed: dict[str, Any], shape: tuple[int, ...]) -> np.ndarray:
    """What a packed array says."""
    whole = np.frombuffer(base64.b64decode(packed["data"]), f"<i{packed['bits'] // 8}")
    return whole.reshape(shape) / 10.0 ** packed["decimals"]
