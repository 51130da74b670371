"""Waits for one batch of the run, keeps what it begins from, and writes the moment after it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nansense_widgets.capture.engine import CaptureEngine
from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.history.computing import Computing
from nansense_widgets.history.item import pack_item
from nansense_widgets.history.moment import BatchSeed, Moment, write_moment
from nansense_widgets.history.pack import UnstorableError
from nansense_widgets.history.state import RunParts, take_state
from nansense_widgets.run.item import LoaderItem
from nansense_widgets.run.position import BatchPosition

__all__ = ["MomentFreezer"]


@dataclass(frozen=True)
class _Armed:
    path: Path
    position: BatchPosition


@dataclass(frozen=True)
class _Begun:
    armed: _Armed
    start: dict[str, Any]
    item: Any
    computing: Computing


class MomentFreezer:
    """The freezer of a session's loop; armed on any thread, told of batches on the training thread.

    Args:
        engine: captures the batch.
        moment: what the session shows, given the snapshot of the batch.
    """

    def __init__(self, engine: CaptureEngine, moment: Callable[[BatchSnapshot], Moment]) -> None:
        self._engine = engine
        self._moment = moment
        self._armed: _Armed | None = None
        self._begun: _Begun | None = None
        self.note = ""
        """What became of the last request, if it went wrong."""

    def arm(self, path: Path, position: BatchPosition) -> None:
        """Wait for a batch, in place of one that is still waited for."""
        self._armed = _Armed(path.absolute(), position)  # the program may change its working directory
        self.note = ""

    @property
    def waits(self) -> bool:
        """Whether the batch is still to come."""
        return self._armed is not None

    def begins(self, position: BatchPosition, item: LoaderItem | None) -> bool:
        """Whether it is the one; then its beginning is kept."""
        armed = self._armed
        if armed is None or armed.position.key != position.key:
            return False
        self._armed = None
        try:
            self._begun = self._beginning(armed, item)
        except Exception as error:  # noqa: BLE001  never an error in the user's loop
            self._failed(armed, error)
            return False
        self._engine.takes_whole_model = True
        return True

    def ended(self, position: BatchPosition) -> None:
        """Write the moment, if this was its batch."""
        begun, self._begun = self._begun, None
        if begun is None or begun.armed.position.key != position.key:  # an interrupt ended its batch early
            return
        try:
            snapshot = self._captured(position)
            end = take_state(RunParts(self._engine.model))
            end["random"] = {}
            moment = replace(self._moment(snapshot), computing=begun.computing)
            write_moment(begun.armed.path, moment, BatchSeed(begun.start, end, begun.item))
        except Exception as error:  # noqa: BLE001  a full disk, say: training goes on
            self._failed(begun.armed, error)

    def _beginning(self, armed: _Armed, item: LoaderItem | None) -> _Begun:
        if item is None:
            raise UnstorableError(
                "a replay needs the loader's item: use session.batches(), or session.batch(item=…)"
            )
        start = take_state(RunParts(self._engine.model))
        start["model"]["gradients"] = {}  # those of the batch before
        return _Begun(armed, start, pack_item(item.value), Computing.now())

    def _captured(self, position: BatchPosition) -> BatchSnapshot:
        snapshot = self._engine.snapshot
        if snapshot is None or snapshot.position.key != position.key:
            raise UnstorableError(self._engine.error or "the batch was not captured")
        return snapshot

    def closed(self) -> None:
        """The session is closed: a batch that has not come will not come."""
        armed, self._armed = self._armed, None
        if armed is not None:
            self._say(armed, "training never reached it")

    def _failed(self, armed: _Armed, error: Exception) -> None:
        own = isinstance(error, UnstorableError)
        self._say(armed, str(error) if own else f"{type(error).__name__}: {error}")

    def _say(self, armed: _Armed, why: str) -> None:
        self.note = f"the moment of {armed.position} was not written to {armed.path}: {why}"
        with suppress(Exception):  # a console that is gone
            print(f"nansense_widgets: {self.note}", file=sys.stderr, flush=True)  # noqa: T201
