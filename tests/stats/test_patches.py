"""The galleries equal an independent look at all batches, whatever their sizes, dtypes and order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nansense_widgets
from nansense_widgets import Session
from nansense_widgets.stats.gallery import Gallery, Patch
from tests.driver import TIMEOUT_S


def run(
    model: nn.Module,
    batches: Iterable[Any],
    layers: list[str],
    *,
    forward: Callable[[Any], Any] | None = None,
    prepare: Callable[[Session], None] = lambda session: None,
    **arguments: Any,
) -> Session:
    """One epoch with statistics of these layers; the first batch is captured, as in any session."""
    session = nansense_widgets.start(model, **arguments)
    session.watch(*layers)
    session.set_stats_scope("watched")
    prepare(session)

    def loop() -> None:
        with torch.no_grad():
            for item in session.batches(batches, phase="train"):
                if forward is None:
                    model(item)
                else:
                    forward(item)

    session.request_snapshot()
    session.detach()
    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    session.close()
    assert session.notice == ""
    return session


def gallery(session: Session, layer: str) -> Gallery:
    stats = session.watch_snapshot().stats[(layer, "train", 0)]
    assert stats.note == ""
    assert stats.gallery is not None
    return stats.gallery


def expected(
    values: list[torch.Tensor], channel: int, count: int, sign: int, *, average: bool
) -> list[tuple[float, int, int, tuple[int, ...]]]:
    """Value, batch, sample and position of the extremes of a channel: outputs (B, C, …) of all batches."""
    found = []
    for batch, output in enumerate(values):
        for index, sample in enumerate(output[:, channel]):
            numbers = (sample.abs() if sample.is_complex() else sample).double().numpy()
            if average:
                value, at = float(numbers.mean()), 0
            else:
                if np.isnan(numbers).all():
                    continue
                at = int(np.nanargmax(numbers * sign))
                value = float(numbers.reshape(-1)[at])
            if math.isnan(value):
                continue
            position = () if average else tuple(int(i) for i in np.unravel_index(at, numbers.shape))
            found.append((value, batch, index, position))
    return sorted(found, key=lambda one: -sign * one[0])[:count]


def check(found: Gallery, values: list[torch.Tensor], batches: list[torch.Tensor], *, radius: int) -> None:
    """Compare with outputs of a layer whose units see `radius` places on each side of theirs."""
    for by in ("pixel", "average"):
        channels = getattr(found, by)
        assert len(channels) == min(16, values[0].shape[1])
        for channel, ends in enumerate(channels):
            for sign, patches in ((1, ends.largest), (-1, ends.smallest)):
                wanted = expected(values, channel, found.samples, sign, average=by == "average")
                assert len(patches) == len(wanted)
                for patch, (value, batch, index, position) in zip(patches, wanted, strict=True):
                    if by == "pixel":
                        assert patch.value == value
                    else:
                        assert patch.value == pytest.approx(value, rel=1e-3, abs=1e-5)
                    if by == "pixel" or not _is_close_call(wanted):
                        assert (patch.sample.batch_idx, patch.sample.index) == (batch, index)
                        assert patch.position == position
                    origin = batches[patch.sample.batch_idx][patch.sample.index]
                    box = [slice(None)]
                    for axis, at in enumerate(patch.position, start=1):
                        box.append(slice(max(0, at - radius), min(origin.shape[axis], at + radius + 1)))
                    crop, pool = patch.cut()
                    assert pool == 1
                    assert torch.equal(crop.to(origin.dtype), origin[tuple(box)])


def _is_close_call(wanted: list[tuple[float, int, int, tuple[int, ...]]]) -> bool:
    """Means are added up in float32: those that hardly differ may come in another order."""
    values = [one[0] for one in wanted]
    return any(abs(a - b) < 1e-3 * (1 + abs(a)) for a, b in zip(values, values[1:], strict=False))


SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=5)


@settings(max_examples=40)
@given(SIZES, st.integers(1, 18), st.integers(0, 2), st.integers(0, 10**6), st.booleans())
def test_any_batches(sizes: list[int], channels: int, radius: int, seed: int, ties: bool) -> None:
    torch.manual_seed(seed)
    conv = nn.Conv2d(2, channels, 2 * radius + 1, padding=radius, bias=False)
    if ties:  # whole numbers, so that many responses are equal, and sums are exact
        conv.weight.data = torch.randint(-1, 2, conv.weight.shape).float()
    batches = [torch.randint(-2, 3, (n, 2, 5, 6)).float() if ties else torch.randn(n, 2, 5, 6) for n in sizes]
    model = nn.Sequential(conv, nn.ReLU())
    session = run(model, batches, ["0", "1"])
    with torch.no_grad():
        for i, layer in enumerate(("0", "1")):
            values = [model[: i + 1](batch) for batch in batches]
            check(gallery(session, layer), values, batches, radius=radius)


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int16, torch.uint8, torch.bool, torch.complex64],
    ids=str,
)
def test_any_dtype(dtype: torch.dtype) -> None:
    torch.manual_seed(0)

    class Cast(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 20).abs().to(dtype) if dtype is not torch.bool else x > 1

    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pool = nn.MaxPool2d(1)
            self.cast = Cast()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.cast(self.pool(x))
            return found

    model = Holder()
    batches = [torch.randn(4, 3, 5, 5) for _ in range(4)]
    session = run(model, batches, ["cast"], prepare=lambda s: s.set_axes("cast", channel=1, batch=0))
    found = gallery(session, "cast")
    values = [model(batch) for batch in batches]
    for channel in range(3):
        for sign, patches in ((1, found.pixel[channel].largest), (-1, found.pixel[channel].smallest)):
            wanted = expected(values, channel, 5, sign, average=False)
            assert [(p.value, p.sample.batch_idx, p.sample.index, p.position) for p in patches] == wanted
        means = [p.value for p in found.average[channel].largest]
        assert means == pytest.approx([w[0] for w in expected(values, channel, 5, 1, average=True)], rel=1e-5)


def test_not_a_number_is_passed_over_and_counted() -> None:
    batches = [torch.randn(3, 1, 4, 4) for _ in range(3)]
    batches[0][0, 0, 1, 2] = torch.nan
    batches[1][2] = torch.nan
    batches[2][1, 0, 3, 3] = torch.inf
    model = nn.Sequential(nn.MaxPool2d(1))
    found = gallery(run(model, batches, ["0"]), "0")
    assert found.nan == 1 + 16
    best = found.pixel[0].largest[0]
    assert (best.value, best.sample.batch_idx, best.sample.index, best.position) == (math.inf, 2, 1, (3, 3))
    keys = {(p.sample.batch_idx, p.sample.index) for p in found.pixel[0].largest + found.pixel[0].smallest}
    assert (1, 2) not in keys
    means = {(p.sample.batch_idx, p.sample.index) for p in found.average[0].largest}
    assert (0, 0) not in means
    for sign, patches in ((1, found.pixel[0].largest), (-1, found.pixel[0].smallest)):
        wanted = expected(batches, 0, 5, sign, average=False)
        assert [(p.value, p.sample.batch_idx, p.sample.index, p.position) for p in patches] == wanted
