"""What the widgets need of a session: its public surface, as a protocol, so that nothing imports upwards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.media.inputs import InputConfig
from nansense_widgets.run.control import Standing
from nansense_widgets.run.events import Event
from nansense_widgets.run.frequency import UpdateFrequency
from nansense_widgets.run.hyperparameters import Hyperparameter
from nansense_widgets.run.mode import Mode
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.progress import Progress
from nansense_widgets.run.schedule import Schedule
from nansense_widgets.run.status import RunStatus
from nansense_widgets.run.worker import LoopFailure
from nansense_widgets.stats.instruments.registry import Kind
from nansense_widgets.stats.instruments.store import MetricsSnapshot
from nansense_widgets.stats.performance import WatchPerformance
from nansense_widgets.stats.runlog import RunLogSnapshot
from nansense_widgets.stats.scope import StatsScope
from nansense_widgets.stats.snapshot import WatchSnapshot

__all__ = ["Source"]


class Source(Protocol):
    """Read-only state of a session; every read is safe from any thread."""

    @property
    def status(self) -> RunStatus: ...
    @property
    def mode(self) -> Mode: ...
    @property
    def live_position(self) -> BatchPosition | None: ...
    @property
    def standing(self) -> Standing: ...
    @property
    def snapshot(self) -> BatchSnapshot | None: ...
    @property
    def architecture(self) -> Architecture: ...
    @property
    def watched_layers(self) -> tuple[str, ...]: ...
    @property
    def attention_layers(self) -> tuple[str, ...]: ...
    @property
    def stats_scope(self) -> StatsScope: ...
    @property
    def watch_performance(self) -> WatchPerformance: ...
    def watch_snapshot(self, *, layers: Iterable[str] | None = None) -> WatchSnapshot: ...
    @property
    def instruments(self) -> dict[str, Kind]: ...
    def watch_metrics_snapshot(self, *, layers: Iterable[str] | None = None) -> MetricsSnapshot: ...
    @property
    def inputs(self) -> InputConfig: ...
    @property
    def schedule(self) -> Schedule: ...
    @property
    def progress(self) -> Progress: ...
    @property
    def pending(self) -> list[str]: ...
    @property
    def failure(self) -> LoopFailure | None: ...
    @property
    def update_frequency(self) -> UpdateFrequency: ...
    @property
    def run_log(self) -> RunLogSnapshot: ...
    @property
    def events(self) -> tuple[Event, ...]: ...
    @property
    def hyperparameters(self) -> list[Hyperparameter]: ...
    @property
    def notice(self) -> str: ...
