"""Back to the beginning of an epoch: keeps states as epochs begin, catches jumps, puts a state back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from nansense_widgets.errors import TimeTravelError, TimeTravelJump
from nansense_widgets.history.cache import LATE, EpochCache
from nansense_widgets.history.fit import loader_problems, state_problems
from nansense_widgets.history.loaders import LoaderStates
from nansense_widgets.history.pack import UnstorableError
from nansense_widgets.history.state import RunParts, restore_state, take_state, unchanged_by_errors

__all__ = ["EpochRange", "RestorerHost", "TimeTravelStatus", "TrainingRestorer"]


@dataclass(frozen=True)
class TimeTravelStatus:
    """Whether and where a run can go back.

    Attributes:
        available: whether a jump can be made now.
        reason: why not, in words; empty if it can.
        cached_epochs: epochs at whose beginning it can go on, from 0, in order.
        total_epochs: epochs of the run; 0 while that is not known.
        disk_bytes: what the states take on disk.
        folder: where they are.
        kept: which epochs are kept, in words.
        note: what went wrong in keeping states, else empty.
    """

    available: bool
    reason: str
    cached_epochs: tuple[int, ...]
    total_epochs: int
    disk_bytes: int = 0
    folder: str = ""
    kept: str = ""
    note: str = ""


class RestorerHost(Protocol):
    """The session, as the restorer sees it."""

    def parts(self) -> RunParts:
        """What the state is taken of."""

    def total_epochs(self) -> int | None:
        """Epochs of the run, if known."""

    def take_jump(self) -> int | None:
        """Where the loop is to go back to, if it is."""

    def at_epoch(self, epoch: int) -> None:
        """The loop is about to begin an epoch."""

    def rewound(self, epoch: int) -> None:
        """The state is that of the beginning of `epoch` again: forget what came after it."""


class TrainingRestorer:
    """Restores the training loop at the beginning of a kept epoch.

    Two equal shapes of a loop use it. The flat one is `session.epochs()` with `session.restore_point()`:

    ```python
    for epoch in session.epochs(50):
        with session.restore_point():
            ...
    ```

    The nested one suits loops that are somebody else's:

    ```python
    restorer = session.training_restorer()
    while restorer.pending():
        with restorer:
            for epoch in restorer.epochs():
                ...
    ```

    A state is taken when the loop asks for an epoch, before any of its code has run; after a jump, all of
    that code runs again from the same state.
    """

    def __init__(self, host: RestorerHost | None, cache: EpochCache, start_epoch: int = 0) -> None:
        self._host = host
        self._cache = cache
        self._start = start_epoch
        self._finished = False
        self._target: int | None = start_epoch or None
        self._guards = 0
        self._used = False
        self._foreign = False
        """Somebody else's loop says when its epochs begin."""
        self._taken: tuple[int, dict[str, Any]] | None = None
        self._checked: tuple[int, Any] | None = None
        self._epoch = start_epoch
        self._loaders = LoaderStates()
        self._seen: dict[str, int] = {}
        self.note = ""
        """Why an epoch could not be kept, else empty."""

    @property
    def start_epoch(self) -> int:
        """The first epoch of this attempt: 0, or where a jump leads."""
        return self._start

    @property
    def finished(self) -> bool:
        """Whether a `with` block was completed without a jump."""
        return self._finished

    @property
    def cache(self) -> EpochCache:
        """The states that are kept."""
        return self._cache

    @property
    def is_guarded(self) -> bool:
        """Whether the loop is inside a block that catches a jump."""
        return self._guards > 0

    @property
    def was_used(self) -> bool:
        """Whether the loop has entered such a block at all."""
        return self._used

    # ------------------------------------------------------------ the flat loop

    def iter_epochs(self) -> Iterator[int]:
        """The epochs of the run; after a jump, its target comes again."""
        epoch = self._start
        try:
            while (total := self._total()) is None or epoch < total:
                self._begin(epoch)
                yield epoch
                if (jump := self._asked()) is not None:  # asked outside of a restore point
                    self.go_back(jump)
                epoch = epoch + 1 if self._target is None else self._target
            self._finished = True
        finally:
            self._cache.release()

    def go_back(self, epoch: int) -> None:
        """The epoch that begins next is this one, from its kept state."""
        self._target = self._start = epoch
        self._finished = False

    @contextmanager
    def epoch_guard(self) -> Iterator[TrainingRestorer]:
        """Around the body of one epoch: catches a jump, after which `iter_epochs` gives its target."""
        self._used = True
        self._commit()
        self._guards += 1
        try:
            yield self
        except TimeTravelJump as jump:
            self.go_back(jump.epoch)
        finally:
            self._guards -= 1

    # ------------------------------------------------------------ the nested loop

    def pending(self) -> bool:
        """Whether another `with restorer:` is to run."""
        return not self._finished

    def epochs(self) -> EpochRange:
        """Epochs of this attempt, from `start_epoch` to the end; asking for one takes its state.

        Raises:
            ValueError: if the number of epochs is not known.
        """
        total = self._total()
        if total is None:
            raise ValueError("epochs: the number of epochs is not known; give it to start(epochs=…)")
        return EpochRange(self._start, total, self._begin_and_commit)

    def __enter__(self) -> TrainingRestorer:
        self._used = True
        self._guards += 1
        if self._foreign and self._target is not None:
            self._restore(self._target)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        self._guards -= 1
        if isinstance(error, TimeTravelJump):
            self.go_back(error.epoch)
            return True
        if error is None:
            jump = self._asked()  # asked for in the last batch
            if jump is None:
                self._finished = True
            else:
                self.go_back(jump)
        self._cache.release()
        return False

    def save_epoch_start(self, epoch: int) -> None:
        """Keep the state of now as that of the beginning of `epoch`, for loops not gone through here.

        After a jump the next `with restorer:` puts the state back as it is entered.
        """
        self._foreign = True
        self._epoch, self._seen = epoch, {}
        if epoch != self._start or epoch not in self._cache:  # else it is the one that was put back
            self._take(epoch)
            self._commit()

    # ------------------------------------------------------------ loaders

    def loader_begins(self, phase: str, loader: Any) -> None:
        """A loader is about to be iterated: after a jump put it back if that is still to be done."""
        if not self._used:
            self._taken = None  # nobody will go back: its memory is not to be kept
        number = self._seen.get(phase, 0)
        self._seen[phase] = number + 1
        try:
            self._loaders.begins(f"{phase} {number}", loader, self._add_late)
        except Exception as error:  # noqa: BLE001  a loader of the user's own; never an error in his loop
            self.note = f"the loader of phase {phase!r} will not come again as it was: {_said(error)}"

    def _add_late(self, key: str, state: Any) -> None:
        if self._used and self._epoch in self._cache:
            self._cache.add(self._epoch, key, state)

    # ------------------------------------------------------------ parts

    def check(self, epoch: int) -> None:
        """Raise `TimeTravelError` if the state of an epoch cannot be put back; else it is held for that."""
        if self._host is None:
            return
        content = self._fitting(epoch)
        self._late(epoch)
        self._checked = (epoch, content)  # whatever becomes of the file until then

    def _fitting(self, epoch: int) -> Any:
        """The content of an epoch's file; raises `TimeTravelError`, naming it, if it does not fit."""
        assert self._host is not None
        content, path = self._cache.load(epoch), self._cache.path(epoch)
        problems = state_problems(self._host.parts(), content["state"], foreign=self._cache.is_foreign)
        if problems := [*problems, *loader_problems(content.get("loaders"))]:
            raise TimeTravelError(f"{path} does not fit: {'; '.join(problems)}")
        return content

    def _late(self, epoch: int) -> dict[str, Any]:
        """What was added to it; raises likewise."""
        path = self._cache.path(epoch).with_suffix(LATE)
        try:
            late = self._cache.late(epoch)
        except (KeyError, TypeError, ValueError) as error:
            raise TimeTravelError(f"{path} holds no states of loaders: {_said(error)}") from error
        if problems := loader_problems(late):
            raise TimeTravelError(f"{path} does not fit: {'; '.join(problems)}")
        return late

    def _asked(self) -> int | None:
        return None if self._host is None else self._host.take_jump()

    def _total(self) -> int | None:
        return None if self._host is None else self._host.total_epochs()

    def _begin_and_commit(self, epoch: int) -> None:
        self._begin(epoch)
        self._commit()

    def _begin(self, epoch: int) -> None:
        """The loop asks for an epoch: put its state back if that is where a jump leads, else take it."""
        if self._host is None:
            return
        self._epoch, self._seen, self._taken = epoch, {}, None
        target = self._target
        if target is not None:
            self._restore(target)
        self._host.at_epoch(epoch)
        if target is None and (self._used or self._start == epoch):
            self._take(epoch)

    def _restore(self, target: int) -> None:
        self._target = None
        if self._host is not None:
            checked, self._checked = self._checked, None
            content = checked[1] if checked and checked[0] == target else self._fitting(target)
            late = self._late(target)
            errors = self._put_back(target, content["state"])
            try:
                self._loaders.restore(content["loaders"], late)
            except Exception as error:  # noqa: BLE001  a loader of the user's own; never an error in his loop
                errors.append(f"loaders will not come again as they were: {_said(error)}")
            self._host.rewound(target)
            self.note = "; ".join([*errors, *self._not_put_back(content["state"]["tracked"])])

    def _put_back(self, target: int, state: Mapping[str, Any]) -> list[str]:
        """Put a state back; where that fails half way, all is as before."""
        assert self._host is not None
        parts = self._host.parts()
        try:
            with unchanged_by_errors(parts):
                return restore_state(parts, state)
        except Exception as error:
            path = self._cache.path(target)
            raise TimeTravelError(f"{path} could not be put back: {_said(error)}") from error

    def _not_put_back(self, saved: Mapping[str, Any]) -> list[str]:
        here = {} if self._host is None else self._host.parts().tracked
        unknown = [name for name in here if name not in saved]
        unused = [name for name in saved if name not in here]
        notes = []
        if unknown:
            notes.append(f"{', '.join(unknown)} was not tracked yet in that epoch and stays as it is")
        if unused:
            notes.append(f"the state of {', '.join(unused)} is not used: track() it first")
        return notes

    def _take(self, epoch: int) -> None:
        if self._host is None:
            return
        try:
            state, loaders = take_state(self._host.parts()), self._loaders.take()
        except Exception as error:  # noqa: BLE001  never an error in the user's loop
            self.note = f"epoch {epoch} was not kept: {_said(error)}"
            return
        self._taken = (epoch, {"epoch": epoch, "state": state, "loaders": loaders})

    def _commit(self) -> None:
        taken, self._taken = self._taken, None
        if taken is not None:
            self._cache.save(*taken)


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, UnstorableError) else f"{type(error).__name__}: {error}"


class EpochRange:
    """The epochs of an attempt, like a range; asking for one begins it."""

    def __init__(self, start: int, stop: int, begin: Callable[[int], None]) -> None:
        self._range = range(start, stop)
        self._begin = begin

    def __iter__(self) -> Iterator[int]:
        for epoch in self._range:
            self._begin(epoch)
            yield epoch

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, index: int) -> int:
        return self._range[index]

    def __contains__(self, epoch: object) -> bool:
        return epoch in self._range

    def __repr__(self) -> str:
        return repr(self._range)
