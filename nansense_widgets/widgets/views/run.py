"""The view Run: numbers of the run against the epoch, what happened meanwhile, what can be changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.run.events import Event, EventKind
from nansense_widgets.run.hyperparameters import Hyperparameter
from nansense_widgets.stats.branches import Branch
from nansense_widgets.stats.runlog import RunKind, RunLogSnapshot
from nansense_widgets.stats.series import MetricSeries
from nansense_widgets.widgets import protocol, protocol_run
from nansense_widgets.widgets.board import FigureBoard
from nansense_widgets.widgets.figures import COLORS, OTHER, FigureSpec, Line, Mark
from nansense_widgets.widgets.polyline import drawn_points
from nansense_widgets.widgets.shown import ShownOutput
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.state import position_payload

__all__ = ["RUN", "RunView", "run_figures"]

RUN = "run"
"""Stands where a card has its layer."""

UNITS: dict[RunKind, str] = {
    "logged": "logged",
    "loss": "seen in backward()",
    "rate": "seen in backward()",
}

EVENT_COLORS: dict[EventKind, str] = {
    "pause": OTHER,
    "hyperparameter": "#c4781f",
    "jump": "#a05cb5",
    "replay": "#b3261e",
}

MOST_EVENTS = 200
"""Events that are listed, the newest."""

SMOOTH_FROM = 20
"""Points of a line from which smoothing makes sense."""

FAINT = "59"
"""Opacity of a line that has a smoothed one over it, as the end of its colour."""

BRANCH_COLORS = ("#a05cb5b0", "#c4781fb0", "#2e8b77b0", "#b04a6ab0")
"""Of futures that were left: paler than the run."""

WEIGHT = 0.9
"""Of what came before, in the smoothed line."""

APART = 1 / 300
"""Marks closer than this share of the axis lie on the same pixels: the last of them stands for all."""

HINT = (
    'Nothing yet: a loss appears when the loop calls backward(), and session.log("accuracy", value) adds any '
    "number."
)

Values = npt.NDArray[np.float64]


class RunView:
    """Numbers are read on the painter thread; figures change on the main thread."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._board = FigureBoard()
        self._smooth = False
        self._changed = False
        self._last: protocol_run.RunContent | None = None

    def content(
        self,
        snapshot: BatchSnapshot | None,  # noqa: ARG002  numbers are of the run
        shown: ShownOutput,  # noqa: ARG002
        want: protocol.CardWant,
        buffers: list[bytes],  # noqa: ARG002  bqplot sends its own
    ) -> protocol_run.RunContent:
        """Which figures there are, and everything else that stands beside them."""
        options: protocol_run.RunOptions = want["options"]
        if options["smooth"] is not None and options["smooth"] != self._smooth:
            self._smooth, self._changed = options["smooth"], True
        log, events = self._source.run_log, self._source.events
        if not log.all and self._last is not None and self._source.status.word == "closed":
            return self._last  # released: the figures stay on the page as they were
        branches = self._source.branches
        specs = run_figures(log, events, self._length, smooth=self._smooth, branches=branches)
        wait, figures = self._board.show(RUN, specs)
        drawn = {mark.color for spec in specs for mark in spec.marks}
        kinds: tuple[EventKind, ...] = ("pause", "hyperparameter", "jump", "replay")
        content: protocol_run.RunContent = {
            "groups": knob_groups(self._source.hyperparameters),
            "smooth": self._smooth,
            "can_smooth": any(len(one) >= SMOOTH_FROM for one in log.all.values()),
            "phases": phases_of(log),
            "notes": list(log.notes),
            "hint": "" if log.all else HINT,
            "wait": wait,
            "figures": figures,
            "events": [self._event(event) for event in reversed(events) if event.kind != "pause"][
                :MOST_EVENTS
            ],
            "branches": [{"text": branch_text(one), "color": branch_color(one)} for one in branches],
            "pauses": sum(event.kind == "pause" for event in events),
            "marked": [kind for kind in kinds if EVENT_COLORS[kind] in drawn],
        }
        self._last = content
        return content

    def fetch(self, want: protocol.CardWant, ask: Any) -> tuple[dict[str, Any], list[bytes]]:
        """There is nothing to ask: the figures hold their numbers."""
        raise NotImplementedError

    @property
    def waits(self) -> bool:
        """Whether the main thread has something to draw."""
        return self._board.waits

    def refresh(self) -> bool:
        """Make and change the figures (main thread only); True if some are new."""
        changed, self._changed = self._changed, False
        return self._board.refresh() or changed

    def _event(self, event: Event) -> protocol_run.RunEvent:
        position = position_payload(event.position, self._source.schedule)
        return {"kind": event.kind, "text": event.text, "position": position}

    def _length(self, phase: str) -> int | None:
        return self._source.schedule.phase_count(phase)


def phases_of(log: RunLogSnapshot) -> list[str]:
    """Phases in the order in which they came."""
    return list(dict.fromkeys(phase for *_, phase in log.all if phase))


def knob_groups(settings: Iterable[Hyperparameter]) -> list[protocol_run.KnobGroup]:
    """Settings by optimizer and parameter group."""
    groups: dict[tuple[int, int], protocol_run.KnobGroup] = {}
    for one in settings:
        label = ", ".join(filter(None, (one.label, one.group_label)))
        group = groups.setdefault((one.optimizer, one.group), {"label": label, "knobs": []})
        group["knobs"].append(
            {"name": one.name, "value": one.value, "optimizer": one.optimizer, "group": one.group}
        )
    return list(groups.values())


