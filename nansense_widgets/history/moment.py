"""A frozen moment: everything that a session shows after one batch, and what that batch began from.

Activations and their gradients are not in it. They are the largest part of what is shown, and come again bit
for bit when the batch is replayed from the parameters, buffers and random states that it began with; of each
there is a checksum, which tells whether they did.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from nansense_widgets.capture.axes import Axes
from nansense_widgets.capture.engine import Learned
from nansense_widgets.capture.snapshot import (
    BatchSnapshot,
    Cost,
    LayerCall,
    LeafValue,
    ParameterInfo,
    ParameterOptimizer,
)
from nansense_widgets.errors import MomentError, TimeTravelError
from nansense_widgets.history.arena import bytes_of
from nansense_widgets.history.computing import Computing
from nansense_widgets.history.files import read_file, write_file
from nansense_widgets.history.fit import state_problems, structure_problems
from nansense_widgets.history.parts import RunParts
from nansense_widgets.history.records import Special, pack_records, unpack_records
from nansense_widgets.run.events import Event
from nansense_widgets.run.frequency import UpdateFrequency
from nansense_widgets.run.hyperparameters import Hyperparameter
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.schedule import ScheduleState
from nansense_widgets.stats.frozen import FrozenStats, patch_of, plain_patch
from nansense_widgets.stats.gallery import ChannelExtremes, Gallery, Patch, Sample
from nansense_widgets.stats.instruments.store import MetricsSnapshot
from nansense_widgets.stats.performance import WatchPerformance
from nansense_widgets.stats.rows import RowCounts
from nansense_widgets.stats.runlog import RunLogSnapshot
from nansense_widgets.stats.series import MetricSeries
from nansense_widgets.stats.snapshot import (
    LayerStatsSnapshot,
    ParameterStatsSnapshot,
    StepSeries,
    TensorStatsSnapshot,
    WatchSnapshot,
)

__all__ = ["BatchSeed", "Moment", "checksum", "modules_of", "problems", "read_moment", "write_moment"]

KIND = "moment"

VERSION = 1
"""Of what a moment's file holds; that of the file around it is in `files.py`."""


@dataclass(frozen=True)
class Moment:
    """What a session shows.

    Attributes:
        modules: name to class of the model's modules.
        snapshot: of the batch, without activations and their gradients.
        checksums: layer to those of each call's outputs: of the activation and of its gradient.
        updates: parameters that have an update; where the snapshot has none of it, it is the value after the
            batch minus that before it.
        stats: running statistics.
        run_log: series of the run.
        events: what happened in it.
        events_left_out: older ones that are not there.
        hyperparameters: settings of the optimizers.
        attention: layers whose attention weights are formed.
        schedule: where the run stands in it.
        frequency: how often views were refreshed.
        batch_s: seconds a batch.
        learned: names of ops, and axes.
        computing: how torch computed around the batch.
    """

    modules: Mapping[str, str]
    snapshot: BatchSnapshot
    checksums: Mapping[str, tuple[tuple[tuple[str, str], ...], ...]]
    updates: tuple[str, ...]
    stats: FrozenStats
    run_log: RunLogSnapshot
    events: tuple[Event, ...]
    events_left_out: int
    hyperparameters: tuple[Hyperparameter, ...]
    attention: tuple[str, ...]
    schedule: ScheduleState
    frequency: UpdateFrequency
    batch_s: float | None
    learned: Learned
    computing: Computing


@dataclass(frozen=True)
class BatchSeed:
    """What the batch began from, and what it left; states as `take_state` gives them, the item packed."""

    start: Mapping[str, Any]
    end: Mapping[str, Any]
    item: Any


_CLASSES = (
    Axes, BatchPosition, BatchSnapshot, ChannelExtremes, Computing, Cost, Event, FrozenStats, Gallery,
    Hyperparameter, LayerCall, LayerStatsSnapshot, LeafValue, Learned, MetricSeries, MetricsSnapshot, Moment,
    ParameterInfo, ParameterOptimizer, ParameterStatsSnapshot, RunLogSnapshot, Sample, ScheduleState,
    StepSeries, TensorStatsSnapshot, UpdateFrequency, WatchPerformance, WatchSnapshot,
)  # fmt: skip

_SHARED = (Sample, StepSeries)

_SPECIAL: Mapping[type, Special] = {
    Patch: (plain_patch, patch_of),
    RowCounts: (RowCounts.parts, RowCounts.of),
}


def write_moment(path: Path, moment: Moment, seed: BatchSeed) -> None:
    """Write a moment; the snapshot in it may still hold its activations.

    Raises:
        OSError: if the disk is full or the folder cannot be written.
        TypeError: if it holds what no file can.
    """
    slim = _without(moment, seed)
    content = {
        "kind": KIND,
        "version": VERSION,
        "moment": pack_records(slim, _CLASSES, _SPECIAL, _SHARED),
        "start": seed.start,
        "end": seed.end,
        "item": seed.item,
    }
    write_file(path, content)


