"""Quantize the weights of a CTranslate2 model, with int8 weights that no processor saturates.

A row w of a weight matrix is stored as the integers round(s · w) with the scale s = L / max |w|.
CTranslate2 takes L = 127. We take L = 64.

CTranslate2 multiplies int8 weights with activations between 0 and 255. Processors with VNNI
instructions add the products in 32 bits. Other x86 processors first add two products in 16 bits,
and a larger sum is cut off at 32767 (Intel's manual, VPMADDUBSW). With L = 127 two products can
reach 2 · 255 · 127 = 64770. With L = 64 they reach at most 2 · 255 · 64 = 32640, so every processor
computes the same sums.
"""

from __future__ import annotations

import numpy as np
from ctranslate2.specs.transformer_spec import TransformerSpec
from numpy.typing import NDArray

from dragoman.interop.folder import Quantization

MAX_INT8_WEIGHT = 64
"""L: the largest absolute value of an int8 weight."""


def quantize(spec: TransformerSpec, quantization: Quantization) -> None:
    """Replace the float32 weights of a validated model by quantized ones."""
    is_int8 = quantization.startswith("int8")
    # CTranslate2 rounds in place, so the exact matrices are copied before it does.
    exact = {
        name: variable.numpy().copy()
        for name, variable in spec.variables().items()
        if is_int8 and name.endswith("/weight")
    }
    spec.optimize(quantization=quantization)
    variables = spec.variables()
    for name, matrix in exact.items():
        scale_name = f"{name}_scale"
        if scale_name in variables:  # A matrix without a scale is another name of one that has it.
            integers, scales = to_int8(matrix)
            variables[name].numpy()[...] = integers
            variables[scale_name].numpy()[...] = scales


def to_int8(matrix: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return the integers of a matrix, and the scale of each row. A row of zeros stays zero."""
    largest = np.abs(matrix).max(axis=1)
    # The smallest value keeps the scale finite in float32.
    largest = np.maximum(largest, MAX_INT8_WEIGHT / np.finfo(np.float32).max)
    scales = (MAX_INT8_WEIGHT / largest).astype(np.float32)
    return np.rint(matrix * scales[:, None]).astype(np.int8), scales
