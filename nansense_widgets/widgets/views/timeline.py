"""The timeline: the whole run on one axis, where it stands, and where it can go."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.history.status import HistoryStatus
from nansense_widgets.run.events import Event
from nansense_widgets.run.trail import Segment
from nansense_widgets.stats.branches import Branch
from nansense_widgets.stats.nonfinite import FirstNonFinite
from nansense_widgets.stats.runlog import Key, RunKind
from nansense_widgets.stats.series import MetricSeries
from nansense_widgets.widgets import protocol
from nansense_widgets.widgets.polyline import drawn_points
from nansense_widgets.widgets.protocol_timeline import (
    TimelineBranch,
    TimelineContent,
    TimelineCurve,
    TimelineMark,
    TimelinePhase,
    TimelineSegment,
    WayReply,
)
from nansense_widgets.widgets.shown import ShownOutput
from nansense_widgets.widgets.source import Source

__all__ = ["Axis", "TimelineView"]

MOST_POINTS = 400
"""Of the curve; branches have half as many."""

MOST_MARKS = 300
"""The newest."""

MOST_SEGMENTS = 400
"""The newest; a screen has hardly more places for them."""

LOG_FROM = 30.0
"""From this ratio of the largest to the least value the curve is logarithmic."""

Values = npt.NDArray[np.float64]


class Axis:
    """Where batches lie: phases follow each other in each epoch, as long as their batches are many."""

    def __init__(self, source: Source) -> None:
        schedule = source.schedule
        seen: dict[str, int] = {}
        for one in source.trail:
            seen[one.phase] = max(seen.get(one.phase, 0), one.end)
        self.counts = {
            name: max(schedule.phase_count(name) or 0, seen.get(name, 0), 1)
            for name in dict.fromkeys([*schedule.phase_order, *seen])
        }
        self.total = sum(self.counts.values()) or 1
        ends = itertools.accumulate(self.counts.values(), initial=0)
        self.starts = dict(zip(self.counts, ends, strict=False))

    def at(self, phase: str, epoch: int, batch: int) -> float:
        """The place where a batch begins."""
        return epoch + (self.starts.get(phase, 0) + min(batch, self.counts.get(phase, 1))) / self.total

    def places(self, phase: str, series: MetricSeries) -> Values:
        """Where the points of a series lie, those of batches where they end."""
        batches = np.where(series.batch_indices < 0, self.counts.get(phase, 1), series.batch_indices + 1)
        share = (self.starts.get(phase, 0) + batches) / self.total
        return np.asarray(series.epochs + share, np.float64)

    def batch(self, place: float) -> tuple[str, int, int] | None:
        """The batch over a place: phase, epoch and number."""
        epoch = int(place)
        number = int((place - epoch) * self.total + 1e-6)
        for name, start in self.starts.items():
            if start <= number < start + self.counts[name]:
                return name, epoch, number - start
        return None


class TimelineView:
    """Read on the painter thread; nothing here has widgets of its own."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def content(
        self,
        snapshot: BatchSnapshot | None,  # noqa: ARG002  it is of the run
        shown: ShownOutput,  # noqa: ARG002
        want: protocol.CardWant,  # noqa: ARG002
        buffers: list[bytes],  # noqa: ARG002
    ) -> TimelineContent:
        """All of it, on one axis."""
        source = self._source
        axis = Axis(source)
        trail = source.trail
        names = list(axis.counts)
        total = source.schedule.epochs
        last = max([0, *(one.epoch for one in trail)])
        branches = source.branches
        left = [branch.left.epoch for branch in branches if branch.left is not None]
        key = _curve_key(source.run_log.all)
        series = source.run_log.all.get(key) if key else None
        lines = [series] if series is not None else []
        lines += [branch.log[key] for branch in branches if key is not None and key in branch.log]
        scale = _Scale([line.values for line in lines])
        label = ""
        if key and series is not None:
            label = f"{key[1]} {series.values[-1]:.4g}" + (" (logarithmic)" if scale.is_log else "")
        position, standing = source.live_position, source.standing
        now = None
        if position is not None:
            now = axis.at(position.phase, position.epoch, position.batch_idx + (standing != "before"))
        reach = source.history
        known = reach.phase is not None and reach.last_batch >= reach.first_batch
        return {
            "epochs": max(total or 0, last + 1, *(at + 1 for at in left), 1),
            "is_open": total is None,
            "phases": [_phase(name, axis) for name in names],
            "segments": _segments(_merged(trail), names, axis),
            "now": now,
            "curve": _curve(key, series, axis, scale, MOST_POINTS),
            "label": label,
            "branches": [_branch(branch, key, series, axis, scale) for branch in branches],
            "checkpoints": list(source.time_travel_status().cached_epochs),
            "reach": _reach(axis, reach, now) if known else [],
            "reach_text": _reach_text(source),
            "marks": [*_marks(source.events, axis), *_findings(source, axis)],
        }

    def fetch(self, want: protocol.CardWant, ask: Any) -> tuple[dict[str, Any], list[bytes]]:  # noqa: ARG002
        """What would happen if the run were sent to a place on the axis."""
        reply: WayReply = {"type": "way", "action": "", "args": {}, "text": "no batch is known there"}
        found = Axis(self._source).batch(float(ask["at"]))
        if found is not None:
            phase, epoch, batch = found
            way = self._source.way_to(phase=phase, epoch=epoch, batch_idx=batch)
            reply["action"] = way.action
            reply["args"] = {"phase": phase, "epoch": epoch, "batch_idx": batch}
            loss = _loss_of(self._source.run_log.all, phase, epoch, batch)
            reply["text"] = f"epoch {epoch + 1}, {phase}, batch {batch + 1}{loss}: {way.text}"
        return cast("dict[str, Any]", reply), []

    @property
    def waits(self) -> bool:
        """Never: it has no widgets."""
        return False

    def refresh(self) -> bool:
        """Nothing changes on the main thread."""
        return False


