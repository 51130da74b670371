"""The view model of a layer card: what its head says, and the payload of the one view that is looked at."""

from __future__ import annotations

from typing import Any

from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.media.values import dtype_name
from nansense_widgets.widgets import protocol
from nansense_widgets.widgets.probed import probed
from nansense_widgets.widgets.shown import ShownOutput, layout_of
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.views import VIEWS, CardView, HasWidgets

__all__ = ["CardPainter"]


class CardPainter:
    """Paints cards, on the painter thread. Views that nobody looks at are never made and cost nothing."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._views: dict[str, CardView] = {}

    def card(
        self, snapshot: BatchSnapshot | None, want: protocol.CardWant, buffers: list[bytes]
    ) -> protocol.Card:
        """One card; the bytes of its view are appended to `buffers`."""
        layer = want["layer"]
        node = self._source.architecture.nodes.get(layer)
        head = snapshot
        if want["view"] == "strips":  # of a probe the shape is another one than of the batch
            head, _ = probed(self._source, snapshot, layer, "original")
        shown = ShownOutput.chosen(self._source, head, want)
        note = "" if snapshot is None or not shown.calls else snapshot.missing.get(layer, "")
        if snapshot is not None and not snapshot.complete:
            note = "; ".join(filter(None, (note, "the loop broke off inside this batch")))
        can = node is not None and node.gives_attention
        tensor = shown.tensor
        content, failed, before = None, "", len(buffers)
        try:
            content = self._view(want).content(snapshot, shown, want, buffers)
        except Exception as error:  # noqa: BLE001  the other cards of the message are well
            failed = f"this view could not be made: {type(error).__name__}: {error}"
            del buffers[before:]
        return {
            "layer": layer,
            "cls": "" if node is None else node.cls,
            "detail": "" if node is None else node.hyperparameters,
            "shape": [] if tensor is None else list(tensor.shape),
            "dtype": "" if tensor is None else dtype_name(tensor.dtype),
            "call": want["call"],
            "calls": len(shown.calls),
            "leaf": shown.index,
            "leaves": [layer + leaf.path for leaf in shown.leaves],
            "note": note,
            "axes": self._axes_choice(shown),
            "attention": "none" if not can else "on" if layer in self._source.attention_layers else "off",
            "view": want["view"],
            "failed": failed,
            "content": content,
        }

    def fetch(self, want: protocol.CardWant, ask: Any) -> tuple[dict[str, Any], list[bytes]]:
        """What a view is asked for one place of its picture: the reply without its addressee, and buffers."""
        return self._view(want).fetch(want, ask)

    @property
    def waits(self) -> bool:
        """Whether a view has something for the main thread to do."""
        return any(view.waits for view in self._views.values() if isinstance(view, HasWidgets))

    def refresh(self) -> bool:
        """Let views change widgets of their own (main thread only); True if cards are to be painted anew."""
        views = [view for view in list(self._views.values()) if isinstance(view, HasWidgets)]
        # All of them, whichever has something new.
        return True in [view.refresh() for view in views]

    def _view(self, want: protocol.CardWant) -> CardView:
        name = want["view"]
        if name not in self._views:
            self._views[name] = VIEWS[name](self._source)
        return self._views[name]

    def _axes_choice(self, shown: ShownOutput) -> protocol.AxesChoice | None:
        tensor, leaf = shown.tensor, shown.leaf
        if tensor is None or leaf is None or tensor.ndim < 2 or shown.is_tokens(self._source):
            return None
        axes = shown.axes(self._source, tensor)
        layout = layout_of(tensor, axes)
        return {
            "output": shown.layer + leaf.path,
            "ndim": tensor.ndim,
            "channel": layout.channel_axis if axes is None or axes.channel is not None else None,
            "batch": layout.batch_axis,
            "known": axes is not None,
            "chosen": axes is not None and axes.chosen,
        }
