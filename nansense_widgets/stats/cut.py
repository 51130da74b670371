"""Cuts patches out of a batch: where in the input the most extreme responses of a layer come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from nansense_widgets.capture.axes import Axes
from nansense_widgets.capture.receptive import ReceptiveField, ReceptiveFields
from nansense_widgets.stats.builder import GalleryBuilder
from nansense_widgets.stats.gallery import InputKind, Patch, Sample
from nansense_widgets.stats.ranking import Winner
from nansense_widgets.stats.responses import Responses
from nansense_widgets.stats.samples import PATCH_BYTES, PLACES, Ledger, compact, sample_of, shrunk

__all__ = ["FULL", "Chosen", "Cutter", "Source"]

Chosen = tuple[str, int, Winner]
"""`pixel` or `average`; 1: among the largest, -1: among the smallest; which response."""

FULL = f"patches are missing: those of this session take {PATCH_BYTES // 2**20} MiB, which is the limit"


@dataclass(frozen=True)
class Source:
    """The input that a layer's patches are cut from."""

    name: str
    tensor: torch.Tensor
    original: torch.Tensor | None
    """The loop's own tensor, where `tensor` is a copy of it."""
    axes: Axes | None
    kind: InputKind
    samples: int


class Cutter:
    """Cuts the patches of one call of one layer."""

    def __init__(
        self, ledger: Ledger, source: Source, responses: Responses, fields: ReceptiveFields, call: int
    ) -> None:
        self._ledger = ledger
        self._source = source
        self._responses = responses
        self._fields = fields
        self._call = call
        self._crops: dict[tuple[int, tuple[tuple[int, int], ...]], tuple[torch.Tensor, int]] = {}

    def cut(
        self, builder: GalleryBuilder, chosen: Sequence[Chosen], sample_at: Callable[[int], Sample | None]
    ) -> None:
        """Add a patch for each chosen response; `sample_at` gives a sample of the batch, or None: no room."""
        places = sorted({(winner.sample, winner.channel) for _, _, winner in chosen})
        maps = self._responses.maps([b for b, _ in places], [c for _, c in places])
        rows = {place: maps[i] for i, place in enumerate(places)}
        heats: dict[tuple[int, int], torch.Tensor | None] = {}
        samples: dict[int, Sample | None] = {}
        for by, sign, winner in chosen:
            at = (winner.sample, winner.channel)
            if winner.sample not in samples:
                samples[winner.sample] = sample_at(winner.sample)
            sample = samples[winner.sample]
            if sample is None or not self._ledger.has_room_for(maps[0].nbytes):
                builder.note = FULL
                continue
            if at not in heats:
                heats[at] = self._heat(rows[at])
            position: tuple[int, ...] = ()
            if by == "pixel":
                position = self._responses.place(rows[at], largest=sign > 0)
            field = self._field(position, sample, whole=by != "pixel")
            crop, pool = self._crop(sample, winner.sample, field)
            patch = Patch(
                winner.value, position, self._call, sample, field.box, field.extent, field.approximated,
                heats[at], crop, pool,
            )  # fmt: skip
            builder.add(by, sign, winner.channel, patch)

    def _heat(self, row: torch.Tensor) -> torch.Tensor | None:
        places = self._responses.places
        return self._ledger.enter(compact(row.reshape(places), exact=False)) if places else None

    def _field(self, position: tuple[int, ...], sample: Sample, *, whole: bool) -> ReceptiveField:
        sizes = sample.shape[1:] if self._source.kind != "tokens" else sample.shape
        everything = tuple((0, size) for size in sizes)
        why = ""
        if not whole and self._fields.shape is None:
            why = "the model's forward has not been traced yet"
        elif not whole and self._fields.places != self._responses.places:
            why = "the traced batch had another size"
        elif not whole:
            for field in self._fields.at(position):
                if field.input == self._source.name and len(field.box) == len(sizes):
                    inside = all(stop <= size for (_, stop), size in zip(field.box, sizes, strict=True))
                    if inside:
                        return field
                    why = "the traced batch had another size"
        return ReceptiveField(self._source.name, everything, everything, why)

    def _crop(self, sample: Sample, index: int, field: ReceptiveField) -> tuple[torch.Tensor | None, int]:
        """The values of the field at their own resolution, where the sample is kept at a lower one."""
        if sample.pool == 1 or self._source.kind not in PLACES:
            return None, 1
        sizes = sample.shape[1:]
        if all((start, stop) == (0, size) for (start, stop), size in zip(field.box, sizes, strict=True)):
            return None, 1
        key = (index, field.box)
        if key not in self._crops:
            values = sample_of(self._source.tensor, self._source.axes, self._source.kind, index)
            for axis, (start, stop) in enumerate(field.box, start=1):
                values = values.narrow(axis, start, stop - start)
            small, pool = shrunk(values)
            self._crops[key] = (self._ledger.enter(compact(small, exact=pool == 1)), pool)
        return self._crops[key]
