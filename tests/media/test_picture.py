"""How an input looks: channels, undone normalisation, black and white."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from nansense_widgets.media.inputs import InputConfig
from nansense_widgets.media.picture import InputLook, bytes_of, pooled_lines, usual_ends

NUMBERS = st.floats(-1e30, 1e30)


@given(st.lists(NUMBERS, min_size=4, max_size=4), NUMBERS, NUMBERS)
def test_bytes_rise_with_values_from_black_to_white(values: list[float], a: float, b: float) -> None:
    low, high = sorted((a, b))
    pixels = bytes_of(np.array(values).reshape(1, 2, 2), (low, high), 1).reshape(-1)
    order = np.argsort(values, kind="stable")
    assert (np.diff(pixels[order].astype(int)) >= 0).all()
    if high > low:
        for value, pixel in zip(values, pixels, strict=True):
            assert pixel == 0 or value > low
            assert pixel == 255 or value < high


def test_what_is_black_and_white() -> None:
    assert usual_ends([], bytes_only=False) == ((0.0, 1.0), True)
    assert usual_ends([(0.2, 0.4), (-0.0005, 1.0005)], bytes_only=False) == ((0.0, 1.0), True)
    assert usual_ends([(3, 200)], bytes_only=True) == ((0.0, 255.0), True)
    assert usual_ends([(3, 200), (-1, 5)], bytes_only=True) == ((-1, 200), False)
    assert usual_ends([(3, 200)], bytes_only=False) == ((3, 200), False)


@given(st.integers(1, 5), st.integers(1, 40), st.integers(1, 20))
def test_lines_are_no_longer_than_asked(count: int, length: int, longest: int) -> None:
    lines = np.arange(count * length, dtype=np.float64).reshape(count, length)
    pooled, pool = pooled_lines(lines, longest)
    assert pooled.shape[1] <= longest
    assert pooled.shape[1] == -(-length // pool)
    assert pooled[0, 0] == lines[0, :pool].mean()


def test_a_look_says_what_it_leaves_out_once() -> None:
    look = InputLook("x", InputConfig(mean=(1.0, 2.0, 3.0)))
    x = torch.zeros(3, 2, 2)
    look.see(x)
    seen = look.see(x)
    assert seen.values[:, 0, 0].tolist() == [1.0, 2.0, 3.0]
    assert look.about == ["with input_mean and input_std undone"]
    look = InputLook("x", InputConfig(mean=(1.0, 2.0, 3.0)))
    seen = look.see(torch.zeros(5, 4, 2, 2), depth=3)
    assert (seen.channels, seen.values.shape, seen.transformed) == ((0, 1, 2), (3, 2, 2), False)
    assert look.about == [
        "input_mean or input_std has not one value, nor 5: not undone",
        "first three of 5 channels",
    ]
    assert InputLook("x", InputConfig()).see(torch.zeros(2, 2, 2)).channels == (0,)
