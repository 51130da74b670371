"""Layer cards, drawn by whichever browser views ask for them: each card shows one view of its layer."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import traitlets

from nansense_widgets.widgets import protocol
from nansense_widgets.widgets._base import SessionWidget, view_script
from nansense_widgets.widgets.card import CardPainter
from nansense_widgets.widgets.protocol_extremes import ExtremesOptions
from nansense_widgets.widgets.protocol_inputs import InputsOptions
from nansense_widgets.widgets.protocol_run import RunOptions
from nansense_widgets.widgets.protocol_statistics import CurvesOptions, HistogramOptions
from nansense_widgets.widgets.protocol_strips import StripsOptions
from nansense_widgets.widgets.protocol_weights import WeightsOptions
from nansense_widgets.widgets.state import position_payload

__all__ = ["CardsPart"]

MAX_VIEWS = 32
"""Views remembered. A page that closes says nothing: of more, the one silent for longest is forgotten."""

STILL_AFTER_S = 1.5
STILL_LAYERS = 12
STILL_BYTES = 400_000


@dataclass
class _View:
    """One browser view of the widget: what it wants, and whether it has drawn what it was sent.

    A view that draws slowly, lies in a hidden tab or was closed gets nothing more until it confirms.
    """

    cards: list[protocol.CardWant] = field(default_factory=list)
    seq: int = 0
    confirmed: int = 0
    sent_at: float = 0.0
    owed: bool = False

    @property
    def may_send(self) -> bool:
        return self.confirmed == self.seq


class CardsPart(SessionWidget):
    """The traits and messages of a widget that draws layer cards."""

    watched: traitlets.List[str] = traitlets.List(traitlets.Unicode()).tag(sync=True)
    layers: traitlets.List[str] = traitlets.List(traitlets.Unicode()).tag(sync=True)
    """Layers to show; empty: all watched ones."""
    still: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)

    _opens_on: protocol.ViewName = "strips"
    """The view of which a picture is kept for files without a kernel."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._views: dict[str, _View] = {}
        self._painter = CardPainter(self._source)
        self._still_timer: threading.Timer | None = None
        self._next_still: protocol.Still | None = None
        if self._source.snapshot is not None:
            self._still_later()

    def refresh(self) -> None:
        super().refresh()
        watched = list(self._source.watched_layers)
        if watched != self.watched:
            self.watched = watched
            self._still_later()
        if self._painter.refresh():
            self._hub.redraw()
        still, self._next_still = self._next_still, None
        if still is not None:
            self.still = dict(still)

    def paint(self, only: frozenset[protocol.ViewName]) -> None:
        for name, view in list(self._views.items()):
            if any(card["view"] in only for card in view.cards):
                self._offer(name, view)
        if self._opens_on in only:
            self._still_later()

    def _offer(self, name: str, view: _View) -> None:
        if not view.cards:  # nothing of it is in sight
            return
        if view.may_send:
            self._answer(name, view)
        else:
            view.owed = True

    def handle(self, message: dict[str, Any]) -> None:
        kind, name = message.get("type"), str(message.get("view"))
        if kind == "want":
            view = self._view(name)
            view.cards = list(message.get("cards") or [])
            self._answer(name, view)
        elif kind == "ack":
            known = self._views.get(name)
            if known is not None:
                known.confirmed = max(known.confirmed, int(message.get("seq", 0)))
                if known.owed and known.may_send:
                    self._answer(name, known)
        elif kind == "fetch":
            reply, buffers = self._painter.fetch(message["card"], message["ask"])
            reply["view"], reply["req"] = name, int(message.get("req", 0))
            self.send(reply, buffers)
        elif kind == "script":
            script = protocol.Script(
                type="script", view=name, req=int(message.get("req", 0)), name=message["name"]
            )
            self.send(script, [view_script(message["name"])])
        else:
            super().handle(message)

    def _view(self, name: str) -> _View:
        if name not in self._views and len(self._views) >= MAX_VIEWS:
            del self._views[min(self._views, key=lambda known: self._views[known].sent_at)]
        return self._views.setdefault(name, _View())

    def _answer(self, name: str, view: _View) -> None:
        view.seq += 1
        view.sent_at = time.monotonic()
        view.owed = False
        cards, buffers = self._cards(name, view.seq, view.cards)
        self.send(cards, buffers)

    def _cards(
        self, view: str, seq: int, wants: list[protocol.CardWant]
    ) -> tuple[protocol.Cards, list[bytes]]:
        snapshot = self._source.snapshot
        if snapshot is None and self.still.get("cards"):
            return self._of_still(view, seq, wants)
        buffers: list[bytes] = []
        cards = [self._painter.card(snapshot, want, buffers) for want in wants]
        if self._painter.waits:
            self._hub.publisher.poke()
        return {
            "type": "cards",
            "view": view,
            "seq": seq,
            "snapshot": -1 if snapshot is None else snapshot.number,
            "position": None
            if snapshot is None
            else position_payload(snapshot.position, self._source.schedule),
            "notes": [] if snapshot is None else list(snapshot.notes),
            "cards": cards,
        }, buffers

    def _of_still(
        self, view: str, seq: int, wants: list[protocol.CardWant]
    ) -> tuple[protocol.Cards, list[bytes]]:
        """What is left of a session whose tensors were released: the small picture that was kept."""
        ends = list(itertools.accumulate(self.still["sizes"], initial=0))
        data = bytes(self.still["data"])
        buffers = [data[a:b] for a, b in itertools.pairwise(ends)]
        cards: protocol.Cards = dict(self.still["cards"])  # type: ignore[assignment]
        cards["view"], cards["seq"] = view, seq
        kept = {(card["layer"], card["view"]): card for card in cards["cards"]}
        cards["cards"] = [
            kept.get((want["layer"], want["view"])) or self._painter.card(None, want, buffers)
            for want in wants
        ]
        return cards, buffers

    # ------------------------------------------------------------ the picture for files without a kernel

    def _still_later(self) -> None:
        if self._still_timer is None:
            self._still_timer = threading.Timer(
                STILL_AFTER_S, lambda: self._hub.painter.submit(self.keep_picture)
            )
            self._still_timer.daemon = True
            self._still_timer.start()

    def keep_picture(self) -> None:
        self._still_timer = None
        if self._source.snapshot is None:
            return
        names = list(self.layers) or list(self._source.watched_layers)
        wants = [_still_want(name, self._opens_on) for name in names[:STILL_LAYERS]]
        cards, buffers = self._cards("", 0, wants)
        while buffers and sum(map(len, buffers)) > STILL_BYTES and len(wants) > 1:
            wants = wants[: len(wants) // 2]
            cards, buffers = self._cards("", 0, wants)
        self._next_still = {
            "cards": cards,
            "sizes": [len(buffer) for buffer in buffers],
            "data": b"".join(buffers),
        }
        self._hub.publisher.poke()


STILL_OPTIONS: dict[str, Any] = {
    "strips": StripsOptions(
        sample=0,
        average=False,
        transform="none",
        part="magnitude",
        first=0,
        count=16,
        px=28,
        depth=0,
        shows="difference",
    ),
    "histogram": HistogramOptions(source="", compare="", rows="activations"),
    "extremes": ExtremesOptions(source="", by="pixel", heat=False, first=0, count=4, px=32),
    "curves": CurvesOptions(statistics=None),  # as they are: the figures are those on the page
    "run": RunOptions(smooth=None),
    "timeline": {},
    "inputs": InputsOptions(
        input="",
        sample=0,
        order="batch",
        channel=-1,
        depth=-1,
        original=False,
        px=56,
        thumb=28,
        first=0,
        count=12,
    ),
    "weights": WeightsOptions(first=0, count=4, box=(300, 150), ratio=1, scale="own", panels={}),
}
"""What the picture for files without a kernel shows of a layer."""


def _still_want(layer: str, view: protocol.ViewName) -> protocol.CardWant:
    return {"layer": layer, "call": 1, "leaf": 0, "view": view, "options": STILL_OPTIONS[view]}
