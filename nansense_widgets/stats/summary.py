"""What is known of the values of one tensor: counts by bin and moments, in the processor's own memory.

`on_device.py` does the same on an accelerator. Here float32 goes through compiled code where it has been
built (`native/`), and else, as all other types, through `torch.bincount` and sums; whatever is small is left
to numpy, whose calls cost a fifth of torch's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from nansense_widgets.stats import native
from nansense_widgets.stats.rows import NO_SPANS, Counts, Layout, Rows
from nansense_widgets.stats.uncompiled import Moments, counted, moments_of, zeros_of

__all__ = [
    "PART", "Expected", "Mask", "Summary", "around", "as_numbers", "completed", "folded",
    "in_memory_order", "others_than", "parts_of", "summarise",
]  # fmt: skip

PART = 2**20
"""Values folded at a time."""

FAR = 1e6
"""Square of how many deviations a mean may lie from where it was thought to be, before digits are lost."""

Mask = npt.NDArray[np.bool_]


class Expected(NamedTuple):
    """What earlier values let expect of those that come.

    Attributes:
        mean: of all values.
        is_centred: whether it is small beside the deviation.
        suspects: channels that may be dead; None: any.
        layout: of the counts so far; those of values that fit into its spans come in the same ones.
    """

    mean: float = 0.0
    is_centred: bool = False
    suspects: tuple[int, ...] | None = None
    layout: Layout = NO_SPANS


class Summary(NamedTuple):
    """All that is known of some values; what several layers share is computed once.

    Attributes:
        rows: counts by raw bin, of all and of the first channels.
        zeros: how many are +0 and -0.
        tiny: how many in their first bins are no zeros: (rows, 2), negative and positive; None if none.
        alive: of each channel, whether one of its values is not zero; None where it was not asked.
        moments: of the finite values.
        special: whether others are among them.
    """

    rows: Rows
    zeros: tuple[int, int]
    tiny: Counts | None
    alive: Mask | None
    moments: Moments
    special: bool


def summarise(
    tensor: torch.Tensor,
    channel_axis: int | None,
    channel_limit: int,
    expected: Expected,
    *,
    compiled: bool = True,
) -> list[Summary]:
    """Summaries of a tensor's values, in parts.

    Args:
        tensor: any dense tensor; of complex numbers the magnitudes count.
        channel_axis: axis of the channels, or None.
        channel_limit: how many channels have rows of their own.
        expected: what is thought of the values; where it does not hold, it is seen.
        compiled: whether compiled code may be used where it has been built.
    """
    parts, axis = parts_of(tensor, channel_axis)
    compiled = compiled and native.is_built()
    return [_summary(as_numbers(part), axis, channel_limit, expected, compiled) for part in parts]


def parts_of(tensor: torch.Tensor, channel_axis: int | None) -> tuple[Sequence[torch.Tensor], int | None]:
    """A tensor's values in pieces that fit the scratch memory, each with all channels, and their axis.

    The order of the other axes is of no account: they are turned to the order in which they lie in memory.
    """
    tensor = tensor.detach()
    if tensor.numel() == 0:
        return (), None
    tensor, axis = in_memory_order(tensor, channel_axis)
    # In parts before anything else: an expanded tensor is small until it is made real.
    return _parts(tensor, axis), axis


def in_memory_order(tensor: torch.Tensor, axis: int | None) -> tuple[torch.Tensor, int | None]:
    """A tensor with its axes in the order in which they lie in memory, and which of them an axis is then.

    That is None if there is no axis of that number.
    """
    ndim = tensor.ndim
    if axis is not None:
        axis = axis % ndim if -ndim <= axis < ndim else None
    if tensor.is_contiguous():
        return tensor, axis
    strides = tensor.stride()
    order = sorted(range(ndim), key=lambda i: -strides[i])
    return tensor.permute(order), None if axis is None else order.index(axis)


def _parts(values: torch.Tensor, axis: int | None) -> Sequence[torch.Tensor]:
    if values.numel() <= PART:
        return (values,)
    along = next((other for other in range(values.ndim) if other != axis and values.shape[other] > 1), None)
    if along is None:  # channels only, which are single numbers
        return (values,)
    one = values.numel() // values.shape[along]
    pieces = torch.split(values, max(1, PART // one), along)
    if one <= PART:
        return pieces
    return [part for piece in pieces for part in _parts(piece, axis)]


def as_numbers(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in float32 where that is exact, else float64; magnitudes of complex numbers."""
    if tensor.dtype is torch.float32 and not (tensor.is_neg() or tensor._is_zerotensor()):
        return tensor if tensor.is_contiguous() else tensor.contiguous()  # nearly always
    tensor = tensor.detach()
    if tensor._is_zerotensor():
        tensor = tensor.clone()  # it has no memory until then
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.is_complex():
        tensor = (tensor.to(torch.complex64) if tensor.dtype is torch.complex32 else tensor).abs()
    if tensor.dtype in (torch.float32, torch.float64):
        return tensor.resolve_neg().contiguous()
    wide = tensor.dtype in (torch.int32, torch.int64, torch.uint32, torch.uint64)
    return tensor.to(torch.float64 if wide else torch.float32).contiguous()


