"""Keeping a value: an independent copy on the CPU, or a stated reason why there is none."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.utils._python_dispatch import _disable_current_modes

__all__ = [
    "Budget",
    "Kept",
    "copied",
    "is_plain",
    "keep",
    "memoryless",
    "size_of",
    "to_cpu",
    "unobserved",
    "unreadable",
    "unscale",
]

TENSOR_BYTES = 64 * 2**20
"""Of a larger tensor only the first samples are kept: a copy of everything could take the run's memory."""


SNAPSHOT_BYTES = 2 * 2**30
"""All that one snapshot may take. On a GPU it takes as much there until its batch is over."""

FULL = "not captured: the snapshot of this batch is full (2 GiB); watch fewer layers"


@dataclass(frozen=True)
class Kept:
    """A copy of a tensor, or None and the `reason`; `part` says what was left out, if anything."""

    tensor: torch.Tensor | None
    reason: str = ""
    part: str = ""


class unobserved:  # noqa: N801  read as a statement, like torch.no_grad
    """Work on the user's tensors without a trace: no graph, and no mode or subclass that sees it.

    A dispatch mode that counts or caches what the forward does (selective activation checkpointing is one)
    would otherwise take our copies for a part of it. It is entered for each value of each layer, so it is no
    generator: those take five times as long.
    """

    __slots__ = ("_autocast", "_function", "_grad", "_rare")

    def __enter__(self) -> None:
        self._function = torch._C.DisableTorchFunction()
        self._function.__enter__()
        self._autocast: Any = None
        if torch._C._is_any_autocast_enabled():
            self._autocast = torch._C._DisableAutocast()
            self._autocast.__enter__()
        self._rare: ExitStack | None = None
        inference = torch.is_inference_mode_enabled()
        if inference or torch._C._len_torch_dispatch_stack():
            self._rare = ExitStack()
            if inference:  # what is made in it may never be changed in place later
                self._rare.enter_context(torch.inference_mode(False))
            if torch._C._len_torch_dispatch_stack():
                self._rare.enter_context(_disable_current_modes())
        self._grad = torch.is_grad_enabled()
        if self._grad:
            torch._C._set_grad_enabled(False)

    def __exit__(self, *_: object) -> None:
        if self._grad:
            torch._C._set_grad_enabled(True)
        if self._rare is not None:
            self._rare.close()
        if self._autocast is not None:
            self._autocast.__exit__(None, None, None)
        self._function.__exit__(None, None, None)


class Budget:
    """What one snapshot may take: watching all of a very large model is not to use up the memory."""

    def __init__(self) -> None:
        self._left = SNAPSHOT_BYTES

    def admits(self, size: int) -> bool:
        """Whether so many bytes more fit; they are then taken."""
        if size > self._left:
            return False
        self._left -= size
        return True


def keep(tensor: torch.Tensor, budget: Budget, unit: str = "sample") -> Kept:
    """Copy a tensor as it is now; it stays on its device until `to_cpu`, so that nothing waits for a GPU.

    Of a tensor above 64 MiB the first items of its first axis are copied; `unit` is what one of them is.
    """
    with unobserved():
        return copied(tensor, budget, unit)


def copied(tensor: torch.Tensor, budget: Budget, unit: str) -> Kept:
    """The same for callers that are `unobserved` already, with very many tensors."""
    if reason := unreadable(tensor):
        return Kept(None, reason)
    source, part = tensor.detach(), ""
    size = source.numel() * source.element_size()
    if size > TENSOR_BYTES and source.layout is torch.strided:
        samples = TENSOR_BYTES * source.shape[0] // size if source.ndim >= 2 else 0
        if samples == 0:
            one = size / 2**20 / max(1, source.shape[0] if source.ndim >= 2 else 1)
            return Kept(None, f"not captured: one {unit} takes {one:,.0f} MiB, above the limit of 64 MiB")
        part = f"first {samples} of {source.shape[0]} {unit}s"
        source = source[:samples]
    if not budget.admits(source.numel() * source.element_size()):
        return Kept(None, FULL)
    return Kept(source.clone(), part=part)


def to_cpu(kept: Kept) -> Kept:
    """The same value on the CPU."""
    if kept.tensor is None or kept.tensor.device.type == "cpu":
        return kept
    with unobserved():
        return Kept(kept.tensor.cpu(), kept.reason, kept.part)


def size_of(tensor: torch.Tensor) -> int:
    """Bytes of a tensor; of a sparse one those of its values and indices."""
    if tensor.is_sparse:
        return size_of(tensor._values()) + size_of(tensor._indices())
    return tensor.numel() * tensor.element_size()


def unscale(tensor: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """A gradient of a scaled loss divided by the scale, in float32 at least: half would lose small ones."""
    wide = tensor if tensor.dtype is torch.float64 or tensor.is_complex() else tensor.float()
    return wide / scale.to(wide.device, non_blocking=True)


def unreadable(tensor: torch.Tensor) -> str:
    """Why a tensor has no values that could be copied, or an empty string."""
    if tensor.is_meta:
        return "not captured: a meta tensor has a shape but no values"
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        if isinstance(tensor, (UninitializedParameter, UninitializedBuffer)):
            return "not captured: uninitialised until its first forward"
        if type(tensor).__name__ == "FakeTensor":  # torch.export and its like
            return "not captured: a fake tensor has a shape but no values"
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return "not captured: inside a torch.func transform the values belong to the transform"
    if tensor.is_nested:
        return "not captured: nested tensors are not drawn"
    if _is_freed(tensor):
        return "not captured: its memory has been freed"
    return ""


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is torch's own, and its values lie on the CPU in one run: then all of the above and
    `memoryless` hold nothing against it. Nearly all are, and this is asked of every value of every layer.
    """
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        and tensor.is_contiguous()
        and bool(tensor.data_ptr())
        and tensor.untyped_storage().nbytes()
        >= (tensor.storage_offset() + tensor.numel()) * tensor.element_size()
    )


def memoryless(tensor: torch.Tensor) -> str:
    """Why a tensor's memory cannot be read directly, or an empty string.

    A subclass may hold its values in other tensors: functions of torch know them, but no address does.
    """
    if tensor.layout is torch.strided and tensor.numel() and not tensor._is_zerotensor():
        with torch._C.DisableTorchFunction():
            try:
                if tensor.data_ptr():
                    return ""
            except RuntimeError:  # some say so at once
                pass
        return f"not collected: a {type(tensor).__name__} holds its values in other tensors"
    return ""


def _is_freed(tensor: torch.Tensor) -> bool:
    """Whether a tensor's storage no longer has room for it: sharding and offloading resize it to nothing."""
    if tensor.layout is not torch.strided or not tensor.numel() or tensor._is_zerotensor():
        return False
    try:
        held = tensor.untyped_storage().nbytes()
    except (RuntimeError, NotImplementedError):  # a subclass without a storage
        return False
    last = tensor.storage_offset()
    if tensor.is_contiguous():  # nearly always
        last += tensor.numel() - 1
    else:
        last += sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    if held >= (last + 1) * tensor.element_size():
        return False
    return type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
