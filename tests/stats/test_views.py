"""What is taken over from the layer before holds for the values that are there now, or is counted anew."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import nansense_widgets
from nansense_widgets.stats import native
from nansense_widgets.stats.bucket import Bucket, Shared
from nansense_widgets.stats.snapshot import TensorStatsSnapshot
from nansense_widgets.stats.views import Place, Views
from tests.driver import TIMEOUT_S
from tests.stats.test_accumulate import KINDS, check_channels, data, expected_hist, plain

needs_library = pytest.mark.skipif(not native.is_built(), reason="no library: there is no C compiler")


def check(found: TensorStatsSnapshot, values: list[torch.Tensor], axis: int | None, limit: int) -> None:
    """Against all values at once, in float64 and by numpy."""
    everything = np.concatenate([plain(value).reshape(-1) for value in values])
    finite = everything[np.isfinite(everything)]
    assert found.hist is not None
    np.testing.assert_array_equal(found.hist.numpy(), expected_hist(finite))
    assert found.n == finite.size
    assert found.nan + found.posinf + found.neginf == everything.size - finite.size
    if finite.size:
        size = np.abs(finite).max()
        assert found.mean == pytest.approx(finite.mean(), rel=1e-7, abs=1e-7 * size + 1e-300)
        assert found.variance == pytest.approx(finite.var(), rel=1e-6, abs=1e-13 * size**2)
        assert (found.min, found.max) == (finite.min(), finite.max())
    if axis is not None:
        check_channels(found, np.stack([plain(value) for value in values]), axis + (axis >= 0), limit)


# ------------------------------------------------------------ where values lie


@settings(max_examples=400, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 3, 4]), st.sampled_from([0, 1, 2, 3, 4, 6, 8, 12])), max_size=4
    ),
    st.integers(0, 5),
)
def test_a_place_is_the_addresses_of_a_tensor(axes: list[tuple[int, int]], offset: int) -> None:
    shape, steps = [size for size, _ in axes], [step for _, step in axes]
    memory = torch.arange(200.0)
    tensor = memory.as_strided(shape, steps, offset)
    place = Place.of(tensor)
    addresses = sorted(int(value) for value in tensor.reshape(-1))  # each value is its own address
    if place is None:
        one_run = addresses == list(range(addresses[0], addresses[0] + len(addresses)))
        assert not one_run or not tensor.is_contiguous()
        return
    first = (place.address - memory.data_ptr()) // 4
    runs = [first + r * place.stride + i for r in range(place.runs) for i in range(place.length)]
    assert addresses == runs


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(6, 4, 5),
        lambda x: x.transpose(0, 1),
        lambda x: x.permute(2, 0, 1),
        lambda x: x.unsqueeze(0),
        lambda x: x.flatten(),
    ],
)
def test_views_of_all_values_are_in_one_place(view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    whole = torch.zeros(6, 4, 5)
    assert Place.of(view(whole)) == Place.of(whole)
    slices = torch.zeros(6, 4, 15).chunk(3, -1)
    assert Place.of(slices[1].unflatten(2, (5, 1)).transpose(0, 1)) == Place.of(slices[1])
    assert Place.of(slices[0]) != Place.of(slices[1])
    assert Place.of(whole[:5]) != Place.of(whole)
    assert Place.of(whole[:, :1].expand(6, 4, 5)) is None


# ------------------------------------------------------------ checksums


def checksum(values: torch.Tensor) -> int:
    place = Place.of(values)
    assert place is not None
    return native.checksum(*place)


@needs_library
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 4095, 4096, 4097, 20_000])
def test_a_checksum_tells_values_from_others(size: int) -> None:
    torch.manual_seed(size)
    for values in (torch.randn(size), torch.zeros(size), torch.ones(size), torch.randn(size).relu()):
        changed = [-values, values * 2, values + 1, values.clone().fill_(7), values * 0 - 1]
        for at in {0, size // 2, size - 1}:
            one = values.clone()
            one[at] = one[at] + 0.5
            changed.append(one)
        moved = [values.flip(0), values.roll(1), values.roll(4096), values.roll(2048), values.roll(8)]
        for other in [*changed, *moved]:
            same = np.array_equal(other.numpy().view(np.int32), values.numpy().view(np.int32))
            assert (checksum(other) == checksum(values)) == same
        assert checksum(values.clone()) == checksum(values)


@needs_library
def test_a_checksum_looks_at_every_value_and_at_no_other() -> None:
    memory = torch.randn(5, 30)
    part = memory[:, 3:17]
    before = checksum(part)
    for at in itertools.product(range(5), range(30)):
        kept = float(memory[at])
        memory[at] += 1
        assert (checksum(part) != before) == (3 <= at[1] < 17)
        memory[at] = kept


# ------------------------------------------------------------ sums of several layers

MEANWHILE: dict[str, Callable[[torch.Tensor], Any]] = {
    "nothing": lambda x: None,
    "in place": lambda x: x.mul_(2),
    "data": lambda x: x.data.mul_(2),
    "data, the same values elsewhere": lambda x: x.data.copy_(x.flip(0).clone()),
    "numpy": lambda x: np.negative(x.numpy(), out=x.numpy()),
    "one value": lambda x: x.data[-1, -1, -1:].fill_(9.0),
}

VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "itself": lambda x: x.view(x.shape),
    "flat": lambda x: x.flatten(),
    "heads": lambda x: x.unflatten(2, (2, 4)),
    "heads first": lambda x: x.unflatten(2, (2, 4)).transpose(1, 2),
    "transposed": lambda x: x.transpose(0, 1),
    "backwards": lambda x: x.permute(2, 1, 0),
    "part": lambda x: x[:, :, :4],
    "expanded": lambda x: x[:, :1].expand(x.shape),
    "overlapping": lambda x: x.as_strided((2, 3, 2), (1, 1, 1)),
    "a copy": lambda x: x.clone(),
}


@needs_library
@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from([kind for kind in KINDS if kind != "empty"]),
    sliced=st.booleans(),
    layers=st.lists(
        st.tuples(
            st.sampled_from(sorted(VIEWS)),
            st.sampled_from([None, 0, 1, 2, -1]),
            st.sampled_from(sorted(MEANWHILE)),
        ),
        min_size=1,
        max_size=5,
    ),
    limit=st.sampled_from([1, 3, 16]),
    seed=st.integers(0, 10_000),
)
def test_layers_that_give_views_have_the_statistics_of_their_own_values(
    kind: str, sliced: bool, layers: list[tuple[str, int | None, str]], limit: int, seed: int
) -> None:
    steps = [("itself", -1, "nothing"), *layers]
    buckets = [Bucket(axis, limit) for _, axis, _ in steps]
    seen: list[list[torch.Tensor]] = [[] for _ in steps]
    for batch in range(3):  # the first tells which layers have views
        views = Views()
        memory = data(kind, torch.float32, (3, 5, 24 if sliced else 8), seed + batch)
        value = memory.chunk(3, -1)[1] if sliced else memory
        for bucket, kept, (view, _, meanwhile) in zip(buckets, seen, steps, strict=True):
            MEANWHILE[meanwhile](value)
            tensor = VIEWS[view](value)
            kept.append(tensor.clone())
            bucket.add(Shared(tensor), batch, gradient=False, views=views)
    for bucket, kept, (_, axis, _) in zip(buckets, seen, steps, strict=True):
        fits = axis is not None and -kept[0].ndim <= axis < kept[0].ndim
        check(bucket.snapshot("", "", 0).activations, kept, axis if fits else None, limit)


@needs_library
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_in_inference_mode_where_nothing_has_a_version_too(meanwhile: str) -> None:
    first, second = Bucket(1, 16), Bucket(1, 16)
    kept: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    for batch in range(3):
        views = Views()
        with torch.inference_mode():
            value = torch.randn(6, 4, 5)
            kept[0].append(value.clone())
            first.add(Shared(value), batch, gradient=False, views=views)
            MEANWHILE[meanwhile](value)
            view = value.view(6, 4, 5)
            kept[1].append(view.clone())
            second.add(Shared(view), batch, gradient=False, views=views)
    for bucket, values in zip((first, second), kept, strict=True):
        check(bucket.snapshot("", "", 0).activations, [value.clone() for value in values], 1, 16)


@needs_library
def test_views_are_not_counted_again_from_the_second_batch_on() -> None:
    torch.manual_seed(0)
    axes = (-1, None, 1, 1, None)
    buckets = [Bucket(axis, 16) for axis in axes]
    counted: list[int] = []
    for batch in range(3):
        views = Views()
        value = torch.randn(6, 5, 24)
        heads = value.unflatten(2, (4, 6))
        chain = (value, heads, heads.transpose(1, 2), heads.transpose(1, 2), value.flatten())
        with mock.patch.object(native, "fold", wraps=native.fold) as fold:
            for bucket, tensor in zip(buckets, chain, strict=True):
                bucket.add(Shared(tensor), batch, gradient=False, views=views)
        counted.append(fold.call_count)
    assert counted[1:] == [1, 1]
    assert counted[0] > 1  # nothing was known of them


# ------------------------------------------------------------ models


class Heads(nn.Module):
    """Attention's views, with something done to the values between two of them."""

    def __init__(self, meanwhile: str = "", hook: str = "") -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.meanwhile, self.hook = meanwhile, hook

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(2, 5, 2, 4).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        if self.meanwhile == "data":
            q.data.mul_(2)
        mixed = (q @ k.mT).softmax(-1) @ v
        back = mixed.transpose(1, 2)
        if self.meanwhile == "data":
            back.data.add_(1)
        if self.meanwhile == "in place":
            back.mul_(2)
        if self.hook:
            back.register_hook(self.scale_up)
        return self.out(back.reshape(2, 5, 8))

    def scale_up(self, gradient: torch.Tensor) -> None:
        (gradient.data if self.hook == "data" else gradient).mul_(2)


