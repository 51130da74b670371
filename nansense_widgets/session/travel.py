"""Going back to the beginning of an epoch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from nansense_widgets.errors import SessionStateError, TimeTravelError
from nansense_widgets.history.cache import DEFAULT_CACHE_DIR, EpochCache
from nansense_widgets.history.restorer import TimeTravelStatus, TrainingRestorer
from nansense_widgets.history.state import RunParts
from nansense_widgets.run.going_back import Target
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.target import checked_count
from nansense_widgets.session.locking import refuse_jump, unless_locked
from nansense_widgets.session.standing import Standing
from nansense_widgets.widgets.state import LOCKED

__all__ = ["Travel"]


class Travel(Standing):
    """Epochs of a loop whose states are kept, and jumps to them."""

    _replay_to: Target | None
    """The batch that a jump is to come to again."""

    def epochs(
        self,
        n: int | None = None,
        *,
        cache_dir: Path | str = DEFAULT_CACHE_DIR,
        start_epoch: int = 0,
        keep: int = 10,
        every: int = 10,
    ) -> Iterator[int]:
        """Yield 0 … n - 1 and tell `batches` the epoch; with `restore_point`, states of epochs are kept.

        A loop that wraps the whole body of each epoch in `with session.restore_point():` can be sent back to
        the beginning of an epoch by `request_time_travel`: the epoch comes again, with model, optimizers,
        schedulers, gradients, random generators, loaders and what `track` was given as they were. A loop
        without it is a straight pass, and nothing is written.

        Args:
            n: epochs of the whole run; by default `start(epochs=)`.
            cache_dir: folder of the states. Those of an earlier run in it are moved to its subfolder
                `previous`, whose contents go.
            start_epoch: go on from the state of this epoch in `cache_dir`, which may come from another
                process; the folder is used as it is.
            keep: newest epochs whose states are kept on disk, at least 1.
            every: of older ones, each that this divides is kept too; 0: none.

        Raises:
            TypeError, ValueError: for a wrong argument, or if no number of epochs is known.
            TimeTravelError: if `start_epoch` has no state that fits this model.
        """
        count = self.schedule.epochs if n is None else n
        if count is None:
            raise ValueError("epochs() needs n: neither epochs(n) nor start(epochs=) gives it")
        count = checked_count("n", count)
        start = checked_count("start_epoch", start_epoch)
        if start and start >= count:
            raise ValueError(f"start_epoch={start_epoch!r} must be less than the {count} epochs of the run")
        place = _checked_place(cache_dir, keep, every)
        self.schedule.update(epochs=count)
        if not self._enabled:
            return iter(range(count))
        self._run.check_loop()
        self._restorer = self._new_restorer(place, start)
        return self._run.loop.epochs(count, self._restorer)

    def restore_point(self) -> AbstractContextManager[TrainingRestorer]:
        """Around the body of an epoch, all its phases: where a jump ends, after which the epoch comes again.

        What the loop keeps beside the session (a best accuracy, a list of losses) is rewound if it is made
        inside, or if it is given to `track`.

        Raises:
            SessionStateError: outside of a loop over `session.epochs()`.
        """
        if not self._enabled:
            return contextlib.nullcontext(TrainingRestorer(None, EpochCache(DEFAULT_CACHE_DIR)))
        if self._restorer is None:
            raise SessionStateError("restore_point() belongs into a loop over session.epochs()")
        return self._restorer.epoch_guard()

    def training_restorer(
        self, *, cache_dir: Path | str = DEFAULT_CACHE_DIR, keep: int = 10, every: int = 10
    ) -> TrainingRestorer:
        """For loops that are somebody else's: see `TrainingRestorer`. Arguments as for `epochs`."""
        place = _checked_place(cache_dir, keep, every)
        if not self._enabled:
            return TrainingRestorer(None, EpochCache(DEFAULT_CACHE_DIR))
        self._restorer = self._new_restorer(place, 0)
        return self._restorer

    def track(self, name: str, obj: Any) -> None:
        """Keep the state of another object with the run's: a GradScaler, an average of weights, a metric.

        Works on a locked session too.

        Args:
            name: unique; a second object under it replaces the first.
            obj: anything with `state_dict()` and `load_state_dict(state)`.

        Raises:
            TypeError, ValueError: for an empty name, or an object without these methods.
        """
        if not isinstance(name, str):
            raise TypeError(f"name={name!r} must be a string")
        if not name:
            raise ValueError("name='' must not be empty")
        for method in ("state_dict", "load_state_dict"):
            if not callable(getattr(obj, method, None)):
                raise TypeError(f"obj={obj!r} must have a method {method}()")
        self._tracked[name] = obj

    @unless_locked(refuse_jump)
    def request_time_travel(self, epoch: int) -> None:
        """Go back to the beginning of an epoch: at once if training is paused, else at the next batch.

        A run that was paused stands before the first batch of that epoch then; a running one goes on.

        Args:
            epoch: one of `time_travel_status().cached_epochs`.

        Raises:
            TypeError: if it is no int.
            TimeTravelError: if there is nothing to go back to, or it does not fit; on a locked session.
        """
        target = checked_count("epoch", epoch)
        status = self.time_travel_status()
        if not status.available or self._restorer is None:
            raise TimeTravelError(f"epoch={epoch!r}: {status.reason}")
        if target not in status.cached_epochs:
            known = ", ".join(map(str, status.cached_epochs))
            raise TimeTravelError(f"epoch={epoch!r} has no kept state; those are of epochs {known}")
        self._restorer.check(target)
        self._replay_to = None
        self._run.control.jump(target)

    def time_travel_status(self) -> TimeTravelStatus:
        """Whether and where the run can go back."""
        restorer = self._restorer
        total = self.schedule.epochs or 0
        if restorer is None:
            return TimeTravelStatus(False, self._why_not(), (), total)
        cache = restorer.cache
        known = tuple(epoch for epoch in cache.epochs if not total or epoch < total)
        reason = self._why_not() or ("" if known else "no epoch has been kept yet")
        note = restorer.note or cache.error
        return TimeTravelStatus(
            not reason, reason, known, total, cache.nbytes, str(cache.folder), cache.kept, note
        )

    def _parts(self) -> RunParts:
        """What a state is taken of; raises if the session is closed."""
        if self._capture is None or self._run.control.closed:
            raise TimeTravelError("this session is closed")
        return RunParts(self._capture.model, self._capture.optimizers, self._schedulers, self._tracked)

    def _begins(self, epoch: int) -> None:
        """The loop is about to begin an epoch."""
        self._run.loop.at_epoch(epoch)

    def _rewound(self, epoch: int, target: Target | None = None) -> None:
        """The state is that of the beginning of an epoch again: forget what came from there on.

        With a `target`, the run goes on to that batch.
        """
        left = self._run.loop.last
        self._branches.left(self._log.after(epoch), left)
        self._run.loop.rewind_to_epoch(epoch)
        self._stats.rewind_to_epoch(epoch)
        self._log.rewind_to_epoch(epoch, gap=left is not None and epoch > left.epoch)
        if self._capture is not None:
            self._capture.rewind_to_epoch(epoch)
        if target is not None:
            to = BatchPosition(*target) if target.batch_idx >= 0 else None
            self._note_jump(f"went back to {target}", left, epoch, to)
            return
        forward = left is not None and epoch > left.epoch
        way = "forward to an earlier run of" if forward else "back to the beginning of"
        self._note_jump(
            f"went {'to the beginning of' if left is None else way} epoch {epoch + 1}", left, epoch
        )

    def _note_jump(
        self, text: str, left: BatchPosition | None, epoch: int, to: BatchPosition | None = None
    ) -> None:
        if left is not None:
            text = f"{text} (from epoch {left.epoch + 1}, {left.phase}, batch {left.batch_idx + 1})"
        self._run.loop.events.add("jump", None, text, epoch, to)
        self._hub.redraw()

    def _why_not(self) -> str:
        restorer = self._restorer
        word = self.status.word
        if word in ("closed", "disabled"):
            return f"this session is {word}"
        if self._run.no_loop:
            return self._run.no_loop
        if self._locked:
            return f"the session is {LOCKED}"
        if restorer is None:
            return "the loop does not go through session.epochs(): there is nothing to go back to"
        if self._run.ended or restorer.finished:
            return "the run is over"
        if not restorer.was_used:
            return "the loop has no restore point: wrap each epoch's body in `with session.restore_point():`"
        return ""

    def _new_restorer(self, place: tuple[Path, int, int], start: int) -> TrainingRestorer:
        if self._restorer is not None:
            self._restorer.cache.release()
        cache = EpochCache(*place)
        restorer = TrainingRestorer(_Host(self), cache, start)
        if start:
            cache.adopt()
            restorer.check(start)
        self._run.loop.on_loader = restorer.loader_begins
        self._run.loop.catches_jumps = lambda: restorer.is_guarded
        return restorer


