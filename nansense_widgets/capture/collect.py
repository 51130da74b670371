"""Collects the values and gradients of the watched layers of one batch."""

from __future__ import annotations

import time
import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from nansense_widgets.capture.attention import MAPS
from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.passes import BackwardPasses, grad_fn_of, gradient_edge
from nansense_widgets.capture.scaling import LossScaling
from nansense_widgets.capture.snapshot import LayerCall, LeafValue
from nansense_widgets.capture.values import Budget, Kept, keep, to_cpu, unobserved, unscale

__all__ = ["Collector"]

MAX_CALLS = 64
"""Calls of one layer kept in a batch: a recurrent loop may have thousands."""


NO_GRAD = "no gradient: the forward ran without grad (torch.no_grad)"


@dataclass
class _Leaf:
    path: str
    value: Kept
    no_gradient: str
    again: bool = False
    """Its forward ran without grad, and may be repeated with it in the backward."""
    gradient: _Gradient | None = None


@dataclass
class _Gradient:
    """The sum over some passes. Those of `torch.autograd.grad` count only where there is no other."""

    kept: Kept
    passes: set[int]
    aside: bool
    unscaled: bool


class Collector:
    """Keeps values when they come (`take`), waits for their gradients, and gives them up at `finish`.

    Args:
        scaling: what the loss was multiplied by, which gradients are divided by.
        passes: tells several passes of autograd apart.
        budget: what the snapshot of the batch may take.
    """

    def __init__(self, scaling: LossScaling, passes: BackwardPasses, budget: Budget) -> None:
        self._budget = budget
        self._scaling = scaling
        self._passes = passes
        self._returned: dict[str, str] = {}
        self._layers: dict[str, list[tuple[int, list[_Leaf]]]] = {}
        self._dropped: dict[str, int] = {}
        self._handles: list[RemovableHandle] = []
        self._nodes: list[Any] = []
        self.errors: dict[str, str] = {}
        self.seconds = 0.0
        """Time spent copying inside the user's forward and backward."""

    def take(self, layer: str, call: int, value: Any) -> None:
        """Copy the tensors in `value` now and listen for their gradients."""
        began = time.perf_counter()
        try:
            records = self._layers.setdefault(layer, [])
            if len(records) >= MAX_CALLS:
                self._dropped[layer] = self._dropped.get(layer, 0) + 1
                return
            found = [self._leaf(path, tensor) for path, tensor in leaves(value)]
            if records and records[-1][0] == call:  # its attention weights came first
                records[-1][1][:0] = found
            else:
                records.append((call, found))
            if not found:
                self._returned[layer] = "None" if value is None else f"a {type(value).__name__}"
        except Exception as error:  # an instrument must not end the run; the card shows it
            self.errors[layer] = f"not captured: {type(error).__name__}: {error}"
        finally:
            self.seconds += time.perf_counter() - began

    def add_maps(self, layer: str, call: int, maps: Kept) -> None:
        """Attention weights that were formed beside the last call of a layer: one more output of it."""
        records = self._layers.setdefault(layer, [])
        leaf = _Leaf(MAPS, maps, "no gradient: attention weights formed beside the forward have none")
        if records and records[-1][0] == call:
            records[-1][1].append(leaf)
        elif len(records) < MAX_CALLS:  # a module with hooks of the user's own gives its output later
            records.append((call, [leaf]))

    def recomputed(self, layer: str, value: Any) -> None:
        """Listen for gradients of a value that was taken in a forward without grad and is computed anew.

        Reentrant activation checkpointing differentiates only this second forward. A layer called several
        times is left alone: nothing says which call is repeated.
        """
        records = self._layers.get(layer, ())
        if len(records) != 1:
            return
        for leaf, (path, tensor) in zip(records[0][1], leaves(value), strict=False):
            if leaf.again and leaf.path == path and tensor.requires_grad:
                self._listen(leaf, tensor)

    def finish(self) -> tuple[dict[str, tuple[LayerCall, ...]], dict[str, str]]:
        """Stop listening; return the calls of each layer, and why layers have none or not all of them."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._nodes.clear()
        layers = {}
        notes = dict(self.errors)
        for name, records in self._layers.items():
            calls = tuple(LayerCall(call, tuple(map(_frozen, items))) for call, items in records if items)
            if calls:
                layers[name] = calls
            elif name not in notes:
                notes[name] = f"no tensor: this layer gave {self._returned.get(name, 'none')}"
            if name in self._dropped:
                notes[name] = f"first {MAX_CALLS} of {MAX_CALLS + self._dropped[name]} calls kept"
        self._layers = {}
        return layers, notes

    def _leaf(self, path: str, tensor: torch.Tensor) -> _Leaf:
        why = _why_no_gradient(tensor)
        leaf = _Leaf(path, keep(tensor, self._budget), why, again=why == NO_GRAD)
        if not leaf.no_gradient and leaf.value.tensor is not None:
            self._listen(leaf, tensor)
        return leaf

    def _listen(self, leaf: _Leaf, tensor: torch.Tensor) -> None:
        # The hook sits on the node of the graph that made the value, at this point of the program: a later
        # op in place gives the tensor a new node and leaves this hook on the old one. Not on the tensor: its
        # own table of hooks is the user's. What those change, the node is given changed, as `.grad` would.
        node, index = gradient_edge(tensor)
        self._handles.append(node.register_prehook(_GradientHook(leaf, index, self)))
        if grad_fn_of(tensor) is None:
            self._nodes.append(node)
        leaf.no_gradient = "no gradient: backward did not reach this value in this batch"

    def add_gradient(self, leaf: _Leaf, gradient: torch.Tensor) -> None:
        """Keep a gradient that flows through a value; several backward calls in a batch add up."""
        number, aside = self._passes.current()
        before = leaf.gradient
        if before is not None and aside and not before.aside:
            return
        kept = keep(gradient, self._budget)
        scale = self._scaling.scale
        with unobserved():
            if scale is not None and kept.tensor is not None:
                kept = Kept(unscale(kept.tensor, scale), part=kept.part)
            if before is None or before.aside != aside:
                leaf.gradient = _Gradient(kept, {number}, aside, scale is not None)
                return
            if before.kept.tensor is not None and kept.tensor is not None:
                kept = Kept(before.kept.tensor + kept.tensor, part=kept.part)
        leaf.gradient = _Gradient(kept, before.passes | {number}, aside, scale is not None)


class _GradientHook:
    """Hands the gradient that flows through a value to the collector."""

    def __init__(self, leaf: _Leaf, index: int, collector: Collector) -> None:
        # Weak: a graph that outlives its batch must not keep what the batch captured.
        self._leaf = weakref.ref(leaf)
        self._index = index
        self._collector = weakref.ref(collector)

    def __call__(self, gradients: tuple[torch.Tensor | None, ...]) -> None:
        leaf, collector = self._leaf(), self._collector()
        gradient = gradients[self._index]  # None: of several outputs of one op, this one was not used
        if gradient is None or leaf is None or collector is None or torch.compiler.is_compiling():
            return
        began = time.perf_counter()
        try:
            with torch._C.DisableTorchFunction():  # modes of the user's own are to see none of this
                collector.add_gradient(leaf, gradient)
        except Exception as error:  # never an error in the user's backward
            failed = Kept(None, f"not captured: {type(error).__name__}: {error}")
            leaf.gradient = _Gradient(failed, set(), aside=False, unscaled=False)
        finally:
            collector.seconds += time.perf_counter() - began


def _why_no_gradient(tensor: torch.Tensor) -> str:
    if grad_fn_of(tensor) is not None or (tensor.requires_grad and torch.is_grad_enabled()):
        return ""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return f"no gradient: {str(tensor.dtype).removeprefix('torch.')} values have none"
    if torch.is_inference_mode_enabled():
        return "no gradient: the forward ran in inference mode"
    if not torch.is_grad_enabled():
        return NO_GRAD
    return "no gradient: nothing that needs one leads to this value"


def _frozen(leaf: _Leaf) -> LeafValue:
    value = to_cpu(leaf.value)
    found = leaf.gradient
    gradient = None if found is None else to_cpu(found.kept)
    return LeafValue(
        path=leaf.path,
        activation=value.tensor,
        activation_reason=value.reason,
        gradient=None if gradient is None else gradient.tensor,
        gradient_reason=leaf.no_gradient if gradient is None else gradient.reason,
        gradient_note="" if found is None else _about(found),
        activation_note="formed beside the forward, before dropout" if leaf.path == MAPS else "",
        part=value.part,
    )


def _about(gradient: _Gradient) -> str:
    notes = []
    if gradient.aside:
        notes.append("from torch.autograd.grad, not from backward()")
    if len(gradient.passes) > 1:
        notes.append(f"sum of {len(gradient.passes)} passes")
    if gradient.unscaled:
        notes.append("divided by the loss scale")
    return ", ".join(notes)
