"""What happened in a run besides training: pauses, changes of hyperparameters, jumps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from nansense_widgets.run.position import BatchPosition

__all__ = ["MOST_EVENTS", "Event", "EventKind", "EventLog"]

EventKind = Literal["pause", "hyperparameter", "jump", "replay"]

MOST_EVENTS = 10_000
"""Events that are kept; of more, the oldest pauses go first."""


@dataclass(frozen=True)
class Event:
    """Something that happened between batches.

    Attributes:
        kind: `pause`; `hyperparameter`: one was changed; `jump`: the run went back; `replay`: a batch came
            again and ended in another way.
        position: the last batch before it; None before the first, and of a jump.
        text: what happened, in words.
        epoch: of a jump, where the run went on, from 0; else None.
        to: of a jump to a batch, that batch; else None.
    """

    kind: EventKind
    position: BatchPosition | None
    text: str
    epoch: int | None = None
    to: BatchPosition | None = None


class EventLog:
    """Events in their order; added on any thread, read on any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._left_out = 0

    def add(
        self,
        kind: EventKind,
        position: BatchPosition | None,
        text: str,
        epoch: int | None = None,
        to: BatchPosition | None = None,
    ) -> None:
        """Note an event."""
        with self._lock:
            self._events.append(Event(kind, position, text, epoch, to))
            if len(self._events) > MOST_EVENTS:
                oldest = next((at for at, event in enumerate(self._events) if event.kind == "pause"), 0)
                del self._events[oldest]
                self._left_out += 1

    @property
    def left_out(self) -> int:
        """Older events that were left out."""
        return self._left_out

    def all(self) -> tuple[Event, ...]:
        """The events so far."""
        with self._lock:
            return tuple(self._events)

    def show(self, events: Iterable[Event], left_out: int) -> None:
        """Hold the events of another run."""
        with self._lock:
            self._events = list(events)
            self._left_out = left_out

    def drop(self, rewound: Callable[[BatchPosition], bool]) -> None:
        """Forget the events after batches that were rewound."""
        with self._lock:
            self._events = [one for one in self._events if one.position is None or not rewound(one.position)]

    def clear(self) -> None:
        """Another run begins."""
        with self._lock:
            self._events = []
            self._left_out = 0
