"""The view model of the trait `state`, which every widget of a session has."""

from __future__ import annotations

from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.schedule import Schedule
from nansense_widgets.widgets import protocol
from nansense_widgets.widgets.source import Source

__all__ = ["LOCKED", "place_text", "position_payload", "session_state"]


LOCKED = "locked: many may be looking at this session, and nobody can steer or change it"


def session_state(source: Source, last_action: str) -> protocol.State:
    """All that the controls show, of a session as it is now."""
    status = source.status
    snapshot = source.snapshot
    failure = source.failure
    schedule = source.schedule
    progress = source.progress
    goes_on = status.word in ("paused", "running") and not source.no_loop
    frequency = source.update_frequency
    travel = source.time_travel_status()
    return {
        "status": status.word,
        "detail": status.detail,
        "mode": str(source.mode),
        "position": position_payload(source.live_position, schedule),
        "standing": source.standing,
        "shown": None if snapshot is None else position_payload(snapshot.position, schedule),
        "pending": source.pending,
        "progress": {
            "epoch_done": progress.epoch_done,
            "epoch_total": progress.epoch_total,
            "epoch_left_s": progress.epoch_left_s if goes_on else None,
            "run_done": progress.run_done,
            "run_total": progress.run_total,
            "run_left_s": progress.run_left_s if goes_on else None,
            "batch_s": progress.batch_s,
        },
        "phases": {name: schedule.phase_count(name) for name in schedule.phase_order},
        "error": None
        if failure is None
        else {
            "type": failure.type,
            "message": failure.message,
            "line": failure.line,
            "traceback": failure.traceback,
            "position": position_payload(failure.position, schedule),
        },
        "update_frequency": {"unit": frequency.unit, "n": frequency.n, "phase": frequency.phase},
        "stats_scope": source.stats_scope.value,
        "travel": {
            "available": travel.available,
            "reason": travel.reason,
            "epochs": list(travel.cached_epochs),
            "kept": travel.kept,
            "step_back": _step_back(source),
        },
        "last_action": last_action,
        "cost": None
        if snapshot is None
        else {
            "layers": snapshot.cost.layers,
            "bytes": snapshot.cost.bytes,
            "seconds": snapshot.cost.seconds,
        },
        "notice": source.notice,
        "locked": LOCKED if source.locked else "",
        "no_loop": source.no_loop,
    }


def _step_back(source: Source) -> str:
    """Why the run cannot go back by a batch; empty if it can."""
    if source.status.word not in ("paused", "running"):
        return f"the run is {source.status.word}"
    way = source.way_back()
    return "" if way.action else way.text


def place_text(position: BatchPosition | None) -> str:
    """A batch as people count; None is one of the user's own."""
    if position is None:
        return "your own batch"
    return f"epoch {position.epoch + 1}, {position.phase}, batch {position.batch_idx + 1}"


def position_payload(position: BatchPosition | None, schedule: Schedule) -> protocol.Position | None:
    """A position with the totals known now."""
    if position is None:
        return None
    return {
        "phase": position.phase,
        "epoch": position.epoch,
        "batch_idx": position.batch_idx,
        "batches": schedule.phase_count(position.phase),
        "epochs": schedule.epochs,
    }
