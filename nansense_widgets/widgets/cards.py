"""The view model of a layer card: from a snapshot and what a view wants to see, to a message and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from nansense_widgets.capture.attention import MAPS
from nansense_widgets.capture.axes import Axes
from nansense_widgets.capture.snapshot import BatchSnapshot, LayerCall, LeafValue
from nansense_widgets.media.layout import TensorLayout, choose_layout
from nansense_widgets.media.strip import Missing, View, exact_tile, render_strip, sample_range
from nansense_widgets.media.values import Range, drawable, dtype_name
from nansense_widgets.widgets import protocol
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.tokens import are_tokens, tokens_of

__all__ = ["CardPainter"]

NOT_YET = "no batch has been captured yet"
RELEASED = "released: this session is closed and a newer one has taken its place"
WATCHED_LATER = "not captured: watched after this batch ran; step to capture it"


class CardPainter:
    """Paints cards, on the painter thread.

    The scale of a strip is over all its channels, however few are drawn, so it is measured once a
    snapshot and sample and remembered.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._ranges: dict[tuple[Any, ...], Range | Missing] = {}
        self._of_snapshot = -1

    def card(
        self, snapshot: BatchSnapshot | None, want: protocol.CardWant, buffers: list[bytes]
    ) -> protocol.Card:
        """One card; the pixels of its strips are appended to `buffers`."""
        layer = want["layer"]
        node = self._source.architecture.nodes.get(layer)
        calls = () if snapshot is None else snapshot.layers.get(layer, ())
        chosen = _call(calls, want["call"])
        leaves = () if chosen is None else chosen.leaves
        index = min(max(want["leaf"], 0), max(len(leaves) - 1, 0))
        note = "" if snapshot is None or not calls else snapshot.missing.get(layer, "")
        if snapshot is not None and not snapshot.complete:
            note = "; ".join(filter(None, (note, "the loop broke off inside this batch")))
        why = self._why_missing(snapshot, layer, calls, want["call"])
        strips = [
            self._strip(snapshot, kind, leaves[index], want, buffers)
            if leaves and not why
            else _missing(kind, why)
            for kind in ("activations", "gradients")
        ]
        can = node is not None and node.gives_attention
        return {
            "layer": layer,
            "cls": "" if node is None else node.cls,
            "detail": "" if node is None else node.hyperparameters,
            "call": want["call"],
            "calls": len(calls),
            "leaf": index,
            "leaves": [layer + leaf.path for leaf in leaves],
            "note": note,
            "axes": self._axes_choice(layer, leaves[index]) if leaves else None,
            "attention": "none" if not can else "on" if layer in self._source.attention_layers else "off",
            "strips": strips,
        }

    def exact(
        self, kind: protocol.Kind, want: protocol.CardWant, channel: int, window: Sequence[int] | None
    ) -> tuple[dict[str, Any], bytes]:
        """Exact values of one tile: an `Exact` without its addressee, and the buffer."""
        snapshot = self._source.snapshot
        layer = want["layer"]
        calls = () if snapshot is None else snapshot.layers.get(layer, ())
        chosen = _call(calls, want["call"])
        reply: dict[str, Any] = {
            "type": "exact",
            "snapshot": -1 if snapshot is None else snapshot.number,
            "missing": self._why_missing(snapshot, layer, calls, want["call"]),
            "channel": channel,
            "window": (0, 0, 0, 0),
            "dtype": "float32",
        }
        if chosen is None or not chosen.leaves:
            return reply, b""
        leaf = chosen.leaves[min(max(want["leaf"], 0), len(chosen.leaves) - 1)]
        tensor, reason = _tensor(leaf, kind)
        if tensor is None:
            reply["missing"] = reason
            return reply, b""
        tensor = drawable(tensor, want["part"])
        layout = _layout(tensor, self._source.architecture.axes(layer, leaf.path, tensor.ndim))
        corners = None if window is None else (window[0], window[1], window[2], window[3])
        tile = exact_tile(tensor, layout, _view(want), channel=channel, window=corners)
        if isinstance(tile, Missing):
            reply["missing"] = tile.reason
            return reply, b""
        reply["window"] = tile.window
        reply["dtype"] = tile.dtype
        return reply, tile.tobytes()

    def _strip(
        self,
        snapshot: BatchSnapshot | None,
        kind: protocol.Kind,
        leaf: LeafValue,
        want: protocol.CardWant,
        buffers: list[bytes],
    ) -> protocol.Strip:
        tensor, reason = _tensor(leaf, kind)
        if tensor is None or snapshot is None:
            return _missing(kind, reason)
        axes = self._source.architecture.axes(want["layer"], leaf.path, tensor.ndim)
        about = leaf.activation_note if kind == "activations" else leaf.gradient_note
        named = self._source.inputs.names(want["layer"])
        node = self._source.architecture.nodes.get(want["layer"])
        is_input = kind == "activations" and node is not None and node.kind == "input"
        if is_input and are_tokens(tensor, axes, named=named):
            return self._tokens(kind, tensor, axes or Axes(), want)
        drawn = drawable(tensor, want["part"])
        layout = _layout(drawn, axes)
        key = (want["layer"], want["call"], leaf.path, kind, want["sample"], want["part"], layout)
        known = self._range(snapshot.number, key, drawn, layout, want["sample"])
        picture = (
            known if isinstance(known, Missing) else render_strip(drawn, layout, _view(want), known=known)
        )
        if isinstance(picture, Missing):
            return _missing(kind, picture.reason)
        buffers.append(picture.pixels)
        return {
            "kind": kind,
            "missing": "",
            "layout": picture.layout,
            "shape": list(picture.shape),
            "dtype": dtype_name(tensor.dtype),
            "axes": _named(picture.axes, tensor, want["part"]),
            "samples": picture.samples,
            "kept": leaf.part,
            "about": about,
            "tokens": None,
            "channels": picture.channels,
            "first": picture.first,
            "count": picture.count,
            "tile": picture.tile,
            "full": picture.full,
            "pool": picture.pool,
            "scale": picture.scale,
            "unsigned": picture.unsigned or (leaf.path == MAPS and kind == "activations"),
            "nonfinite": {
                "nan": picture.nonfinite.nan,
                "posinf": picture.nonfinite.posinf,
                "neginf": picture.nonfinite.neginf,
            },
            "dead": list(picture.dead),
            "depth": picture.depth,
            "value": picture.value,
            "buffer": len(buffers) - 1,
        }

    def _why_missing(
        self, snapshot: BatchSnapshot | None, layer: str, calls: Sequence[LayerCall], number: int
    ) -> str:
        if snapshot is None:
            return RELEASED if self._source.status.word == "closed" else NOT_YET
        if not calls:
            return snapshot.missing.get(layer, WATCHED_LATER)
        if _call(calls, number) is None:
            return f"there was no call {number} in this batch: {len(calls)} in all"
        return ""

    def _tokens(
        self, kind: protocol.Kind, tensor: torch.Tensor, axes: Axes, want: protocol.CardWant
    ) -> protocol.Strip:
        strip = _missing(kind, "-")
        strip["missing"], strip["layout"] = "", "ids"
        strip["shape"], strip["dtype"] = list(tensor.shape), dtype_name(tensor.dtype)
        strip["samples"] = 0 if axes.batch is None or tensor.ndim < 2 else tensor.shape[axes.batch]
        strip["axes"] = "T" if not strip["samples"] else "B T" if axes.batch == 0 else "T B"
        text = self._source.inputs.transform_for(want["layer"])
        sample = want["sample"]
        if strip["samples"] and not 0 <= sample < strip["samples"]:
            return _missing(kind, f"there is no sample {sample}: the batch has {strip['samples']}")
        try:
            tokens = tokens_of(tensor, axes, sample, text)
        except Exception as error:  # noqa: BLE001  the user's own function: the ids are shown without it
            tokens = tokens_of(tensor, axes, sample, None)
            strip["about"] = f"input_transform failed: {type(error).__name__}: {error}"
        strip["tokens"], strip["full"] = tokens, (1, tokens["total"])
        return strip

    def _axes_choice(self, layer: str, leaf: LeafValue) -> protocol.AxesChoice | None:
        tensor = leaf.activation if leaf.activation is not None else leaf.gradient
        if tensor is None or tensor.ndim < 2:
            return None
        axes = self._source.architecture.axes(layer, leaf.path, tensor.ndim)
        layout = _layout(tensor, axes)
        return {
            "output": layer + leaf.path,
            "ndim": tensor.ndim,
            "channel": layout.channel_axis if axes is None or axes.channel is not None else None,
            "batch": layout.batch_axis,
            "known": axes is not None,
            "chosen": axes is not None and axes.chosen,
        }

    def _range(
        self,
        number: int,
        key: tuple[Any, ...],
        tensor: torch.Tensor,
        layout: TensorLayout,
        sample: int,
    ) -> Range | Missing:
        if number != self._of_snapshot:
            self._ranges.clear()
            self._of_snapshot = number
        if key not in self._ranges:
            self._ranges[key] = sample_range(tensor, layout, sample)
        return self._ranges[key]


