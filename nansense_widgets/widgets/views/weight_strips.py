"""One strip of the view Weights: a tensor, laid out, as bytes; measured once a snapshot."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nansense_widgets.media.facts import TensorFacts, tensor_facts
from nansense_widgets.media.tile_order import TileOrder
from nansense_widgets.media.tile_picture import (
    Box,
    Region,
    Sizing,
    cut,
    encode_tiles,
    first_region,
    pooled,
    scale_of,
    sizing,
    taken,
)
from nansense_widgets.media.tiler import Arrangement, TilerAxis, arranged
from nansense_widgets.media.values import Floats, dtype_name, is_unsigned, readable
from nansense_widgets.widgets import protocol_weights as shapes
from nansense_widgets.widgets.views.weight_tensors import HeldTensor, TensorStrip

__all__ = ["Laid", "StripPainter", "exact_values", "unlike"]

POOLED_BYTES = 64 << 20
"""Pooled pictures that are kept for the next question."""


@dataclass(frozen=True)
class Laid:
    """How a tensor is laid out."""

    axes: tuple[TilerAxis, ...]
    arrangement: Arrangement
    order: TileOrder
    zoom: int
    region: list[int] | None


class StripPainter:
    """Paints strips, and remembers what it measured of the current snapshot."""

    def __init__(self) -> None:
        self._facts: dict[tuple[str, str], TensorFacts] = {}
        self._pooled: dict[tuple[Any, ...], Floats] = {}

    def forget(self) -> None:
        """What follows is of another snapshot."""
        self._facts.clear()
        self._pooled.clear()

    def facts(self, name: str, strip: TensorStrip) -> TensorFacts:
        """Of a strip that has a tensor."""
        assert strip.tensor is not None
        key = (name, strip.key)
        if key not in self._facts:
            self._facts[key] = tensor_facts(strip.tensor)
        return self._facts[key]

    def shared_scales(self, held: Iterable[HeldTensor]) -> dict[str, float]:
        """The largest magnitude of each kind of strip: weights, gradients, each state entry; not buffers."""
        scales: dict[str, float] = {}
        for one in held:
            for strip in one.strips if one.kind == "parameter" else ():
                if strip.tensor is not None:
                    scales[strip.kind] = max(scales.get(strip.kind, 0.0), self.facts(one.name, strip).scale)
        return scales

    def strip(
        self,
        name: str,
        strip: TensorStrip,
        laid: Laid,
        box: Box,
        scale: float | None,
        buffers: list[bytes],
        *,
        own: bool,
    ) -> shapes.WeightStrip:
        """The strip's bytes are appended to `buffers`; `scale` None: its own."""
        payload = _empty(strip)
        tensor = strip.tensor
        if tensor is None:
            return payload
        facts = self.facts(name, strip)
        payload["note"], payload["dtype"], payload["shape"] = (
            strip.note,
            dtype_name(tensor.dtype),
            list(tensor.shape),
        )
        payload["numel"], payload["zeros"], payload["norm"] = facts.numel, facts.zeros, facts.norm
        payload["low"], payload["largest"] = facts.low, facts.scale
        counts = facts.nonfinite
        payload["nonfinite"] = {"nan": counts.nan, "posinf": counts.posinf, "neginf": counts.neginf}
        # A scale that has no negative side is used only where nothing is negative, whatever the name says.
        unsigned = strip.is_magnitude and facts.low >= 0
        payload["unsigned"] = unsigned or is_unsigned(tensor.dtype, "none")
        payload["scale"] = facts.scale
        payload["index"] = list(laid.arrangement.index)
        if tensor.numel() == 1:
            number = float(readable(tensor))
            payload["layout"], payload["value"] = "number", number if math.isfinite(number) else None
            return payload
        self._draw(payload, (name, strip.key), tensor, laid, box, scale, buffers, own=own)
        return payload

    def _draw(
        self,
        payload: shapes.WeightStrip,
        key: tuple[str, str],
        tensor: torch.Tensor,
        laid: Laid,
        box: Box,
        scale: float | None,
        buffers: list[bytes],
        *,
        own: bool,
    ) -> None:
        whole = arranged(tensor.detach(), laid.axes, laid.arrangement)
        tiles, colours, rows, columns = whole.shape
        size = sizing((rows, columns), tiles, box, laid.zoom)
        asked = (
            Region(*laid.region)
            if laid.region is not None
            else first_region((rows, columns), tiles, size, box)
        )
        region = cut(asked, tiles, (rows, columns), size.pool)
        values = self._values(key, whole, laid, size, region)
        if size.pool > 1 and rows > 1:
            # Means of many values are far smaller than these: they have a scale of their own.
            payload["scale"] = scale_of(
                self._pooled_whole(key, whole, laid, size), (rows, columns), size.pool
            )
        if scale is not None:
            payload["scale"] = scale
        arrangement = laid.arrangement
        payload["layout"] = "lines" if rows == 1 and colours == 1 else "tiles"
        payload["tiles"], payload["full"], payload["colours"] = tiles, (rows, columns), colours
        payload["pool"], payload["magnify"] = size.pool, size.magnify
        payload["region"] = (region.first, region.count, region.top, region.bottom, region.left, region.right)
        payload["tile"] = (values.shape[2], values.shape[3])
        y, x, tile, colour = (
            -1 if axis is None else axis
            for axis in (arrangement.y, arrangement.x, arrangement.tile, arrangement.colour)
        )
        payload["arranged"] = {"y": y, "x": x, "tile": tile, "colour": colour}
        if own:
            payload["own"] = [
                {"name": axis.name, "size": axis.size, "source": axis.source, "step": axis.step, "labels": []}
                for axis in laid.axes
            ]
        payload["buffer"] = len(buffers)
        buffers.append(encode_tiles(values, payload["scale"]))

    def _values(
        self, key: tuple[str, str], whole: torch.Tensor, laid: Laid, size: Sizing, region: Region
    ) -> Floats:
        """(tiles, colours, rows, columns) of the region, pooled."""
        if size.pool > 1:
            p, picture = size.pool, self._pooled_whole(key, whole, laid, size)
            tiles = picture[region.first : region.first + region.count]
            columns = slice(region.left // p, -(-region.right // p))
            if whole.shape[2] == 1:
                return tiles[..., columns]
            return tiles[:, :, region.top // p : -(-region.bottom // p), columns]
        order, places = laid.order, laid.order.order
        by_row = order.axis is not None and order.axis == laid.arrangement.y
        part = taken(whole, None if by_row else places, 0, region.first, region.count)
        part = taken(part, places if by_row else None, 2, region.top, region.bottom - region.top)
        part = part[..., region.left : region.right]
        array: Floats = readable(part).numpy()
        return array

    def _pooled_whole(self, key: tuple[str, str], whole: torch.Tensor, laid: Laid, size: Sizing) -> Floats:
        known = (key, laid.arrangement, laid.axes, laid.order.axis, laid.order.order, size.pool)
        if known not in self._pooled:
            ordered, axis = whole, laid.order.axis
            if laid.order.order is not None and axis is not None:
                place = 2 if axis == laid.arrangement.y else 0
                ordered = taken(whole, laid.order.order, place, 0, whole.shape[place])
            picture = pooled(ordered, size.pool, self._facts[key].scale)
            if sum(known_picture.nbytes for known_picture in self._pooled.values()) > POOLED_BYTES:
                self._pooled.clear()
            self._pooled[known] = picture
        return self._pooled[known]


def unlike(strip: TensorStrip, one: HeldTensor) -> bool:
    """Whether a tensor (such as the row sums of Adafactor) has another shape than its parameter."""
    return strip.tensor is None or one.value is None or strip.tensor.shape != one.value.shape


def exact_values(
    tensor: torch.Tensor,
    axes: tuple[TilerAxis, ...],
    arrangement: Arrangement,
    ask: shapes.ExactWeightsAsk,
) -> tuple[Floats, tuple[int, int, int, int]]:
    """Values of one tile as they are, (rows, columns), and the window that they are of."""
    whole = arranged(tensor.detach(), axes, arrangement)
    tiles, colours, rows, columns = whole.shape
    tile = whole[min(max(ask["tile"], 0), tiles - 1), min(max(ask["colour"], 0), colours - 1)]
    top, bottom, left, right = ask["window"] or (0, rows, 0, columns)
    top, left = min(max(top, 0), rows), min(max(left, 0), columns)
    bottom, right = min(max(bottom, top), rows), min(max(right, left), columns)
    part = np.ascontiguousarray(readable(tile[top:bottom, left:right]).numpy())
    return part, (top, bottom, left, right)


def _empty(strip: TensorStrip) -> shapes.WeightStrip:
    return {
        "key": strip.key,
        "title": strip.title,
        "missing": strip.missing,
        "note": "",
        "dtype": "",
        "shape": [],
        "own": [],
        "arranged": {"y": -1, "x": -1, "tile": -1, "colour": -1},
        "index": [],
        "layout": "number",
        "tiles": 0,
        "full": (0, 0),
        "colours": 1,
        "pool": 1,
        "magnify": 1,
        "region": (0, 0, 0, 0, 0, 0),
        "tile": (0, 0),
        "scale": 0.0,
        "unsigned": False,
        "numel": 0,
        "zeros": 0,
        "norm": 0.0,
        "low": 0.0,
        "largest": 0.0,
        "nonfinite": {"nan": 0, "posinf": 0, "neginf": 0},
        "value": None,
        "buffer": -1,
    }