def _checked_place(cache_dir: Any, keep: Any, every: Any) -> tuple[Path, int, int]:
    """A folder that is there or can be made, and which states stay in it.

    Whether it can be written to is seen when something is, and is no error of the user's loop.
    """
    if not isinstance(cache_dir, (str, Path)):
        raise TypeError(f"cache_dir={cache_dir!r} must be a path")
    if "\0" in str(cache_dir):
        raise ValueError(f"cache_dir={cache_dir!r} must not hold a null character")
    folder = Path(cache_dir)
    taken = next((path for path in (folder, *folder.parents) if os.path.lexists(path)), folder)
    if os.path.lexists(taken) and not taken.is_dir():
        raise ValueError(f"cache_dir={str(cache_dir)!r} must be a folder, or a new one: {taken} is none")
    kept, divides = checked_count("keep", keep), checked_count("every", every)
    if kept < 1:
        raise ValueError(f"keep={keep!r} must be at least 1")
    return folder, kept, divides


class _Host:
    """The session, as its restorer sees it."""

    def __init__(self, session: Travel) -> None:
        self._session = session

    def parts(self) -> RunParts:
        return self._session._parts()  # noqa: SLF001  one object in two files

    def total_epochs(self) -> int | None:
        return self._session.schedule.epochs

    def take_jump(self) -> int | None:
        return self._session._run.control.take_jump()  # noqa: SLF001

    def at_epoch(self, epoch: int) -> None:
        self._session._begins(epoch)  # noqa: SLF001

    def rewound(self, epoch: int) -> None:
        self._session._rewound(epoch)  # noqa: SLF001
