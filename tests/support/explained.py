"""Small models with random weights, for tests of explanations.

translator = small_translator()                       a random model that ends its sentences
translator = small_translator(model={"similarity": "cosine"}, beam_size=4)
data = page_data(explanation)                         the data of the page
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import numpy as np
import torch

from dragoman.decoding.engines.pytorch import PyTorch
from dragoman.explanation.explanation import Explanation
from dragoman.inference.loading import LoadedModel
from dragoman.inference.translator import Translator
from dragoman.model.build import build_model
from dragoman.model.initialization import initialize
from dragoman.tokenizer.interface import END, Tokenizer
from support.translator_models import END_BIAS, NOISE, recipe, tokenizer

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
    """A model with random weights and two layers, loaded with PyTorch."""
    chosen = recipe(kind, seed=seed, model={**TWO_LAYERS, **(model or {})}, **settings)
    learned = learned or tokenizer(kind)
    built = build_model(chosen.model, learned.size, learned.size).eval().requires_grad_(False)
    initialize(built, seed)
    generator = torch.Generator().manual_seed(seed)
    for parameter in built.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=NOISE)
    assert built.output.bias is not None
    built.output.bias[END] += END_BIAS
    return Translator(LoadedModel(PyTorch(built), chosen, (learned, learned), "0123456789abcdef"))


def page_data(explanation: Explanation) -> dict[str, Any]:
    """The data of the page, from the element that the script reads."""
    page = explanation.to_html()
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    data: dict[str, Any] = json.loads(match[1])
    return data


def numbers(packed: dict[str, Any], shape: tuple[int, ...]) -> np.ndarray:
    """Unpack an array of the page."""
    integers = np.frombuffer(base64.b64decode(packed["data"]), f"<i{packed['bits'] // 8}")
    return integers.reshape(shape) / 10.0 ** packed["decimals"]
