"""What all widgets of a session share: the state trait, actions, and where their JavaScript is."""

from __future__ import annotations

import pathlib
from typing import Any

import anywidget
import traitlets

from nansense_widgets.widgets import protocol
from nansense_widgets.widgets.hub import Hub

__all__ = ["SessionWidget", "view_script"]

_STATIC = pathlib.Path(__file__).parent / "static"


def view_script(name: str) -> bytes:
    """The script of a card's view, which a page asks for when the view is first looked at.

    Raises `ValueError` for a view that has none of its own.
    """
    known = {path.stem: path for path in (_STATIC / "views").glob("*.js")}
    if name not in known:
        raise ValueError(f"name={name!r} is no view with a script; those are {', '.join(sorted(known))}")
    return known[name].read_bytes()


class SessionWidget(anywidget.AnyWidget):
    """A widget bound to one session through its hub.

    Trait writes happen in `refresh`, which only the hub's publisher calls, on the kernel's main thread;
    messages from the browser arrive on any thread and are handed to the hub's painter thread at once.
    """

    state: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)

    def __init_subclass__(cls, front_end: str = "", **kwargs: Any) -> None:
        if front_end:
            cls._esm = _STATIC / f"{front_end}.js"
        super().__init_subclass__(**kwargs)

    def __init__(self, hub: Hub, **kwargs: Any) -> None:
        if unknown := [key for key in kwargs if key not in self.trait_names()]:
            raise TypeError(f"{type(self).__name__}() got unknown arguments: {', '.join(unknown)}")
        self._hub = hub
        self._source = hub.source
        super().__init__(**kwargs)
        self.on_msg(self._heard)

    def refresh(self) -> None:
        """Bring the traits up to date with the session (main thread only)."""
        state = dict(self._hub.state())
        if state != self.state:
            self.state = state

    def paint(self, only: frozenset[protocol.ViewName]) -> None:
        """Send what the open views of these kinds want (painter thread)."""

    def keep_picture(self) -> None:
        """Keep what shall be seen when the session's tensors are gone (painter thread)."""

    def handle(self, message: dict[str, Any]) -> None:
        """Answer one request of a view (painter thread)."""
        if message.get("type") == "action":
            code, error = self._hub.perform(str(message.get("name")), dict(message.get("args") or {}))
            self.send(
                {
                    "type": "echo",
                    "view": message.get("view"),
                    "req": message.get("req"),
                    "code": code,
                    "error": error,
                }
            )

    def _heard(self, _widget: Any, content: Any, _buffers: Any) -> None:
        if isinstance(content, dict):
            self._hub.painter.submit(lambda: self.handle(content))

    def __repr__(self) -> str:  # the default one would serialise every trait
        return f"<{type(self).__name__} of {self._source!r}>"
