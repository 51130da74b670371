"""Numbers of the whole run, and the settings of its optimizers."""

from __future__ import annotations

import numbers
from typing import Any, SupportsFloat

import torch

from nansense_widgets.run.events import Event
from nansense_widgets.run.hyperparameters import Change, Hyperparameter, hyperparameters, labels
from nansense_widgets.session.locking import nothing, unless_locked
from nansense_widgets.session.standing import Standing
from nansense_widgets.stats.runlog import RunLogSnapshot

__all__ = ["Logging"]


class Logging(Standing):
    """What the loop tells of itself, and what of it can be changed while it runs."""

    def log(self, name: str, value: SupportsFloat) -> None:
        """Log a number of the run: loss, accuracy, whatever the loop knows. The Run tab draws it.

        The point belongs to the batch that is open; between batches, to the last one. A second value of the
        same name in a batch takes the place of the first. From any thread; values on an accelerator are
        fetched later, so that nothing waits. Works on a locked session too.

        Args:
            name: names the curve, e.g. `"accuracy"`; each phase has a line of its own.
            value: a number, or a tensor or array of one element.

        Raises:
            TypeError, ValueError: for an empty name, or a value that is no single number.
        """
        if not isinstance(name, str):
            raise TypeError(f"name={name!r} must be a string, e.g. 'accuracy'")
        if not name:
            raise ValueError("name='' must not be empty")
        number = _checked_value(value)
        if self._enabled and not self._run.control.closed:
            self._log.log(name, number, self._run.loop.last, self._run.loop.epoch)
            self._hub.changed()

    @property
    def run_log(self) -> RunLogSnapshot:
        """All series of the run as it is now: logged numbers, losses seen in `backward()`, learning rates."""
        return self._log.snapshot(self.schedule.phase_count)

    @property
    def events(self) -> tuple[Event, ...]:
        """What happened between batches: pauses, and changes of hyperparameters."""
        return self._run.loop.events.all()

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """Numeric settings of the session's optimizers as they are now, group by group."""
        if self._replay is not None:
            return list(self._settings)
        return hyperparameters(self._capture.optimizers) if self._capture is not None else []

    @unless_locked(nothing)
    def set_hyperparameter(
        self, name: str, value: float, *, optimizer: int | None = None, group: int | None = None
    ) -> None:
        """Change a numeric setting of the optimizers: learning rate, momentum, weight decay, ….

        It is changed between two batches: at once while training is paused or no loop goes on, else before
        the next batch. The change is an event of the run. A scheduler that computes the learning rate anew at
        each step of its own does so still: it may overwrite the change or go on from it. No-op on a locked
        session.

        Args:
            name: as in the optimizer's parameter groups, e.g. `"lr"`; of a pair, `"betas[0]"`.
            value: a finite number.
            optimizer: which of those that `start` was given, from 0; None: all that have the setting.
            group: which of its parameter groups, from 0; None: all.

        Raises:
            TypeError, ValueError: if there is no such setting, or the value is out of its range.
            SessionStateError: if the session is closed, or shows a frozen moment.
        """
        if self._capture is None:
            return
        self._check_open()
        self._run.check_loop()
        optimizers = self._capture.optimizers
        change = Change.checked(optimizers, name, value, optimizer, group)
        self._run.loop.jobs.submit("set_hyperparameter", lambda: self._change(change))
        self._hub.changed()

    def _change(self, change: Change) -> None:
        optimizers = [] if self._capture is None else self._capture.optimizers
        made = change.make(optimizers)
        names = labels(optimizers)
        for before in dict.fromkeys(value for *_, value in made):
            places = [(at, index) for at, index, value in made if value == before]
            where = _said(names, [len(one.param_groups) for one in optimizers], places)
            text = f"{change.name} {before:g} \u2192 {change.value:g}{where}"
            self._run.loop.events.add("hyperparameter", self._run.loop.last, text)
        self._hub.redraw()


def _said(names: list[str], groups: list[int], places: list[tuple[int, int]]) -> str:
    """Where a setting was changed, if not everywhere."""
    if len(places) == sum(groups):
        return ""
    several = {at for at, _ in places if groups[at] > 1}
    parts = [f"{names[at]}, group {index + 1}" if at in several else names[at] for at, index in places]
    return f" ({'; '.join(parts)})"


def _checked_value(value: Any) -> float | torch.Tensor:
    if isinstance(value, torch.Tensor):
        if value.numel() != 1 or value.is_complex() or value.is_meta:
            raise ValueError(f"value={value!r} must have one element that is a real number")
        return value if value.device.type != "cpu" else float(value.detach())
    if hasattr(value, "item") and getattr(value, "size", 0) == 1:  # of numpy
        value = value.item()
    if not isinstance(value, numbers.Real):
        raise TypeError(f"value={value!r} must be a number, or a tensor or array of one element")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"value={value!r} must fit into a float") from None
