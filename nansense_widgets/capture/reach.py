"""Which values of its input one value of a layer's output is computed from, axis by axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from nansense_widgets.capture.places import Places

__all__ = [
    "Adaptive", "Along", "Box", "Causal", "Drop", "Everything", "Index", "MisfitError", "Permute", "Pixels",
    "Pointwise", "Reach", "Reduce", "Reshape", "Resize", "Shape", "Shift", "Window", "clipped", "full",
    "unequal",
]  # fmt: skip

Box = tuple[Places, ...]
"""The indices of each axis of a tensor, batch and channels among them."""

Shape = tuple[int, ...]


class MisfitError(Exception):
    """The shapes are not those of such a layer."""


class Reach(Protocol):
    """How a layer looks back: from a box of its output to the box of its input that it is computed from."""

    @property
    def note(self) -> str:
        """Why that box is not exact; else empty."""

    def back(self, box: Box, out: Shape, into: Shape) -> Box | None:
        """The box of an input of shape `into`.

        Args:
            box: of an output of shape `out`.
            out: that shape.
            into: the input's shape; the box may reach beyond it, where padding is.

        Returns:
            None where nothing of the input goes in.

        Raises:
            MisfitError: if the shapes do not fit the layer: the input is another one than thought.
        """


def full(shape: Shape) -> Box:
    """All of a tensor."""
    return tuple(Places.run(0, max(0, size - 1)) for size in shape)


def clipped(box: Box, shape: Shape) -> Box | None:
    """The part of a box that lies inside the tensor; None if there is none."""
    found = []
    for places, size in zip(box, shape, strict=True):
        inside = places.inside(size)
        if inside is None:
            return None
        found.append(inside)
    return tuple(found)


def unequal(box: Box, out: Shape, into: Shape) -> Box:
    """The same box along axes of the same size, all of the others."""
    if len(out) != len(into):
        return full(into)
    return tuple(
        span if a == b else every for span, a, b, every in zip(box, out, into, full(into), strict=True)
    )


@dataclass(frozen=True)
class Pointwise:
    """Each value from the one at the same place; smaller inputs are broadcast."""

    note: str = ""

    def back(self, box: Box, out: Shape, into: Shape) -> Box | None:
        """The same place."""
        if len(into) > len(out):
            raise MisfitError
        spans = zip(box[len(out) - len(into) :], into, strict=True)
        return tuple(_ONE if size == 1 else span for span, size in spans)


@dataclass(frozen=True)
class Window:
    """A convolution or pooling: a window over the last axes.

    Attributes:
        kernel: its size along each of these axes.
        stride: likewise.
        padding: before the first value, likewise.
        dilation: likewise.
        dense: whether all channels, on the axis before these, go in.
        transposed: whether it goes the other way, as a transposed convolution does.
        note: as in `Reach`.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    dense: bool = True
    transposed: bool = False
    note: str = ""

    def back(self, box: Box, out: Shape, into: Shape) -> Box | None:
        """The windows of all values in the box."""
        lead = len(box) - len(self.kernel)
        if len(out) != len(into) or lead < 0:
            raise MisfitError
        before = list(box[:lead])
        if self.dense and before:
            before[-1] = full(into)[lead - 1]
        found: list[Places] = []
        for axis, places in enumerate(box[lead:]):
            read = self._upwards(axis, places) if self.transposed else self._downwards(axis, places)
            if read is None:
                return None
            found.append(read)
        return (*before, *found)

    def _downwards(self, axis: int, places: Places) -> Places:
        firsts = places.times(self.stride[axis]).shifted(-self.padding[axis])
        return firsts.plus_taps(self.kernel[axis], self.dilation[axis])

    def _upwards(self, axis: int, places: Places) -> Places | None:
        reach = self.dilation[axis] * (self.kernel[axis] - 1)
        written = places.shifted(self.padding[axis] - reach).plus_taps(self.kernel[axis], self.dilation[axis])
        return written.divided(self.stride[axis])


@dataclass(frozen=True)
class Shift:
    """Padding, by so many values before the first along each of the last axes."""

    before: tuple[int, ...]
    note: str = ""

    def back(self, box: Box, out: Shape, into: Shape) -> Box | None:
        """The same place, counted from the first value."""
        lead = len(box) - len(self.before)
        if len(out) != len(into) or lead < 0:
            raise MisfitError
        moved = (places.shifted(-by) for places, by in zip(box[lead:], self.before, strict=True))
        return (*box[:lead], *moved)