def _loss_of(log: Mapping[Key, MetricSeries], phase: str, epoch: int, batch: int) -> str:
    """What the curve shows of a batch, in brackets."""
    key = _curve_key(log)
    if key is None or key[2] != phase:
        return ""
    series = log[key]
    found = np.flatnonzero((series.epochs == epoch) & (series.batch_indices == batch))
    return f" ({key[1]} {series.values[found[0]]:.4g})" if len(found) else ""


class _Scale:
    """Shares of the height, common to the curve and to what was left of it."""

    def __init__(self, lines: list[Values]) -> None:
        finite = np.concatenate([line[np.isfinite(line)] for line in lines] or [np.zeros(0)])
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        self.is_log = low > 0 and high > LOG_FROM * low
        self._low = float(np.log(low)) if self.is_log else low
        self._high = float(np.log(high)) if self.is_log else high

    def of(self, values: Values) -> list[float | None]:
        with np.errstate(invalid="ignore", divide="ignore"):
            here = np.log(values) if self.is_log else values
        span = self._high - self._low
        shares = (here - self._low) / span if span > 0 else np.where(np.isfinite(here), 0.5, np.nan)
        return [round(float(one), 4) if np.isfinite(one) else None for one in shares]


def _curve_key(log: Mapping[Key, MetricSeries]) -> Key | None:
    """The loss that was seen, else one that was logged: of the phase with most points."""
    kinds: tuple[RunKind, ...] = ("loss", "logged")
    for kind in kinds:
        names = [name for of, name, _ in log if of == kind]
        if names:
            name = next((one for one in names if "loss" in one.lower()), names[0])
            return max((key for key in log if key[:2] == (kind, name)), key=lambda key: len(log[key]))
    return None


def _curve(
    key: Key | None,
    series: MetricSeries | None,
    axis: Axis,
    scale: _Scale,
    most: int,
    trunk: MetricSeries | None = None,
) -> TimelineCurve:
    if key is None or series is None:
        return {"xs": [], "ys": []}
    places, values = axis.places(key[2], series), series.values
    if trunk is not None and len(places):  # the line begins where it left the other one
        before = axis.places(key[2], trunk)
        at = int(np.searchsorted(before, places[0]))
        if at:
            places, values = np.insert(places, 0, before[at - 1]), np.insert(values, 0, trunk.values[at - 1])
    xs, values = drawn_points(places, values, series.breaks, most)
    return {"xs": [round(float(x), 5) for x in xs], "ys": scale.of(values)}


