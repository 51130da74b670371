"""Cuts patches out of a batch: where in the input the most extreme responses of a layer come from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from nansense_widgets.capture.axes import Axes
from nansense_widgets.capture.receptive import ReceptiveField, ReceptiveFields
from nansense_widgets.stats.gallery import InputKind, Patch, Sample
from nansense_widgets.stats.ranking import Winner
from nansense_widgets.stats.responses import Responses
from nansense_widgets.stats.samples import PLACES, Ledger, compact, sample_of, shrunk

__all__ = ["Chosen", "Cutter", "Cutting", "Source", "field_at"]

Chosen = tuple[str, int, Winner]
"""`pixel` or `average`; 1: among the largest, -1: among the smallest; which response."""


@dataclass(frozen=True)
class Source:
    """The input that a layer's patches are cut from."""

    name: str
    tensor: torch.Tensor
    axes: Axes | None
    kind: InputKind
    samples: int


class Cutting:
    """A patch to be: what has to be taken while the batch is there. The rest is worked out when asked for.

    In the first batches of an epoch there are thousands, and few stay.
    """

    __slots__ = ("_cutter", "_patch", "crop", "heat", "key", "place", "sample", "value")

    def __init__(
        self, cutter: Cutter, value: float, place: int | None, sample: Sample, heat: torch.Tensor | None
    ) -> None:
        self.value = value
        self.key = sample.key
        self.place = place
        self.sample = sample
        self.heat = heat
        self.crop: tuple[torch.Tensor, int] | None = None
        self._cutter = cutter
        self._patch: Patch | None = None

    def patch(self) -> Patch:
        """The patch, the same each time."""
        if self._patch is None:
            self._patch = self._cutter.patch_of(self)
        return self._patch


class Cutter:
    """Cuts the patches of one call of one layer. It outlives the batch, and keeps nothing of it."""

    def __init__(self, source: Source, places: tuple[int, ...], fields: ReceptiveFields, call: int) -> None:
        self._input = source.name
        self._kind = source.kind
        self._places = places
        self._fields = fields
        self._call = call

    def cut(
        self,
        chosen: Sequence[Chosen],
        source: Source,
        responses: Responses,
        ledger: Ledger,
        sample_at: Callable[[int], Sample | None],
    ) -> list[tuple[str, int, int, Cutting]]:
        """What was chosen, as far as there is room for it: `by`, sign, channel and the patch to be.

        Args:
            chosen: some of the responses.
            source: the input of this batch.
            responses: of this batch.
            ledger: counts what is kept.
            sample_at: gives a sample of the batch, or None: no room.
        """
        rows = {at: i for i, at in enumerate(sorted({(one.sample, one.channel) for _, _, one in chosen}))}
        maps = responses.maps([b for b, _ in rows], [c for _, c in rows])
        highest, lowest = responses.extreme_places(maps)
        heats = _halved(maps).reshape(len(maps), *self._places) if self._places else None
        crops: dict[object, tuple[torch.Tensor, int]] = {}
        samples: dict[int, Sample | None] = {}
        kept: dict[int, torch.Tensor] = {}
        found: list[tuple[str, int, int, Cutting]] = []
        for by, sign, winner in chosen:
            if winner.sample not in samples:
                samples[winner.sample] = sample_at(winner.sample)
            sample = samples[winner.sample]
            if sample is None or not ledger.has_room_for(0 if heats is None else heats[0].nbytes):
                continue
            row = rows[(winner.sample, winner.channel)]
            if heats is not None and row not in kept:
                kept[row] = ledger.enter(heats[row].clone())
            place = None
            if by == "pixel":
                place = highest[row] if sign > 0 else lowest[row]
            cutting = Cutting(self, winner.value, place, sample, kept.get(row))
            if sample.pool > 1 and place is not None and self._kind in PLACES:
                cutting.crop = self._crop(cutting, winner.sample, source, ledger, crops)
            found.append((by, sign, winner.channel, cutting))
        return found

    def patch_of(self, cutting: Cutting) -> Patch:
        """All that is known of a patch."""
        position = self._position(cutting)
        locate = functools.partial(self._field, position, cutting.sample, whole=cutting.place is None)
        crop, pool = cutting.crop or (None, 1)
        return Patch(cutting.value, position, self._call, cutting.sample, locate, cutting.heat, crop, pool)

    def _position(self, cutting: Cutting) -> tuple[int, ...]:
        left = cutting.place
        if left is None:
            return ()
        position: list[int] = []
        for size in reversed(self._places):
            left, at = divmod(left, size)
            position.append(at)
        return tuple(reversed(position))

    def _field(self, position: tuple[int, ...], sample: Sample, *, whole: bool) -> ReceptiveField:
        fields = None if whole else self._fields
        return field_at(position, sample, self._places, fields, self._input, self._kind)

    def _crop(
        self,
        cutting: Cutting,
        index: int,
        source: Source,
        ledger: Ledger,
        crops: dict[object, tuple[torch.Tensor, int]],
    ) -> tuple[torch.Tensor, int] | None:
        """The values of the field at their own resolution, where the sample is kept at a lower one."""
        box = self._field(self._position(cutting), cutting.sample, whole=False).box
        sizes = cutting.sample.shape[1:]
        if all((start, stop) == (0, size) for (start, stop), size in zip(box, sizes, strict=True)):
            return None
        key = (index, box)
        if key not in crops:
            values = sample_of(source.tensor, source.axes, source.kind, index)
            for axis, (start, stop) in enumerate(box, start=1):
                values = values.narrow(axis, start, stop - start)
            small, pool = shrunk(values)
            crops[key] = (ledger.enter(compact(small, exact=pool == 1)), pool)
        return crops[key]


def field_at(
    position: tuple[int, ...],
    sample: Sample,
    places: tuple[int, ...],
    fields: ReceptiveFields | None,
    name: str,
    kind: InputKind,
) -> ReceptiveField:
    """The part of a sample that a unit of a layer looks at.

    Args:
        position: of the unit, in the axes of the layer's output behind batch and channel.
        sample: of the input `name`, which is of this `kind`.
        places: sizes of those axes.
        fields: of the call of the layer; None: all of the sample is meant.
        name: of the input.
        kind: of the input.
    """
    sizes = sample.shape if kind == "tokens" else sample.shape[1:]
    everything = tuple((0, size) for size in sizes)
    why = ""
    if fields is not None and fields.shape is None:
        why = "the model's forward has not been traced yet"
    elif fields is not None and fields.places != places:
        why = "the traced batch had another size"
    elif fields is not None:
        try:
            found = fields.at(position)
        except Exception as error:
            found, why = (), f"{type(error).__name__}: {error}"
        for field in found:
            if field.input == name and len(field.box) == len(sizes):
                if fields.sizes(name) == tuple(sizes):
                    return field
                why = "the traced batch had another size"
    return ReceptiveField(name, everything, everything, why)


def _halved(maps: torch.Tensor) -> torch.Tensor:
    """Rounded to float16, if that can hold them."""
    if maps.dtype not in (torch.float32, torch.float64):
        return maps
    half = maps.half()
    return half if bool((half.isfinite() == maps.isfinite()).all()) else maps
