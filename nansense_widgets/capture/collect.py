"""Collects the values and gradients of the watched layers of one batch."""

from __future__ import annotations

import time
import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.snapshot import LayerCall, LeafValue
from nansense_widgets.capture.values import Kept, keep, to_cpu, unobserved

__all__ = ["Collector"]

MAX_CALLS = 64
"""Calls of one layer kept in a batch: a recurrent loop may have thousands."""


@dataclass
class _Leaf:
    path: str
    value: Kept
    no_gradient: str
    gradient: Kept | None = None


class Collector:
    """Keeps values when they come (`take`), waits for their gradients, and gives them up at `finish`."""

    def __init__(self) -> None:
        self._layers: dict[str, list[tuple[int, list[_Leaf]]]] = {}
        self._dropped: dict[str, int] = {}
        self._handles: list[RemovableHandle] = []
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
            records.append((call, [self._leaf(path, tensor) for path, tensor in leaves(value)]))
        except Exception as error:  # an instrument must not end the run; the card shows it
            self.errors[layer] = f"not captured: {type(error).__name__}: {error}"
        finally:
            self.seconds += time.perf_counter() - began

    def finish(self) -> tuple[dict[str, tuple[LayerCall, ...]], dict[str, str]]:
        """Stop listening; return the calls of each layer, and why layers have none or not all of them."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        layers = {}
        notes = dict(self.errors)
        for name, records in self._layers.items():
            calls = tuple(LayerCall(call, tuple(map(_frozen, items))) for call, items in records if items)
            if calls:
                layers[name] = calls
            elif name not in notes:
                notes[name] = "no tensor: this layer gave none"
            if name in self._dropped:
                notes[name] = f"first {MAX_CALLS} of {MAX_CALLS + self._dropped[name]} calls kept"
        self._layers = {}
        return layers, notes

    def _leaf(self, path: str, tensor: torch.Tensor) -> _Leaf:
        leaf = _Leaf(path, keep(tensor), _why_no_gradient(tensor))
        if not leaf.no_gradient and leaf.value.tensor is not None:
            # The hook sits on the value at this point of the program: a later op in place gives the
            # tensor a new history and leaves this hook on the old one.
            # Weak: a graph that outlives its batch must not keep what the batch captured.
            self._handles.append(tensor.register_hook(_GradientHook(leaf, self)))
            leaf.no_gradient = "no gradient: backward did not reach this value in this batch"
        return leaf


class _GradientHook:
    """Keeps the gradient that flows through a value; several backward calls in a batch add up."""

    def __init__(self, leaf: _Leaf, collector: Collector) -> None:
        self._leaf = weakref.ref(leaf)
        self._collector = weakref.ref(collector)

    def __call__(self, gradient: torch.Tensor) -> None:
        leaf, collector = self._leaf(), self._collector()
        if leaf is None or collector is None or torch.compiler.is_compiling():
            return
        began = time.perf_counter()
        try:
            kept = keep(gradient)
            before = leaf.gradient
            if before is not None and before.tensor is not None and kept.tensor is not None:
                with unobserved():
                    kept = Kept(before.tensor + kept.tensor, part=kept.part)
            leaf.gradient = kept
        except Exception as error:
            leaf.gradient = Kept(None, f"not captured: {type(error).__name__}: {error}")
        finally:
            collector.seconds += time.perf_counter() - began


def _why_no_gradient(tensor: torch.Tensor) -> str:
    if tensor.requires_grad:
        return ""
    if torch.is_inference_mode_enabled():
        return "no gradient: the forward ran in inference mode"
    if not torch.is_grad_enabled():
        return "no gradient: the forward ran without grad (torch.no_grad)"
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return f"no gradient: {str(tensor.dtype).removeprefix('torch.')} values have none"
    return "no gradient: nothing that needs one leads to this value"


def _frozen(leaf: _Leaf) -> LeafValue:
    value = to_cpu(leaf.value)
    gradient = None if leaf.gradient is None else to_cpu(leaf.gradient)
    return LeafValue(
        path=leaf.path,
        activation=value.tensor,
        activation_reason=value.reason,
        gradient=None if gradient is None else gradient.tensor,
        gradient_reason=leaf.no_gradient if gradient is None else gradient.reason,
        part=value.part,
    )
