"""The coding, against its definition in the protocol written out in exact fractions or float64."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nansense_widgets.media.quantise import NAN, NEG_INF, POS_INF, ZERO, decode, encode
from tests.media.strategies import arrays

# Multiplying and rounding in float32 may miss a tie by this part of half a step.
SLACK = Fraction(1, 50_000)


def largest(values: npt.NDArray[Any]) -> float:
    return max((abs(float(value)) for value in values.flat if math.isfinite(value)), default=0.0)


@given(arrays(1, max_side=40))
def test_each_code_stands_for_its_value(values: npt.NDArray[Any]) -> None:
    scale = largest(values)
    codes = encode(values, scale)
    for value, code in zip(values.tolist(), codes.tolist(), strict=True):
        if math.isnan(value):
            assert code == NAN
        elif math.isinf(value):
            assert code == (POS_INF if value > 0 else NEG_INF)
        else:
            assert 3 <= code <= 255
            step = Fraction(scale) / 126
            assert abs((code - 129) * step - Fraction(value)) <= step / 2 * (1 + SLACK)
            if value == 0:
                assert code == ZERO


@given(arrays(1, max_side=40, finite=True), st.floats(1e-30, 1e30))
def test_monotone_and_odd_for_any_scale(values: npt.NDArray[Any], scale: float) -> None:
    ordered = np.sort(values)
    codes = encode(ordered, scale).astype(int)
    assert (np.diff(codes) >= 0).all()
    assert (codes - 129 == 129 - encode(-ordered, scale).astype(int)).all()


@given(st.sampled_from([np.float32, np.float64]), st.floats(0.001, 1000))
def test_tiny_values_are_not_promoted(dtype: type, scale: float) -> None:
    step = scale / 126
    values: npt.NDArray[Any] = np.array([step * 0.499, -step * 0.499, step * 0.501, -step * 0.501], dtype)
    assert encode(values, scale).tolist() == [129, 129, 130, 128]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_scales(dtype: type) -> None:
    limits = np.finfo(dtype)
    for scale in (limits.max, limits.tiny, limits.smallest_subnormal):
        values: npt.NDArray[Any] = np.array([scale, -scale, 0, scale / 2], dtype)
        expected = [255, 3, 129] if scale == limits.smallest_subnormal else [255, 3, 129, 192]
        assert encode(values, float(scale)).tolist()[: len(expected)] == expected


def test_zero_scale_and_values_beyond_the_scale() -> None:
    values = np.array([0.0, -0.0, np.nan, np.inf, -np.inf], np.float32)
    assert encode(values, 0.0).tolist() == [129, 129, 0, 2, 1]
    assert encode(np.array([5.0, -5.0], np.float32), 1.0).tolist() == [255, 3]


@given(st.integers(3, 255), st.floats(1e-20, 1e20))
def test_decoding_and_encoding_again_gives_the_code(code: int, scale: float) -> None:
    codes = np.array([code, 0, 1, 2], np.uint8)
    assert encode(decode(codes, scale), scale).tolist() == codes.tolist()


def test_long_and_strided_arrays() -> None:
    """Longer than one chunk, and not contiguous: the same as value by value."""
    values = np.random.default_rng(0).normal(size=(300, 700)).astype(np.float32)
    values[17, 33] = np.nan
    expected = np.rint(values[::2, ::3].astype(np.float64) * 126 / 4).clip(-126, 126) + 129
    got = encode(values[::2, ::3], 4.0)
    assert (got[~np.isnan(expected)] == expected[~np.isnan(expected)]).mean() > 0.9999
    assert (got == 0).sum() == np.isnan(expected).sum()
