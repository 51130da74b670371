"""Keeping a value: an independent copy on the CPU, or a stated reason why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

__all__ = ["Kept", "keep", "unobserved"]

TENSOR_BYTES = 64 * 2**20
"""Of a larger tensor only the first samples are kept: a copy of everything could take the run's memory."""


@dataclass(frozen=True)
class Kept:
    """A copy of a tensor, or None and the `reason`; `part` says what was left out, if anything."""

    tensor: torch.Tensor | None
    reason: str = ""
    part: str = ""


@contextmanager
def unobserved() -> Iterator[None]:
    """Work on the user's tensors without a trace: no graph, and no torch function of a subclass or mode."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        yield


def keep(tensor: torch.Tensor) -> Kept:
    """Copy a tensor as it is now; it stays on its device until `to_cpu`, so that nothing waits for a GPU."""
    reason = _unreadable(tensor)
    if reason:
        return Kept(None, reason)
    with unobserved():
        part = ""
        source = tensor.detach()
        size = source.numel() * source.element_size()
        if size > TENSOR_BYTES and source.ndim >= 2 and source.shape[0] > 1 and not source.is_sparse:
            samples = max(1, TENSOR_BYTES * source.shape[0] // size)
            if samples < source.shape[0]:
                part = f"first {samples} of {source.shape[0]} samples"
                source = source[:samples]
        return Kept(source.clone(), part=part)


def to_cpu(kept: Kept) -> Kept:
    """The same value on the CPU."""
    if kept.tensor is None or kept.tensor.device.type == "cpu":
        return kept
    with unobserved():
        return Kept(kept.tensor.cpu(), kept.reason, kept.part)


def _unreadable(tensor: torch.Tensor) -> str:
    """Why a tensor has no values that could be copied, or an empty string."""
    if tensor.is_meta:
        return "not captured: a meta tensor has a shape but no values"
    if isinstance(tensor, (UninitializedParameter, UninitializedBuffer)):
        return "not captured: uninitialised until its first forward"
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return "not captured: inside a torch.func transform the values belong to the transform"
    if tensor.is_nested:
        return "not captured: nested tensors are not drawn"
    return ""
