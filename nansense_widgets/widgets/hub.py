"""One hub a session: what its widgets share, and the two ways in which updates leave the kernel."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

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


LIVE: frozenset[protocol.ViewName] = frozenset({"run", "timeline"})
"""Views that show more than the last snapshot and whole epochs."""

LIVE_S = 1.0
"""How often they are painted anew."""

INPUTS: frozenset[protocol.ViewName] = frozenset({"inputs"})
STRIPS: frozenset[protocol.ViewName] = frozenset({"strips"})
ASIDE = LIVE | INPUTS
LAYERS: frozenset[protocol.ViewName] = frozenset(get_args(protocol.ViewName)) - ASIDE

ASIDE_S = 0.05
"""How long after the layers the views beside them come: a page that draws one thing does not draw another."""

ASKED_S = 0.15
"""How long what is asked of a probe is not drawn: the page itself draws a stroke at once."""

STROKE = "add_perturbation"
"""The action that may come many times a second."""

TOLD_S = 0.15
"""After so long it is said that it was the last action: what it brings comes first."""

LATE_S = 0.3
"""After so long without a result, layers say that they do not show it yet."""


class Hub:
    """The widgets of one session.

    Small state goes out as traits, written by the `publisher` on the kernel's main thread; tensors go out
    as messages that the open views asked for, computed and sent by the `painter`'s own thread.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.last_action = ""
        self._newest_action = ""
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
            self.painter.submit_latest("live", lambda: self._paint(LIVE))
        self.publisher.poke()

    def redraw(self) -> None:
        """What is shown is to be shown in another way (any thread, returns at once)."""
        if self._widgets:
            self.painter.submit_latest("paint", self._paint_all)
            self.publisher.poke()

    def redraw_probed(self) -> None:
        """A probe has found something (any thread, returns at once)."""
        if self._widgets:
            self.painter.submit_latest("probed", self._paint_probed)

    def redraw_asked(self) -> None:
        """Something was asked of a probe, that comes soon as a rule (any thread, returns at once).

        What is drawn before takes time from it, so there is a little wait; but where it takes long, the
        views say what is asked and that they show what was before.
        """
        if self._widgets:
            self.painter.submit_latest("asked", self._paint_asked, ASKED_S)
            self.painter.submit_latest("probed", self._paint_probed, LATE_S)

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

    def perform(self, name: str, args: dict[str, Any]) -> tuple[str, str]:
        """Carry out an action of a view: the call that it was, and the error's text, "" if it went well."""
        error = ""
        try:
            said = perform(self.source, name, args)
        except Exception as raised:  # noqa: BLE001  whatever it is, the view that clicked is told
            said = call_text(name, args)
            error = f"{type(raised).__name__}: {raised}"
        self._newest_action = said
        if name == STROKE:
            self.painter.submit_latest("told", self._tell, TOLD_S)
        else:
            self._tell()
        return said, error

    def state(self) -> protocol.State:
        """The trait `state` as it is now."""
        return session_state(self.source, self.last_action)

    def _tell(self) -> None:
        self.last_action = self._newest_action
        self.publisher.poke()

    def _refresh(self) -> None:
        for widget in list(self._widgets.values()):
            widget.refresh()

    def _paint_all(self) -> None:
        self._paint(LAYERS)
        self.painter.submit_latest("aside", lambda: self._paint(ASIDE), ASIDE_S)

    def _paint_probed(self) -> None:
        self._paint(STRIPS)
        self.painter.submit_latest("inputs", self._paint_inputs, ASIDE_S)

    def _paint_inputs(self) -> None:
        self._paint(INPUTS)
        self.publisher.poke()  # the graph

    def _paint_asked(self) -> None:
        if self.source.probe.computing:  # else it is painted with what came of it
            self._paint(INPUTS)

    def _paint(self, only: frozenset[protocol.ViewName]) -> None:
        for widget in list(self._widgets.values()):
            widget.paint(only)
