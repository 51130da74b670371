"""Views of values that have just been counted: what holds in any order of them is not counted again.

`view`, `transpose`, `reshape` are layers of their own over the same memory, and so are the gradients that
flow through them.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch

from nansense_widgets.stats import native
from nansense_widgets.stats.rows import Rows
from nansense_widgets.stats.summary import (
    PART,
    Expected,
    Summary,
    around,
    completed,
    folded,
    in_memory_order,
)
from nansense_widgets.stats.uncompiled import Moments

__all__ = ["Place", "Viewed", "Views"]


class Viewed(Protocol):
    """Whose values they are."""

    is_viewed: bool
    """Whether a layer after it has given a view of its values."""


class Place(NamedTuple):
    """Where values lie: `runs` of `length`, `stride` apart, from an address on. Tensors in one place hold the
    same values, in whatever order."""

    address: int
    runs: int
    stride: int
    length: int

    @staticmethod
    def of(tensor: torch.Tensor) -> Place | None:
        """None where values lie otherwise, such as several times in one place."""
        steps = zip(tensor.stride(), tensor.shape, strict=True)
        axes = sorted((step, size) for step, size in steps if size > 1)
        length, at = 1, 0
        while at < len(axes) and axes[at][0] == length:
            length *= axes[at][1]
            at += 1
        runs, stride = 1, length if at == len(axes) else axes[at][0]
        if stride < length:
            return None
        for step, size in axes[at:]:
            if step != stride * runs:
                return None
            runs *= size
        return Place(tensor.data_ptr(), runs, stride, length)


class _Known(NamedTuple):
    """What is known of the values counted last.

    Attributes:
        address: where they begin.
        size: how many.
        version: of the tensor.
        place: where they lie; None where no view is expected, or where it is no place.
        checksum: of what lies there.
        owner: whose they were.
        copy: they themselves, in the order of their addresses, if they did not lie in one run.
        by_channel: rows, by size of the axes before the channels, channels, size of those after them, and
            how many channels have rows.
        zeros: see `Summary`.
        moments: see `Summary`.
    """

    address: int
    size: int
    version: int
    place: Place | None
    checksum: int | None
    owner: Viewed
    copy: torch.Tensor | None
    by_channel: dict[tuple[int, int, int, int], Rows]
    zeros: tuple[int, int]
    moments: Moments


class Views:
    """Remembers what was counted last.

    That a tensor lies in the same place and has the same version does not say that its values are the same:
    a write through `.data` or `numpy()`, or one in inference mode, moves no version. So a checksum of the
    values is compared. Where no view came in the batches before, none is computed.
    """

    def __init__(self) -> None:
        self._known: _Known | None = None

    def forget(self) -> None:
        """Hold nothing any more."""
        self._known = None

    def summary(
        self, tensor: torch.Tensor, axis: int | None, limit: int, expected: Expected, owner: Viewed
    ) -> Summary | None:
        """The summary of a tensor's values; None where `summarise` has to do it.

        Args:
            tensor: any dense tensor.
            axis: of the channels, or None.
            limit: how many channels have rows of their own.
            expected: what is thought of the values.
            owner: whose they are.
        """
        size = tensor.numel()
        plain = tensor.is_cpu and tensor.dtype is torch.float32 and 0 < size <= PART and native.is_built()
        if not plain or tensor.is_neg() or tensor._is_zerotensor():
            return None
        tensor, axis = in_memory_order(tensor.detach(), axis)
        grouping = (1, 1, size, 0)
        if axis is not None:
            shape = around(tensor.shape, axis)
            grouping = (*shape, min(shape[1], limit))
        known = self._known
        if known is None or not self._is_view(known, tensor):
            known, values = self._count(tensor, grouping, expected, owner)
        else:
            values = tensor if known.copy is None else known.copy.view(tensor.shape)
        rows = known.by_channel.get(grouping)
        if rows is None:
            rows = next(iter(known.by_channel.values())).alone()
            if axis is not None:
                rows = native.channels_of(values, *grouping, rows)
            known.by_channel[grouping] = rows
        return completed(values, axis, rows, known.zeros, known.moments, expected)

    def _is_view(self, known: _Known, tensor: torch.Tensor) -> bool:
        if (known.address, known.size, known.version) != (
            tensor.data_ptr(),
            tensor.numel(),
            _version(tensor),
        ):
            return False
        place = Place.of(tensor)
        if place is None:
            return False
        known.owner.is_viewed = True
        return place == known.place and native.checksum(*place) == known.checksum

    def _count(
        self, tensor: torch.Tensor, grouping: tuple[int, int, int, int], expected: Expected, owner: Viewed
    ) -> tuple[_Known, torch.Tensor]:
        place = Place.of(tensor) if owner.is_viewed else None
        checksum = None if place is None else native.checksum(*place)
        values = tensor if tensor.is_contiguous() else tensor.contiguous()
        rows, zeros, moments = folded(values, grouping, expected)
        self._known = known = _Known(
            tensor.data_ptr(),
            tensor.numel(),
            _version(tensor),
            place,
            checksum,
            owner,
            None if values is tensor or place is None else values,
            {grouping: rows},
            zeros,
            moments,
        )
        return known, values


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version
