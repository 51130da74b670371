"""The session: what users hold. A thin facade over the rooms below it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from torch import nn
from torch.optim import Optimizer

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.engine import CaptureEngine
from nansense_widgets.capture.selection import chosen_axes, select_layers
from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.errors import SessionStateError
from nansense_widgets.media.inputs import InputConfig
from nansense_widgets.run.control import Standing
from nansense_widgets.run.frequency import UpdateFrequency
from nansense_widgets.run.loop import Blind, checked_epoch, checked_phase
from nansense_widgets.run.mode import Mode
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.progress import Progress
from nansense_widgets.run.run import Run
from nansense_widgets.run.schedule import Schedule
from nansense_widgets.run.status import RunStatus
from nansense_widgets.run.target import checked_count, checked_timeout
from nansense_widgets.run.worker import LoopFailure
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
    methods. Commands return at once: `wait_until_paused` waits for what they lead to. A command given
    before the first batch counts too, so that `detach()` or `step_run()` before `launch` passes over the
    first pause. With `enabled=False` nothing is captured or paused, at next to no cost.
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
        self._schedulers = schedulers
        self._inputs = inputs
        self._hub = Hub(self)
        self._capture = CaptureEngine(model, optimizers, self._hub.new_snapshot) if enabled else None
        self._run = Run(schedule, self._capture or Blind(), self._hub.changed, self._hub.publisher.pump)

    # ------------------------------------------------------------------ what the training loop uses

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
        item: Any = None,  # noqa: ARG002  part of the interface; replays and moments will need it
    ) -> AbstractContextManager[None]:
        """One batch as a context manager, for loops that `batches` does not fit.

        Args:
            phase: as for `batches`.
            epoch: as for `batches`.
            item: the batch as the loader gave it. Going back to a batch will need it; nothing uses it yet.

        Raises:
            ValueError, TypeError, SessionStateError: as for `batches`.
        """
        phase, epoch = checked_phase(phase), checked_epoch(epoch)
        if not self._enabled:
            return contextlib.nullcontext()
        self._run.enter_loop(phase, epoch)
        return self._run.loop.batch(phase, epoch)

    def epochs(self, n: int | None = None) -> Iterator[int]:
        """Yield 0 … n - 1 and tell `batches` the epoch; `n` defaults to `start(epochs=)`.

        Raises:
            ValueError: if neither gives the number of epochs, or `n` is negative.
        """
        count = self.schedule.epochs if n is None else n
        if count is None:
            raise ValueError("epochs() needs n: neither epochs(n) nor start(epochs=) gives it")
        self.schedule.update(epochs=count)
        return self._run.loop.epochs(count) if self._enabled else iter(range(count))

    def set_schedule(self, *, epochs: int | None = None, phases: Mapping[str, int] | None = None) -> None:
        """Declare the schedule anew while it runs; batch counters are kept.

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
        loop that has ended may be followed by another one.

        Raises:
            TypeError: if `loop` cannot be called.
            SessionStateError: if a loop of this session still runs, or the session is closed.
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
        afterwards; the widgets keep the last captured state and say that it is closed.
        """
        self._close("closed by session.close()")

    def _close(self, why: str, *, keep_state: bool = True) -> None:
        if self._capture is None or not self._run.close(why):
            return
        self._capture.close()
        if not keep_state:
            self._hub.keep_last_picture(then=self._capture.release)

    # ------------------------------------------------------------------ run control

    def step_batch(self) -> None:
        """Run one batch, show it and pause.

        Given while training runs, this command and those below change how it goes on.
        """
        self._go(Mode.STEP)

    def step_phase(self) -> None:
        """Run to the first batch of the next phase and pause before it.

        What is shown then is the last batch of the finished phase. Where the phase's length is not known
        (no `len(loader)`, first epoch) every batch is captured, because each may be the last.
        """
        self._go(Mode.UNTIL_PHASE_CHANGE)

    def step_epoch(self) -> None:
        """Run to the first batch of the next epoch and pause before it; as `step_phase` otherwise."""
        self._go(Mode.UNTIL_EPOCH_CHANGE)

    def step_until_position(self, phase: str | int, epoch: int, batch_idx: int) -> None:
        """Run up to a batch, show it and pause after it.

        Args:
            phase: its name, or its index in `schedule.phase_order`.
            epoch: counted from 0.
            batch_idx: counted from 0 within the phase and epoch.

        Raises:
            TypeError: for an argument of another type.
            ValueError: for a position outside the known schedule, or one that training has passed. A phase
                that has not been seen may still come, so any name is taken; a batch that never comes is
                never reached.
        """
        if self._enabled:
            self._check_open()
            self._run.go_until(phase, epoch, batch_idx)

    def step_run(self) -> None:
        """Run to the last batch of the run, show it and pause.

        Which batch is the last has to be known: the number of epochs, and the phases with their lengths, as
        declared or as learned in the first epoch. Otherwise training runs to its end without a pause.
        """
        self._go(Mode.UNTIL_END)

    def detach(self) -> None:
        """Run without ever pausing or capturing by itself, at full speed, until another command."""
        self._go(Mode.DETACH)

    def stop(self) -> None:
        """Pause at the next batch, which is captured; no effect while paused or within a single step."""
        if self._enabled:
            self._run.control.stop()

    def cancel(self) -> None:
        """Withdraw a `stop` or `request_snapshot` that still waits; training goes on as before it."""
        if self._enabled:
            self._run.control.cancel()

    def request_snapshot(self) -> None:
        """Have the next batch publish a snapshot, without pausing."""
        if self._enabled:
            self._check_open()
            self._run.control.request_refresh()

    def set_update_frequency(self, *, unit: str, n: int = 1, phase: str | None = None) -> None:
        """How often views refresh while training runs.

        Args:
            unit: `"epoch"`: on the first batch of every `n`-th epoch (the default, with `n=1`);
                `"batch"`: on every `n`-th batch, counting only those of `phase` if one is given.
            n: at least 1.
            phase: only with `unit="batch"`.

        Raises:
            TypeError, ValueError: for a wrong argument, naming it, or a phase that is not known.
        """
        self._run.loop.frequency = UpdateFrequency.checked(unit, n, phase, self.schedule.phase_order)
        self._hub.changed()

    def _go(self, mode: Mode) -> None:
        if not self._enabled:
            return
        self._check_open()
        self._run.go(mode)

    def _check_open(self) -> None:
        if self._run.control.closed:
            raise SessionStateError(f"this session is closed ({self.status.detail})")

    # ------------------------------------------------------------------ what is watched

    def watch(self, *layers: str) -> list[str]:
        """Watch layers: their values are captured and shown. Returns the names newly watched.

        Args:
            layers: names, globs over names (`"layer1.*"`) or classes (`"Conv2d"`). Before the first
                forward, ops are not known yet and any name is taken on trust.

        Raises:
            TypeError: if one is no string.
            ValueError: if one matches no layer; nothing is watched then.
        """
        if self._capture is None:
            return []
        before = self._capture.watched
        names = select_layers(self.architecture, layers, also=before, on_trust=True)
        self._capture.watch(names)
        self._hub.changed()
        return [name for name in names if name not in before]

    def unwatch(self, *layers: str) -> list[str]:
        """Stop watching layers (names, globs or classes); with none given, all. Returns those dropped.

        Raises:
            TypeError: if one is no string.
            ValueError: if one matches no layer; nothing changes then.
        """
        if self._capture is None:
            return []
        before = self._capture.watched
        names = select_layers(self.architecture, layers, also=before, on_trust=False) if layers else before
        self._capture.unwatch(names)
        self._hub.changed()
        return [name for name in before if name in names]

    def watch_attention(self, *layers: str) -> list[str]:
        """Watch layers and form their attention weights too, one map a head; returns the names.

        Torch's fused attention never forms them. They are computed beside the forward, from the same queries,
        keys and masks, before dropout, and appear as the output `.attention_weights` of the layer, of shape
        (batch, heads, queries, keys), from the next captured batch on.

        Args:
            layers: as for `watch`; those that cannot give attention weights are left out. Modules of class
                `MultiheadAttention` and ops `scaled_dot_product_attention` can. A model that computes its
                weights itself has them in one of its own layers (`softmax`, most often).

        Raises:
            TypeError: if one is no string.
            ValueError: if no layer is given or one matches none that can give attention weights.
        """
        if self._capture is None:
            return []
        nodes = self.architecture.nodes
        found = select_layers(self.architecture, layers, also=(), on_trust=False)
        names = [name for name in found if nodes[name].gives_attention]
        if not names:
            able = ", ".join(name for name in nodes if nodes[name].gives_attention) or "none known yet"
            raise ValueError(f"layers={layers!r} can give no attention weights; those that can: {able}")
        self._capture.watch_attention(names)
        self._hub.redraw()
        return names

    def unwatch_attention(self, *layers: str) -> list[str]:
        """Form no more attention weights of these layers (none given: of all); they stay watched.

        Raises `TypeError` and `ValueError` as `unwatch`.
        """
        if self._capture is None:
            return []
        before = self._capture.attention
        names = select_layers(self.architecture, layers, also=before, on_trust=False) if layers else before
        self._capture.unwatch_attention(names)
        self._hub.redraw()
        return [name for name in before if name in names]

    def set_axes(
        self, layer: str, *, channel: int | str | None = "auto", batch: int | str | None = "auto"
    ) -> None:
        """Say which axes of a layer's output are channel and batch, where its class does not tell (or errs).

        Layers after it that keep its axes follow. Nothing is captured anew: what is shown is drawn again.

        Args:
            layer: name of a layer, or of one of its outputs (`"lstm[1][0]"`).
            channel: number of an axis (negative: from the end), None for no channel axis, `"auto"` as the
                layer's class says.
            batch: the same; None: the tensor is one sample.

        Raises:
            TypeError, ValueError: for an unknown layer, an axis that its output does not have, or one axis
                for both.
        """
        if self._capture is None:
            return
        self._check_open()
        axes = chosen_axes(self.architecture, layer, channel, batch)
        self._capture.choose_axes(layer, axes)
        self._hub.redraw()

    @property
    def watched_layers(self) -> tuple[str, ...]:
        """Watched layers, in the order they were asked for."""
        return self._capture.watched if self._capture is not None else ()

    @property
    def attention_layers(self) -> tuple[str, ...]:
        """Watched layers whose attention weights are formed too."""
        return self._capture.attention if self._capture is not None else ()

    @property
    def layer_names(self) -> list[str]:
        """All layers known so far: inputs, modules and, after the first forward, functional ops."""
        return list(self.architecture.nodes)

    @property
    def architecture(self) -> Architecture:
        """Layers (name, class, shapes, calls, …) and data-flow edges, as the real forwards showed them.

        An immutable state: read it anew for what later forwards added.
        """
        if self._capture is None:
            return Architecture(model=self._model_name, nodes={}, edges=frozenset())
        return self._capture.architecture

    # ------------------------------------------------------------------ where the run stands

    @property
    def inputs(self) -> InputConfig:
        """How inputs are shown: the `input_*` arguments of `start`."""
        return self._inputs

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
        return self._run.loop.position

    @property
    def standing(self) -> Standing:
        """Whether training stands `before`, `in` or `after` the batch at `live_position`."""
        return self._run.loop.standing

    @property
    def mode(self) -> Mode:
        """How training proceeds."""
        return self._run.control.mode

    @property
    def schedule(self) -> Schedule:
        """Epochs, phases and their lengths, as far as known."""
        return self._run.schedule

    @property
    def progress(self) -> Progress:
        """Batches done and time left, of the epoch and of the run."""
        return self._run.loop.pace.progress(self.schedule)

    @property
    def pause_count(self) -> int:
        """How often training has paused."""
        return self._run.control.pause_count

    @property
    def is_running(self) -> bool:
        """Whether training advances: False while paused, before it begins and after it ended.

        The end of a loop is known where `launch` or a notebook cell runs it. A loop on the main thread of a
        plain script counts as running until `close()`.
        """
        return self.status.word == "running"

    @property
    def pending(self) -> list[str]:
        """Commands that still wait: `stop`, `refresh`."""
        return self._run.control.pending

    @property
    def failure(self) -> LoopFailure | None:
        """The exception that ended the loop, with the batch it died on; None without one."""
        return self._run.failure

    @property
    def update_frequency(self) -> UpdateFrequency:
        """How often views refresh while training runs."""
        return self._run.loop.frequency

    @property
    def notice(self) -> str:
        """A sentence about this kernel, or about a capture or picture that failed; else empty."""
        error = self._capture.error if self._capture is not None else ""
        return self._run.notice or error or self._hub.painter.error

    @property
    def status(self) -> RunStatus:
        """What the run is doing."""
        if not self._enabled:
            return RunStatus("disabled", "started with enabled=False: nothing is captured")
        return self._run.status

    def wait_until_paused(self, *, after_pauses: int = 0, timeout: float | None = None) -> bool:
        """Wait until training is paused and has paused more than `after_pauses` times.

        To wait for what a command leads to, read `pause_count` before the command and give it here:

        ```python
        before = session.pause_count
        session.step_epoch()
        session.wait_until_paused(after_pauses=before, timeout=60)
        ```

        Returns False after `timeout` seconds (None: no limit), or at once if the loop has ended or the
        session is closed or disabled.
        """
        pauses, seconds = checked_count("after_pauses", after_pauses), checked_timeout(timeout)
        return self._enabled and self._run.wait_until_paused(pauses, seconds)

    # ------------------------------------------------------------------ widgets

    def dashboard(self) -> Dashboard:
        """The whole debugger: controls, graph and layer cards. Every call gives the same widget."""
        return self._hub.widget("dashboard", Dashboard)

    def controls(self) -> Controls:
        """Only the run controls."""
        return self._hub.widget("controls", Controls)

    def graph(self) -> Graph:
        """Only the architecture graph."""
        return self._hub.widget("graph", Graph)

    def strips(self, *layers: str) -> Strips:
        """Cards of the given layers (which become watched), or of all watched ones if none is given.

        Args:
            layers: names, globs or classes, as for `watch`. Globs and classes mean the layers known now.

        Raises:
            TypeError, ValueError: as for `watch`.
        """
        names = select_layers(self.architecture, layers, also=(), on_trust=True) if self._enabled else []
        if names:
            self.watch(*names)
        return self._hub.widget("strips " + " ".join(names), Strips, layers=names)

    def __repr__(self) -> str:
        return f"<Session of {self._model_name}: {self.status.word}>"