def run_figures(
    log: RunLogSnapshot,
    events: Sequence[Event],
    length: Callable[[str], int | None],
    *,
    smooth: bool,
    branches: Sequence[Branch] = (),
) -> list[FigureSpec]:
    """A figure for each name, with a line for each phase; losses first, learning rates last.

    Args:
        log: the series.
        events: what is marked.
        length: gives the batches of a phase in an epoch, None if unknown.
        smooth: whether lines of many points have an exponential mean beside them.
        branches: futures that were left; their lines are faint.
    """
    order: tuple[RunKind, ...] = ("loss", "logged", "rate")
    names = sorted(dict.fromkeys(key[:2] for key in log.all), key=lambda name: order.index(name[0]))
    phases = tuple(phases_of(log))
    series = {key: one for key, one in log.all.items() if len(one)}
    first = min((float(one.xs[0]) for one in series.values()), default=0.0)
    ends = [
        *series.values(),
        *(one for branch in branches for key, one in branch.log.items() if key in series),
    ]
    last = max((float(one.xs[-1]) for one in ends), default=0.0)
    marks = _marks(events, length, last - first)
    specs = []
    for kind, name in names:
        of_name = {key[2]: one for key, one in series.items() if key[:2] == (kind, name)}
        lines = [
            line
            for phase, one in of_name.items()
            for line in _lines(phase, _color(phases, phase), one, smooth=smooth and kind != "rate")
        ]
        lines += [
            _left_line(phase, branch, left, one)
            for branch in branches
            for phase, one in of_name.items()
            if (left := branch.log.get((kind, name, phase))) is not None
        ]
        title = name if kind != "loss" or ("logged", name) not in names else f"{name} (backward)"
        within = tuple(mark for mark in marks if first <= mark.x <= last)
        specs.append(
            FigureSpec(
                f"{kind} {name}",
                title,
                UNITS[kind],
                tuple(lines),
                phases,
                marks=within,
                begin=first,
                end=last,
            )
        )
    return specs


def _lines(phase: str, color: str, series: MetricSeries, *, smooth: bool) -> list[Line]:
    label = phase or "run"
    raw = drawn_points(series.xs, series.values, series.breaks)
    if not smooth or len(series) < SMOOTH_FROM:
        return [_line(phase, label, color, raw)]
    smoothed = drawn_points(series.xs, smoothed_values(series.values), series.breaks)
    return [
        _line(phase, label, color + FAINT, raw, dots=False),
        _line(phase, f"{label}, smoothed", color, smoothed, dots=False),
    ]


def _left_line(phase: str, branch: Branch, left: MetricSeries, live: MetricSeries) -> Line:
    """A branch's, on the axis of the run: of an epoch that was left half way too."""
    spans = dict(zip(live.epochs.tolist(), live.spans.tolist(), strict=True))
    own = [
        spans.get(epoch, span) for epoch, span in zip(left.epochs.tolist(), left.spans.tolist(), strict=True)
    ]
    placed = replace(left, spans=np.maximum(np.array(own, np.int64), left.spans))
    points = drawn_points(placed.xs, placed.values)
    label = f"{phase or 'run'}, {branch_text(branch)}"
    return _line(phase, label, branch_color(branch), points, dots=False)


def branch_text(branch: Branch) -> str:
    """Which one it is, and what the run did instead."""
    return f"branch {branch.number}, left when {branch.why}"


def branch_color(branch: Branch) -> str:
    """One of those that the run itself does not have; they come again after some branches."""
    return BRANCH_COLORS[(branch.number - 1) % len(BRANCH_COLORS)]


def _color(phases: Sequence[str], phase: str) -> str:
    """One a phase, which has a style of its own too."""
    return COLORS[phases.index(phase) % len(COLORS)] if phase in phases else COLORS[0]


def _line(phase: str, label: str, color: str, points: tuple[Values, Values], *, dots: bool = True) -> Line:
    xs, values = points
    return Line(phase, label, color, xs, values, np.zeros(len(xs), bool), dots)


def smoothed_values(values: Values) -> Values:
    """The exponential mean of each value and those before it, as Adam corrects its own for the beginning.

    What is not finite stays as it is and counts for nothing.
    """
    found = values.copy()
    total = share = 0.0
    for at, value in enumerate(values):
        if np.isfinite(value):
            total = WEIGHT * total + (1 - WEIGHT) * value
            share = WEIGHT * share + (1 - WEIGHT)
            found[at] = total / share
    return found


def _marks(events: Sequence[Event], length: Callable[[str], int | None], span: float) -> list[Mark]:
    marks: list[Mark] = []
    for kind, color in EVENT_COLORS.items():
        places: list[float] = []
        for event in events:
            x = _place(event, length)
            if event.kind != kind or x is None:
                continue
            if places and abs(x - places[-1]) < APART * span:
                places[-1] = x
            else:
                places.append(x)
        marks += [Mark(x, color) for x in places]
    return marks


def _place(event: Event, length: Callable[[str], int | None]) -> float | None:
    """Where an event lies on the axis of epochs; None before the first batch."""
    at = event.position
    if at is None:
        return None if event.epoch is None else float(event.epoch)
    return at.epoch + (at.batch_idx + 1) / max(length(at.phase) or 0, at.batch_idx + 1)
