from __future__ import annotations

from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nansense_widgets.media.layout import Layout, canonical, choose_layout
from nansense_widgets.widgets import protocol_strips

F32 = torch.float32


def test_the_protocol_names_the_same_layouts() -> None:
    assert (*get_args(Layout), "ids") == get_args(protocol_strips.Layout)  # token ids are no picture


@pytest.mark.parametrize(
    ("shape", "hint", "layout", "axes", "channels", "full", "depth"),
    [
        ((), None, "scalar", "", 1, (1, 1), 0),
        ((1,), None, "scalar", "L", 1, (1, 1), 0),
        ((8,), None, "bar", "B", 8, (1, 1), 0),
        ((8, 10), None, "bar", "B F", 10, (1, 1), 0),
        ((8, 3, 50), 1, "lines", "B C L", 3, (1, 50), 0),
        ((8, 50, 3), 2, "tokens", "B T C", 1, (50, 3), 0),
        ((8, 50, 3), -1, "tokens", "B T C", 1, (50, 3), 0),
        ((8, 50, 3), None, "tokens", "B T C", 1, (50, 3), 0),
        ((8, 3, 5, 6), 1, "tiles", "B C H W", 3, (5, 6), 0),
        ((8, 3, 5, 6), None, "tiles", "B C H W", 3, (5, 6), 0),
        ((8, 5, 6, 3), 3, "tiles", "B H W C", 3, (5, 6), 0),
        ((8, 3, 4, 5, 6), 1, "slices", "B C D H W", 3, (5, 6), 4),
        ((8, 3, 2, 4, 5, 6), None, "slices", "B C D1 D2 H W", 3, (5, 6), 8),
    ],
)
def test_batch_first(
    shape: tuple[int, ...],
    hint: int | None,
    layout: str,
    axes: str,
    channels: int,
    full: tuple[int, int],
    depth: int,
) -> None:
    chosen = choose_layout(shape, F32, channel_axis=hint)
    assert (chosen.layout, chosen.axes, chosen.channels) == (layout, axes, channels)
    assert (chosen.full, chosen.depth) == (full, depth)


def test_other_batch_axes() -> None:
    sequence_first = choose_layout((20, 8, 3), F32, batch_axis=1, channel_axis=2)
    assert (sequence_first.layout, sequence_first.axes, sequence_first.full) == ("tokens", "T B C", (20, 3))
    image = choose_layout((3, 5, 6), F32, batch_axis=None)
    assert (image.layout, image.axes, image.batch_axis, image.channels) == ("tiles", "C H W", None, 3)
    matrix = choose_layout((4, 7), F32, batch_axis=None)
    assert (matrix.layout, matrix.axes, matrix.full) == ("tokens", "T C", (4, 7))


def test_complex_magnitudes_are_named() -> None:
    assert choose_layout((2, 3, 4, 5), torch.complex64).axes == "B C H W |z|"


@given(
    shape=st.lists(st.integers(1, 4), max_size=6).map(tuple),
    hint=st.none() | st.integers(-7, 7),
    batch=st.none() | st.integers(-7, 7),
    data=st.data(),
)
def test_every_value_of_the_sample_appears_once(
    shape: tuple[int, ...], hint: int | None, batch: int | None, data: st.DataObject
) -> None:
    tensor = torch.arange(torch.Size(shape).numel(), dtype=torch.float64).reshape(shape)
    layout = choose_layout(shape, F32, channel_axis=hint, batch_axis=batch)
    samples = 1 if layout.batch_axis is None else shape[layout.batch_axis]
    sample = data.draw(st.integers(0, samples - 1))
    view = canonical(tensor, layout, sample)
    whole = tensor if layout.batch_axis is None else tensor.select(layout.batch_axis, sample)
    assert sorted(view.flatten().tolist()) == sorted(whole.flatten().tolist())
    tiles = 1 if layout.layout == "tokens" else layout.channels
    assert view.shape == (tiles, max(layout.depth, 1), *layout.full)
    assert len(layout.axes.split()) == len(shape)
