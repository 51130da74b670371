"""One hub a session: what its widgets share, and the two ways in which updates leave the kernel."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.widgets import protocol
from nansense_widgets.widgets.actions import call_text, perform
from nansense_widgets.widgets.painter import Painter
from nansense_widgets.widgets.publisher import Publisher
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.state import session_state

if TYPE_CHECKING:
    from nansense_widgets.widgets._base import SessionWidget

__all__ = ["Hub"]

W = TypeVar("W", bound="SessionWidget")


LIVE_S = 1.0
"""How often views are painted anew that show more than snapshots and whole epochs."""


class Hub:
    """The widgets of one session.

    Small state goes out as traits, written by the `publisher` on the kernel's main thread; tensors go out
    as messages that the open views asked for, computed and sent by the `painter`'s own thread.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.last_action = ""
        self.painter = Painter()
        self.publisher = Publisher(self._refresh)
        self._widgets: dict[str, SessionWidget] = {}
        self._live_at = 0.0
        self._stage: tuple[bool, tuple[str, int] | None] | None = None

    def widget(self, key: str, kind: Callable[..., W], **arguments: Any) -> W:
        """The widget of a key, made the first time and kept up to date from then on (main thread).

        One a key, however often it is displayed: a saved notebook holds each one's script once.
        """
        self.publisher.find_loop()
        known = self._widgets.get(key)
        if known is None:
            known = self._widgets[key] = kind(self, **arguments)
            known.refresh()
        return cast("W", known)

    def changed(self) -> None:
        """Something small changed (any thread, returns at once).

        Another phase or epoch, and the end of the loop, bring new statistics although no batch is shown.
        """
        if not self._widgets:
            return
        position = self.source.live_position
        over = self.source.status.word in ("finished", "failed")
        stage = (over, None if position is None else (position.phase, position.epoch))
        if stage != self._stage:
            self._stage = stage
            self.redraw()
        elif time.monotonic() - self._live_at > LIVE_S:
            self._live_at = time.monotonic()
            self.painter.submit_latest("live", self._paint_live)
        self.publisher.poke()

    def redraw(self) -> None:
        """What is shown is to be shown in another way (any thread, returns at once)."""
        if self._widgets:
            self.painter.submit_latest("paint", self._paint)
            self.publisher.poke()

    def new_snapshot(self, _snapshot: BatchSnapshot) -> None:
        """There is a new snapshot (any thread, returns at once)."""
        self.redraw()

    def keep_last_picture(self, then: Callable[[], None]) -> None:
        """Keep a small picture of the last snapshot in the widgets, after which it is needed no more."""
        if not self._widgets:
            then()
            return

        def keep() -> None:
            for widget in list(self._widgets.values()):
                widget.keep_picture()
            then()
            self.publisher.poke()

        self.painter.submit(keep)

    def perform(self, name: str, args: dict[str, Any]) -> str:
        """Carry out an action of a view; the error's text, or "" if it went well."""
        try:
            self.last_action = perform(self.source, name, args)
        except Exception as error:  # noqa: BLE001  whatever it is, the view that clicked is told
            self.last_action = call_text(name, args)
            return f"{type(error).__name__}: {error}"
        finally:
            self.publisher.poke()
        return ""

    def state(self) -> protocol.State:
        """The trait `state` as it is now."""
        return session_state(self.source, self.last_action)

    def _refresh(self) -> None:
        for widget in list(self._widgets.values()):
            widget.refresh()

    def _paint_live(self) -> None:
        for widget in list(self._widgets.values()):
            widget.paint_live()

    def _paint(self) -> None:
        for widget in list(self._widgets.values()):
            widget.paint()
