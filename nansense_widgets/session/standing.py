"""What a session is and where its run stands: everything that can be read of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.engine import CaptureEngine
from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.errors import SessionStateError
from nansense_widgets.history.freezer import MomentFreezer
from nansense_widgets.history.replay import Replay
from nansense_widgets.history.restorer import TrainingRestorer
from nansense_widgets.media.inputs import InputConfig
from nansense_widgets.probe.keeper import Keeper
from nansense_widgets.probe.probe import Probe
from nansense_widgets.run.control import Standing as Stands
from nansense_widgets.run.frequency import UpdateFrequency
from nansense_widgets.run.hyperparameters import Hyperparameter
from nansense_widgets.run.mode import Mode
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.progress import Progress
from nansense_widgets.run.run import Run
from nansense_widgets.run.schedule import Schedule
from nansense_widgets.run.status import RunStatus
from nansense_widgets.run.target import checked_count, checked_timeout
from nansense_widgets.run.worker import LoopFailure
from nansense_widgets.session.memory import MemoryEntry, MemoryReport, snapshot_entries
from nansense_widgets.stats.branches import Branches
from nansense_widgets.stats.collect import StatsCollector
from nansense_widgets.stats.current import batch_stats
from nansense_widgets.stats.nonfinite import FirstNonFinite
from nansense_widgets.stats.performance import WatchPerformance
from nansense_widgets.stats.runlog import RunLog
from nansense_widgets.stats.scope import StatsScope
from nansense_widgets.stats.snapshot import LayerStatsSnapshot, WatchSnapshot
from nansense_widgets.widgets.hub import Hub

__all__ = ["Standing", "several_layers"]


def several_layers(layers: object) -> frozenset[str] | None:
    """Names of layers, None for all; raises `TypeError`."""
    if layers is None:
        return None
    names = frozenset(layers) if isinstance(layers, Iterable) and not isinstance(layers, str) else {None}
    if any(not isinstance(name, str) for name in names):
        raise TypeError(f"layers={layers!r} must be several names of layers, such as ['conv1', 'fc']")
    return frozenset(map(str, names))


class Standing:
    """The parts that every side of a session uses, and what can be read of them from any thread."""

    _enabled: bool
    _model_name: str
    _schedulers: list[Any]
    _inputs: InputConfig
    _hub: Hub
    _capture: CaptureEngine | None
    """None in a disabled session."""
    _run: Run
    _stats: StatsCollector
    _log: RunLog
    _tracked: dict[str, Any]
    """What `track` was given."""
    _restorer: TrainingRestorer | None
    """Of the last loop over epochs."""
    _branches: Branches
    _locked: bool
    _probe: Probe | None
    _keeper: Keeper | None
    """None in a disabled session, both."""
    _freezer: MomentFreezer | None
    """None until a moment is to be frozen."""
    _replay: Replay | None
    """Of the moment that is shown, if one is."""
    _settings: list[Hyperparameter]
    """Those of a moment."""

    @property
    def input_config(self) -> InputConfig:
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
    def stats_scope(self) -> StatsScope:
        """Which layers go into the running statistics."""
        return self._stats.scope

    def watch_snapshot(self, *, layers: Iterable[str] | None = None) -> WatchSnapshot:
        """The running statistics as they are now: by layer, phase and epoch. Immutable; from any thread.

        Args:
            layers: names of layers, to copy theirs only; None: all.

        Raises:
            TypeError: if `layers` is a string, or one of them is none.
        """
        return self._stats.snapshot(several_layers(layers))

    @property
    def first_nonfinite(self) -> tuple[FirstNonFinite, ...]:
        """Layers in whose statistics there is a NaN or an infinity, with its first batch, by kind and phase.

        In the order of the run; within a batch, activations as the forward reaches them and then gradients as
        the backward does, so that the first is nearest to the cause. Values on an accelerator are not looked
        at batch by batch, and missing here.
        """
        order = {name: at for at, name in enumerate(self.architecture.nodes)}
        phases = {name: at for at, name in enumerate(self.schedule.phase_order)}

        def place(one: FirstNonFinite) -> tuple[int, ...]:
            at = order.get(one.layer, len(order))
            backward = one.kind == "gradients"
            return one.epoch, phases.get(one.phase, 0), one.batch_idx, backward, -at if backward else at

        return tuple(sorted(self._stats.first_nonfinite(), key=place))

    @property
    def watch_performance(self) -> WatchPerformance:
        """How much the running statistics keep by channel."""
        return self._stats.performance

    def current_batch_stats(self, layer: str) -> LayerStatsSnapshot | None:
        """Statistics of the last captured batch, for any layer in `snapshot`, whether it is collected or not.

        Computed anew at each call, from any thread; None before the first batch and for other layers.

        Raises:
            ValueError: if there is no layer of this name.
        """
        if self._capture is None:
            return None
        if layer not in self.architecture.nodes:
            raise ValueError(f"layer={layer!r} is no layer of this model; see session.layer_names")
        snapshot = self.snapshot
        if snapshot is None:
            return None
        return batch_stats(snapshot, layer, self.architecture, self.watch_performance.channel_limit)

    def memory(self) -> MemoryReport:
        """What the debugger holds in memory at this moment, by kind and layer.

        The model, its data and what torch keeps are not in it, nor what open views hold in the browser.
        """
        return MemoryReport.of(self._memory())

    def _memory(self) -> Iterator[MemoryEntry]:
        yield from snapshot_entries(self.snapshot)
        for size in itertools.chain(self._stats.sizes(), self._log.sizes()):
            yield MemoryEntry(*size)
        states = {} if self._replay is None else self._replay.nbytes
        yield from (MemoryEntry("moment", name, of) for name, of in states.items())

    @property
    def live_position(self) -> BatchPosition | None:
        """The batch that training stands at, also while nothing is captured; see `standing`."""
        return self._run.loop.position

    @property
    def standing(self) -> Stands:
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
        """Commands that still wait: `stop`, `refresh`, `set_hyperparameter`, `freeze_moment`."""
        frozen = ["freeze_moment"] if self._freezer is not None and self._freezer.waits else []
        return [*self._run.control.pending, *self._run.loop.jobs.waiting, *frozen]

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
        """A sentence about this kernel, or about a capture, picture or moment that failed; else empty."""
        error = self._capture.error if self._capture is not None else ""
        moment = self._freezer.note if self._freezer is not None else ""
        return self._run.notice or error or self._run.loop.jobs.error or moment or self._hub.painter.error

    @property
    def locked(self) -> bool:
        """Whether `lock` was called."""
        return self._locked

    @property
    def no_loop(self) -> str:
        """Why no loop can run here, of a session that shows a frozen moment; else empty."""
        return self._run.no_loop

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

    # ------------------------------------------------------------------ layers

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

    def _show_more(self) -> None:
        """Other layers are watched: of a moment and of a probe they come from another run."""
        replay, capture = self._replay, self._capture
        if replay is not None and capture is not None:
            self._run.loop.jobs.submit("watch", lambda: capture.show(replay.run()))
        elif self._probe is not None:
            self._probe.new_batch()

    def _check_open(self) -> None:
        if self._run.control.closed:
            raise SessionStateError(f"this session is closed ({self.status.detail})")
