"""The session: what users hold. A thin facade over the rooms below it."""

from __future__ import annotations

import contextlib
import difflib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from torch import nn
from torch.optim import Optimizer

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.engine import CaptureEngine
from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.errors import SessionStateError
from nansense_widgets.media.inputs import InputConfig
from nansense_widgets.run.control import RunControl, Standing
from nansense_widgets.run.foreground import Foreground
from nansense_widgets.run.frequency import UpdateFrequency
from nansense_widgets.run.loop import BatchLoop, checked_epoch, checked_phase
from nansense_widgets.run.mode import Mode
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.progress import Progress
from nansense_widgets.run.schedule import Schedule
from nansense_widgets.run.status import RunStatus
from nansense_widgets.run.worker import LoopFailure, Worker
from nansense_widgets.widgets.controls import Controls
from nansense_widgets.widgets.dashboard import Dashboard
from nansense_widgets.widgets.graph import Graph
from nansense_widgets.widgets.hub import Hub
from nansense_widgets.widgets.strips import Strips

__all__ = ["Session"]

Item = TypeVar("Item")
Loop = TypeVar("Loop", bound=Callable[..., Any])


class Session:
    """The bridge between a training loop and its widgets; made by `nansense_widgets.start`.

    The loop goes through `epochs` and `batches` (or `batch`); whoever steers calls `step_batch`,
    `step_run`, `stop`, `watch` and so on, from any thread, or clicks the widgets, which call the same
    methods. With `enabled=False` every method is a no-op that costs next to nothing.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        schedule: Schedule,
        enabled: bool,
        optimizers: list[Optimizer],
        schedulers: list[Any],
        inputs: InputConfig,
    ) -> None:
        self._enabled = enabled
        self._model_name = type(model).__name__
        self._schedule = schedule
        self._schedulers = schedulers
        self._inputs = inputs
        self._hub = Hub(self)
        self._control = RunControl(self._hub.changed)
        self._capture = CaptureEngine(model, optimizers, self._publish) if enabled else None
        self._loop = BatchLoop(schedule, self._control, self._capture or _Blind(), self._hub.changed)
        self._foreground = Foreground(self._control, self._hub.publisher.pump, self._loop_failed)
        self._worker: Worker | None = None
        self._failure: LoopFailure | None = None
        self._finished = False
        self._why_closed = ""

    # ------------------------------------------------------------------ what the training loop uses

    def batches(self, loader: Iterable[Item], *, phase: str, epoch: int | None = None) -> Iterator[Item]:
        """Iterate `loader` with each item inside its batch.

        The loop's body runs inside the batch: what it computes is captured, and training pauses when the
        loop asks for the next item. `epoch` defaults to the one `epochs()` last gave.

        Raises:
            ValueError, TypeError: at the call, for an empty or non-string phase or a negative epoch.
        """
        phase, epoch = checked_phase(phase), checked_epoch(epoch)
        if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
            raise TypeError(f"loader={loader!r} must be iterable, e.g. a DataLoader")
        if not self._enabled:
            return iter(loader)
        self._enter_loop()
        return self._loop.batches(loader, phase, epoch)

    def batch(
        self, *, phase: str, epoch: int | None = None, item: Any = None
    ) -> AbstractContextManager[None]:
        """One batch as a context manager, for loops that `batches` does not fit.

        `item` is the batch as the loader gave it; moments and replays need it.
        """
        phase, epoch = checked_phase(phase), checked_epoch(epoch)
        if not self._enabled:
            return contextlib.nullcontext()
        self._enter_loop()
        return self._loop.batch(phase, epoch)

    def epochs(self, n: int | None = None) -> Iterator[int]:
        """Yield 0 … n - 1 and tell `batches` the epoch; `n` defaults to `start(epochs=)`.

        Raises:
            ValueError: if neither gives the number of epochs.
        """
        count = self._schedule.epochs if n is None else n
        if count is None:
            raise ValueError("epochs() needs n: neither epochs(n) nor start(epochs=) gives it")
        self._schedule.update(epochs=count)
        return self._loop.epochs(count) if self._enabled else iter(range(count))

    def set_schedule(self, *, epochs: int | None = None, phases: Mapping[str, int] | None = None) -> None:
        """Declare the schedule anew while it runs; batch counters are kept.

        `phases` (name to batches an epoch) replaces the phases and makes the schedule a declared one.
        """
        self._schedule.update(epochs=epochs, phases=phases)
        self._hub.changed()

    def launch(self, loop: Loop, *args: Any, **kwargs: Any) -> Loop:
        """Run `loop(*args, **kwargs)` in a worker thread; a call or a decorator. Returns `loop` itself.

        Raises:
            SessionStateError: if a loop of this session still runs, or the session is closed.
        """
        if not callable(loop):
            raise TypeError(f"loop={loop!r} must be a function that runs the training loop")
        if self._worker is not None and self._worker.alive:
            raise SessionStateError(
                "a loop of this session is still running: session.close() and start a new session, "
                "or let it end (session.wait())"
            )
        if self._control.closed:
            raise SessionStateError("this session is closed: start a new one with nansense_widgets.start")
        self._begin_run()
        self._worker = Worker(loop, args, kwargs, self._loop_ended)
        self._loop.owner = self._worker.thread
        if self._enabled:
            self._foreground.listen_to_interrupts()
        self._worker.start()
        self._hub.changed()
        return loop

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the launched loop; True when it has ended, False after `timeout` seconds.

        Raises what the loop raised. A kernel interrupt meanwhile pauses training and raises
        `KeyboardInterrupt` here. A paused loop ends only when somebody resumes it: call `step_run()` or
        `detach()` first where nobody will press a button.
        """
        if self._worker is None:
            raise SessionStateError("nothing was launched: use session.launch(loop) first")
        try:
            ended = self._foreground.wait_for(self._worker, timeout)
        except KeyboardInterrupt:
            self._control.stop()
            raise
        if ended:
            self._worker.raise_error()
        return ended

    @property
    def result(self) -> Any:
        """What the launched loop returned; raises what it raised."""
        if self._worker is None:
            raise SessionStateError("nothing was launched: use session.launch(loop) first")
        return self._worker.result

    def close(self) -> None:
        """End the session: a launched loop ends at its next batch, any other goes on unwatched.

        Hooks are gone afterwards; the widgets keep the last captured state and say that it is closed.
        """
        self._close("closed by session.close()")

    def _close(self, why: str) -> None:
        if self._control.closed:
            return
        self._why_closed = why
        self._control.close()
        worker = self._worker
        if worker is not None and worker.thread is not threading.current_thread():
            worker.join(CLOSE_WAIT_S)
            if worker.alive:
                self._why_closed += "; its loop is still inside a batch and ends after it"
        if worker is None or not worker.alive:
            if self._capture is not None:
                self._capture.close()
        self._foreground.close()
        self._hub.changed()

    # ------------------------------------------------------------------ run control

    def step_batch(self) -> None:
        """Run one batch, show it and pause."""
        self._go(Mode.STEP)

    def step_phase(self) -> None:
        """Run to the first batch of the next phase and pause before it, the finished phase shown."""
        self._go(Mode.UNTIL_PHASE_CHANGE)

    def step_epoch(self) -> None:
        """Run to the first batch of the next epoch and pause before it, the finished epoch shown."""
        self._go(Mode.UNTIL_EPOCH_CHANGE)

    def step_until_position(self, phase: str | int, epoch: int, batch_idx: int) -> None:
        """Run up to a batch, show it and pause after it.

        Args:
            phase: its name, or its index in `schedule.phase_order`.
            epoch, batch_idx: counted from 0.

        Raises:
            ValueError: for a position outside the known schedule, or one that training has passed.
        """
        if not self._enabled:
            return
        order = self._schedule.phase_order
        if isinstance(phase, bool) or not isinstance(phase, (str, int)):
            raise TypeError(f"phase={phase!r} must be a phase's name or index")
        if isinstance(phase, int) and not 0 <= phase < max(len(order), 1):
            raise ValueError(f"phase={phase!r} must be 0 … {len(order) - 1}: the phases are {order}")
        checked_epoch(epoch)
        total = self._schedule.epochs
        if total is not None and epoch >= total:
            raise ValueError(f"epoch={epoch!r} must be below the run's {total} epochs (counted from 0)")
        if isinstance(batch_idx, bool) or not isinstance(batch_idx, int) or batch_idx < 0:
            raise ValueError(f"batch_idx={batch_idx!r} must be an int of at least 0")
        name = order[phase] if isinstance(phase, int) and order else phase
        count = self._schedule.phase_count(name) if isinstance(name, str) else None
        if count is not None and batch_idx >= count:
            raise ValueError(f"batch_idx={batch_idx!r} must be below the {count} batches of phase {name!r}")
        if isinstance(name, str) and self._is_past(name, epoch, batch_idx):
            raise ValueError(
                f"phase={phase!r}, epoch={epoch}, batch_idx={batch_idx} has passed: "
                f"training stands at {self._loop.position}"
            )
        self._control.go(Mode.UNTIL_POSITION, target=(name, epoch, batch_idx))

    def step_run(self) -> None:
        """Run to the last batch of the run, show it and pause."""
        self._go(Mode.UNTIL_END)

    def detach(self) -> None:
        """Run without ever pausing or capturing by itself, at full speed, until another command."""
        self._go(Mode.DETACH)

    def stop(self) -> None:
        """Pause at the next batch, which is captured."""
        if self._enabled:
            self._control.stop()

    def cancel(self) -> None:
        """Withdraw a `stop` or `request_snapshot` that still waits; training goes on as before it."""
        if self._enabled:
            self._control.cancel()

    def request_snapshot(self) -> None:
        """Have the next batch publish a snapshot, without pausing."""
        if self._enabled:
            self._control.request_refresh()

    def set_update_frequency(self, *, unit: str, n: int = 1, phase: str | None = None) -> None:
        """How often views refresh while training runs.

        `unit="epoch"`: on the first batch of every `n`-th epoch (the default, with `n=1`);
        `unit="batch"`: on every `n`-th batch, counting only those of `phase` if one is given.
        """
        frequency = UpdateFrequency.checked(unit, n, phase, self._schedule.phase_order)
        self._loop.frequency = frequency
        self._hub.changed()

    def _go(self, mode: Mode) -> None:
        if self._enabled:
            # A step that is asked for while training stands before a batch starts with that batch.
            self._control.go(mode, origin=self._loop.position)

    def _is_past(self, phase: str, epoch: int, batch_idx: int) -> bool:
        here = self._loop.position
        if here is None:
            return False
        order = self._schedule.phase_order
        if phase not in order:
            return False
        there = (epoch, order.index(phase), batch_idx)
        now = (here.epoch, order.index(here.phase), here.batch_idx)
        return there < now if self._loop.standing == "before" else there <= now

    # ------------------------------------------------------------------ what is watched

    def watch(self, *layers: str) -> list[str]:
        """Watch layers: their values are captured and shown. Returns the names newly watched.

        Args:
            layers: names, globs over names (`"layer1.*"`) or classes (`"Conv2d"`). Before the first
                forward, ops are not known yet and any name is taken on trust.

        Raises:
            ValueError: if one matches no layer; nothing is watched then.
        """
        if self._capture is None:
            return []
        before = self._capture.watched
        names = self._select(layers, fresh=True)
        self._capture.watch(names)
        self._hub.changed()
        return [name for name in names if name not in before]

    def unwatch(self, *layers: str) -> list[str]:
        """Stop watching layers (names, globs or classes); with none given, all. Returns those dropped."""
        if self._capture is None:
            return []
        before = self._capture.watched
        names = self._select(layers, fresh=False) if layers else list(before)
        self._capture.unwatch(names)
        self._hub.changed()
        return [name for name in before if name in names]

    def _select(self, patterns: tuple[str, ...], *, fresh: bool) -> list[str]:
        architecture = self.architecture
        watched = self.watched_layers
        chosen: dict[str, None] = {}
        for pattern in patterns:
            if not isinstance(pattern, str):
                raise TypeError(f"layers={pattern!r} must be layer names (strings)")
            found = architecture.select(pattern)
            if not found and (pattern in watched or (fresh and not architecture.traced)):
                found = [pattern]
            if not found:
                close = difflib.get_close_matches(pattern, architecture.nodes, n=3)
                hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
                raise ValueError(
                    f"layers={pattern!r} matches no layer{hint} (session.layer_names lists them all)"
                )
            chosen.update(dict.fromkeys(found))
        return list(chosen)

    @property
    def watched_layers(self) -> tuple[str, ...]:
        """Watched layers, in the order they were asked for."""
        return self._capture.watched if self._capture is not None else ()

    @property
    def layer_names(self) -> list[str]:
        """All layers known so far: inputs, modules and, after the first forward, functional ops."""
        return list(self.architecture.nodes)

    @property
    def architecture(self) -> Architecture:
        """Layers (name, class, shapes, calls, …) and data-flow edges, as the real forwards showed them."""
        if self._capture is None:
            return Architecture(model=self._model_name, nodes={}, edges=frozenset())
        return self._capture.architecture

    # ------------------------------------------------------------------ where the run stands

    @property
    def enabled(self) -> bool:
        """Whether this session does anything; set once by `start`."""
        return self._enabled

    @property
    def snapshot(self) -> BatchSnapshot | None:
        """The last captured batch, or None before the first."""
        return self._capture.snapshot if self._capture is not None else None

    @property
    def live_position(self) -> BatchPosition | None:
        """The batch that training stands at, also while nothing is captured; see `standing`."""
        return self._loop.position

    @property
    def standing(self) -> Standing:
        """Whether training stands `before`, `in` or `after` the batch at `live_position`."""
        return self._loop.standing

    @property
    def mode(self) -> Mode:
        """How training proceeds."""
        return self._control.mode

    @property
    def schedule(self) -> Schedule:
        """Epochs, phases and their lengths, as far as known."""
        return self._schedule

    @property
    def progress(self) -> Progress:
        """Batches done and time left, of the epoch and of the run."""
        return self._loop.pace.progress(self._schedule)

    @property
    def pause_count(self) -> int:
        """How often training has paused."""
        return self._control.pause_count

    @property
    def is_running(self) -> bool:
        """Whether training advances: False while paused, before it begins and after it ended."""
        return self.status.word == "running"

    @property
    def pending(self) -> list[str]:
        """Commands that still wait: `stop`, `refresh`."""
        return self._control.pending

    @property
    def failure(self) -> LoopFailure | None:
        """The exception that ended the loop, with the batch it died on."""
        return self._failure

    @property
    def update_frequency(self) -> UpdateFrequency:
        """How often views refresh while training runs."""
        return self._loop.frequency

    @property
    def notice(self) -> str:
        """A sentence about this kernel or a failed capture, else empty."""
        error = self._capture.error if self._capture is not None else ""
        return self._foreground.notice or error or self._hub.painter.error

    @property
    def status(self) -> RunStatus:
        """What the run is doing."""
        if not self._enabled:
            return RunStatus("disabled", "started with enabled=False: nothing is captured")
        if self._control.closed:
            return RunStatus("closed", self._why_closed)
        if self._failure is not None:
            return RunStatus("failed", f"{self._failure.type}: {self._failure.message}")
        if self._control.paused:
            return RunStatus("paused")
        if self._finished:
            return RunStatus("finished", "the loop has ended")
        if self._loop.position is None:
            return RunStatus("waiting", "no batch has begun yet")
        return RunStatus("running")

    def wait_until_paused(self, *, after_pauses: int = 0, timeout: float | None = None) -> bool:
        """Wait until training is paused and has paused more than `after_pauses` times.

        Returns False after `timeout` seconds, or at once if the loop has ended or the session closed.
        """
        if not self._enabled:
            return False
        return self._control.wait_until_paused(after_pauses, timeout, self._has_ended)

    def _has_ended(self) -> bool:
        return self._finished or self._failure is not None

    # ------------------------------------------------------------------ widgets

    def dashboard(self) -> Dashboard:
        """The whole debugger: controls, graph and layer cards. Every call gives the same widget."""
        return self._widget("dashboard", Dashboard)

    def controls(self) -> Controls:
        """Only the run controls."""
        return self._widget("controls", Controls)

    def graph(self) -> Graph:
        """Only the architecture graph."""
        return self._widget("graph", Graph)

    def strips(self, *layers: str) -> Strips:
        """Cards of the given layers (which become watched), or of all watched ones if none is given."""
        names = self._select(layers, fresh=True) if self._capture is not None else list(layers)
        if names:
            self.watch(*names)
        return self._widget("strips:" + ",".join(names), Strips, layers=names)

    def _widget(self, key: str, kind: Callable[..., Any], **arguments: Any) -> Any:
        # One model each, however often it is displayed: a saved notebook holds each model's script once.
        return self._hub.widget(key, lambda: kind(self._hub, **arguments))

    # ------------------------------------------------------------------ wiring

    def _enter_loop(self) -> None:
        """A loop asks for batches: find out on which thread it runs."""
        worker = self._worker
        if worker is not None and worker.thread is threading.current_thread():
            self._loop.poll = None
            self._control.attended = self._control.attended or self._foreground.in_kernel
            return
        if self._has_ended():
            self._begin_run()
        self._loop.poll = self._foreground.enter(self._hub.has_widgets)
        self._loop.on_unattended = self._foreground.give_up
        self._control.attended = self._control.attended or self._foreground.in_kernel

    def _begin_run(self) -> None:
        if self._failure is not None or self._finished:
            self._loop.restart()
        self._failure = None
        self._finished = False

    def _loop_ended(self, error: BaseException | None) -> None:
        """The launched loop is over (worker thread)."""
        self._loop.abort()
        position = self._loop.broken_at
        if error is not None:
            self._failure = LoopFailure(error, position)
        else:
            self._finished = True
        self._control.rest()

    def _loop_failed(self, error: BaseException) -> None:
        """A loop in a cell died (main thread)."""
        self._loop.abort()
        self._failure = LoopFailure(error, self._loop.broken_at)
        self._control.rest()

    def _publish(self, snapshot: BatchSnapshot) -> None:
        self._hub.new_snapshot()

    def __repr__(self) -> str:
        return f"<Session of {self._model_name}: {self.status.word}>"


class _Blind:
    """The observer of a disabled session."""

    def begin(self, position: BatchPosition, *, pauses: bool) -> None: ...

    def end(self, position: BatchPosition, *, complete: bool) -> None: ...


CLOSE_WAIT_S = 10.0
"""How long `close` waits for a launched loop to reach the end of its batch."""
