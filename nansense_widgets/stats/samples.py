"""Keeps samples of a model's inputs for the patches: small, once for all layers, and within a limit."""

from __future__ import annotations

import weakref
from collections import deque

import torch
from torch.nn import functional

from nansense_widgets.capture.axes import Axes
from nansense_widgets.stats.gallery import InputKind, Sample

__all__ = ["FULL", "PATCH_BYTES", "PLACES", "Ledger", "Samples", "compact", "kind_of", "sample_of", "shrunk"]

LIMITS = {1: 2048, 2: 96, 3: 32}
"""Longest axis of a sample that is kept as it is, by the number of axes behind the channels."""

PLACES = {"signal": 1, "picture": 2, "volume": 3}
"""Kinds of input that have such axes, and how many."""

TOKENS = 8192
"""Token ids of one sample that are kept; those after are left out."""

PATCH_BYTES = 256 * 2**20
"""All that the patches of a session may take."""

FULL = f"those of this session take {PATCH_BYTES // 2**20} MiB, which is the limit"

SampleKey = tuple[str, str, int, int, int, int]
"""Input, phase, epoch, batch, call of the model, place in the batch."""


class Ledger:
    """Counts the bytes of tensors for as long as they live, in galleries and in snapshots of them."""

    def __init__(self, limit: int = PATCH_BYTES) -> None:
        self.limit = limit
        self._bytes = 0
        self._living: dict[weakref.ref[torch.Tensor], int] = {}
        # A weak reference may die anywhere, on any thread, where no lock can be taken.
        self._freed: deque[weakref.ref[torch.Tensor]] = deque()

    @property
    def bytes(self) -> int:
        """What lives now."""
        while self._freed:
            self._bytes -= self._living.pop(self._freed.popleft())
        return self._bytes

    def has_room_for(self, size: int) -> bool:
        """Whether so many bytes more stay within the limit."""
        return self.bytes + size <= self.limit

    def enter(self, tensor: torch.Tensor) -> torch.Tensor:
        """Count a tensor until it is gone."""
        size = tensor.numel() * tensor.element_size()
        self._bytes += size
        self._living[weakref.ref(tensor, self._freed.append)] = size
        return tensor


class Samples:
    """Samples that some patch still needs, by where they come from."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: weakref.WeakValueDictionary[SampleKey, Sample] = weakref.WeakValueDictionary()

    def forget(self) -> None:
        """The same batches will come again, and may hold other samples."""
        self._known = weakref.WeakValueDictionary()

    def find(self, key: SampleKey) -> Sample | None:
        """A sample that is kept already."""
        return self._known.get(key)

    def keep(
        self,
        key: SampleKey,
        values: torch.Tensor,
        *,
        dataset_index: int | None,
        label: tuple[int | None, str],
    ) -> Sample:
        """Keep a copy of a sample, given channels first or as token ids."""
        _, phase, epoch, batch_idx, forward, index = key
        small, pool = (values[:TOKENS], 1) if values.ndim == 1 else shrunk(values)
        sample = Sample(
            phase, epoch, batch_idx, index, forward, dataset_index, *label,
            tuple(values.shape), self._ledger.enter(compact(small, exact=pool == 1)), pool,
        )  # fmt: skip
        self._known[key] = sample
        return sample


def kind_of(tensor: torch.Tensor, axes: Axes | None) -> InputKind | None:
    """What one sample of an input is; None if it is nothing that could be shown."""
    whole = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool)
    if whole and tensor.ndim == 2 and (axes is None or axes.channel is None):
        return "tokens"
    taken = 2 if axes is None else sum(axis is not None for axis in (axes.batch, axes.channel))
    kinds: dict[int, InputKind] = {0: "features", 1: "signal", 2: "picture", 3: "volume"}
    return kinds.get(tensor.ndim - taken)


def shrunk(values: torch.Tensor) -> tuple[torch.Tensor, int]:
    """(channels, *places) averaged over whole blocks until it is small enough, and the length of a block."""
    places = values.shape[1:]
    limit = LIMITS.get(len(places))
    pool = 1 if limit is None else max([1, *(-(-size // limit) for size in places)])
    if pool == 1:
        return values, 1
    wide = values.abs() if values.is_complex() else values
    wide = wide if wide.dtype is torch.float64 else wide.float()
    pooled = _AVERAGE[len(places)](wide[None], pool, ceil_mode=True, count_include_pad=False)[0]
    return pooled, pool


_AVERAGE = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}


def compact(values: torch.Tensor, *, exact: bool) -> torch.Tensor:
    """An own copy on the CPU; in float16 where that changes nothing, or little to what is inexact anyway."""
    copy = values.detach().to("cpu", copy=True).contiguous()
    if copy.dtype in (torch.float32, torch.float64):
        half = copy.half()
        same = bool((half.to(copy.dtype) == copy).all())
        if same or (not exact and bool((half.isfinite() == copy.isfinite()).all())):
            return half
    return copy


def sample_of(tensor: torch.Tensor, axes: Axes | None, kind: InputKind, index: int) -> torch.Tensor:
    """One sample of an input: (tokens,), or (channels, *places); one channel is added where there is none."""
    batch, channel = (0, 1) if axes is None else (axes.batch, axes.channel)
    sample = tensor.detach()
    if kind == "tokens":
        return sample.select(batch or 0, index)
    taken = [axis % tensor.ndim for axis in (channel, batch) if axis is not None]
    sample = sample.movedim(taken, list(range(len(taken))))  # channels, samples, …
    if channel is None:
        sample = sample[None]
    return sample if batch is None else sample[:, index]
