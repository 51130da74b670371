"""The view Weights: a panel for each parameter and buffer of a layer, its tensors laid out by the tiler."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import numpy as np

from nansense_widgets.capture.roles import ParameterRole
from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.media.tile_order import TileOrder, tile_order
from nansense_widgets.media.tile_picture import Box
from nansense_widgets.media.tiler import Arrangement, TilerAxis, default_arrangement, tiler_axes
from nansense_widgets.media.values import dtype_name
from nansense_widgets.widgets import protocol
from nansense_widgets.widgets import protocol_weights as shapes
from nansense_widgets.widgets.shown import NOT_YET, RELEASED, ShownOutput
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.views.weight_strips import Laid, StripPainter, exact_values, unlike
from nansense_widgets.widgets.views.weight_tensors import HeldTensor, held_tensors, optimizer_line

__all__ = ["WeightsView"]

AS_SUGGESTED: shapes.PanelOptions = {
    "split": True,
    "arranged": None,
    "index": [],
    "order": "index",
    "group": False,
    "zoom": 0,
    "region": None,
    "pins": {},
}


class WeightsView:
    """Weights of any layer. Everything in one answer is of one snapshot."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._painter = StripPainter()
        self._orders: dict[tuple[Any, ...], TileOrder] = {}
        self._held: dict[str, list[HeldTensor]] = {}
        self._of_snapshot: weakref.ref[BatchSnapshot] | None = None

    def content(
        self,
        snapshot: BatchSnapshot | None,
        shown: ShownOutput,
        want: protocol.CardWant,
        buffers: list[bytes],
    ) -> shapes.WeightsContent:
        """A page of panels, whose pixels are appended to `buffers`."""
        options: shapes.WeightsOptions = want["options"]
        layer = shown.layer
        content: shapes.WeightsContent = {"missing": "", "part": "", "total": 0, "first": 0, "panels": []}
        if not any(self._source.architecture.tensors_of(layer)):
            status = self._source.status
            if status.word == "disabled":
                content["missing"] = status.detail
                return content
            known = layer in self._source.architecture.nodes
            content["missing"] = (
                f"{layer} has no parameters or buffers."
                if known
                else f"{layer} has not run yet, so its weights are not known."
            )
            return content
        if snapshot is None:
            content["missing"] = RELEASED if self._source.status.word == "closed" else NOT_YET
            return content
        held = self._held_by(snapshot, layer)
        content["total"] = len(held)
        first = content["first"] = max(0, min(options["first"], len(held) - 1))
        page = held[first : first + max(1, options["count"])]
        if any(one.kind == "parameter" and one.value is None for one in page):
            content["part"] = snapshot.weights_part
        shared = self._painter.shared_scales(held) if options["scale"] == "shared" else {}
        content["panels"] = [self._panel(one, options, shared, buffers) for one in page]
        return content

    def fetch(
        self, want: protocol.CardWant, ask: shapes.ExactWeightsAsk
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Exact values of one tile: an `Exact`, and its buffer."""
        snapshot = self._source.snapshot
        reply: dict[str, Any] = {
            "type": "exact",
            "snapshot": -1 if snapshot is None else snapshot.number,
            "missing": NOT_YET,
            "channel": ask["tile"],
            "window": (0, 0, 0, 0),
            "dtype": "float32",
        }
        if snapshot is None:
            return reply, [b""]
        held = self._held_by(snapshot, want["layer"])
        one = next((one for one in held if one.name == ask["panel"]), None)
        strip = next((strip for strip in one.strips if strip.key == ask["strip"]), None) if one else None
        if one is None or strip is None or strip.tensor is None:
            reply["missing"] = (
                strip.missing if strip is not None and strip.missing else "there is no such tensor"
            )
            return reply, [b""]
        _, axes, arrangement = self._laid_out(one, want["options"])
        if unlike(strip, one):
            axes, arrangement = _own(strip.tensor.shape)
        values, window = exact_values(strip.tensor, axes, arrangement, ask)
        reply["missing"], reply["window"] = "", window
        reply["dtype"] = "float64" if values.dtype == np.float64 else "float32"
        return reply, [values.astype(f"<f{values.dtype.itemsize}", copy=False).tobytes()]

    def _held_by(self, snapshot: BatchSnapshot, layer: str) -> list[HeldTensor]:
        if self._of_snapshot is None or self._of_snapshot() is not snapshot:
            self._forget(self._of_snapshot)
            # What is kept of a snapshot goes with it: a closed session is not to hold its tensors.
            self._of_snapshot = weakref.ref(snapshot, self._forget)
        if layer not in self._held:
            self._held[layer] = held_tensors(snapshot, self._source, layer)
        return self._held[layer]

    def _forget(self, known: weakref.ref[BatchSnapshot] | None) -> None:
        if known is self._of_snapshot:
            self._of_snapshot = None
            self._painter.forget()
            self._orders.clear()
            self._held.clear()

    def _laid_out(
        self, one: HeldTensor, options: shapes.WeightsOptions
    ) -> tuple[shapes.PanelOptions, tuple[TilerAxis, ...], Arrangement]:
        chosen = options["panels"].get(one.name) or AS_SUGGESTED
        value = one.value
        if value is None:
            return chosen, (), Arrangement(None, None, None, None, ())
        axes = tiler_axes(value.shape, self._source.architecture.role_of(one.name), split=chosen["split"])
        suggested = default_arrangement(axes)
        given = chosen["arranged"]
        if given is not None:
            uses = (given["y"], given["x"], given["tile"], given["colour"])
            y, x, tile, colour = (None if axis < 0 else axis for axis in uses)
            suggested = Arrangement(y, x, tile, colour, ())
        return chosen, axes, replace(suggested, index=tuple(chosen["index"])).checked(axes)

    def _panel(
        self, one: HeldTensor, options: shapes.WeightsOptions, shared: dict[str, float], buffers: list[bytes]
    ) -> shapes.WeightPanel:
        chosen, axes, arrangement = self._laid_out(one, options)
        role = self._source.architecture.role_of(one.name)
        order = self._order(one, axes, arrangement, chosen)
        notes = list(one.notes)
        if role.presumed and any(axis.labels for axis in axes):
            notes.append(role.presumed)
        order_buffer = -1
        if order.order is not None:
            order_buffer = len(buffers)
            buffers.append(np.array(order.order, "<i4").tobytes())
        width, height = options["box"]
        box = Box(max(1.0, width), max(1.0, height), max(0.25, options["ratio"]))
        strips: list[shapes.WeightStrip] = []
        for strip in one.strips:
            laid = Laid(axes, arrangement, order, chosen["zoom"], chosen["region"])
            own = strip.tensor is not None and unlike(strip, one)
            if own and strip.tensor is not None:
                laid = Laid(*_own(strip.tensor.shape), TileOrder(None), chosen["zoom"], None)
            scale: float | None = None
            if options["scale"] == "shared":
                scale = shared.get(strip.kind)
            elif options["scale"] == "pinned":
                scale = chosen["pins"].get(strip.key)
            strips.append(self._painter.strip(one.name, strip, laid, box, scale, buffers, own=own))
        value = one.value
        return {
            "name": one.name,
            "kind": "parameter" if one.kind == "parameter" else "buffer",
            "shape": [] if value is None else list(value.shape),
            "dtype": "" if value is None else dtype_name(value.dtype),
            "notes": notes,
            "optimizers": [optimizer_line(known) for known in one.optimizers],
            "axes": axis_payload(axes),
            "splits": value is not None and any(axis.labels for axis in tiler_axes(value.shape, role)),
            "split": chosen["split"],
            "arranged": arranged_payload(arrangement),
            "index": list(arrangement.index),
            "order": chosen["order"],
            "group": chosen["group"],
            "ordered": "" if order.axis is None else "tile" if order.axis == arrangement.tile else "y",
            "order_note": order.note,
            "order_buffer": order_buffer,
            "groups": list(order.groups),
            "strips": strips,
        }

    def _order(
        self,
        one: HeldTensor,
        axes: tuple[TilerAxis, ...],
        arrangement: Arrangement,
        chosen: shapes.PanelOptions,
    ) -> TileOrder:
        if one.value is None:
            return TileOrder(None)
        key = (one.name, arrangement.tile, arrangement.y, len(axes), chosen["order"], chosen["group"])
        if key not in self._orders:
            self._orders[key] = tile_order(
                one.value, axes, arrangement, chosen["order"], group=chosen["group"]
            )
        return self._orders[key]


def axis_payload(axes: tuple[TilerAxis, ...]) -> list[shapes.WeightAxis]:
    """For the browser."""
    return [
        {
            "name": axis.name,
            "size": axis.size,
            "source": axis.source,
            "step": axis.step,
            "labels": list(axis.labels),
        }
        for axis in axes
    ]


def arranged_payload(arrangement: Arrangement) -> shapes.Arranged:
    """For the browser."""
    y, x, tile, colour = (
        -1 if axis is None else axis
        for axis in (arrangement.y, arrangement.x, arrangement.tile, arrangement.colour)
    )
    return {"y": y, "x": x, "tile": tile, "colour": colour}


def _own(shape: tuple[int, ...]) -> tuple[tuple[TilerAxis, ...], Arrangement]:
    axes = tiler_axes(shape, ParameterRole())
    return axes, default_arrangement(axes)
