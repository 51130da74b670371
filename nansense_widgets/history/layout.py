"""Copies of tensors that lie in memory as the originals do.

How the values lie decides in which order a kernel sums them, and so the last bits of what it returns.
"""

from __future__ import annotations

import torch

__all__ = ["kept_apart", "kept_bytes", "with_own_memory"]

GAPS = 8
"""The gaps between the values of a tensor are kept too, up to so many times the bytes of its values."""

SMALL = 2**18
"""Bytes up to which the gaps are kept in any case."""

LINE = 64
"""Bytes that torch aligns memory to on the CPU; where a tensor begins otherwise, so do its copies."""


def kept_bytes(tensor: torch.Tensor) -> int:
    """What `kept_apart` takes."""
    size = tensor.element_size()
    return (_span(tensor) or tensor.numel()) * size if _is_plain(tensor) else tensor.numel() * size


def kept_apart(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the CPU. Of one on a GPU it is there after `torch.cuda.synchronize()`.

    What has large gaps between its values is kept without them, one value after the other.
    """
    plain = tensor.detach()
    span = _span(tensor) if _is_plain(tensor) else 0
    on_gpu = tensor.device.type == "cuda"
    if not span or (not on_gpu and tensor.is_contiguous() and tensor.data_ptr() % LINE == 0):
        if not (on_gpu and tensor.layout is torch.strided):
            return plain.to("cpu", copy=True)
        return torch.empty_like(plain, device="cpu", pin_memory=True).copy_(plain, non_blocking=True)
    first = tensor.data_ptr() % LINE // tensor.element_size()
    memory = torch.empty(first + span, dtype=tensor.dtype, device="cpu", pin_memory=on_gpu)
    whole = plain.as_strided((span,), (1,), tensor.storage_offset())
    # Waits for nothing; work that comes later on this stream finds the copy made.
    memory[first:].copy_(whole, non_blocking=on_gpu)
    return memory.as_strided(tensor.shape, tensor.stride(), first).detach()


def with_own_memory(kept: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy of what `kept_apart` returned, on a device; nobody else has its memory."""
    first = kept.storage_offset() if _is_plain(kept) else 0
    if not _is_plain(kept) or not kept.numel() or (first == 0 and kept.is_contiguous()):
        return kept.to(device, copy=True)
    memory = kept.as_strided((first + _reach(kept),), (1,), 0).to(device, copy=True)
    return memory.as_strided(kept.shape, kept.stride(), first).detach()


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether its values lie in memory as they are."""
    return (
        tensor.layout is torch.strided
        and tensor.device.type in ("cpu", "cuda")
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
    )


def _span(tensor: torch.Tensor) -> int:
    """Elements of memory from its first value to its last one; 0 if that is much more than its values."""
    span, size = _reach(tensor), tensor.element_size()
    return span if span <= GAPS * tensor.numel() or span * size <= SMALL else 0


def _reach(tensor: torch.Tensor) -> int:
    if not tensor.numel():
        return 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + sum((length - 1) * stride for length, stride in steps)
