"""Which output of a layer a card shows, of the calls and tensors that a snapshot holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from nansense_widgets.capture.axes import Axes
from nansense_widgets.capture.snapshot import BatchSnapshot, LayerCall, LeafValue
from nansense_widgets.media.layout import TensorLayout, choose_layout
from nansense_widgets.widgets import protocol
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.tokens import are_tokens

__all__ = ["ShownOutput", "layout_of", "tensor_of", "why_no_custom"]

NOT_YET = "no batch has been captured yet"
RELEASED = "released: this session is closed and a newer one has taken its place"
UNWATCHED = "not captured: it was not among the watched layers when this session was locked"
WATCHED_LATER = "not captured: watched after this batch ran; step to capture it"


@dataclass(frozen=True)
class ShownOutput:
    """One output tensor of one call of a layer.

    Attributes:
        layer: its name.
        calls: all calls of the layer in the snapshot.
        leaves: the output tensors of the chosen call.
        index: which of them is shown.
        why: why there is none, else empty.
    """

    layer: str
    calls: Sequence[LayerCall]
    leaves: Sequence[LeafValue]
    index: int
    why: str

    @staticmethod
    def chosen(source: Source, snapshot: BatchSnapshot | None, want: protocol.CardWant) -> ShownOutput:
        """What a card wants, as far as the snapshot has it."""
        layer, number = want["layer"], want["call"]
        calls = () if snapshot is None else snapshot.layers.get(layer, ())
        call = next((call for call in calls if call.call == number), None)
        leaves = () if call is None else call.leaves
        index = min(max(want["leaf"], 0), max(len(leaves) - 1, 0))
        why = ""
        if snapshot is None:
            why = RELEASED if source.status.word == "closed" else NOT_YET
        elif not calls:
            why = snapshot.missing.get(layer, UNWATCHED if source.locked else WATCHED_LATER)
        elif call is None:
            why = f"there was no call {number} in this batch: {len(calls)} in all"
        return ShownOutput(layer, calls, leaves, index, why)

    @property
    def leaf(self) -> LeafValue | None:
        """The tensor that is shown, with its gradient."""
        return self.leaves[self.index] if self.leaves else None

    @property
    def tensor(self) -> torch.Tensor | None:
        """Its activation or, without one, its gradient."""
        leaf = self.leaf
        if leaf is None:
            return None
        return leaf.activation if leaf.activation is not None else leaf.gradient

    def axes(self, source: Source, tensor: torch.Tensor) -> Axes | None:
        """What its axes mean, as far as known."""
        path = "" if self.leaf is None else self.leaf.path
        return source.architecture.axes(self.layer, path, tensor.ndim)

    def is_tokens(self, source: Source) -> bool:
        """Whether it is an input of token ids."""
        node, tensor = source.architecture.nodes.get(self.layer), self.tensor
        if node is None or node.kind != "input" or tensor is None:
            return False
        return are_tokens(tensor, self.axes(source, tensor), named=source.input_config.names(self.layer))


def why_no_custom(source: Source, instrument: str, reason: str) -> str:
    """Why an instrument has no tensor in the shown batch; it may be off since an earlier one."""
    off = source.instrument_errors.get(instrument, "")
    if off:
        return f"not evaluated: {instrument} is off: {off}"
    if reason and "is off:" not in reason:  # what was off in that batch has been mended since
        return reason
    return "not evaluated in this batch: it was registered later, or no statistics are collected; step to see"


def tensor_of(leaf: LeafValue, kind: str) -> tuple[torch.Tensor | None, str]:
    """Activation or gradient of an output, or why there is none."""
    if kind == "activations":
        return leaf.activation, leaf.activation_reason
    return leaf.gradient, leaf.gradient_reason


def layout_of(tensor: torch.Tensor, axes: Axes | None) -> TensorLayout:
    """How a tensor is drawn, with the names of its axes."""
    if axes is None:
        # Nothing says what the axes mean, so they have no names: a matrix of similarities is no picture,
        # though it is drawn as tiles.
        layout = choose_layout(tensor.shape, tensor.dtype)
        names = " ".join("B" if i == layout.batch_axis else f"d{i}" for i in range(tensor.ndim))
        return replace(layout, axes=names if tensor.ndim > 2 else layout.axes)
    layout = choose_layout(tensor.shape, tensor.dtype, channel_axis=axes.channel, batch_axis=axes.batch)
    return replace(layout, axes=axes.names) if axes.names else layout
