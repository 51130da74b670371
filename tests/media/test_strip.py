"""Strips against a slow reference: plain Python loops over float64, written from the protocol."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nansense_widgets.media.layout import TensorLayout, choose_layout
from nansense_widgets.media.quantise import decode
from nansense_widgets.media.strip import (
    EXACT_LIMIT,
    ExactTile,
    Missing,
    StripPicture,
    View,
    exact_tile,
    render_strip,
    sample_range,
)

TRANSFORMS = {"none": lambda v: v, "abs": abs, "square": lambda v: v * v}

DTYPES = [
    getattr(torch, name)
    for name in (
        "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
        "float8_e5m2fnuz", "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
        "complex64", "complex128", "complex32",
    )
    if hasattr(torch, name)
]  # fmt: skip


def strip(tensor: torch.Tensor, layout: TensorLayout, view: View) -> StripPicture:
    picture = render_strip(tensor, layout, view)
    assert isinstance(picture, StripPicture), picture
    return picture


def pixels(picture: StripPicture) -> npt.NDArray[np.float64]:
    """Decoded pixels (count, rows, columns)."""
    codes = np.frombuffer(picture.pixels, np.uint8).reshape(picture.count, *picture.tile)
    return decode(codes, picture.scale)


def sample_array(tensor: torch.Tensor, layout: TensorLayout, sample: int) -> npt.NDArray[np.float64]:
    """(channels, depth, rows, columns) by numpy alone: the reference's own way to lay a sample out."""
    array = tensor.to(torch.float64).numpy()
    channel = layout.channel_axis
    if layout.batch_axis is not None:
        array = np.take(array, sample, axis=layout.batch_axis)
        if channel is not None and channel > layout.batch_axis:
            channel -= 1
    if channel is None:
        return array.reshape(1, 1, 1, 1)
    if layout.layout == "tokens":
        return np.moveaxis(array, channel, -1)[None, None]
    array = np.moveaxis(array, channel, 0)
    return array.reshape(array.shape[0], max(layout.depth, 1), *layout.full)


def reference(tensor: torch.Tensor, layout: TensorLayout, view: View) -> npt.NDArray[np.float64]:
    """Unpooled tiles that the view asks for, in float64."""
    whole = sample_array(tensor, layout, view.sample)
    with np.errstate(all="ignore"):
        whole = np.asarray(TRANSFORMS[view.transform](whole))
        tiles = whole[:, min(view.depth, whole.shape[1] - 1)]
        if view.average:
            return tiles.mean(axis=2 if layout.layout == "tokens" else 0, keepdims=True)
    if layout.layout in ("tokens", "scalar"):
        return tiles
    return tiles[view.first : view.first + view.count]


def pooled(tiles: npt.NDArray[np.float64], layout: str, pool: tuple[int, int]) -> npt.NDArray[np.float64]:
    """Pooled by plain loops."""
    rows, columns = (math.ceil(size / factor) for size, factor in zip(tiles.shape[1:], pool, strict=True))
    out = np.empty((tiles.shape[0], 2 if layout == "lines" and pool[1] > 1 else rows, columns))
    with np.errstate(all="ignore"):
        for n, r, c in np.ndindex(tiles.shape[0], rows, columns):
            block = tiles[n, r * pool[0] : (r + 1) * pool[0], c * pool[1] : (c + 1) * pool[1]]
            if layout == "lines" and pool[1] > 1:
                out[n, :, c] = block.min(), block.max()
            else:
                out[n, r, c] = block.mean()
    return out


@st.composite
def cases(draw: st.DrawFn) -> tuple[torch.Tensor, TensorLayout, View]:
    shape = tuple(draw(st.lists(st.integers(1, 6), max_size=5)))
    dtype = draw(st.sampled_from([torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8]))
    seed = draw(st.integers(0, 2**20))
    generator = torch.Generator().manual_seed(seed)
    tensor = torch.randn(shape, generator=generator, dtype=torch.float64) * draw(
        st.sampled_from([0.01, 1, 40])
    )
    tensor[torch.rand(shape, generator=generator) < 0.2] = 0
    tensor = tensor.abs().to(dtype) if dtype == torch.uint8 else tensor.to(dtype)
    if dtype.is_floating_point:
        for bad in (math.nan, math.inf, -math.inf):
            tensor[torch.rand(shape, generator=generator) < draw(st.sampled_from([0, 0, 0.05]))] = bad
    layout = choose_layout(
        shape,
        dtype,
        channel_axis=draw(st.none() | st.integers(0, 4)),
        batch_axis=draw(st.sampled_from([0, 0, 0, None, 1])),
    )
    samples = 1 if layout.batch_axis is None else shape[layout.batch_axis]
    view = View(
        sample=draw(st.integers(0, samples - 1)),
        average=draw(st.booleans()),
        transform=draw(st.sampled_from(["none", "abs", "square"])),
        first=draw(st.integers(0, 3)),
        count=draw(st.integers(1, 8)),
        px=draw(st.integers(1, 8)),
        depth=draw(st.integers(0, 5)),
    )
    return tensor, layout, view