def read_moment(path: Path) -> tuple[Moment, BatchSeed]:
    """What was written.

    Raises:
        MomentError: naming the file and what is wrong with it.
    """
    try:
        content = read_file(path)
    except TimeTravelError as error:
        raise MomentError(str(error)) from error
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise MomentError(f"{path} is a file of nansense_widgets, but holds no frozen moment")
    version = content.get("version")
    if version != VERSION:
        raise MomentError(
            f"{path} has version {version!r} of a moment; this nansense_widgets reads version {VERSION}"
        )
    for part in ("moment", "start", "end"):
        if not isinstance(content.get(part), dict):
            raise MomentError(f"{path} cannot be read: it has no part {part!r}")
    try:
        moment = unpack_records(content["moment"], Moment, _CLASSES, _SPECIAL)
        seed = BatchSeed(content["start"], content["end"], content["item"])
        broken = list(dict.fromkeys([*structure_problems(seed.start), *structure_problems(_whole(seed))]))
        if not broken:
            return _with_updates(moment, seed), seed
    except Exception as error:
        raise MomentError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
    raise MomentError(f"{path} is damaged: {'; '.join(broken)}")


def _whole(seed: BatchSeed) -> dict[str, Any]:
    """The state after the batch; random generators are not moved to where they were then."""
    return {**seed.end, "random": seed.start.get("random")}


def problems(moment: Moment, seed: BatchSeed, model: nn.Module) -> list[str]:
    """Why a moment is not one of this model; empty if it is."""
    found: list[str] = []
    here = modules_of(model)
    for name in sorted(moment.modules.keys() | here.keys()):
        there, mine = moment.modules.get(name), here.get(name)
        if there != mine:
            said = f"a {there} there" if there else "not there"
            also = f"a {mine}" if mine else "not"
            found.append(f"module {name or '(the model)'} is {said} and {also} here")
    for state in (seed.start, _whole(seed)):
        found += state_problems(RunParts(model), {**state, "optimizers": [], "schedulers": []}, foreign=True)
    found = list(dict.fromkeys(found))
    return found if len(found) <= 4 else [*found[:3], f"and {len(found) - 3} more"]


def modules_of(model: nn.Module) -> dict[str, str]:
    """Name to class of its modules; of a lazy one, that which it becomes in its first forward."""
    classes = {name: type(module) for name, module in model.named_modules()}
    return {name: (getattr(kind, "cls_to_become", None) or kind).__name__ for name, kind in classes.items()}


def checksum(tensor: torch.Tensor | None) -> str:
    """Of dtype, shape and values, bit by bit; empty for None and for tensors without plain memory."""
    data = None if tensor is None else bytes_of(tensor)
    if tensor is None or data is None:
        return ""
    digest = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    digest.update(cast("Any", data.numpy()))  # an array is a buffer, which its types do not say
    return digest.hexdigest()


def _without(moment: Moment, seed: BatchSeed) -> Moment:
    """Without what a replay gives again, and with what is in the states as well once only."""
    snapshot, end, start = moment.snapshot, seed.end["model"], seed.start["model"]
    checksums = {
        layer: tuple(
            tuple((checksum(leaf.activation), checksum(leaf.gradient)) for leaf in call.leaves)
            for call in calls
        )
        for layer, calls in snapshot.layers.items()
    }
    layers = {
        layer: tuple(
            LayerCall(call.call, tuple(replace(leaf, activation=None, gradient=None) for leaf in call.leaves))
            for call in calls
        )
        for layer, calls in snapshot.layers.items()
    }
    updates = {
        name: update
        for name, update in snapshot.weight_updates.items()
        if not _same(update, _change(start["parameters"].get(name), end["parameters"].get(name)))
    }
    slim = replace(
        snapshot,
        layers=layers,
        weights=_once(snapshot.weights, end["parameters"]),
        buffers=_once(snapshot.buffers, end["buffers"]),
        weight_gradients=_once(snapshot.weight_gradients, end["gradients"]),
        weight_updates=updates,
    )
    return replace(moment, snapshot=slim, checksums=checksums, updates=tuple(snapshot.weight_updates))


def _with_updates(moment: Moment, seed: BatchSeed) -> Moment:
    start, end = seed.start["model"]["parameters"], seed.end["model"]["parameters"]
    kept, updates = moment.snapshot.weight_updates, {}
    for name in moment.updates:
        update = kept[name] if name in kept else _change(start[name], end[name])
        if update is None:
            raise ValueError(f"there is no update of {name}")
        updates[name] = update
    return replace(moment, snapshot=replace(moment.snapshot, weight_updates=updates))


def _change(before: torch.Tensor | None, after: torch.Tensor | None) -> torch.Tensor | None:
    """As an update is measured: in float32 for narrower floats."""
    if before is None or after is None or before.shape != after.shape:
        return None
    if after.dtype.is_floating_point and after.element_size() < 4:
        return after.float() - before.float()
    return after - before


def _once(
    shown: Mapping[str, torch.Tensor], kept: Mapping[str, torch.Tensor | None]
) -> dict[str, torch.Tensor]:
    """The same tensors; those that are kept anyway are the kept ones."""
    found = {}
    for name, tensor in shown.items():
        other = kept.get(name)
        found[name] = other if other is not None and _same(tensor, other) else tensor
    return found


def _same(tensor: torch.Tensor, other: torch.Tensor | None) -> bool:
    """Bit by bit; a NaN is the same as itself."""
    if other is None or tensor.dtype != other.dtype or tensor.shape != other.shape:
        return False
    mine, others = bytes_of(tensor), bytes_of(other)
    return mine is not None and others is not None and torch.equal(mine, others)