def _branch(
    branch: Branch, key: Key | None, trunk: MetricSeries | None, axis: Axis, scale: _Scale
) -> TimelineBranch:
    series = None if key is None else branch.log.get(key)
    curve = _curve(key, series, axis, scale, MOST_POINTS // 2, trunk)
    left, parted = branch.left, branch.parted
    end = axis.at(left.phase, left.epoch, left.batch_idx + 1) if left is not None else 0.0
    start = axis.at(parted.phase, parted.epoch, parted.batch_idx + 1) if parted is not None else 0.0
    return {
        "number": branch.number,
        "start": min(start, end),
        "end": end,
        "text": f"branch {branch.number}, left when {branch.why}",
        "curve": curve,
    }


def _phase(name: str, axis: Axis) -> TimelinePhase:
    return {
        "name": name,
        "start": axis.starts[name] / axis.total,
        "width": 1 / axis.total,
        "batches": axis.counts[name],
    }


def _merged(trail: Iterable[Segment]) -> list[tuple[str, int, int, int]]:
    """Phase, epoch, first and last batch: one for each phase of an epoch."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for one in trail:
        first, end = found.get((one.phase, one.epoch), (one.first, one.end))
        found[(one.phase, one.epoch)] = (min(first, one.first), max(end, one.end))
    return [(*key, *span) for key, span in found.items()]


def _segments(merged: list[tuple[str, int, int, int]], names: list[str], axis: Axis) -> list[TimelineSegment]:
    """Those that can be told apart: of a long run the older ones are one, whatever their phases."""
    found = [_segment(one, names, axis) for one in merged]
    old, new = found[:-MOST_SEGMENTS], found[-MOST_SEGMENTS:]
    return [{"phase": old[0]["phase"], "start": old[0]["start"], "end": old[-1]["end"]}, *new] if old else new


def _segment(one: tuple[str, int, int, int], names: list[str], axis: Axis) -> TimelineSegment:
    phase, epoch, first, end = one
    return {
        "phase": names.index(phase),
        "start": axis.at(phase, epoch, first),
        "end": axis.at(phase, epoch, end),
    }


def _reach(axis: Axis, history: HistoryStatus, now: float | None) -> list[float]:
    """From the first batch to where training stands: what comes after it is ahead again."""
    here = (history.phase or "", history.epoch)
    start, end = axis.at(*here, max(history.first_batch, 0)), axis.at(*here, history.last_batch + 1)
    return [start, end if now is None else max(start, min(end, now))]


def _reach_text(source: Source) -> str:
    if source.no_loop:
        return ""
    history = source.history
    if history.parted:
        return history.parted
    if history.reason:
        epochs = source.time_travel_status().cached_epochs
        kept = f"By its state: back to the beginning of epoch {epochs[-1] + 1}. " if epochs else ""
        return f"{kept}No batch can be gone back to from memory: {history.reason}"
    first = max(history.first_batch, 0) + 1
    return f"From memory: back to batch {first} of this phase, exactly"


def _marks(events: tuple[Event, ...], axis: Axis) -> list[TimelineMark]:
    found: list[TimelineMark] = []
    for event in events:
        place = event.position or event.to
        if place is not None:
            at = axis.at(place.phase, place.epoch, place.batch_idx + 1)
        elif event.epoch is not None:
            at = float(event.epoch)
        else:
            at = 0.0
        found.append({"kind": event.kind, "at": at, "text": event.text})
    return found[-MOST_MARKS:]


def _findings(source: Source, axis: Axis) -> list[TimelineMark]:
    """Where a loss first was no number, and values of layers with statistics were none; one mark a place."""
    found: dict[float, list[str]] = {}
    for (kind, name, phase), series in source.run_log.all.items():
        bad = np.flatnonzero(~np.isfinite(series.values))
        if kind == "loss" and len(bad):
            at = int(bad[0])
            place, where = _place(axis, phase, int(series.epochs[at]), int(series.batch_indices[at]))
            found.setdefault(place, []).append(f"{name} is {series.values[at]:g} from {where}")
    nodes = source.architecture.nodes
    layers: dict[tuple[str, str], list[FirstNonFinite]] = {}
    for one in source.first_nonfinite:
        if one.layer not in nodes or not nodes[one.layer].is_scope:
            layers.setdefault((one.kind, one.phase), []).append(one)
    for (values, phase), (first, *others) in layers.items():
        place, where = _place(axis, phase, first.epoch, first.batch_idx)
        more = f", and of {len(others):,} more then or later" if others else ""
        found.setdefault(place, []).append(f"{values} of {first.layer} are NaN or Inf from {where}{more}")
    return [{"kind": "finding", "at": place, "text": "\n".join(texts)} for place, texts in found.items()]


def _place(axis: Axis, phase: str, epoch: int, batch: int) -> tuple[float, str]:
    return axis.at(phase, epoch, batch), f"epoch {epoch + 1}, {phase}, batch {batch + 1}"