@pytest.mark.parametrize("meanwhile", ["", "data", "in place"])
@pytest.mark.parametrize("hook", ["", "data", "in place"])
def test_values_and_gradients_of_a_model_with_views(meanwhile: str, hook: str) -> None:
    torch.manual_seed(1)
    model = Heads(meanwhile, hook)
    session = nansense_widgets.start(model)
    session.set_stats_scope("all")
    session.watch("*")

    def loop() -> None:
        for x in session.batches([torch.randn(2, 5, 8) for _ in range(5)], phase="train"):
            model(x).square().sum().backward()

    values: dict[str, list[torch.Tensor]] = defaultdict(list)
    gradients: dict[str, list[torch.Tensor]] = defaultdict(list)
    session.launch(loop)
    pauses = 0
    while session.wait_until_paused(after_pauses=pauses, timeout=TIMEOUT_S):
        pauses = session.pause_count
        session.watch("*")
        snapshot = session.snapshot
        assert snapshot is not None
        for layer, value in snapshot.activations.items():  # copies made in the same hooks
            values[layer].append(value)
        for layer, gradient in snapshot.activation_gradients.items():
            gradients[layer].append(gradient)
        session.step_batch()
    assert session.wait(TIMEOUT_S)
    compared = 0
    for (layer, phase, epoch), stats in session.watch_snapshot().stats.items():
        bucket = session._stats._layers.find(layer, phase, epoch)  # noqa: SLF001
        assert bucket is not None
        for found, kept in ((stats.activations, values[layer]), (stats.gradients, gradients[layer])):
            if len(kept) == stats.batches:
                axis = bucket.axis if found.rows is not None else None
                check(found, kept, axis, 16)
                compared += 1
    assert compared >= 20
    session.close()