def _summary(
    values: torch.Tensor, axis: int | None, limit: int, expected: Expected, compiled: bool
) -> Summary:
    if compiled and values.dtype is torch.float32:
        grouping = (1, 1, values.numel(), 0)
        if axis is not None:
            shape = around(values.shape, axis)
            grouping = (*shape, min(shape[1], limit))
        rows, zeros, moments = folded(values, grouping, expected)
    else:
        rows = counted(values, axis, limit)
        zeros = zeros_of(values, rows)
        flat = values.view(-1)
        finite = flat if rows.special is None else flat[flat.isfinite()]
        moments = moments_of(finite, expected.is_centred)
    return completed(values, axis, rows, zeros, moments, expected)


def completed(
    values: torch.Tensor,
    axis: int | None,
    rows: Rows,
    zeros: tuple[int, int],
    moments: Moments,
    expected: Expected,
) -> Summary:
    """All that is known of values, from what has been counted of them."""
    tiny = alive = None
    if (rows.flat[1], rows.flat[0]) != zeros:
        tiny = rows.first - _row_zeros(values, axis, zeros, rows.layout.rows - 1)
    if axis is not None:
        alive = _alive(values, axis, rows, tiny, expected.suspects)
    return Summary(rows, zeros, tiny, alive, moments, moments[0] != values.numel())


def folded(
    values: torch.Tensor, grouping: tuple[int, int, int, int], expected: Expected
) -> tuple[Rows, tuple[int, int], Moments]:
    """What compiled code counts of float32 values: rows, how many are +0 and -0, moments.

    Args:
        values: contiguous.
        grouping: size of the axes before the channels, channels, size of those after them, and how many of
            the channels get a row.
        expected: what is thought of the values.
    """
    shift = expected.mean
    rows, (n, total, squares, low, high, zeros, minus_zeros) = native.fold(
        values, *grouping, shift, expected.layout
    )
    for closer in ("middle", "mean"):
        if n == 0 or total * total <= FAR * n * (squares - total * total / n):
            break
        # The mean lies where nobody thought, far off beside the deviation: squares count anew from nearer.
        # The middle comes first, which is exact: beside a far shift even the mean has lost its digits.
        shift = low / 2 + high / 2 if closer == "middle" else shift + total / n
        _, total, squares, _, _, _, _ = native.moments(values.view(-1), shift)
    moments = (0, 0.0, 0.0, math.inf, -math.inf)
    if n:
        moments = int(n), shift + total / n, max(squares - total * total / n, 0.0), low, high
    return rows, (int(zeros), int(minus_zeros)), moments


@functools.lru_cache(maxsize=1024)
def around(shape: torch.Size, axis: int) -> tuple[int, int, int]:
    """Size of the axes before one, of itself, and of those after it."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _row_zeros(values: torch.Tensor, axis: int | None, zeros: tuple[int, int], rows: int) -> Counts:
    """Zeros share their bin with the smallest subnormal numbers, of which there are hardly ever any."""
    everywhere = np.array([zeros[::-1]], np.int64)
    if axis is None:
        return everywhere
    some = values.narrow(axis, 0, rows)
    others = others_than(values, axis)
    is_zero, signed = some == 0, some.signbit()
    of_rows = [mask.sum(others) if others else mask.long() for mask in (is_zero & signed, is_zero & ~signed)]
    return np.concatenate([everywhere, torch.stack(of_rows, 1).numpy()])


def _alive(
    values: torch.Tensor, axis: int, rows: Rows, tiny: Counts | None, suspects: tuple[int, ...] | None
) -> Mask | None:
    if suspects == ():
        return None
    channels = values.shape[axis]
    others = others_than(values, axis)
    if rows.layout.rows == channels + 1:
        zeros = rows.first if tiny is None else rows.first - tiny
        filled: Mask = zeros[1:].sum(1) != values.numel() // channels
        return filled
    if not others:
        return (values != 0).numpy()
    few = values if suspects is None else values.index_select(axis, torch.tensor(suspects, device="cpu"))
    # NaN passes through both, and is not zero: a channel of NaN is broken, not dead.
    found: Mask = ((few.amin(others) != 0) | (few.amax(others) != 0)).numpy()
    if suspects is None:
        return found
    alive = np.ones(channels, np.bool_)
    alive[list(suspects)] = found
    return alive


def others_than(values: torch.Tensor, axis: int) -> list[int]:
    """All axes but one."""
    return [other for other in range(values.ndim) if other != axis]
