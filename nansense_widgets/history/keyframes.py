"""States of the run in memory: a bounded ring that grows thinner with age."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from nansense_widgets.stats.collect import StatsMark

__all__ = ["Keyframe", "Keyframes"]


@dataclass
class Keyframe:
    """The state before one batch.

    Attributes:
        at: number of the item that the batch is of.
        state: see `take_state`.
        mark: what else belongs to that moment: statistics.
        nbytes: of both.
        changes: how many changes of hyperparameters had been made.
    """

    at: int
    state: dict[str, Any] = field(repr=False)
    mark: StatsMark = field(repr=False)
    nbytes: int
    changes: int


class Keyframes:
    """Keyframes of one phase, in their order. The first one bounds how far back one can go."""

    def __init__(self) -> None:
        self._frames: list[Keyframe] = []

    def __iter__(self) -> Iterator[Keyframe]:
        return iter(list(self._frames))

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        return sum(frame.nbytes for frame in self._frames)

    @property
    def first(self) -> int | None:
        """Before which item the oldest one lies."""
        return self._frames[0].at if self._frames else None

    def add(self, frame: Keyframe) -> None:
        """Keep one, in the place of another before the same item."""
        self._frames = [one for one in self._frames if one.at != frame.at]
        self._frames.append(frame)
        self._frames.sort(key=lambda one: one.at)

    def at(self, number: int) -> Keyframe | None:
        """The one before exactly this item."""
        return next((one for one in self._frames if one.at == number), None)

    def before(self, number: int) -> Keyframe | None:
        """The last one from which this item can be reached."""
        return next((one for one in reversed(self._frames) if one.at <= number), None)

    def drop_from(self, number: int) -> None:
        """Forget those before this item and later ones."""
        self._frames = [one for one in self._frames if one.at < number]

    def clear(self) -> None:
        """Forget all."""
        self._frames = []

    def thin(self, now: int) -> bool:
        """Take one out of the middle, where what it parts is small for its age; False if there is none.

        Distances then grow with age, so that a step back replays few batches and a far one more.
        """
        if len(self._frames) < 3:
            return False
        inner = range(1, len(self._frames) - 1)

        def gap(at: int) -> float:
            before, after = self._frames[at - 1].at, self._frames[at + 1].at
            return (after - before) / (now - self._frames[at].at + 1)

        del self._frames[min(inner, key=gap)]
        return True

    def drop_oldest(self) -> int | None:
        """Take the oldest one out; before which item the oldest lies then, None if none is left."""
        del self._frames[:1]
        return self.first
