"""Every statistic against an independent float64 computation, whatever the data and its batches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nansense_widgets.stats.accumulate import TensorStats
from nansense_widgets.stats.bins import BINS, histogram_edges

F32 = torch.float32
DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16,
    torch.int32, torch.int64, torch.bool, torch.complex64, torch.complex128,
)  # fmt: skip
KINDS = (
    "normal",
    "constant",
    "tiny",
    "vanishing",
    "huge",
    "subnormal",
    "zeros",
    "offset",
    "special",
    "relu",
    "empty",
)


def data(kind: str, dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    x = torch.randn(shape, dtype=torch.float64)
    scale = {
        "tiny": 1e-6,
        "vanishing": 1e-22,
        "huge": 1e30,
        "subnormal": 1e-41,
        "constant": 0.0,
        "zeros": 0.0,
    }.get(kind, 1.0)
    x = x * scale
    if kind == "constant":
        x = x + 3.7
    if kind == "offset":
        x = x + 1e6
    if kind == "relu":
        x = x.relu()
    if kind == "special" and x.numel():
        flat = x.reshape(-1)
        for i, value in enumerate((math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-45, -1e-45)):
            flat[i % flat.numel()] = value
    if dtype is torch.bool:
        return x > 0
    if not dtype.is_floating_point and not dtype.is_complex:
        return (x.nan_to_num(0, 5, -5).clamp(-100, 100) * 10).abs().to(dtype)
    return x.to(dtype)


def plain(tensor: torch.Tensor) -> np.ndarray:
    """The numbers as float64, by numpy."""
    if tensor.is_complex():
        return np.abs(tensor.numpy()).astype(np.float64)
    if tensor.dtype in (torch.bfloat16, torch.float16):
        return tensor.double().numpy()
    return tensor.numpy().astype(np.float64)


def expected_hist(values: np.ndarray) -> np.ndarray:
    edges = histogram_edges().numpy()
    half = BINS // 2
    magnitude = np.clip(np.searchsorted(edges[half + 1 :], np.abs(values), side="right") - 1, 0, half - 1)
    index = np.where(values == 0, half, np.where(values > 0, half + 1 + magnitude, half - 1 - magnitude))
    return np.bincount(index, minlength=BINS)


@settings(max_examples=120, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(DTYPES),
    batches=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    channels=st.integers(1, 6),
    limit=st.integers(1, 7),
    axis=st.sampled_from([None, 1, -1]),
    seed=st.integers(0, 10_000),
)
def test_statistics_equal_those_of_all_values_at_once(
    kind: str, dtype: torch.dtype, batches: list[int], channels: int, limit: int, axis: int | None, seed: int
) -> None:
    stats = TensorStats(axis, limit)
    tensors = []
    for i, size in enumerate(batches):
        shape = (0, channels, 4) if kind == "empty" else (size, channels, 4)
        tensor = data(kind, dtype, shape, seed + i)
        tensors.append(tensor)
        stats.fold(tensor)
    found = stats.snapshot()
    everything = np.concatenate([plain(tensor) for tensor in tensors])
    finite = everything[np.isfinite(everything)]
    assert found.n == finite.size
    assert (found.nan, found.posinf, found.neginf) == (
        np.isnan(everything).sum(),
        np.isposinf(everything).sum(),
        np.isneginf(everything).sum(),
    )
    if everything.size == 0:
        assert math.isnan(found.mean)
        assert math.isnan(found.median)
        return
    assert found.hist is not None
    np.testing.assert_array_equal(found.hist.numpy(), expected_hist(finite))
    if finite.size:
        size = np.abs(finite).max()
        assert found.mean == pytest.approx(finite.mean(), rel=1e-7, abs=1e-7 * size + 1e-300)
        assert found.variance == pytest.approx(finite.var(), rel=1e-6, abs=1e-13 * size**2)
        assert (found.min, found.max) == (finite.min(), finite.max())
        low, high = found.quantile_bin(0.5)
        assert low <= np.sort(finite)[finite.size // 2] <= high
    if axis is not None:
        check_channels(found, everything, axis, limit)


def check_channels(found: Any, everything: np.ndarray, axis: int, limit: int) -> None:
    by_channel = np.moveaxis(everything, axis, 0).reshape(everything.shape[axis], -1)
    rows = min(len(by_channel), limit)
    assert found.channel_hists.shape == (rows, BINS)
    for row in range(rows):
        channel = by_channel[row]
        kept = channel[np.isfinite(channel)]
        np.testing.assert_array_equal(found.channel_hists[row].numpy(), expected_hist(kept))
        assert found.channel_nonfinite[row] == channel.size - kept.size
    dead = (by_channel == 0).all(1)
    np.testing.assert_array_equal(~found.alive.numpy(), dead)
    assert found.dead_channel_count == dead.sum()


def test_an_offset_of_a_million_and_very_many_values_cost_no_precision() -> None:
    torch.manual_seed(0)
    stats = TensorStats(None)
    x = torch.randn(1_000_000) + 1e6
    for _ in range(1000):  # 10^9 values in all
        stats.fold(x)
    found = stats.snapshot()
    exact = x.double()
    assert found.n == 10**9
    assert found.mean == pytest.approx(float(exact.mean()), rel=1e-12)
    assert found.variance == pytest.approx(float(exact.var(correction=0)), rel=1e-9)


def test_channels_beyond_the_limit_are_looked_at_for_being_dead() -> None:
    x = torch.randn(4, 40, 3)
    x[:, 33] = 0
    x[:, 35] = math.nan
    stats = TensorStats(1, 16)
    stats.fold(x)
    found = stats.snapshot()
    assert found.alive is not None
    assert (~found.alive).nonzero().flatten().tolist() == [33]
    assert found.channel_hists is not None
    assert found.channel_hists.shape[0] == 16


def test_edges_hold_the_smallest_numbers_of_each_float() -> None:
    edges = set(histogram_edges().tolist())
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        info = torch.finfo(dtype)
        assert info.tiny in edges
        assert info.smallest_normal in edges
    assert 2.0**-24 in edges  # smallest subnormal of float16
    assert histogram_edges().shape == (BINS + 1,)


def test_autocast_does_not_reach_the_statistics() -> None:
    import nansense_widgets

    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.LayerNorm(64))
    with torch.no_grad():
        next(model[1].parameters()).fill_(3000.0)
    data = [torch.randn(64, 8) for _ in range(4)]
    session = nansense_widgets.start(model)
    session.set_stats_scope("watched")
    session.watch("1")
    session.detach()
    seen = []

    def loop() -> None:
        for x in session.batches(data, phase="train"):
            with torch.autocast("cpu", dtype=torch.float16):
                seen.append(model(x).detach().double())

    session.launch(loop)
    assert session.wait(60)
    found = session.watch_snapshot().stats[("1", "train", 0)].activations
    assert found.variance == pytest.approx(float(torch.cat(seen).var(correction=0)), rel=1e-6)
    session.close()


@pytest.mark.parametrize("scale", [1e-40, 1e-23, 1e-21, 1e-15, 1e-9, 1.0, 1e12, 1e20, 1e33])
@pytest.mark.parametrize("kind", ["normal", "relu", "offset", "one large among small"])
def test_large_tensors_of_any_size_of_values(kind: str, scale: float) -> None:
    torch.manual_seed(0)
    stats = TensorStats(1)
    tensors = []
    for _ in range(3):
        x = torch.randn(40, 20, 100)
        x = x.relu() if kind == "relu" else x + 3 if kind == "offset" else x
        if kind == "one large among small":
            x[0, 0, 0] = 1e4
        tensors.append((x.double() * scale).float())
        stats.fold(tensors[-1])
    exact = torch.cat(tensors).double()
    found = stats.snapshot()
    assert found.mean == pytest.approx(float(exact.mean()), rel=1e-6, abs=1e-9 * float(exact.abs().max()))
    assert found.variance == pytest.approx(float(exact.var(correction=0)), rel=1e-6)
    assert found.hist is not None
    np.testing.assert_array_equal(found.hist.numpy(), expected_hist(exact.numpy().reshape(-1)))
