"""What the timeline shows; `js/src/lib/protocol_timeline.ts` states the same shapes. See `protocol.py`.

All places are on one axis of epochs: a batch lies at its epoch, from 0, and the share of it that came before.
"""

from __future__ import annotations

from typing import Literal, TypedDict

__all__ = [
    "MarkKind",
    "TimelineBranch",
    "TimelineContent",
    "TimelineCurve",
    "TimelineMark",
    "TimelinePhase",
    "TimelineSegment",
    "WayReply",
]

MarkKind = Literal["pause", "hyperparameter", "jump", "replay", "finding"]


class TimelinePhase(TypedDict):
    """Where the batches of a phase lie in each epoch."""

    name: str
    start: float
    """Share of the epoch before it."""
    width: float
    """Share of one batch."""
    batches: int


class TimelineSegment(TypedDict):
    """Batches of one phase that have been."""

    phase: int
    start: float
    end: float


class TimelineCurve(TypedDict):
    """A line; values are shares of the height, None for a gap."""

    xs: list[float]
    ys: list[float | None]


class TimelineBranch(TypedDict):
    """A future that was left."""

    number: int
    start: float
    end: float
    text: str
    curve: TimelineCurve


class TimelineMark(TypedDict):
    kind: MarkKind
    at: float
    text: str


class TimelineContent(TypedDict):
    epochs: int
    """How many the axis has."""
    is_open: bool
    """More of them may come: the number of epochs is not known."""
    phases: list[TimelinePhase]
    segments: list[TimelineSegment]
    now: float | None
    """Where training stands; None before the first batch."""
    curve: TimelineCurve
    label: str
    """What the curve is, with its last value."""
    branches: list[TimelineBranch]
    checkpoints: list[int]
    """Epochs at whose beginning a state is kept."""
    reach: list[float]
    """Where batches can be gone back to from memory: start and end, or nothing."""
    reach_text: str
    marks: list[TimelineMark]


class WayReply(TypedDict, total=False):
    """What would happen: the action that goes there (empty: it cannot) with its arguments."""

    type: Literal["way"]
    view: str
    req: int
    action: str
    args: dict[str, str | int]
    text: str
