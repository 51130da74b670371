"""The session: what users hold. A thin facade over the rooms below it; each side of it is a file here."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.optim import Optimizer

from nansense_widgets.capture.engine import CaptureEngine
from nansense_widgets.media.inputs import InputConfig
from nansense_widgets.run.observer import Blind
from nansense_widgets.run.run import Run
from nansense_widgets.run.schedule import Schedule
from nansense_widgets.session.instruments import Instrumenting
from nansense_widgets.session.moments import Moments
from nansense_widgets.session.probing import Probing
from nansense_widgets.session.rewinding import Rewinding
from nansense_widgets.session.steering import Steering
from nansense_widgets.session.training import Training
from nansense_widgets.session.views import Views
from nansense_widgets.stats.branches import Branches
from nansense_widgets.stats.collect import StatsCollector
from nansense_widgets.stats.runlog import RunLog
from nansense_widgets.widgets.hub import Hub

__all__ = ["Session"]


class Session(Training, Rewinding, Moments, Steering, Instrumenting, Probing, Views):
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
        self._stats = StatsCollector()
        self._log = RunLog()
        self._tracked = {}
        self._restorer = None
        self._branches = Branches()
        self._locked = False
        self._freezer = None
        self._replay = None
        self._settings = []
        self._stats.patches.preferred = inputs.named
        self._hub = Hub(self)
        self._capture = (
            CaptureEngine(model, optimizers, self._new_snapshot, self._stats, self._log) if enabled else None
        )
        self._run = Run(schedule, self._capture or Blind(), self._hub.changed, self._hub.publisher.pump)
        self._probe = self._keeper = None
        if enabled:
            self._begin_history()
            self._begin_probing()

    def __repr__(self) -> str:
        return f"<Session of {self._model_name}: {self.status.word}>"