def _call(calls: Sequence[LayerCall], number: int) -> LayerCall | None:
    return next((call for call in calls if call.call == number), None)


def _tensor(leaf: LeafValue, kind: protocol.Kind) -> tuple[torch.Tensor | None, str]:
    if kind == "activations":
        return leaf.activation, leaf.activation_reason
    return leaf.gradient, leaf.gradient_reason


def _layout(tensor: torch.Tensor, axes: Axes | None) -> TensorLayout:
    if axes is None:
        # Nothing says what the axes mean, so they have no names: a matrix of similarities is no picture,
        # though it is drawn as tiles.
        layout = choose_layout(tensor.shape, tensor.dtype)
        names = " ".join("B" if i == layout.batch_axis else f"d{i}" for i in range(tensor.ndim))
        return replace(layout, axes=names if tensor.ndim > 2 else layout.axes)
    layout = choose_layout(tensor.shape, tensor.dtype, channel_axis=axes.channel, batch_axis=axes.batch)
    return replace(layout, axes=axes.names) if axes.names else layout


def _named(axes: str, tensor: torch.Tensor, part: protocol.Part) -> str:
    """Names of the axes and, of complex numbers, the part that is drawn."""
    return f"{axes} {_PARTS[part]}" if tensor.is_complex() and part != "magnitude" else axes


_PARTS = {"real": "Re z", "imaginary": "Im z"}


def _view(want: protocol.CardWant) -> View:
    return View(
        sample=want["sample"],
        average=want["average"],
        transform=want["transform"],
        first=want["first"],
        count=want["count"],
        px=want["px"],
        depth=want["depth"],
    )


def _missing(kind: protocol.Kind, reason: str) -> protocol.Strip:
    return {
        "kind": kind,
        "missing": reason or "not captured",
        "layout": "scalar",
        "shape": [],
        "dtype": "",
        "axes": "",
        "samples": 0,
        "kept": "",
        "about": "",
        "tokens": None,
        "channels": 0,
        "first": 0,
        "count": 0,
        "tile": (0, 0),
        "full": (0, 0),
        "pool": (1, 1),
        "scale": 0.0,
        "unsigned": False,
        "nonfinite": {"nan": 0, "posinf": 0, "neginf": 0},
        "dead": [],
        "depth": 0,
        "value": None,
        "buffer": -1,
    }
