"""The receptive field of one unit, measured: which parts of an input change its value when they change.

The sample is repeated over a batch, each time with another part of it replaced by noise, and the unit's
value is compared bit for bit. What theory says is beside it (`capture/receptive.py`): weights that are zero
and units that are off count there, and do not here.
"""

from __future__ import annotations

import copy
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.engine import CaptureEngine
from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.receptive import ReceptiveField, ReceptiveFields
from nansense_widgets.capture.values import Kept
from nansense_widgets.probe.batch import InputBatch
from nansense_widgets.probe.forward import run_forward
from nansense_widgets.probe.keeper import KeptCall
from nansense_widgets.probe.perturbation import samples_places_channels, split_axes

__all__ = ["MeasuredField", "Unit", "measure"]

MOST_BLOCKS = 1024
"""A larger input is gone through in blocks; the edges of the field are then searched for value by value."""

ON_THE_SAMPLE = 4
ON_NOISE = 4
"""Rounds. On other values units that are off in this sample may be on."""

MOST_SECONDS = 10.0

MOST_ROWS = 256
MOST_VALUES = 2**21
"""Samples, and values of an input, in one forward, if the batch itself has no more."""

Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Unit:
    """One value of a layer's first output, at its first call.

    Attributes:
        layer: its name.
        channel: index; None: the output has no channel axis.
        index: along each axis that is neither batch nor channel.
        sample: in the batch.
        input: name of the input that is changed.
    """

    layer: str
    channel: int | None
    index: tuple[int, ...]
    sample: int
    input: str

    @property
    def text(self) -> str:
        channel = [] if self.channel is None else [f"channel {self.channel}"]
        where = [f"at {self.index if len(self.index) > 1 else self.index[0]}"] if self.index else []
        return ", ".join([self.layer, " ".join([*channel, *where]) or "its only value"])


@dataclass(frozen=True, eq=False)
class MeasuredField:
    """What was found out of a unit's receptive field.

    Attributes:
        unit: the unit.
        batch: that has the sample.
        theoretical: by the architecture; None: not known.
        theoretical_note: why not, or why it is approximated.
        measured: first place that changes the unit and the one behind the last, along each axis of the input
            that is neither batch nor channel (of features: along these); None: none did, or not yet known.
        sensitivity: mean change of the unit when a block of the input is replaced by noise, float32, one
            entry a block; None: not yet known.
        block: places along each axis that are one block.
        done: share of the work that is done.
        note: how it was measured.
        error: what went wrong.
    """

    unit: Unit
    batch: InputBatch
    theoretical: ReceptiveField | None = None
    theoretical_note: str = ""
    measured: Box | None = None
    sensitivity: torch.Tensor | None = None
    block: tuple[int, ...] = ()
    done: float = 0.0
    note: str = ""
    error: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.done >= 1 or bool(self.error)


def theory(architecture: Architecture, unit: Unit, batch: InputBatch) -> MeasuredField:
    """What can be said before anything is measured."""
    try:
        found = ReceptiveFields(architecture, unit.layer).at(unit.index)
    except ValueError as error:
        return MeasuredField(unit, batch, theoretical_note=str(error))
    field = next((one for one in found if one.input == unit.input), None)
    if field is not None and not field.box:  # of features, which are channels, theory says all
        count = batch.inputs[unit.input].shape[-1]
        field = replace(field, box=((0, count),), extent=((0, count),))
    note = f"{unit.layer} does not depend on {unit.input}" if field is None else field.approximated
    return MeasuredField(unit, batch, field, note)


