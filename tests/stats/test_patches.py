"""The galleries equal an independent look at all batches, whatever their sizes, dtypes and order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nansense_widgets
from nansense_widgets import Session
from nansense_widgets.stats import patches
from nansense_widgets.stats.gallery import Gallery
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
            for sign, end in ((1, ends.largest), (-1, ends.smallest)):
                wanted = expected(values, channel, found.samples, sign, average=by == "average")
                assert len(end) == len(wanted)
                for patch, (value, batch, index, position) in zip(end, wanted, strict=True):
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
    return any(abs(a - b) < 1e-3 * (1 + abs(a)) for a, b in itertools.pairwise(values))


SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=5)


@settings(max_examples=40)
@given(SIZES, st.integers(1, 18), st.integers(0, 2), st.integers(0, 10**6), st.booleans(), st.booleans())
def test_any_batches(
    sizes: list[int], channels: int, radius: int, seed: int, ties: bool, put_off: bool
) -> None:
    torch.manual_seed(seed)
    conv = nn.Conv2d(2, channels, 2 * radius + 1, padding=radius, bias=False)
    if ties:  # whole numbers, so that many responses are equal, and sums are exact
        conv.weight.data = torch.randint(-1, 2, conv.weight.shape).float()
    batches = [torch.randint(-2, 3, (n, 2, 5, 6)).float() if ties else torch.randn(n, 2, 5, 6) for n in sizes]
    model = nn.Sequential(conv, nn.ReLU())
    with mock.patch.object(patches, "is_asynchronous", return_value=put_off):  # as on a GPU
        session = run(model, batches, ["0", "1"])
    with torch.no_grad():
        for i, layer in enumerate(("0", "1")):
            values = [model[: i + 1](batch) for batch in batches]
            check(gallery(session, layer), values, batches, radius=radius)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int16,
        torch.uint8,
        torch.bool,
        torch.complex64,
    ],
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
        for sign, end in ((1, found.pixel[channel].largest), (-1, found.pixel[channel].smallest)):
            wanted = expected(values, channel, 5, sign, average=False)
            assert [(p.value, p.sample.batch_idx, p.sample.index, p.position) for p in end] == wanted
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
    for sign, end in ((1, found.pixel[0].largest), (-1, found.pixel[0].smallest)):
        wanted = expected(batches, 0, 5, sign, average=False)
        assert [(p.value, p.sample.batch_idx, p.sample.index, p.position) for p in end] == wanted


def pictures(n: int, side: int = 12, channels: int = 1) -> torch.Tensor:
    torch.manual_seed(n)
    return torch.rand(n, channels, side, side)


def keys(found: Gallery) -> set[tuple[int, int]]:
    return {(patch.sample.batch_idx, patch.sample.index) for patch in found}


def test_dataset_index_and_label_are_those_of_the_sample() -> None:
    data, labels = pictures(22), torch.arange(22) % 7
    model = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1))
    loader = DataLoader(TensorDataset(data, labels), batch_size=4)
    found = gallery(run(model, loader, ["0"], forward=lambda item: model(item[0])), "0")
    assert len(keys(found)) > 5
    for patch in found:
        sample = patch.sample
        assert sample.dataset_index == 4 * sample.batch_idx + sample.index
        assert torch.equal(sample.values.float(), data[sample.dataset_index])
        assert (sample.label, sample.label_name) == (sample.dataset_index % 7, "target")


def own_collate(rows: list[Any]) -> Any:
    return torch.utils.data.default_collate(rows)


@pytest.mark.parametrize(
    "loader",
    [
        lambda data: DataLoader(data, batch_size=4, shuffle=True),
        lambda data: DataLoader(data, batch_size=4, collate_fn=own_collate),
        lambda data: DataLoader(data, batch_sampler=[[0, 2], [1, 3]]),
        lambda data: [(data.tensors[0][:4], data.tensors[1][:4])],
    ],
    ids=["shuffled", "own collate", "own batches", "list"],
)
def test_a_dataset_index_is_never_guessed(loader: Callable[[Any], Any]) -> None:
    data = TensorDataset(pictures(20), torch.zeros(20, dtype=torch.int64))
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    found = gallery(run(model, loader(data), ["0"], forward=lambda item: model(item[0])), "0")
    assert {patch.sample.dataset_index for patch in found} == {None}
    assert {patch.sample.label for patch in found} == {0}


def test_samples_that_the_loop_has_put_in_another_order_have_no_dataset_index() -> None:
    pairs: Any = pictures(8)
    loader: Any = DataLoader(pairs, batch_size=8)
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    found = gallery(run(model, loader, ["0"], forward=lambda x: model(x.flip(0))), "0")
    assert {patch.sample.dataset_index for patch in found} == {None}


class _Applied:
    def __init__(self, model: nn.Module, of: Callable[[Any], torch.Tensor]) -> None:
        self.model, self.of = model, of

    def __call__(self, item: Any) -> torch.Tensor:
        found: torch.Tensor = self.model(self.of(item))
        return found


def test_labels_of_items_of_other_kinds() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    items: list[tuple[Any, Callable[[Any], torch.Tensor], int | None, str]] = [
        ({"image": pictures(3), "digit": torch.tensor([4, 4, 4])}, lambda item: item["image"], 4, "digit"),
        ([pictures(3), torch.tensor([[5], [5], [5]])], lambda item: item[0], 5, "target"),
        ((pictures(3), torch.rand(3)), lambda item: item[0], None, ""),
        ((pictures(3), torch.tensor([1, 1])), lambda item: item[0], None, ""),
        ((pictures(3), torch.ones(3, 2, dtype=torch.int64)), lambda item: item[0], None, ""),
        ((pictures(3), torch.tensor([1, 1, 1]), torch.tensor([2, 2, 2])), lambda item: item[0], None, ""),
        (pictures(3), lambda item: item, None, ""),
    ]
    for item, of, label, name in items:
        session = run(model, [item], ["0"], forward=_Applied(model, of))
        found = gallery(session, "0")
        assert {(patch.sample.label, patch.sample.label_name) for patch in found} == {(label, name)}


def test_a_batch_by_hand_may_give_its_item() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    session = nansense_widgets.start(model)
    session.watch("0")
    session.request_snapshot()
    session.detach()

    def loop() -> None:
        for label in range(3):
            x, y = pictures(2), torch.full((2,), label)
            with session.batch(phase="train", item=(x, y)):
                model(x)

    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    assert {(p.sample.batch_idx, p.sample.label) for p in gallery(session, "0")} == {(0, 0), (1, 1), (2, 2)}
    session.close()


class InPlace(nn.Module):
    """Changes its input before its last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Conv2d(1, 2, 3), nn.Conv2d(1, 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.before(x)
        found: torch.Tensor = first + self.after(x.mul_(2))
        return found


def test_an_input_that_is_changed_in_place_is_shown_as_it_was() -> None:
    batches = [pictures(3) for _ in range(4)]
    before = [batch.clone() for batch in batches]
    session = run(InPlace(), batches, ["before", "after"])
    for layer in ("before", "after"):
        found = gallery(session, layer)
        assert found.note == ""
        assert len(keys(found)) > 5
        for patch in found:
            original = before[patch.sample.batch_idx][patch.sample.index]
            assert torch.equal(patch.sample.values.float(), original)


def test_what_comes_after_the_batch_does_not_reach_the_patches() -> None:
    batch = pictures(3)
    kept = batch.clone()
    model = nn.Sequential(nn.Conv2d(1, 2, 3))

    def forward(x: torch.Tensor) -> None:
        model(x)
        x.zero_()

    for patch in gallery(run(model, [batch], ["0"], forward=forward), "0"):
        assert torch.equal(patch.sample.values.float(), kept[patch.sample.index])


def test_two_forwards_in_a_batch_are_two_sets_of_samples() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    real, fake = pictures(3), pictures(3) + 5

    def forward(x: torch.Tensor) -> None:
        model(x)
        model(fake)

    found = gallery(run(model, [real], ["0"], forward=forward), "0")
    assert {patch.sample.forward for patch in found} == {1, 2}
    for patch in found:
        origin = real if patch.sample.forward == 1 else fake
        assert torch.equal(patch.sample.values.float(), origin[patch.sample.index])


def test_a_layer_that_runs_twice_has_a_sample_once_and_the_field_of_its_call() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 1, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.conv(self.conv(x))
            return found

    found = gallery(run(Twice(), [pictures(4) for _ in range(3)], ["conv"]), "conv")
    for end in (found.pixel[0].largest, found.pixel[0].smallest, found.average[0].largest):
        assert len({patch.sample.key for patch in end}) == len(end) == 5
    for patch in (*found.pixel[0].largest, *found.pixel[0].smallest):
        assert {stop - start for start, stop in patch.receptive_field.extent} == {2 * patch.call + 1}


def test_outside_of_the_models_forward_nothing_is_shown() -> None:
    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 1, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.conv(x)
            return found

    model = Parts()

    def forward(x: torch.Tensor) -> None:
        kept = model(x)
        model.conv(torch.full_like(x, 9.0))
        del kept

    session = run(model, [pictures(2)], ["conv"], forward=forward)
    found = session.watch_snapshot().stats[("conv", "train", 0)].gallery
    assert found is not None
    assert "outside a call of the model" in found.note
    assert {patch.call for patch in found} == {1}


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.fc = nn.Conv2d(1, 2, 3), nn.Conv2d(1, 2, 3), nn.Linear(4, 2)

    def forward(self, a: torch.Tensor, b: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        return self.left(a) + self.right(b) + self.fc(time)[:, :, None, None]


def test_of_several_inputs_the_one_that_is_seen_is_shown() -> None:
    model = TwoInputs()
    items = [(pictures(3), pictures(3) + 1, torch.rand(3, 4)) for _ in range(2)]
    layers = ["left", "right", "fc", "add2"]
    session = run(model, items, layers, forward=lambda item: model(*item))
    assert [gallery(session, layer).input for layer in layers] == ["a", "b", "time", ""]
    assert "depends on the inputs a, b, time" in gallery(session, "add2").note
    session = run(model, items, layers, forward=lambda item: model(*item), input_transform={"b": lambda x: x})
    assert gallery(session, "add2").input == "b"
    assert gallery(session, "add2").note == ""


def test_a_picture_is_chosen_before_numbers() -> None:
    model = TwoInputs()
    items = [(pictures(3), pictures(3), torch.rand(3, 4))]

    class Timed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model.left
            self.fc = model.fc

        def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
            return self.inner(x) * self.fc(time)[:, :, None, None]

    timed = Timed()
    session = run(timed, items, ["mul"], forward=lambda item: timed(item[0], item[2]))
    assert gallery(session, "mul").input == "x"


def test_features_have_one_gallery_and_no_place() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(144, 3))
    batches = [pictures(4) for _ in range(3)]
    found = gallery(run(model, batches, ["1"]), "1")
    assert found.average == ()
    for channel in range(3):
        wanted = expected([model(batch).detach() for batch in batches], channel, 5, 1, average=False)
        assert [(p.value, p.sample.key[0], p.sample.key[2]) for p in found.pixel[channel].largest] == [
            (value, batch, index) for value, batch, index, _ in wanted
        ]
    assert all(patch.position == () and patch.is_whole and patch.heat is None for patch in found)


def test_tokens_know_their_place() -> None:
    class Text(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.fc = nn.Embedding(30, 4), nn.Linear(4, 3)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.fc(self.embedding(ids))
            return found

    batches = [torch.randint(0, 30, (4, 11)) for _ in range(3)]
    model = Text()
    found = gallery(run(model, batches, ["fc"]), "fc")
    assert (found.kind, found.input, found.channels) == ("tokens", "ids", 3)
    with torch.no_grad():
        values = [model(batch).transpose(1, 2) for batch in batches]
    for channel in range(3):
        wanted = expected(values, channel, 5, -1, average=False)
        end = found.pixel[channel].smallest
        assert [(p.value, p.sample.key[0], p.sample.key[2], p.position) for p in end] == wanted
    for patch in found:
        assert torch.equal(patch.sample.values, batches[patch.sample.batch_idx][patch.sample.index])
    for patch in found.pixel[0].largest:
        assert patch.box == ((patch.position[0], patch.position[0] + 1),)


def test_signals_have_windows() -> None:
    model = nn.Sequential(nn.Conv1d(2, 3, 5, stride=2), nn.ReLU())
    batches = [torch.randn(3, 2, 40) for _ in range(3)]
    found = gallery(run(model, batches, ["0"]), "0")
    assert found.kind == "signal"
    for patch in (*found.pixel[1].largest, *found.pixel[1].smallest):
        (at,) = patch.position
        assert patch.box == ((2 * at, 2 * at + 5),)
        crop, _ = patch.cut()
        origin = batches[patch.sample.batch_idx][patch.sample.index]
        assert torch.equal(crop.float(), origin[:, 2 * at : 2 * at + 5])


def test_large_samples_are_pooled_and_their_patches_are_not() -> None:
    model = nn.Sequential(nn.Conv2d(3, 2, 5), nn.Conv2d(2, 2, 1), nn.AvgPool2d(190))
    batches = [torch.randn(2, 3, 200, 250) for _ in range(2)]
    session = run(model, batches, ["0", "2"])
    small, wide = gallery(session, "0"), gallery(session, "2")
    for patch in (*small.pixel[0].largest, *small.pixel[1].smallest):
        origin = batches[patch.sample.batch_idx][patch.sample.index]
        crop, pool = patch.cut()
        row, column = patch.position
        assert pool == 1
        assert torch.equal(crop.float(), origin[:, row : row + 5, column : column + 5])
        assert (patch.sample.pool, patch.sample.shape) == (3, (3, 200, 250))
        assert tuple(patch.sample.values.shape) == (3, 67, 84)
        pooled = origin[:, :198, :249].unfold(1, 3, 3).unfold(2, 3, 3).mean((3, 4))
        assert torch.allclose(patch.sample.values.float()[:, :66, :83], pooled, atol=2e-3)
    crop, pool = wide.pixel[0].largest[0].cut()
    assert pool == 3
    assert max(crop.shape[1:]) <= 96
    shared = {id(patch.sample.values) for patch in (*small, *wide)}
    assert len(shared) <= 4  # a sample is kept once for all


def test_the_memory_of_all_galleries_has_a_limit() -> None:
    model = nn.Sequential(
        *(nn.Conv2d(1, 4, 3, padding=1) if i == 0 else nn.Conv2d(4, 4, 3, padding=1) for i in range(6))
    )
    batches = [pictures(8, 32) for _ in range(6)]
    layers = [str(i) for i in range(6)]
    session = run(model, batches, layers)
    stats = session.watch_snapshot().stats
    tensors: dict[int, torch.Tensor] = {}
    for layer in layers:
        tensors |= gallery(session, layer).tensors()
    ledger = session._stats.patches.ledger  # noqa: SLF001  the lead's memory() will tell it
    assert ledger.bytes == sum(t.numel() * t.element_size() for t in tensors.values())
    assert gallery(session, "0").nbytes <= ledger.bytes
    limit = ledger.bytes // 2

    def less(session: Session) -> None:
        session._stats.patches.ledger.limit = limit  # noqa: SLF001

    session = run(model, batches, layers, prepare=less)
    ledger = session._stats.patches.ledger  # noqa: SLF001
    assert 0 < ledger.bytes <= limit
    notes = [gallery(session, layer).note for layer in layers]
    assert any("MiB, which is the limit" in note or "all of a session may take" in note for note in notes)
    assert notes[0] == "" or list(gallery(session, "0"))
    del stats, tensors


def test_what_is_let_go_is_counted_no_more() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    session = run(model, [pictures(3)], ["0"])
    stats = session._stats  # noqa: SLF001
    assert stats.patches.ledger.bytes > 0
    stats.restart()
    assert stats.patches.ledger.bytes == 0


@pytest.mark.filterwarnings("ignore:torch.quantize_per")
def test_per_channel_quantised_values_are_read() -> None:
    class Quantised(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scales, zeros = torch.tensor([0.1, 0.2]), torch.zeros(2, dtype=torch.int64)
            return torch.quantize_per_channel(x, scales, zeros, 1, torch.qint8)

    model = nn.Sequential(nn.Conv2d(1, 2, 3), Quantised())
    batches = [pictures(4) for _ in range(3)]
    session = run(model, batches, ["1"], prepare=lambda s: s.set_axes("1", channel=1, batch=0))
    found = gallery(session, "1")
    values = [model(batch).dequantize() for batch in batches]
    wanted = expected(values, 0, 5, 1, average=False)
    assert [(p.value, p.sample.key[0], p.sample.key[2], p.position) for p in found.pixel[0].largest] == wanted


def test_old_epochs_keep_no_patches() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    session = nansense_widgets.start(model)
    session.watch("0")
    session.set_stats_scope("watched")
    session.detach()

    def loop() -> None:
        for _ in session.epochs(4):
            for x in session.batches([pictures(2)], phase="train"):
                model(x)

    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    stats = session.watch_snapshot().stats
    assert [stats[("0", "train", epoch)].gallery is None for epoch in range(4)] == [True, True, False, False]
    session.close()


def test_layers_can_be_left_out() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 3))
    session = run(model, [pictures(2)] * 3, ["*"], prepare=lambda s: s.set_patch_layers(["Conv2d"]))
    stats = session.watch_snapshot().stats
    assert {layer for layer, _, _ in stats} == {"0", "1", "2", "input"}
    assert {layer for (layer, _, _), one in stats.items() if one.gallery is not None} == {"0", "2"}


def test_layers_that_are_left_out_later_keep_what_they_have_and_say_so() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    session = nansense_widgets.start(model)
    session.watch("0")
    session.set_stats_scope("watched")

    def loop() -> None:
        for x in session.batches([pictures(1) for _ in range(4)], phase="train"):
            model(x)

    session.launch(loop)
    assert session.wait_until_paused(timeout=TIMEOUT_S)
    session.set_patch_layers([])
    session.detach()
    assert session.wait(TIMEOUT_S)
    found = gallery(session, "0")
    assert {patch.sample.batch_idx for patch in found} == {0}
    assert "set_patch_layers left this layer out" in found.note
    for wrong, error, text in (
        (["nowhere"], ValueError, "layers='nowhere' matches no layer"),
        ("0", TypeError, "layers='0' must be a list"),
        ([3], TypeError, "layers=3 must be layer names"),
    ):
        with pytest.raises(error, match=text):
            session.set_patch_layers(wrong)  # type: ignore[arg-type]
    session.close()


def test_an_untraced_model_has_no_patches_and_says_why() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    session = nansense_widgets.start(model)
    session.watch("0")
    session.set_stats_scope("watched")
    session.detach()

    def loop() -> None:
        for x in session.batches([pictures(2)], phase="train"):
            model(x)

    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    found = gallery(session, "0")
    assert not list(found)
    assert found.note.startswith("patches of batches before the first captured one are missing")
    session.close()


class Between(nn.Module):
    """Two layers, and something between them."""

    def __init__(self, between: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(6, 6), nn.Linear(6, 6)
        self.between = between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.after(self.between(self.before(x)))


BACK = torch.arange(5, -1, -1)


def assigned(h: torch.Tensor) -> torch.Tensor:
    z = torch.zeros_like(h)
    z[BACK] = h
    return z


@pytest.mark.parametrize(
    "between",
    [
        lambda h: h.flip(0),
        lambda h: torch.flip(h, (1, 0)),
        lambda h: h.roll(1, 0),
        lambda h: h[BACK],
        lambda h: h[[5, 4, 3, 2, 1, 0]],
        lambda h: h.index_select(0, BACK),
        lambda h: h.sort(0).values,
        lambda h: torch.cat(h.chunk(2)[::-1]),
        lambda h: torch.stack(h.unbind(0)[::-1]),
        lambda h: torch.cat([h[3:], h[:3]]),
        lambda h: h.gather(0, BACK[:, None].expand_as(h)),
        lambda h: h.reshape(-1).flip(0).view_as(h),
        lambda h: h.clone().index_copy(0, BACK, h),
        lambda h: h.t(),
        lambda h: h.reshape(3, 2, 6).transpose(0, 1).reshape(6, 6),
        lambda h: h - h.mean(0),
        lambda h: torch.take_along_dim(h, BACK[:, None].expand_as(h), 0),
        lambda h: torch.eye(6)[BACK] @ h,
        lambda h: torch.einsum("ab,bc->ac", torch.eye(6)[BACK], h),
        lambda h: torch.tensordot(torch.eye(6)[BACK], h, ([1], [0])),
        assigned,
    ],
)
def test_where_samples_may_not_be_in_their_places_there_are_no_patches(
    between: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    torch.manual_seed(0)
    session = run(Between(between), [torch.randn(6, 6) for _ in range(3)], ["before", "after"])
    assert list(gallery(session, "before"))
    found = gallery(session, "after")
    assert not list(found)
    assert "may not be in their places" in found.note


@pytest.mark.parametrize(
    "between",
    [
        lambda h: h.flip(1),
        lambda h: h[:, BACK],
        lambda h: h.softmax(-1),
        lambda h: torch.cat(h.chunk(2, 1)[::-1], 1),
        lambda h: h.sort(-1).values,
        lambda h: torch.einsum("bc,bd->bd", h, h),
        lambda h: h.repeat(1, 2)[:, :6],
        lambda h: h.view(6, 2, 3).transpose(1, 2).reshape(6, 6),
        lambda h: h.unsqueeze(1).expand(6, 2, 6).mean(1),
        lambda h: h - h.mean(1, keepdim=True),
    ],
)
def test_what_happens_within_a_sample_leaves_it_in_its_place(
    between: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    torch.manual_seed(0)
    session = run(Between(between), [torch.randn(6, 6) for _ in range(3)], ["before", "after"])
    assert list(gallery(session, "after"))
    assert gallery(session, "after").note == ""


def test_pictures_of_another_size_than_traced_are_shown_whole() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    found = gallery(run(model, [pictures(2, 12), pictures(2, 20) * 9], ["0"]), "0")
    patch = found.pixel[0].largest[0]
    assert patch.sample.batch_idx == 1
    assert patch.box == ((0, 20), (0, 20))
    assert patch.receptive_field.approximated == "the traced batch had another size"


def test_the_heat_is_the_channels_whole_response() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    batches = [pictures(3)]
    found = gallery(run(model, batches, ["0"]), "0")
    for channel in range(2):
        for patch in found.pixel[channel].largest:
            assert patch.heat is not None
            response = model(batches[0])[patch.sample.index, channel].detach()
            assert torch.allclose(patch.heat.float(), response, atol=1e-3)
            assert float(patch.heat.max()) == pytest.approx(patch.value, abs=1e-3)


@pytest.mark.parametrize(
    ("change", "known"),
    [
        (lambda x: x, True),
        (lambda x: x.clone(), True),
        (lambda x: x.double().float(), True),
        (lambda x: x.flatten(1).view_as(x), True),
        (lambda x: x.flip(0), False),
        (lambda x: x[torch.tensor([3, 1, 0, 2, 7, 5, 4, 6])], False),
        (lambda x: 0.5 * x + 0.5 * x.flip(0), False),
        (torch.randn_like, False),
        (lambda x: x.copy_(x.flip(0).clone()), False),
    ],
    ids=["as it is", "copy", "dtypes", "view", "flipped", "permuted", "mixed", "other", "permuted in place"],
)
def test_labels_and_dataset_indices_are_those_of_the_loaders_own_samples(
    change: Callable[[torch.Tensor], torch.Tensor], known: bool
) -> None:
    loader = DataLoader(TensorDataset(pictures(8), torch.arange(8)), batch_size=8)
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    found = gallery(run(model, loader, ["0"], forward=lambda item: model(change(item[0]))), "0")
    # A picture that stays where it was is the loader's all the same.
    pairs = {(patch.sample.index, patch.sample.label, patch.sample.dataset_index) for patch in found}
    assert len(pairs) > 2
    allowed = {(i, i, i) for i in range(8)} | (set() if known else {(i, None, None) for i in range(8)})
    assert pairs <= allowed
    if not known:
        assert None in {label for _, label, _ in pairs}


def test_another_run_keeps_no_sample_of_the_last_one() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    session = nansense_widgets.start(model)
    session.watch("0")
    data = [pictures(4)]

    def loop() -> None:
        for x in session.batches(data, phase="train"):
            model(x)

    held = []
    for offset in (0.0, 100.0):
        data[0] = pictures(4) + offset
        session.request_snapshot()
        session.detach()
        session.launch(loop)
        assert session.wait(TIMEOUT_S)
        held.append(gallery(session, "0"))
    session.close()
    for patch in held[1]:
        assert float(patch.sample.values.float().min()) > 50