@settings(max_examples=400)
@given(cases())
def test_pixels_are_what_the_reference_gives(case: tuple[torch.Tensor, TensorLayout, View]) -> None:
    tensor, layout, view = case
    picture = strip(tensor, layout, view)
    tiles = reference(tensor, layout, view)
    assert picture.full == tiles.shape[1:]
    expected = pooled(tiles, layout.layout, picture.pool)
    got = pixels(picture)
    assert got.shape == expected.shape
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_array_equal(np.isposinf(got), np.isposinf(expected))
    np.testing.assert_array_equal(np.isneginf(got), np.isneginf(expected))
    finite = np.isfinite(expected)
    assert (np.abs(got[finite] - expected[finite]) <= picture.scale / 252 * 1.001 + 1e-12).all()
    if not view.average and layout.layout not in ("tokens", "scalar"):
        assert picture.count == max(0, min(view.first + view.count, layout.channels) - picture.first)


@given(cases())
def test_facts_are_over_the_whole_sample(case: tuple[torch.Tensor, TensorLayout, View]) -> None:
    tensor, layout, view = case
    picture = strip(tensor, layout, view)
    whole = sample_array(tensor, layout, view.sample)
    counts = picture.nonfinite
    assert counts.nan == np.isnan(whole).sum()
    assert counts.posinf == np.isposinf(whole).sum()
    assert counts.neginf == np.isneginf(whole).sum()
    finite = whole[np.isfinite(whole)]
    if not view.average:
        largest = np.abs(TRANSFORMS[view.transform](finite)).max(initial=0)
        assert picture.scale == pytest.approx(largest, rel=1e-6)
        sent = range(picture.first, picture.first + picture.count)
        assert list(picture.dead) == [channel for channel in sent if (whole[channel] == 0).all()]
    assert picture.unsigned == (view.transform != "none" or tensor.dtype == torch.uint8)
    known = sample_range(tensor, layout, view.sample)
    assert not isinstance(known, Missing)
    assert render_strip(tensor, layout, view, known=known) == picture


@given(cases(), st.data())
def test_exact_values(case: tuple[torch.Tensor, TensorLayout, View], data: st.DataObject) -> None:
    tensor, layout, view = case
    view = View(view.sample, view.average, view.transform, 0, layout.channels, view.px, view.depth)
    tiles = reference(tensor, layout, view)
    channel = data.draw(st.integers(0, tiles.shape[0] - 1))
    got = exact_tile(tensor, layout, view, channel=channel)
    assert isinstance(got, ExactTile)
    rows, columns = tiles.shape[1:]
    assert got.window == (0, rows, 0, columns)
    np.testing.assert_allclose(got.values, tiles[channel], rtol=1e-6, atol=1e-12)

    top = data.draw(st.integers(0, rows - 1))
    left = data.draw(st.integers(0, columns - 1))
    window = exact_tile(tensor, layout, view, channel=channel, window=(top, rows + 5, left, left + 1))
    assert isinstance(window, ExactTile)
    assert window.window == (top, rows, left, left + 1)
    np.testing.assert_array_equal(window.values, got.values[top:, left : left + 1])
    assert len(window.tobytes()) == window.values.size * (8 if window.dtype == "float64" else 4)


@pytest.mark.filterwarnings("ignore:ComplexHalf:UserWarning")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype: torch.dtype) -> None:
    values = torch.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
    tensor = (values + 4j * values).to(dtype) if dtype.is_complex else values.to(dtype)
    layout = choose_layout(tensor.shape, dtype)
    exact = exact_tile(tensor, layout, View(), channel=0)
    assert isinstance(exact, ExactTile)
    expected = values[0, 0] * math.sqrt(17) if dtype.is_complex else tensor.to(torch.float64)[0, 0]
    np.testing.assert_allclose(exact.values, expected.numpy(), rtol=2e-3)
    picture = strip(tensor, layout, View())
    assert picture.dtype == str(dtype).removeprefix("torch.")
    assert picture.scale == pytest.approx(float(expected.max()), rel=2e-3)
    assert picture.unsigned == (dtype.is_complex or not dtype.is_signed)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float64])
def test_small_floats_keep_their_infinities(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[math.inf, -math.inf, math.nan, 1.0, 0.0]]).to(dtype)
    picture = strip(tensor, choose_layout(tensor.shape, dtype), View())
    assert list(picture.pixels) == [2, 1, 0, 255, 129]
    assert picture.dead == (4,)


def test_scalars() -> None:
    for tensor in (torch.tensor(-2.5), torch.tensor([-2.5])):
        picture = strip(tensor, choose_layout(tensor.shape, tensor.dtype), View())
        assert (picture.value, picture.scale, picture.samples, picture.count) == (-2.5, 2.5, 0, 1)
    loss = torch.tensor(math.nan)
    picture = strip(loss, choose_layout((), loss.dtype), View())
    assert picture.value is None
    assert picture.nonfinite.nan == 1


