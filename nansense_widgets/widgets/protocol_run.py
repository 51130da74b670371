"""What the Run view shows; `js/src/lib/protocol_run.ts` states the same shapes. See `protocol.py`."""

from __future__ import annotations

from typing import TypedDict

from nansense_widgets.run.events import EventKind
from nansense_widgets.widgets.protocol import Position
from nansense_widgets.widgets.protocol_statistics import CurveFigure

__all__ = ["KnobGroup", "KnobValue", "RunBranch", "RunContent", "RunEvent", "RunOptions"]


class RunOptions(TypedDict):
    """What is to be seen of the run."""

    smooth: bool | None
    """Whether lines of single batches are smoothed; null: as they are."""


class KnobValue(TypedDict):
    """A numeric setting: arguments of `session.set_hyperparameter`, and its value now."""

    name: str
    value: float
    optimizer: int
    group: int


class KnobGroup(TypedDict):
    """Settings of one parameter group of one optimizer."""

    label: str
    knobs: list[KnobValue]


class RunEvent(TypedDict):
    kind: EventKind
    text: str
    position: Position | None
    """The last batch before it."""


class RunBranch(TypedDict):
    """A future that was left: which, and the colour of its lines."""

    text: str
    color: str


class RunContent(TypedDict):
    groups: list[KnobGroup]
    smooth: bool
    can_smooth: bool
    """Whether there are lines of enough batches to be smoothed."""
    phases: list[str]
    notes: list[str]
    hint: str
    """What to do where there is nothing, else empty."""
    wait: str
    figures: list[CurveFigure]
    events: list[RunEvent]
    """Newest first, without pauses."""
    pauses: int
    """All of them."""
    branches: list[RunBranch]
    """Futures that were left."""
    marked: list[EventKind]
    """Kinds of events that are marked in the figures."""