@dataclass(frozen=True)
class Adaptive:
    """Adaptive pooling over the last `n` axes."""

    n: int
    note: str = ""

    def back(self, box: Box, out: Shape, into: Shape) -> Box | None:
        """The windows that the sizes give."""
        if len(out) != len(into) or len(out) < self.n:
            raise MisfitError
        lead = len(out) - self.n
        triples = zip(box[lead:], out[lead:], into[lead:], strict=True)
        return (*box[:lead], *(_share(places, a, b) for places, a, b in triples))


@dataclass(frozen=True)
class Resize:
    """Interpolation over all axes behind batch and channels, in whatever ratio the sizes have."""

    mode: str
    align_corners: bool = False

    @property
    def note(self) -> str:
        """Only these two modes are followed to the value."""
        return "" if self.mode in _EXACT_MODES else f"{self.mode} interpolation"

    def back(self, box: Box, out: Shape, into: Shape) -> Box | None:
        """The values between which the box lies."""
        if len(out) != len(into):
            raise MisfitError
        pairs = zip(box[2:], out[2:], into[2:], strict=True)
        return (*box[:2], *(self._between(*pair) for pair in pairs))

    def _between(self, places: Places, out: int, into: int) -> Places:
        if self.mode == "nearest":
            return places.mapped(lambda at: (at * into // out, at * into // out))
        if self.mode == "area":
            return _share(places, out, into)
        # In whole numbers: `above / below` is where the value lies among those of the input.
        more = 1 if self.mode == "bicubic" else 0

        def span(at: int) -> tuple[int, int]:
            if self.align_corners:
                above, below = at * (into - 1), max(1, out - 1)
            else:
                above, below = max(0, (2 * at + 1) * into - out), 2 * out
            low = min(max(0, above // below - more), into - 1)
            return low, max(low, min(into - 1, -(-above // below) + more))

        return places.mapped(span)


_EXACT_MODES = ("nearest", "linear", "bilinear", "trilinear", "area")


@dataclass(frozen=True)
class Pixels:
    """Pixel shuffle by a whole factor; `up` False: the other way."""

    factor: int
    up: bool
    note: str = ""

    def back(self, box: Box, out: Shape, into: Shape) -> Box | None:
        """The places that a place is filled from, in all channels."""
        if len(out) != len(into) or len(out) < 3:
            raise MisfitError
        r = self.factor
        places = (
            one.mapped(lambda at: (at // r, at // r)) if self.up else one.times(r).plus_taps(r, 1)
            for one in box[-2:]
        )
        return (*box[:-3], full(into)[-3], *places)


@dataclass(frozen=True)
class Along:
    """Sees all values along some axes, and those at the same place otherwise."""

    axes: tuple[int, ...]
    note: str = ""

    def back(self, box: Box, out: Shape, into: Shape) -> Box | None:
        """All of these axes."""
        if len(out) != len(into):
            raise MisfitError
        wide = {axis % len(into) for axis in self.axes if -len(into) <= axis < len(into)}
        return tuple(
            every if axis in wide else span
            for axis, (span, every) in enumerate(zip(box, full(into), strict=True))
        )


@dataclass(frozen=True)
class Causal:
    """Sees all values up to its own along one axis, and all of the last: a recurrent layer."""

    axis: int
    note: str = ""

    def back(self, box: Box, out: Shape, into: Shape) -> Box | None:
        """Everything that came before."""
        if len(out) != len(into):
            raise MisfitError
        spans = list(box)
        axis = self.axis % len(into)
        spans[axis] = Places.run(0, box[axis].last)
        spans[-1] = full(into)[-1]
        return tuple(spans)


@dataclass(frozen=True)
class Reduce:
    """A sum, mean or maximum over some axes, which are gone afterwards or 1 long."""

    axes: tuple[int, ...] | None
    """None: over all."""
    note: str = ""

    def back(self, box: Box, out: Shape, into: Shape) -> Box | None:
        """All along these axes."""
        if self.axes is None:
            return full(into)
        gone = {axis % len(into) for axis in self.axes if -len(into) <= axis < len(into)}
        if len(out) not in (len(into), len(into) - len(gone)):
            raise MisfitError
        kept = len(out) == len(into)
        rest = iter([span for axis, span in enumerate(box) if not (kept and axis in gone)])
        return tuple(every if axis in gone else next(rest) for axis, every in enumerate(full(into)))


@dataclass(frozen=True)
class Permute:
    """Axes in another order: axis `i` of the output is axis `dims[i]` of the input."""

    dims: tuple[int, ...]
    note: str = ""

    def back(self, box: Box, out: Shape, into: Shape) -> Box | None:  # noqa: ARG002
        """The same spans in the order of the input."""
        if len(self.dims) != len(into) or len(box) != len(into):
            raise MisfitError
        spans = dict(zip((dim % len(into) for dim in self.dims), box, strict=True))
        if len(spans) != len(into):
            raise MisfitError
        return tuple(spans[axis] for axis in range(len(into)))


@dataclass(frozen=True)
class Index:
    """Basic indexing: for each axis of the input a number, or (start, step) of a slice; new axes are None."""

    items: tuple[int | tuple[int, int] | None, ...]
    note: str = ""

    def back(self, box: Box, out: Shape, into: Shape) -> Box | None:  # noqa: ARG002
        """Where the values of the box were."""
        spans: list[Places] = []
        rest = iter(box)
        for item in self.items:
            if isinstance(item, int):
                at = item % into[len(spans)]
                spans.append(Places.run(at, at))
                continue
            span = next(rest, None)
            if span is None:
                raise MisfitError
            if item is not None:
                start, step = item
                spans.append(span.times(step).shifted(start))
        spans += rest
        if len(spans) != len(into):
            raise MisfitError
        return tuple(spans)


@dataclass(frozen=True)
class Drop:
    """The output has one axis more, along which nothing differs: an embedding's features, a stack's items."""

    axis: int
    note: str = ""

    def back(self, box: Box, out: Shape, into: Shape) -> Box | None:
        """The same place without that axis."""
        if len(out) != len(into) + 1:
            raise MisfitError
        axis = self.axis % len(out)
        return (*box[:axis], *box[axis + 1 :])


@dataclass(frozen=True)
class Everything:
    """Sees all of its input, but for one axis if samples lie along it and do not meet."""

    note: str = ""
    keeps: int | None = None

    def back(self, box: Box, out: Shape, into: Shape) -> Box | None:
        """All of it."""
        found = list(full(into))
        axis = self.keeps
        if axis is not None and axis < min(len(out), len(into)) and out[axis] == into[axis]:
            found[axis] = box[axis]
        return tuple(found)


@dataclass(frozen=True)
class Reshape:
    """The same values in the same order, in another shape."""

    note: str = ""

    def back(self, box: Box, out: Shape, into: Shape) -> Box | None:
        """The least box around the same values."""
        if math.prod(out) != math.prod(into) or 0 in out:
            raise MisfitError
        box = clipped(box, out) or full(out)
        spans: list[Places] = []
        a = b = 0
        while a < len(out) or b < len(into):
            ends = (min(a + 1, len(out)), min(b + 1, len(into)))
            while (sizes := (math.prod(out[a : ends[0]]), math.prod(into[b : ends[1]])))[0] != sizes[1]:
                ends = (ends[0] + 1, ends[1]) if sizes[0] < sizes[1] else (ends[0], ends[1] + 1)
            spans += _regrouped(box[a : ends[0]], out[a : ends[0]], into[b : ends[1]])
            a, b = ends
        return tuple(spans)


def _regrouped(box: Box, out: Shape, into: Shape) -> Box:
    """Spans of some axes whose values are those of some other axes."""
    if tuple(size for size in out if size > 1) == tuple(size for size in into if size > 1):
        kept = iter(places for places, size in zip(box, out, strict=True) if size > 1)
        return tuple(next(kept) if size > 1 else _ONE for size in into)
    first = last = 0
    for places, size in zip(box, out, strict=True):
        first, last = first * size + places.first, last * size + places.last
    found: list[Places] = []
    left = math.prod(into)
    for axis, size in enumerate(into):
        left //= size
        low, high = first // left, last // left
        found.append(Places.run(low, high))
        if low != high:  # between two rows lie all columns
            return (*found, *full(into[axis + 1 :]))
        first, last = first % left, last % left
    return tuple(found)


def _share(places: Places, out: int, into: int) -> Places:
    """The window of each index where `into` values are shared out among `out`."""
    return places.mapped(lambda at: (at * into // out, -(-(at + 1) * into // out) - 1))


_ONE = Places.run(0, 0)
