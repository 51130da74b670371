"""Extreme patches at one moment: what drove each channel to its largest and smallest responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch

from nansense_widgets.capture.receptive import ReceptiveField

__all__ = ["ChannelExtremes", "Gallery", "InputKind", "Patch", "Sample"]

InputKind = Literal["picture", "signal", "volume", "features", "tokens"]
"""What one sample of an input is: by its axes behind the channels, or ids of tokens."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One sample of a batch, kept once for all patches from it.

    Attributes:
        phase: of its batch, as the next two.
        epoch: counted from 0.
        batch_idx: counted from 0.
        index: its place in the batch, from 0.
        forward: which call of the model in that batch saw it, from 1.
        dataset_index: its place in the loader's dataset, if the loader goes through that in order; else None.
        label: the whole number that the batch gives for it beside the input; None if there is none.
        label_name: e.g. `target`, or its key in the batch.
        shape: of the sample as the model got it.
        values: on the CPU: channels first, then rows, columns, … (one channel is added where there is none);
            token ids have shape (tokens,). float16 where that is exact, or where it is pooled.
        pool: so many values along each axis behind the channels were averaged into one; 1: exact.
    """

    phase: str
    epoch: int
    batch_idx: int
    index: int
    forward: int
    dataset_index: int | None
    label: int | None
    label_name: str
    shape: tuple[int, ...]
    values: torch.Tensor = field(repr=False)
    pool: int = 1

    @property
    def key(self) -> tuple[int, int, int]:
        """Which sample of its phase and epoch it is: batch, call of the model, place in the batch."""
        return self.batch_idx, self.forward, self.index


@dataclass(frozen=True, eq=False)
class Patch:
    """One sample's extreme response in one channel.

    Attributes:
        value: the response: of one unit, or the mean over all of the sample.
        position: of that unit in the axes of the layer's output behind batch and channel; () for a mean.
        call: which call of the layer in the batch, from 1.
        sample: where it comes from.
        locate: works out `receptive_field`.
        heat: the channel's whole response to this sample, (rows, columns) or what the layer has; rounded to
            float16 where that can hold it. None for one number.
        crop: the values of `box`, if they are not simply cut out of `sample`; see `cut`.
        crop_pool: as `Sample.pool`, of `crop`.
    """

    value: float
    position: tuple[int, ...]
    call: int
    sample: Sample
    locate: Callable[[], ReceptiveField] = field(repr=False)
    heat: torch.Tensor | None = field(default=None, repr=False)
    crop: torch.Tensor | None = field(default=None, repr=False)
    crop_pool: int = 1

    @property
    def receptive_field(self) -> ReceptiveField:
        """The unit's, in the sample; for a mean, all of it. Worked out when asked for."""
        return self.locate()

    @property
    def box(self) -> tuple[tuple[int, int], ...]:
        """The part of the sample that is shown: first row and the one behind the last, first column and …"""
        return self.receptive_field.box

    @property
    def is_whole(self) -> bool:
        """Whether `box` is all of the sample."""
        box = self.box
        sizes = self.sample.shape[len(self.sample.shape) - len(box) :]
        return all(span == (0, size) for span, size in zip(box, sizes, strict=True))

    def cut(self) -> tuple[torch.Tensor, int]:
        """The values of `box`, channels first, and how many were averaged into one along each axis."""
        if self.crop is not None:
            return self.crop, self.crop_pool
        values = self.sample.values
        if self.sample.pool > 1:
            return values, self.sample.pool
        box = self.box
        for axis, (start, stop) in enumerate(box, start=values.ndim - len(box)):
            values = values.narrow(axis, start, stop - start)
        return values, 1


@dataclass(frozen=True)
class ChannelExtremes:
    """Patches of one channel, each sample at most once: the strongest first, of equal ones the earliest."""

    largest: tuple[Patch, ...] = ()
    smallest: tuple[Patch, ...] = ()


@dataclass(frozen=True)
class Gallery:
    """Extreme patches of one layer in one phase of one epoch.

    Attributes:
        input: the model's input that the patches are cut from; empty if there is no gallery, see `note`.
        kind: what a sample of it is.
        channels: channels of the layer.
        pixel: for each of the first channels, by the response of the single most extreme unit.
        average: by the mean response over the sample; empty where a layer has one unit a channel and sample,
            or if it is not collected.
        samples: patches kept at each end.
        nan: responses of these channels that were NaN, and so passed over.
        note: why there is no gallery, or not all; else empty.
    """

    input: str = ""
    kind: InputKind = "picture"
    channels: int = 0
    pixel: tuple[ChannelExtremes, ...] = ()
    average: tuple[ChannelExtremes, ...] = ()
    samples: int = 0
    nan: int = 0
    note: str = ""

    def __iter__(self) -> Iterator[Patch]:
        """All patches."""
        for channel in (*self.pixel, *self.average):
            yield from channel.largest
            yield from channel.smallest

    @property
    def nbytes(self) -> int:
        """Bytes of all values; what several patches share counts once."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors().values())

    def tensors(self) -> dict[int, torch.Tensor]:
        """All tensors by `id`. Galleries of one session share samples."""
        found = (tensor for patch in self for tensor in (patch.sample.values, patch.heat, patch.crop))
        return {id(tensor): tensor for tensor in found if tensor is not None}