@pytest.mark.filterwarnings("ignore:.*(beta|deprecated).*:UserWarning")
def test_what_cannot_be_drawn_says_why() -> None:
    plain = torch.ones(2, 3)
    layout = choose_layout(plain.shape, plain.dtype)
    quantized = torch.quantize_per_tensor(plain, 0.1, 0, torch.quint8)
    undrawable = {
        "sparse": plain.to_sparse(),
        "sparse_csr": plain.to_sparse_csr(),
        "quantized": quantized,
        "empty": torch.ones(0, 3),
        "meta": torch.ones(2, 3, device="meta"),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
        "bits8": torch.ones(2, 3, dtype=torch.uint8).view(torch.bits8),
    }
    for word, tensor in undrawable.items():
        picture = render_strip(tensor, layout, View())
        assert isinstance(picture, Missing)
        assert word in picture.reason
        assert isinstance(exact_tile(tensor, layout, View(), channel=0), Missing)
        assert isinstance(sample_range(tensor, layout, 0), Missing)
    assert isinstance(render_strip(plain, layout, View(sample=2)), Missing)
    assert isinstance(exact_tile(plain, layout, View(), channel=3), Missing)


def test_large_tiles_want_a_window() -> None:
    tensor = torch.zeros(1, 1, 1, EXACT_LIMIT + 1)
    layout = choose_layout(tensor.shape, tensor.dtype)
    whole = exact_tile(tensor, layout, View(), channel=0)
    assert isinstance(whole, Missing)
    assert "window" in whole.reason
    part = exact_tile(tensor, layout, View(), channel=0, window=(0, 1, EXACT_LIMIT, EXACT_LIMIT + 1))
    assert isinstance(part, ExactTile)


def test_the_tensor_is_left_alone() -> None:
    """Views share memory with a snapshot: no transform may write to it. Grad, conj and neg views are read."""
    tensor = torch.randn(2, 3, 4, 5, requires_grad=True)
    before = tensor.detach().clone()
    layout = choose_layout(tensor.shape, tensor.dtype)
    for transform in ("none", "abs", "square"):
        for average in (False, True):
            strip(tensor, layout, View(average=average, transform=transform, px=2))
            exact_tile(tensor, layout, View(average=average, transform=transform), channel=0)
    assert torch.equal(tensor.detach(), before)
    z = torch.randn(2, 3, dtype=torch.complex64)
    negative = z.conj().imag  # a view with its sign bit set aside
    assert negative.is_neg()
    exact = exact_tile(negative, choose_layout((2, 3), negative.dtype), View(), channel=1)
    assert isinstance(exact, ExactTile)
    assert exact.values.item() == -z.imag[0, 1].item()


def test_squares_of_extreme_numbers_stay_finite() -> None:
    for number, dtype in ((1e30, torch.float32), (1e-30, torch.float32), (1e200, torch.float64)):
        tensor = torch.tensor([[number, -number / 3, 0.0]], dtype=dtype)
        picture = strip(tensor, choose_layout(tensor.shape, dtype), View(transform="square"))
        assert math.isfinite(picture.scale)
        assert picture.scale > 0
        # A ninth of 126 steps; squares beyond float64 saturate at its largest number.
        assert list(picture.pixels) == ([255, 255, 129] if number == 1e200 else [255, 143, 129])


def test_only_what_is_asked_is_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a known range, 4 channels of one sample of a half-precision tensor touch 4 channels' values."""
    tensor = torch.randn(16, 512, 32, 32).half()
    layout = choose_layout(tensor.shape, tensor.dtype)
    known = sample_range(tensor, layout, 3)
    assert not isinstance(known, Missing)
    with torch.profiler.profile(profile_memory=True) as profile:
        render_strip(tensor, layout, View(sample=3, count=4), known=known)
    allocated = sum(
        max(0, event.self_device_memory_usage + event.self_cpu_memory_usage) for event in profile.events()
    )
    assert allocated < 4 * 32 * 32 * 4 * 3


def test_a_channel_is_dead_only_if_all_its_slices_are() -> None:
    volume = torch.zeros(1, 3, 2, 4, 5)
    volume[0, 1, 1, 2, 2] = -0.5
    picture = strip(volume, choose_layout(volume.shape, volume.dtype), View(depth=0))
    assert picture.dead == (0, 2)
    assert set(picture.pixels) == {129}


def test_an_average_has_a_scale_of_its_own() -> None:
    """The mean of channels that cancel is small: drawn on the channels' scale it would look like nothing."""
    tensor = torch.tensor([[[[4.0, 1.0]], [[-4.0, 1.0]]]])
    picture = strip(tensor, choose_layout(tensor.shape, tensor.dtype), View(average=True))
    assert (picture.count, picture.scale, list(picture.pixels)) == (1, 1.0, [129, 255])
