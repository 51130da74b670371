"""Going back by batches: within a phase from states in memory, further from those of epochs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nansense_widgets.errors import TimeTravelError
from nansense_widgets.history.keyframes import Keyframe
from nansense_widgets.history.sizes import as_bytes, default_budget
from nansense_widgets.history.spending import Spending
from nansense_widgets.history.status import HistoryStatus, Way
from nansense_widgets.history.tape import Tape, TapeHost
from nansense_widgets.run.batches import checked_epoch, checked_phase
from nansense_widgets.run.going_back import Target
from nansense_widgets.run.hyperparameters import Change
from nansense_widgets.run.mode import Mode
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.target import checked_count
from nansense_widgets.run.trail import Segment
from nansense_widgets.session.locking import nothing, refuse_jump, unless_locked
from nansense_widgets.session.logging import Logging
from nansense_widgets.session.memory import MemoryEntry
from nansense_widgets.session.travel import Travel
from nansense_widgets.stats.branches import Branch
from nansense_widgets.widgets.state import LOCKED

__all__ = ["Rewinding"]


class Rewinding(Travel, Logging):
    """Single batches in reverse, exactly."""

    _budget: int
    _changes: list[tuple[int, Change]]
    """Changes of hyperparameters, each with the number of batches that had been before."""
    _due: list[tuple[int, Change]]
    """Those that come again while a run is computed anew."""
    _undone: list[tuple[int, Change]]
    """Those that do not, since going back undid them."""
    _changes_at: dict[int, int]
    """How many had been made when an epoch began."""
    _parted: str
    _spending: Spending

    @unless_locked(refuse_jump)
    def step_back(self, n: int = 1) -> None:
        """Go back `n` batches: training stands after that batch again, which is computed anew and shown.

        See `rewind`. With as many as there are, or more, it goes to the beginning of the run, before its
        first batch. A locked session refuses.

        Args:
            n: at least 1.

        Raises:
            TypeError, ValueError: for another `n`.
            TimeTravelError: if the run cannot go there, saying why.
        """
        count = _checked_steps(n)
        if not self._enabled:
            return
        self._check_open()
        target = self._before(count)
        if target is None:
            raise TimeTravelError(f"n={n!r}: {self._no_way()}")
        self._go_back(target, f"n={n!r}")

    @unless_locked(refuse_jump)
    def rewind(self, phase: str, epoch: int, batch_idx: int) -> None:
        """Go back to a batch: training stands after it again, as it did, and shows it.

        Within the phase that goes on, the nearest state before it is restored from memory, and the batches
        since are computed anew from the same items and random numbers; the loop sees nothing but its items
        coming again. Further back, the state of an epoch is restored (`restore_point`), and the run goes
        from there up to the batch, as with `step_until_position`: `stop` ends it where it is. Changes of
        hyperparameters that were made on the way are made again. What came after the batch is dropped from
        statistics and curves; if the run then goes another way, it stays as a branch. A locked
        session refuses.

        Args:
            phase: its name.
            epoch: counted from 0.
            batch_idx: counted from 0 within the phase and epoch.

        Raises:
            TypeError, ValueError: for a wrong argument.
            TimeTravelError: if that batch has not been, or if the run cannot go there, saying why.
            SessionStateError: if the session is closed.
        """
        target = _checked_target(phase, epoch, batch_idx)
        name, at, batch = target
        if not self._enabled:
            return
        self._check_open()
        said = f"phase={name!r}, epoch={at!r}, batch_idx={batch!r}"
        if name not in (order := self.schedule.phase_order):
            known = ", ".join(map(repr, order)) or "none yet"
            raise ValueError(f"phase={name!r} is no phase of this run; there are {known}")
        if not self._run.loop.trail.has(name, at, batch):
            raise TimeTravelError(f"{said}: this batch has not been yet (step_until_position goes forward)")
        self._go_back(target, said)

    def way_back(self, n: int = 1) -> Way:
        """What `step_back(n)` would do now; that there is no way is no error here."""
        target = self._before(_checked_steps(n)) if self._enabled else None
        return Way("", self._no_way()) if target is None else self._way_back(target)

    def way_to(self, *, phase: str, epoch: int, batch_idx: int) -> Way:
        """What would happen if the run were sent to a batch, from where it stands now.

        Args:
            phase: its name.
            epoch: counted from 0.
            batch_idx: counted from 0 within the phase and epoch.

        Raises:
            TypeError, ValueError: for a wrong argument.
        """
        target = _checked_target(phase, epoch, batch_idx)
        if self._run.loop.trail.has(*target) or self._locked or self.no_loop:
            return self._way_back(target)
        try:
            self._run.ahead(*target)
        except ValueError as error:
            return Way("", str(error))
        if self.status.word not in ("paused", "running", "waiting"):
            return Way("", f"it has not been, and the run is {self.status.word}")
        return Way("step_until_position", "runs on to it, and pauses after it")

    @unless_locked(nothing)
    def set_history(self, budget: int | str) -> None:
        """How much memory the states and items for going back by batches may take.

        By default a fiftieth of the machine's memory, at most 512 MiB. States thin out with age. Nothing is
        kept of detached batches, nor of loops that go through `session.batch`. No-op on a locked
        session.

        Args:
            budget: bytes, or with a unit, such as `"1 GB"` or `"256 MiB"`; 0 keeps nothing.

        Raises:
            TypeError, ValueError: if it is no size.
        """
        self._budget = as_bytes(budget)
        tape = self._tape
        if tape is not None:
            self._run.loop.jobs.submit("set_history", tape.fit)
        self._hub.changed()

    @property
    def history(self) -> HistoryStatus:
        """What is in memory to go back by batches."""
        if not self._enabled:
            return HistoryStatus(0, reason="this session is disabled")
        tape = self._tape
        if tape is None:
            why = "no loop goes through session.batches()" if self._budget else "the history is off"
            return HistoryStatus(self._budget, reason=why, parted=self._parted)
        reach = tape.reach
        first, last = reach or (0, -2)
        nothing = "no state is kept yet" if self._budget else "the history is off (set_history)"
        reason = "" if reach else tape.note or nothing
        return HistoryStatus(
            self._budget,
            tape.nbytes,
            tape.phase,
            tape.epoch,
            first,
            last,
            tuple(tape.frames),
            reason,
            self._parted,
        )

    @property
    def trail(self) -> tuple[Segment, ...]:
        """The batches that the run has gone through, in order: one segment a phase and epoch."""
        return self._run.loop.trail.segments()

    @property
    def branches(self) -> tuple[Branch, ...]:
        """Futures that were left by going back and then another way, oldest first; the last eight."""
        return self._branches.all

    def _memory(self) -> Iterator[MemoryEntry]:
        yield from super()._memory()
        if (tape := self._tape) is not None:
            yield MemoryEntry("history", "states", tape.state_bytes)
            yield MemoryEntry("history", "items", tape.nbytes - tape.state_bytes)
        yield MemoryEntry("branches", "series", self._branches.nbytes)

    @property
    def _tape(self) -> Tape | None:
        items = self._run.loop.items
        return items if isinstance(items, Tape) else None

    def _no_way(self) -> str:
        return self.no_loop or "the run stands at its beginning"

    def _before(self, count: int) -> Target | None:
        """The batch so many before the last one; None at the beginning of the run."""
        loop = self._run.loop
        # Pressed twice, it goes back from where the first press leads.
        last: Target | BatchPosition | None = self._run.control.replaying or loop.last
        if last is None or last.batch_idx < 0:
            return None
        found = loop.trail.before(last, count)
        first = next(iter(loop.trail.segments()), None)
        if found is None and first is not None:
            found = (first.phase, first.epoch, -1)
        return None if found is None else Target(*found)

    def _go_back(self, target: Target, said: str) -> None:
        way = self._way_back(target)
        if not way.action:
            raise TimeTravelError(f"{said}: {way.text}")
        if way.from_epoch is not None and self._restorer is not None:
            self._restorer.check(way.from_epoch)
        self._run.loop.jobs.hold()  # what is asked from now on is meant for when it is there
        if way.from_epoch is None:
            self._run.control.rewind(target)
            return
        self._replay_to = target
        self._run.control.jump_and_replay(way.from_epoch, target)

    def _way_back(self, target: Target) -> Way:
        if self._locked:
            return Way("", f"the session is {LOCKED}")
        if self.no_loop:
            return Way("", self.no_loop)
        tape, trail = self._tape, self._run.loop.trail
        if tape is not None and (tape.phase, tape.epoch) == (target.phase, target.epoch):
            near = tape.why_not(target.batch_idx)
            if not near:
                count = tape.batches_to(target.batch_idx)
                return Way("rewind", f"computes {_batches(count)} anew, from a state in memory", count)
        elif tape is not None:
            near = f"{target} is in another phase than the one that goes on"
        else:
            near = "no phase of session.batches() goes on"
        status = self.time_travel_status()
        epochs = [epoch for epoch in status.cached_epochs if epoch <= target.epoch]
        if not status.available or not epochs:
            far = status.reason or f"no state of epoch {target.epoch + 1} or an earlier one is kept"
            return Way("", f"{near}; and {far}")
        first = next((one for one in trail.segments() if one.epoch == epochs[-1]), None)
        before = None if first is None else trail.ordinal(first.phase, first.epoch, first.first)
        last = trail.ordinal(target.phase, target.epoch, max(target.batch_idx, 0))
        if before is None or last is None:
            return Way("", f"{near}; and the kept state of epoch {epochs[-1] + 1} is of another run")
        count = last - before + (target.batch_idx >= 0)
        how = f"restores the beginning of epoch {epochs[-1] + 1} and computes {_batches(count)} anew"
        return Way("rewind", how, count, epochs[-1])

    # ------------------------------------------------------------ what the loop tells (training thread)

    def _begin_history(self) -> None:
        self._budget = default_budget()
        self._spending = Spending()
        self._forget_run()
        loop = self._run.loop
        host = TapeHost(
            self._room,
            self._parts,
            self._stats.mark,
            lambda: len(self._changes),
            self._take_rewind,
            self._rewound_to,
            self._differs,
            self._could_not,
            self._warn,
            lambda: self._run.control.mode is Mode.STEP,
        )

        def items_of(items: Iterator[Any], phase: str, epoch: int, first: int) -> Tape:
            return Tape(items, phase, epoch, first, host, self._spending)

        loop.items_of = items_of
        loop.on_batch = self._repeat_changes
        loop.on_batch_end = self._compare
        loop.on_restart = self._forget_run
        loop.on_lost = lambda target: self._could_not(target, "the loop has left that phase")

    def _forget_run(self) -> None:
        self._changes, self._due, self._undone = [], [], []
        self._changes_at = {}
        self._replay_to = None
        self._parted = ""
        self._branches.clear()

    def _begins(self, epoch: int) -> None:
        super()._begins(epoch)
        self._changes_at.setdefault(epoch, len(self._changes))

    def _rewound(self, epoch: int, target: Target | None = None) -> None:
        target, self._replay_to = self._replay_to, None
        # Of an epoch that has not begun since it was gone back from: the jump is forward, all were before.
        made = self._changes_at.setdefault(epoch, len(self._changes))
        self._changes_at = {at: count for at, count in self._changes_at.items() if at <= epoch}
        self._take_back_changes(made, target)
        super()._rewound(epoch, target)

    def _take_back_changes(self, made: int, target: Target | None) -> None:
        """So many have been made at the state that is restored; those up to a target are made again."""
        ordinal = None if target is None else self._run.loop.trail.ordinal(*target)
        # Those that an earlier going back has undone are not made again either.
        later = [*self._changes[made:], *self._due, *self._undone]
        self._changes = self._changes[:made]
        self._due = [one for one in later if ordinal is not None and one[0] <= ordinal]
        self._undone = later[len(self._due) :]

    def _repeat_changes(self, _position: BatchPosition) -> None:
        """A batch begins: what is to be made again before it, and what is not."""
        if not (self._due or self._undone):
            return  # nearly always; counting the trail takes longer the longer the run
        now = self._run.loop.trail.count
        while self._due and self._due[0][0] <= now:
            _, change = self._due.pop(0)
            super()._change(change)
            self._changes.append((now, change))
        if self._undone and self._undone[0][0] <= now:
            undone, self._undone = self._undone[0][1], []
            self._part(f"{undone.name} was not set to {undone.value:g} again")

    def _change(self, change: Change) -> None:
        """Of the user's: the run goes another way from here on."""
        super()._change(change)
        self._changes.append((self._run.loop.trail.count, change))
        self._undone = []
        self._part(f"{change.name} was set to {change.value:g}")

    def _compare(self, position: BatchPosition) -> None:
        if self._branches.is_replaying:
            told = self._branches.compare(position, self._log.losses_of)
            if told:
                self._differs(position.phase, position.epoch, position.batch_idx, told)

    def _differs(self, phase: str, epoch: int, batch: int, how: str) -> None:
        where = f"epoch {epoch + 1}, {phase}, batch {batch + 1}"
        self._parted = f"not repeatable: {where} came again with {how}"
        self._run.loop.events.add("replay", BatchPosition(phase, epoch, batch), self._parted)
        self._part("the loop is not repeatable")

    def _room(self) -> int:
        """Bytes that may be kept now."""
        control = self._run.control
        return 0 if control.mode is Mode.DETACH or control.closed else self._budget

    def _warn(self, text: str) -> None:
        self._parted = text
        self._run.loop.events.add("replay", self._run.loop.last, text)
        self._run.loop.jobs.error = text

    def _take_rewind(self) -> Target | None:
        if self._run.control.rewinds:
            self._run.loop.jobs.between()  # what was asked before it comes before it
        return self._run.control.take_rewind()

    def _rewound_to(self, target: Target, batch: int, frame: Keyframe) -> None:
        """The state before a batch is there again; from here training goes on to the target."""
        left = self._run.loop.last
        phase, epoch = target.phase, target.epoch
        self._take_back_changes(frame.changes, target)
        self._branches.left(self._log.after(epoch, batch, phase), left)
        self._run.loop.rewind_to_batch(phase, epoch, batch)
        self._stats.return_to(frame.mark, phase, epoch, batch)
        self._log.rewind_to_batch(phase, epoch, batch)
        to = BatchPosition(*target) if target.batch_idx >= 0 else None
        self._note_jump(f"went back to {target}", left, epoch, to)

    def _could_not(self, target: Target, why: str) -> None:
        text = f"did not go back to {target}: {why}"
        self._run.control.stay()
        self._run.loop.events.add("jump", self._run.loop.last, text)
        self._run.loop.jobs.error = text
        self._hub.redraw()

    def _part(self, why: str) -> None:
        if (tape := self._tape) is not None:
            tape.branch()
        if self._branches.is_replaying:
            self._branches.part(self._run.loop.last, why, self._log.snapshot())


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count:,} batches"


def _checked_target(phase: Any, epoch: Any, batch_idx: Any) -> Target:
    name, at, batch = checked_phase(phase), checked_epoch(epoch), checked_count("batch_idx", batch_idx)
    if at is None:
        raise TypeError("epoch=None must be an int")
    return Target(name, at, batch)


def _checked_steps(n: Any) -> int:
    count = checked_count("n", n)
    if count < 1:
        raise ValueError(f"n={n!r} must be at least 1")
    return count
