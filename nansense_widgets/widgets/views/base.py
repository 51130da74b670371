"""What every view of a layer card can do."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.widgets import protocol
from nansense_widgets.widgets.shown import ShownOutput

__all__ = ["CardView", "HasWidgets"]


class CardView(Protocol):
    """Paints one view of any layer's card, on the painter thread. It keeps what it may use again."""

    def content(
        self,
        snapshot: BatchSnapshot | None,
        shown: ShownOutput,
        want: protocol.CardWant,
        buffers: list[bytes],
    ) -> Any:
        """What the front end draws (the shape is in `protocol.py`); bytes are appended to `buffers`.

        Args:
            snapshot: the last captured batch; None before the first, and when it was released.
            shown: which output of the layer the card shows.
            want: what is to be seen; `options` are this view's own.
            buffers: of the whole message.
        """
        ...

    def fetch(self, want: protocol.CardWant, ask: Any) -> tuple[dict[str, Any], list[bytes]]:
        """What is asked for one place of the picture: the reply without its addressee, and its buffers."""
        ...


@runtime_checkable
class HasWidgets(Protocol):
    """A view that shows widgets of its own, whose traits are written on the kernel's main thread only."""

    @property
    def waits(self) -> bool:
        """Whether `refresh` has something to do; asked on the painter thread after each answer."""
        ...

    def refresh(self) -> bool:
        """Make and change the widgets (main thread only); True if cards are to be painted anew."""
        ...
