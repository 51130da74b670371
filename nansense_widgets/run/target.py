"""Checking the batch that `step_until_position` is to reach."""

from __future__ import annotations

import math
import threading
from typing import Any

from nansense_widgets.run.batches import checked_epoch
from nansense_widgets.run.control import Standing
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.schedule import Schedule

__all__ = ["checked_count", "checked_target", "checked_timeout"]


def checked_timeout(timeout: Any) -> float | None:
    """`timeout` of a public call, in seconds; infinity is None."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout={timeout!r} must be seconds (a number) or None")
    if math.isnan(timeout) or timeout < 0:
        raise ValueError(f"timeout={timeout!r} must not be negative")
    return None if timeout > threading.TIMEOUT_MAX else float(timeout)


def checked_count(name: str, value: Any) -> int:
    """An int of at least 0, given as the argument `name`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}={value!r} must be an int")
    if value < 0:
        raise ValueError(f"{name}={value!r} must not be negative")
    return value


def checked_target(
    phase: Any,
    epoch: Any,
    batch_idx: Any,
    schedule: Schedule,
    here: BatchPosition | None,
    standing: Standing,
) -> tuple[str | int, int, int]:
    """The target with its phase by name where that is known.

    Raises `TypeError` or `ValueError` for what is no position, lies outside the known schedule, or has
    been passed by training, which stands at `here`.
    """
    order = schedule.phase_order
    if isinstance(phase, bool) or not isinstance(phase, (str, int)):
        raise TypeError(f"phase={phase!r} must be a phase's name or index")
    if isinstance(phase, int) and not 0 <= phase < max(len(order), 1):
        raise ValueError(f"phase={phase!r} must be 0 … {len(order) - 1}: the phases are {order}")
    name = order[phase] if isinstance(phase, int) and order else phase
    if checked_epoch(epoch) is None:
        raise TypeError("epoch=None must be an int")
    if schedule.epochs is not None and epoch >= schedule.epochs:
        raise ValueError(f"epoch={epoch!r} must be below the run's {schedule.epochs} epochs (counted from 0)")
    checked_count("batch_idx", batch_idx)
    if isinstance(name, str) and name not in order and schedule.order_is_known:
        raise ValueError(f"phase={phase!r} is not a phase of this run: {', '.join(order)}")
    count = schedule.phase_count(name) if isinstance(name, str) else None
    if count is not None and batch_idx >= count:
        raise ValueError(f"batch_idx={batch_idx!r} must be below the {count} batches of phase {name!r}")
    if here is not None and name in order and here.phase in order:
        there = (epoch, order.index(str(name)), batch_idx)
        now = (here.epoch, order.index(here.phase), here.batch_idx)
        if there < now or (there == now and standing != "before"):
            raise ValueError(
                f"phase={phase!r}, epoch={epoch}, batch_idx={batch_idx} has passed: training stands at {here}"
            )
    return name, epoch, batch_idx
