"""The items of one phase as the loop asks for them, and the states that lead back to each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from nansense_widgets.history.items import ItemNotKeptError, KeptItem
from nansense_widgets.history.keyframes import Keyframe, Keyframes
from nansense_widgets.history.pack import without_waiting
from nansense_widgets.history.random_state import RandomState
from nansense_widgets.history.sizes import said_size, size_of_state
from nansense_widgets.history.spending import Spending
from nansense_widgets.history.state import RunParts, least_size, restore_state, take_state
from nansense_widgets.run.going_back import Target
from nansense_widgets.stats.collect import StatsMark

__all__ = ["Tape", "TapeHost"]

ENTRY = 300
"""Bytes of the objects of one kept item, about."""

NEAR = 8
"""Batches up to one that is gone back to of which each gets a state."""

MOST_FRAMES = 128
"""States that are kept of one phase."""


@dataclass(frozen=True)
class TapeHost:
    """The session, as the items of a phase see it.

    Attributes:
        budget: bytes that may be kept; 0: nothing is to be kept at the moment.
        parts: what states are taken of.
        mark: of a phase and epoch: what else belongs to this moment.
        changes: how many changes of hyperparameters have been made so far.
        take_rewind: where training is to go back to, if it is.
        rewound: the state of a keyframe is there again; from that batch on training goes to the target.
        parted: a batch that came again ended in another way than the first time, in words.
        could_not: training did not go back, and why.
        warn: it did, but something is not as it was.
        steps: whether each batch is looked at.
    """

    budget: Callable[[], int]
    parts: Callable[[], RunParts]
    mark: Callable[[str, int], StatsMark]
    changes: Callable[[], int]
    take_rewind: Callable[[], Target | None]
    rewound: Callable[[Target, int, Keyframe], None]
    parted: Callable[[str, int, int, str], None]
    could_not: Callable[[Target, str], None]
    warn: Callable[[str], None]
    steps: Callable[[], bool]


@dataclass
class _Entry:
    item: KeptItem
    random: RandomState


class Tape:
    """Gives each item of a loader once, and those that are kept again after going back.

    Keyframes hold the state before some of the batches; between them it is computed anew, from the same items
    and random numbers. What was recorded of a batch stays until the run goes another way, and is compared.

    Args:
        items: the loader's iterator.
        phase: of its batches.
        epoch: of these, from 0.
        first: number of the batch that the first item is of.
        host: the session.
        spending: what may be spent on all this.
    """

    def __init__(
        self, items: Iterator[Any], phase: str, epoch: int, first: int, host: TapeHost, spending: Spending
    ) -> None:
        self.phase, self.epoch, self.first = phase, epoch, first
        self.note = ""
        """Why nothing, or not all, is kept; else empty."""
        self._items = items
        self._host = host
        self._spending = spending
        self._entries: dict[int, _Entry] = {}
        self._frames = Keyframes()
        self._next = 0
        """Number of the item that is given next."""
        self._goal = 0
        """Number of the batch that was gone back to."""
        self._came = 0
        """Items that the loader has given."""
        self._copies = False
        self._size = 0
        """Bytes of the last state."""
        self._kept = 0
        """Bytes of the items."""

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return self

    def __next__(self) -> tuple[int, Any]:
        if (target := self._host.take_rewind()) is not None:
            self.go_back(target)
        number = self._next
        if number < self._came:
            with self._spending.on("again"):
                item = self._again(number)
        else:
            item = next(self._items)
            self._came = number + 1
            try:
                self._record(number, item)
            except Exception as error:  # noqa: BLE001  never an error in the user's loop
                self._forget(f"not kept: {type(error).__name__}: {error}")
        self._next = number + 1
        return number, item

    # ------------------------------------------------------------ going back

    @property
    def nbytes(self) -> int:
        """Memory that all of it takes."""
        return self._frames.nbytes + self._kept

    @property
    def state_bytes(self) -> int:
        """Memory that its states take."""
        return self._frames.nbytes

    @property
    def frames(self) -> list[int]:
        """Batches before which a state is kept."""
        return [self.first + frame.at for frame in self._frames]

    @property
    def reach(self) -> tuple[int, int] | None:
        """The first and the last batch that one can go back to; -1: before the first of the phase."""
        start = self._frames.first
        if start is None:
            return None
        # Before the first batch one can stand where nothing came before it in this phase and epoch.
        at_beginning = start == 0 and self.first == 0
        return (-1 if at_beginning else self.first + start, self.first + self._came - 1)

    def batches_to(self, batch: int) -> int:
        """How many batches are computed anew to stand after this one again."""
        number = batch - self.first
        frame = self._frames.before(max(number, 0))
        return 0 if frame is None else number + 1 - frame.at

    def why_not(self, batch: int) -> str:
        """Why the run cannot go back to stand after this batch; empty if it can."""
        reach = self.reach
        if reach is None:
            nothing = "no state of this phase is kept"
            off = "" if self._host.budget() else ": the history is off or training was detached"
            return self.note or nothing + off
        if not reach[0] <= batch <= reach[1]:
            return f"states in memory lead back to batch {max(reach[0], 0) + 1} of this phase only"
        last = self._entries.get(self._came - 1)
        if last is not None and not last.item.is_intact:  # those before it were looked at when it came
            return "the loop has written to the item of this batch: from the next one on, copies are kept"
        return ""

    def go_back(self, target: Target) -> None:
        """Restore the nearest state from which the target is reached; the loop then asks for its item."""
        batch = target.batch_idx
        is_here = (target.phase, target.epoch) == (self.phase, self.epoch)
        why = self.why_not(batch) if is_here else "that phase is over"
        frame = self._frames.before(max(batch - self.first, 0))
        if not why and frame is not None:
            items = [(n, entry.item) for n, entry in self._entries.items() if n >= frame.at]
            if changed := [n for n, item in items if not item.is_intact]:
                why = f"something has written to the item of batch {self.first + changed[0] + 1}"
        if why or frame is None:
            self._host.could_not(target, why)
            return
        try:
            errors = self._restore(frame)
        except Exception as error:  # noqa: BLE001  never an error in the user's loop
            self._host.could_not(target, f"{type(error).__name__}: {error}")
            return
        self._next = frame.at
        self._goal = max(batch - self.first, 0)
        try:
            self._host.rewound(target, self.first + frame.at, frame)
        except Exception as error:  # noqa: BLE001  never an error in the user's loop
            errors.append(f"statistics are not those of that batch: {type(error).__name__}: {error}")
        if errors:
            self._host.warn("; ".join(errors))

    def _restore(self, frame: Keyframe) -> list[str]:
        """Put its state back; where that fails half way, all is as before."""
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()  # copies of the state may be under way
        parts = self._host.parts()
        before = take_state(parts)
        try:
            return restore_state(parts, frame.state)
        except Exception:
            with suppress(Exception):  # it may be what failed
                restore_state(parts, before)
            raise

    def fit(self) -> None:
        """The budget is another one."""
        if not self._host.budget():
            self._forget()
        elif self._next == self._came:
            self._keep_within(self._next)

    def branch(self) -> None:
        """Something was changed between two batches: what comes is not what came."""
        self._frames.drop_from(self._next)

    # ------------------------------------------------------------ parts

    def _again(self, number: int) -> Any:
        entry = self._entries[number]
        entry.random.restore()
        try:
            self._renew_frame(number)
        except Exception as error:  # noqa: BLE001  never an error in the user's loop
            self._forget(f"not kept: {type(error).__name__}: {error}")
        return entry.item.serve()

    def _renew_frame(self, number: int) -> None:
        frame = self._frames.at(number)
        if frame is None:
            # Who goes back a step may go back another one: the last ones before the goal are to be quick.
            if self._spending.affords("frame") or 0 <= self._goal - number < NEAR:
                self._take_frame(number)
        elif self._is_now(frame):  # other layers may be watched now
            frame.mark = self._host.mark(self.phase, self.epoch)
            frame.changes = self._host.changes()
        else:
            self._part(number - 1, "another state")
            self._take_frame(number)

    def _is_now(self, frame: Keyframe) -> bool:
        saved = frame.state["model"]["parameters"]
        return all(
            saved.get(name) is None or _equal(saved[name], parameter.detach().to("cpu"))
            for name, parameter in self._host.parts().model.named_parameters()
        )

    def _record(self, number: int, item: Any) -> None:
        if not self._host.budget():
            if self._entries:
                self._forget()
            return
        before = self._entries.get(number - 1)
        if before is not None and not before.item.is_intact:
            self._copies = True  # the loop writes to its items: from now on copies are kept
            self._forget()
        always = self._host.steps()  # somebody looks at every batch, and has time
        if not (always or self._spending.is_cheap("items") or self._spending.affords("items")):
            self._forget("batches are too short to be kept while training runs (those of single steps are)")
            return
        if self._spending.affords("frame") or (always and not self._frames):
            self._take_frame(number)
        if not self._frames:
            return
        with self._spending.on("items"):
            random = RandomState(None if before is None else before.random)
            try:
                kept = KeptItem(item, copies=self._copies, room=self._host.budget() // 2)
            except ItemNotKeptError as error:
                self._forget(str(error))
                return
            entry = self._entries[number] = _Entry(kept, random)
            self._kept += _size(entry)
        self._keep_within(number)

    def _take_frame(self, number: int) -> None:
        budget = self._host.budget()
        if not self._fits(number, budget):
            return
        try:
            with self._spending.on("frame"), without_waiting():
                state = take_state(self._host.parts())
                mark = self._host.mark(self.phase, self.epoch)
                size = self._size = size_of_state(state) + mark.nbytes
        except Exception as error:  # noqa: BLE001  never an error in the user's loop
            self.note = f"states cannot be kept: {type(error).__name__}: {error}"
            self._size = 2**62
            return
        if size > budget // 2:
            self._too_large(size, budget)
            return
        self.note = ""
        self._frames.add(Keyframe(number, state, mark, size, self._host.changes()))
        if len(self._frames) > MOST_FRAMES:
            self._frames.thin(number)

    def _fits(self, number: int, budget: int) -> bool:
        """Whether a state may be taken at all: its copy alone could fill the machine's memory."""
        if self._size > budget // 2 and number % 100:  # it may have become smaller
            return False
        size = least_size(self._host.parts())
        if size > budget // 2:
            self._too_large(size, budget)
        return size <= budget // 2

    def _too_large(self, size: int, budget: int) -> None:
        self._size = size
        limit = said_size(budget)
        self._forget(f"one state takes {said_size(size)}, more than half of the history's {limit}")

    def _keep_within(self, now: int) -> None:
        budget = self._host.budget()
        while (frames := self._frames.nbytes) + self._kept > budget:
            if frames > self._kept and self._frames.thin(now):
                continue
            if len(self._frames) < 2:
                self._forget(f"items since the last state take more than the history's {said_size(budget)}")
                return
            first = self._frames.drop_oldest()
            for number in [number for number in self._entries if first is None or number < first]:
                self._kept -= _size(self._entries.pop(number))

    def _forget(self, why: str = "") -> None:
        """Let go of all, but of items that are still to be given again."""
        self.note = why
        self._frames.clear()
        self._entries = {number: entry for number, entry in self._entries.items() if number >= self._next}
        self._kept = sum(map(_size, self._entries.values()))

    def _part(self, number: int, how: str) -> None:
        """From here on the run goes another way."""
        self._frames.drop_from(number + 1)
        self._host.parted(self.phase, self.epoch, self.first + number, how)


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """The same values; NaN is itself."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())


def _size(entry: _Entry) -> int:
    return entry.item.nbytes + entry.random.nbytes + ENTRY