def measure(
    engine: CaptureEngine,
    kept: KeptCall,
    unit: Unit,
    told: Callable[[MeasuredField], None],
    cancelled: Callable[[], bool],
) -> MeasuredField:
    """Measure (training thread); all in eval mode, where samples do not mix.

    Args:
        engine: has the model.
        kept: the batch that has the sample.
        unit: whose field.
        told: is told of what is known so far.
        cancelled: whether to stop.

    Raises:
        ValueError: where it cannot be measured, saying why.
        Exception: whatever the model raises.
    """
    field = theory(engine.architecture, unit, kept.batch)
    work = _Measurement(engine, kept, unit)
    if work.mixes_samples():
        raise ValueError("not measured: the model mixes the samples of a batch even in eval mode")
    blocks = [
        tuple(
            slice(start, min(start + step, size))
            for start, step, size in zip(at, work.block, work.sizes, strict=True)
        )
        for at in itertools.product(
            *(range(0, size, step) for size, step in zip(work.sizes, work.block, strict=True))
        )
    ]
    shape = tuple(-(-size // step) for size, step in zip(work.sizes, work.block, strict=True))
    change = torch.zeros(len(blocks), dtype=torch.float64)
    hit = torch.zeros(len(blocks), dtype=torch.bool)
    rounds, said = 0, 0.0
    total = (ON_THE_SAMPLE + ON_NOISE) * len(blocks)
    stopped = ""
    for round_, on_noise in enumerate([False] * ON_THE_SAMPLE + [True] * ON_NOISE):
        for first, moved in work.rounds(blocks, round_, on_noise):
            if cancelled():
                return replace(field, done=1.0, note="cancelled")
            if work.is_late:
                stopped = f"stopped after {MOST_SECONDS:g} s"
                break
            part = slice(first, first + len(moved))
            hit[part] |= moved != 0
            if not on_noise:
                change[part] += moved.abs()
            if time.perf_counter() - said > 0.1:
                said = time.perf_counter()
                told(replace(field, block=work.block, done=min(0.99, (round_ * len(blocks) + first) / total)))
        if stopped:
            break
        rounds += 1
    if not rounds:
        raise ValueError(
            f"not measured: once over the input takes more than {MOST_SECONDS:g} s, and training waits for it"
        )
    measured = _bounds(hit.reshape(shape), work.block, work.sizes)
    if measured is not None and any(step > 1 for step in work.block):
        measured = work.refined(measured)
    of = "pixel" if len(work.sizes) == 2 else "place"
    how = (
        f"each {of}"
        if all(step == 1 for step in work.block)
        else f"blocks of {' x '.join(map(str, work.block))}"
    )
    note = f"{how} replaced by noise, {rounds} rounds, in eval mode"
    if measured is None:
        note += "; nothing changed the unit"
    return replace(
        field,
        measured=measured,
        sensitivity=(change / min(rounds, ON_THE_SAMPLE)).float().reshape(shape),
        block=work.block,
        done=1.0,
        note="; ".join(filter(None, (note, stopped))),
    )


class _Measurement:
    def __init__(self, engine: CaptureEngine, kept: KeptCall, unit: Unit) -> None:
        self._engine, self._unit = engine, unit
        self._ends = time.perf_counter() + MOST_SECONDS
        place = kept.batch.places[unit.input]
        given = kept.batch.inputs[unit.input]
        self._axes = engine.architecture.axes(place.layer, place.path, given.ndim)
        split = split_axes(given.ndim, self._axes)
        if split.batch is None:
            raise ValueError(f"not measured: input {unit.input!r} has no batch axis")
        self._size = given.shape[split.batch]
        view = samples_places_channels(given, self._axes)[unit.sample : unit.sample + 1]
        # Of a sample that has channels only, these are the places.
        self.sizes: tuple[int, ...] = tuple(view.shape[1:-1]) if split.others else (view.shape[-1],)
        side = max(1, math.ceil((math.prod(self.sizes) / MOST_BLOCKS) ** (1 / len(self.sizes))))
        self.block = tuple(min(side, size) for size in self.sizes)
        values = view.double() if not given.is_complex() else torch.view_as_real(view).double()
        finite = values[values.isfinite()]
        self._mean = float(finite.mean()) if finite.numel() else 0.0
        self._deviation = (float(finite.std()) if finite.numel() > 1 else 0.0) or 1.0
        self._seen = given.unique() if not (given.is_floating_point() or given.is_complex()) else None
        self._original = kept
        count = math.prod(-(-size // step) for size, step in zip(self.sizes, self.block, strict=True))
        self._repeat(max(self._size, min(MOST_ROWS, count, MOST_VALUES // max(1, view.numel()))))

    def _repeat(self, rows: int) -> None:
        """Let the batch be so many times the sample."""
        kept, at = self._original, self._unit.sample
        self._batch = rows
        repeated: dict[int, torch.Tensor] = {}
        for layer, value in self._engine.input_values(kept.args, dict(kept.kwargs)).items():
            for path, tensor in leaves(value):
                axis = split_axes(tensor.ndim, self._engine.architecture.axes(layer, path, tensor.ndim)).batch
                if axis is not None and tensor.shape[axis] == self._size:
                    one = tensor.detach().select(axis, at).unsqueeze(axis)
                    repeated[id(tensor)] = one.repeat_interleave(rows, axis)
        args, kwargs = copy.deepcopy((kept.args, dict(kept.kwargs)), dict(repeated))
        self._kept = replace(kept, args=args, kwargs=kwargs)

    @property
    def is_late(self) -> bool:
        """Whether training has waited for long enough."""
        return time.perf_counter() > self._ends

    def mixes_samples(self) -> bool:
        """Whether another sample of the batch changes the unit's value."""
        try:
            base = self._values({}, 0, on_noise=False)
        except Exception:
            if self._batch == self._size:
                raise
            self._repeat(self._size)  # a model may want batches of one size only
            base = self._values({}, 0, on_noise=False)
        if self._batch == 1:
            return False
        everywhere = tuple(slice(None) for _ in self.sizes)
        moved = self._values({0: everywhere}, 0, on_noise=False)
        return not _same(base[1:], moved[1:])

    def rounds(
        self, blocks: list[tuple[slice, ...]], round_: int, on_noise: bool
    ) -> Iterator[tuple[int, torch.Tensor]]:
        """The change of the unit by each block: index of the first, and one value a block; NaN counts."""
        base = self._values({}, round_, on_noise)
        for first in range(0, len(blocks), self._batch):
            part = blocks[first : first + self._batch]
            found = self._values(dict(enumerate(part)), round_, on_noise)
            moved = torch.where(_differs(found, base), found - base, 0.0)
            yield first, moved[: len(part)].nan_to_num(nan=1.0, posinf=1.0, neginf=1.0)

    def refined(self, box: Box) -> Box:
        """The edges of a field that is known block by block, value by value."""
        found = []
        for axis, (start, stop) in enumerate(box):
            step, size = self.block[axis], self.sizes[axis]
            # Replaced up to here, from the border on, it does not change the unit: the field begins later.
            low = self._edge(axis, [slice(0, at) for at in range(start + 1, min(start + step, size) + 1)])
            high = self._edge(axis, [slice(at, size) for at in range(stop - 1, max(stop - step, 0) - 1, -1)])
            found.append((start + low, stop - high))
        return tuple(found)

    def _edge(self, axis: int, slabs: list[slice]) -> int:
        """How many of these slabs, from the first on, leave the unit alone."""
        whole = tuple(slice(None) for _ in self.sizes)
        blocks = [(*whole[:axis], slab, *whole[axis + 1 :]) for slab in slabs]
        quiet = torch.ones(len(slabs), dtype=torch.bool)
        for round_, on_noise in ((0, False), (1, False), (0, True), (1, True)):
            if round_ + on_noise and self.is_late:
                break
            for first, moved in self.rounds(blocks, round_, on_noise):
                quiet[first : first + len(moved)] &= moved == 0
        loud = (~quiet).nonzero()
        return int(loud[0]) if len(loud) else len(slabs) - 1

    def _values(self, replaced: Mapping[int, tuple[slice, ...]], round_: int, on_noise: bool) -> torch.Tensor:
        """The unit's value in each row of the batch, float64; a row may have a block of it replaced."""
        taker = _UnitTaker(self._engine.architecture, self._unit)

        def prepare(inputs: Mapping[str, torch.Tensor]) -> None:
            view = samples_places_channels(inputs[self._unit.input], self._axes)
            self._replace(view, replaced, round_, on_noise)

        run_forward(self._engine, self._kept, "eval", taker, (self._unit.layer,), prepare=prepare)
        if taker.value is None:
            raise ValueError(f"not measured: {self._unit.layer} did not run in eval mode")
        return taker.value

    def _replace(
        self, view: torch.Tensor, replaced: Mapping[int, tuple[slice, ...]], round_: int, on_noise: bool
    ) -> None:
        if on_noise:
            view[:] = self._noise(view[0], 1000 + round_)[None]
        noise = self._noise(view[0], round_)
        for row, block in replaced.items():
            view[row][block] = noise[block]

    def _noise(self, like: torch.Tensor, seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        if self._seen is not None:
            known = self._seen.to(like.device)
            if like.dtype is torch.bool:
                return ~like
            if len(known) == 1:
                return torch.where(like > 0, like - 1, like + 1)
            at = torch.randint(len(known), like.shape, generator=generator).to(like.device)
            drawn = known[at]
            return torch.where(drawn == like, known[(at + 1) % len(known)], drawn)
        drawn = torch.randn(like.shape, generator=generator, dtype=torch.float32)
        return (self._mean + 2 * self._deviation * drawn).to(like.device, like.dtype)


class _UnitTaker:
    """A `Taker` of one value of one layer, in every sample."""

    def __init__(self, architecture: Architecture, unit: Unit) -> None:
        self.value: torch.Tensor | None = None
        self._architecture = architecture
        self._unit = unit

    def take(self, layer: str, call: int, value: Any) -> None:
        path, tensor = next(leaves(value), ("", None))
        if layer != self._unit.layer or call != 1 or tensor is None:
            return
        axes = self._architecture.axes(layer, path, tensor.ndim)
        view = samples_places_channels(tensor.detach(), axes)
        place: tuple[Any, ...] = (slice(None), *self._unit.index, self._unit.channel or 0)
        found = view[place]
        self.value = (found.abs() if found.is_complex() else found).double().cpu().clone()

    def add_maps(self, layer: str, call: int, maps: Kept) -> None:
        """Attention weights are no output."""

    def recomputed(self, layer: str, value: Any) -> None:
        """Nothing is differentiated."""


def _differs(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one != other) & ~(one.isnan() & other.isnan())


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return not bool(_differs(one, other).any())


def _bounds(hit: torch.Tensor, block: tuple[int, ...], sizes: tuple[int, ...]) -> Box | None:
    """The smallest box that holds all blocks that were hit."""
    at = hit.nonzero()
    if not len(at):
        return None
    low, high = at.amin(0).tolist(), at.amax(0).tolist()
    return tuple(
        (a * step, min((b + 1) * step, size))
        for a, b, step, size in zip(low, high, block, sizes, strict=True)
    )
