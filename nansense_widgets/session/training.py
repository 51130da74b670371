"""What the training loop uses of a session."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from nansense_widgets.run.batches import checked_epoch, checked_phase
from nansense_widgets.run.item import LoaderItem
from nansense_widgets.run.target import checked_timeout
from nansense_widgets.session.standing import Standing

__all__ = ["Training"]

Item = TypeVar("Item")
Loop = TypeVar("Loop", bound=Callable[..., Any])


STATES_WAIT_S = 10.0
"""How long `close` waits for states of epochs that are being written."""


class Training(Standing):
    """Epochs, phases and batches as the loop goes through them, and the loop itself."""

    def batches(self, loader: Iterable[Item], *, phase: str, epoch: int | None = None) -> Iterator[Item]:
        """Iterate `loader` with each item inside its batch.

        The loop's body runs inside the batch: what it computes is captured, and training pauses when the
        loop asks for the next item. After a `break`, a pause that is due comes before the next batch.

        Args:
            loader: a DataLoader or any other iterable; its `len()`, if it has one, tells the phase's length.
            phase: e.g. `"train"` or `"val"`.
            epoch: counted from 0; by default the one `epochs()` last gave.

        Raises:
            ValueError, TypeError: at the call, for an empty or non-string phase, a negative epoch, or a
                loader that cannot be iterated; in the loop, where a declared schedule has no such phase or
                not as many batches.
            SessionStateError: in the loop, if a batch begins inside another one.
        """
        phase, epoch = checked_phase(phase), checked_epoch(epoch)
        if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
            raise TypeError(f"loader={loader!r} must be iterable, e.g. a DataLoader")
        if not self._enabled:
            return iter(loader)
        self._run.enter_loop(phase, epoch)
        return self._run.loop.batches(loader, phase, epoch)

    def batch(
        self,
        *,
        phase: str,
        epoch: int | None = None,
        item: Any = None,
    ) -> AbstractContextManager[None]:
        """One batch as a context manager, for loops that `batches` does not fit.

        Args:
            phase: as for `batches`.
            epoch: as for `batches`.
            item: the batch as the loader gave it: the labels of the samples in it are shown beside them, and
                `freeze_moment` needs it.

        Raises:
            ValueError, TypeError, SessionStateError: as for `batches`.
        """
        phase, epoch = checked_phase(phase), checked_epoch(epoch)
        if not self._enabled:
            return contextlib.nullcontext()
        self._run.enter_loop(phase, epoch)
        return self._run.loop.batch(phase, epoch, None if item is None else LoaderItem(item))

    def set_schedule(self, *, epochs: int | None = None, phases: Mapping[str, int] | None = None) -> None:
        """Declare the schedule anew while it runs; batch counters are kept. Works on a locked session too.

        Args:
            epochs: epochs of the whole run; None leaves them as they are.
            phases: name to batches an epoch (at least 1); replaces the phases and makes the schedule a
                declared one. None leaves them as they are.

        Raises:
            TypeError, ValueError: for a wrong argument, naming it.
        """
        self.schedule.update(epochs=epochs, phases=phases)
        self._hub.changed()

    def launch(self, loop: Loop, *args: Any, **kwargs: Any) -> Loop:
        """Run `loop(*args, **kwargs)` in a worker thread; a call or a decorator. Returns `loop` itself.

        The worker computes with the grad mode, default device and CUDA device of the calling thread. A
        loop that has ended may be followed by another one. Works on a locked session too.

        Raises:
            TypeError: if `loop` cannot be called.
            SessionStateError: if a loop of this session still runs, or the session is closed or shows a
                frozen moment.
        """
        if not callable(loop):
            raise TypeError(f"loop={loop!r} must be a function that runs the training loop")
        if inspect.iscoroutinefunction(loop) or inspect.isgeneratorfunction(loop):
            raise TypeError(f"loop={loop!r} must be a plain function: a coroutine or generator does not run")
        self._run.launch(loop, args, kwargs)
        return loop

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the launched loop; True when it has ended, False after `timeout` seconds.

        A paused loop ends only when somebody resumes it: where nobody will press a button, call `detach()`
        first. In a notebook, widgets go on working meanwhile.

        Raises:
            SessionStateError: if nothing was launched.
            KeyboardInterrupt: after a kernel interrupt, which also pauses training.
            BaseException: what the loop raised.
        """
        return self._run.wait(checked_timeout(timeout))

    @property
    def result(self) -> Any:
        """What the launched loop returned; raises what it raised.

        Raises `SessionStateError` if nothing was launched, the loop has not ended, or `close` ended it.
        """
        return self._run.worker.result

    def close(self) -> None:
        """End the session: a launched loop ends at its next batch, any other goes on unwatched.

        Waits for a launched loop, 10 seconds at most; the loop ends by a `LoopClosed`. Hooks are gone
        afterwards; the widgets keep the last captured state and say that it is closed. Works on a locked
        session too.
        """
        self._close("closed by session.close()")

    def _close(self, why: str, *, keep_state: bool = True) -> None:
        if self._capture is None or not self._run.close(why):
            return
        self._capture.close()
        if self._probe is not None:
            self._probe.close()
        self._replay = None
        if self._freezer is not None:
            self._freezer.closed()
        if self._restorer is not None:
            self._restorer.cache.flush(STATES_WAIT_S)
            self._restorer.cache.release()
        if not keep_state:
            self._hub.keep_last_picture(then=self._release)

    def _release(self) -> None:
        """Let go of what may be large; the widgets keep a small picture."""
        if self._capture is not None:
            self._capture.release()
        self._stats.release()
        if self._probe is not None:
            self._probe.release()
        self._log.restart()
        self._branches.clear()
