"""int8 weights keep every sum of two products within 16 bits, and are rounded once."""

from __future__ import annotations

import ctranslate2
import numpy as np
import pytest
from ctranslate2.specs.transformer_spec import TransformerSpec
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dragoman.interop import ctranslate2 as exporter
from dragoman.interop.quantization import MAX_INT8_WEIGHT, to_int8
from support.interop_models import small, write_model

LARGEST_ACTIVATION = 255

MATRICES = arrays(
    np.float32,
    st.tuples(st.integers(1, 5), st.integers(1, 8)),
    elements=st.floats(-(2.0**100), 2.0**100, width=32),
)


def test_two_products_fit_into_16_bits_and_a_larger_limit_would_not():
    assert np.iinfo(np.int16).max >= 2 * LARGEST_ACTIVATION * MAX_INT8_WEIGHT
    assert np.iinfo(np.int16).max < 2 * LARGEST_ACTIVATION * (MAX_INT8_WEIGHT + 1)


@given(MATRICES)
def test_integers_are_within_the_limit_and_rounded_once(matrix):
    integers, scales = to_int8(matrix)
    assert np.abs(integers.astype(int)).max() <= MAX_INT8_WEIGHT
    assert np.isfinite(scales).all()
    exact = matrix.astype(np.float64) * scales[:, None].astype(np.float64)
    assert np.abs(exact - integers).max() <= 0.5 + 1e-4


@given(MATRICES)
def test_the_largest_weight_of_a_row_uses_the_whole_range(matrix):
    integers, _ = to_int8(matrix)
    for row, largest in zip(integers, np.abs(matrix).max(axis=1), strict=True):
        if largest > 2.0**-100:
            assert np.abs(row.astype(int)).max() == MAX_INT8_WEIGHT


def test_a_row_of_zeros_stays_zero():
    integers, _ = to_int8(np.zeros((2, 3), np.float32))
    assert not integers.any()


@pytest.mark.parametrize("quantization", ["int8", "int8_float32"])
def test_every_int8_matrix_of_an_export_is_within_the_limit(tmp_path, monkeypatch, quantization):
    matrices = {}

    def save(spec, folder):
        matrices.update(
            (name, variable.numpy())
            for name, variable in spec.variables().items()
            if not isinstance(variable, str) and variable.dtype == "int8" and variable.shape
        )
        original(spec, folder)

    original = TransformerSpec.save
    monkeypatch.setattr(TransformerSpec, "save", save)
    written = write_model(tmp_path, small({}))
    exporter.export(written.folder, tmp_path / "export", quantization)
    assert len(matrices) > 10
    for name, matrix in matrices.items():
        assert np.abs(matrix.astype(int)).max() <= MAX_INT8_WEIGHT, name
    translator = ctranslate2.Translator(str(tmp_path / "export"))
    assert translator.compute_type.startswith("int8")
