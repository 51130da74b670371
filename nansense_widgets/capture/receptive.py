"""The theoretical receptive field of a layer's value, from the way that values went in traced forwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from nansense_widgets.capture.places import Places
from nansense_widgets.capture.reach import Box, MisfitError, Reach, Shape, clipped, full, unequal

if TYPE_CHECKING:
    from nansense_widgets.capture.architecture import Architecture

__all__ = ["Call", "ReceptiveField", "ReceptiveFields", "Step", "spatial_axes"]


class Call(NamedTuple):
    """One call of a layer in a batch, counted from 1."""

    layer: str
    number: int


@dataclass(frozen=True)
class Step:
    """What one call of a layer did in the last traced batch that had it.

    Attributes:
        shape: of its first output.
        sources: calls whose outputs it read, over all traced batches.
        reach: how it looks back at them; None: not known.
    """

    shape: Shape
    sources: frozenset[Call]
    reach: Reach | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ReceptiveField:
    """The part of one model input that one value of a layer is computed from.

    Attributes:
        input: name of the input.
        box: first row and the one behind the last, first column and …: for each axis that is neither batch
            nor channel; inside the input.
        extent: the same as if the input went on beyond its borders: the difference is padding.
        approximated: why it is not exact (then it is an upper bound or a guess); else empty.
    """

    input: str
    box: tuple[tuple[int, int], ...]
    extent: tuple[tuple[int, int], ...]
    approximated: str = ""

    @property
    def size(self) -> tuple[int, ...]:
        """Rows, columns, … with those that lie in the padding."""
        return tuple(stop - start for start, stop in self.extent)


CYCLE = "one layer is called too often to follow its calls"


class ReceptiveFields:
    """The receptive fields of one call of one layer.

    Theory says what *can* have an influence: weights that are zero and units that are off still count.

    Args:
        architecture: as traced so far.
        layer: its name.
        call: which call of it in a batch, from 1.
    """

    def __init__(self, architecture: Architecture, layer: str, call: int = 1) -> None:
        self._architecture = architecture
        self._circular = False
        self._leads_to_input: set[Call] = set()
        self._start = self._found(Call(layer, call))
        self._order = [] if self._start is None else self._backwards(self._start)
        self._known: dict[tuple[int, ...], tuple[ReceptiveField, ...]] = {}
        self._kept: dict[str, bool] = {}

    @property
    def inputs(self) -> tuple[str, ...]:
        """Inputs of the model that the layer depends on, in their order."""
        found = {call.layer for call in self._order if self._is_input(call)}
        return tuple(name for name in self._architecture.nodes if name in found)

    @property
    def shape(self) -> Shape | None:
        """Of the layer's output as traced; None if it was not."""
        return None if self._start is None else self._architecture.steps[self._start].shape

    @property
    def places(self) -> Shape:
        """Sizes of its axes that are neither batch nor channel, as traced."""
        if self._start is None:
            return ()
        shape = self._architecture.steps[self._start].shape
        return tuple(shape[axis] for axis in spatial_axes(self._architecture, self._start.layer, shape))

    def sizes(self, name: str) -> Shape:
        """Sizes of an input's axes that are neither batch nor channel, as traced; empty if it was not."""
        steps = self._architecture.steps
        shape = next((steps[call].shape for call in self._order if call.layer == name), None)
        if shape is None:
            return ()
        return tuple(shape[axis] for axis in spatial_axes(self._architecture, name, shape))

    def keeps_samples(self, name: str) -> bool:
        """Whether a sample of the layer's output is computed from the same sample of an input, and no other.

        What is not known to move samples (torch's functions that index, sort, flip, join, turn or reshape
        the axis of the batch) is taken to leave them in their places.
        """
        if name not in self._kept:
            self._kept[name] = self._keeps_samples(name)
        return self._kept[name]

    def _keeps_samples(self, name: str) -> bool:
        if self._start is None or self._circular:
            return False
        steps = self._architecture.steps
        shape = steps[self._start].shape
        into = next((steps[call].shape for call in self._order if call.layer == name), None)
        batch, theirs = self._batch_axis(self._start.layer, shape), None
        if into is not None:
            theirs = self._batch_axis(name, into)
        if into is None or batch is None or theirs is None or len(shape) <= batch or len(into) <= theirs:
            return False
        size = shape[batch]
        # Some that no order but their own leaves in place.
        for sample in {1 % size, size // 2, max(size - 2, 0), size - 1}:
            start = list(full(shape))
            start[batch] = Places.run(sample, sample)
            found = self._walk(tuple(start), {}, inside=True).get(name)
            if found is None or found[theirs] != start[batch]:
                return False
        return True

    def _batch_axis(self, layer: str, shape: Shape) -> int | None:
        node = self._architecture.nodes[layer]
        path = node.output_paths[0] if node.output_paths else ""
        known = self._architecture.axes(layer, path, len(shape))
        return 0 if known is None else known.batch

    def at(self, position: tuple[int, ...]) -> tuple[ReceptiveField, ...]:
        """One for each input that the value at a position depends on.

        Args:
            position: index along each axis of the output that is neither batch nor channel.

        Raises:
            ValueError: if the layer was not traced, or its output has not these axes.
        """
        if position not in self._known:
            self._known[position] = self._computed(position)
        return self._known[position]

    def _computed(self, position: tuple[int, ...]) -> tuple[ReceptiveField, ...]:
        if self._start is None:
            raise ValueError("this layer has not been traced yet: its receptive field is not known")
        start = self._box(self._start, position)
        if self._circular:
            whole = {call.layer: full(self._architecture.steps[call].shape) for call in self._order}
            return tuple(self._field(name, whole[name], whole[name], {CYCLE: None}) for name in self.inputs)
        notes: dict[str, None] = {}
        inside = self._walk(start, notes, inside=True)
        extent = self._walk(start, {}, inside=False)
        return tuple(
            self._field(name, inside[name], extent[name], notes) for name in self.inputs if name in inside
        )

    def _box(self, call: Call, position: tuple[int, ...]) -> Box:
        """The value at a position, in the first sample and all channels."""
        shape = self._architecture.steps[call].shape
        axes = spatial_axes(self._architecture, call.layer, shape)
        if len(axes) != len(position) or any(
            not 0 <= at < shape[axis] for at, axis in zip(position, axes, strict=True)
        ):
            sizes = " x ".join(str(shape[axis]) for axis in axes) or "none"
            raise ValueError(
                f"position={position!r} must lie in the axes that are no batch or channel: {sizes}"
            )
        node = self._architecture.nodes[call.layer]
        known = self._architecture.axes(
            call.layer, node.output_paths[0] if node.output_paths else "", len(shape)
        )
        start = list(full(shape))
        batch = 0 if known is None else known.batch
        if batch is not None and start:
            start[batch] = Places.run(0, 0)
        for at, axis in zip(position, axes, strict=True):
            start[axis] = Places.run(at, at)
        return tuple(start)

    def _walk(self, start: Box, notes: dict[str, None], *, inside: bool) -> dict[str, Box]:
        """Boxes of the inputs; outputs come before what they are computed from."""
        steps = self._architecture.steps
        boxes: dict[Call, Box] = {self._order[0]: start}
        found: dict[str, Box] = {}
        for call in self._order:
            box = boxes.pop(call, None)
            if box is None:
                continue
            step = steps[call]
            if self._is_input(call):
                found[call.layer] = _union(found.get(call.layer), box)
            for source in step.sources & self._leads_to_input:
                into = steps[source].shape
                back = self._back(call, step, box, into, notes)
                if back is not None and inside:
                    back = clipped(back, into)
                if back is not None:
                    boxes[source] = _union(boxes.get(source), back)
        return found

    def _back(self, call: Call, step: Step, box: Box, into: Shape, notes: dict[str, None]) -> Box | None:
        node = self._architecture.nodes[call.layer]
        reach = step.reach or node.reach
        if reach is not None:
            try:
                back = reach.back(box, step.shape, into)
            except MisfitError:
                pass
            else:
                if reach.note:
                    notes.setdefault(reach.note)
                return back
        if step.shape == into:
            notes.setdefault(f"{node.cls} is taken as pointwise")
            return box
        notes.setdefault(f"{node.cls} is taken to see all along axes whose size it changes")
        return unequal(box, step.shape, into)

    def _field(self, name: str, box: Box, extent: Box, notes: dict[str, None]) -> ReceptiveField:
        shape = next(self._architecture.steps[call].shape for call in self._order if call.layer == name)
        axes = spatial_axes(self._architecture, name, shape)
        return ReceptiveField(
            name,
            tuple((box[axis].first, box[axis].last + 1) for axis in axes),
            tuple((extent[axis].first, extent[axis].last + 1) for axis in axes),
            "; ".join(notes),
        )

    def _found(self, call: Call) -> Call | None:
        """The call, or where the traced batch had fewer of them, the one that it repeats."""
        steps = self._architecture.steps
        if call in steps:
            return call
        calls = max((known.number for known in steps if known.layer == call.layer), default=0)
        return Call(call.layer, (call.number - 1) % calls + 1) if calls else None

    def _backwards(self, start: Call) -> list[Call]:
        """The calls that the start depends on, each before those that it reads."""
        steps = self._architecture.steps
        order: list[Call] = []
        state: dict[Call, bool] = {}
        """Whether all that a call reads has been gone through."""
        stack = [start]
        while stack:
            call = stack[-1]
            if call not in state:
                state[call] = False
                for source in steps[call].sources:
                    if source in steps and source not in state:
                        stack.append(source)
                    elif state.get(source) is False:
                        self._circular = True
                continue
            stack.pop()
            if not state[call]:
                state[call] = True
                order.append(call)
                if self._is_input(call) or not self._leads_to_input.isdisjoint(steps[call].sources):
                    self._leads_to_input.add(call)
        return order[::-1]

    def _is_input(self, call: Call) -> bool:
        return self._architecture.nodes[call.layer].kind == "input"


def spatial_axes(architecture: Architecture, layer: str, shape: Shape) -> tuple[int, ...]:
    """Axes of a layer's first output that are neither batch nor channel.

    Where nothing tells them, the first is presumed to be the batch and the second the channel.
    """
    node = architecture.nodes[layer]
    axes = architecture.axes(layer, node.output_paths[0] if node.output_paths else "", len(shape))
    channel, batch = (1, 0) if axes is None else (axes.channel, axes.batch)
    taken = {axis % len(shape) for axis in (channel, batch) if axis is not None and len(shape)}
    return tuple(axis for axis in range(len(shape)) if axis not in taken)


def _union(one: Box | None, other: Box) -> Box:
    if one is None:
        return other
    return tuple(a | b for a, b in zip(one, other, strict=True))
