"""Changes of an input, or of a layer's output, in a probe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from nansense_widgets.capture.axes import Axes

__all__ = ["Index", "Perturbation", "SplitAxes", "samples_places_channels", "split_axes"]

Index = tuple[int | tuple[int, ...], ...]


@dataclass(frozen=True)
class Perturbation:
    """One change. Exactly one of `values`, `scale`, `noise` and `original` says what happens at its place.

    Attributes:
        number: counts the perturbations of a session, from 0.
        target: name of an input, or of a layer.
        is_layer: whether it is a layer, whose output is changed.
        sample: index in the batch; None: all samples.
        index: places along each axis that is neither batch nor channel, an int or several an axis; of a
            sample that has channels only (features), along those. None: everywhere.
        channel: index of a channel, or several; None: all of them.
        values: put in place: one, or one for each channel.
        scale: factor.
        noise: standard deviation of Gaussian noise that is added.
        seed: of that noise.
        original: what was there before any change is put back.
    """

    number: int
    target: str
    is_layer: bool = False
    sample: int | None = None
    index: Index | None = None
    channel: tuple[int, ...] | None = None
    values: tuple[float, ...] | None = None
    scale: float | None = None
    noise: float | None = None
    seed: int = 0
    original: bool = False

    @property
    def text(self) -> str:
        """The call that makes it."""
        if self.is_layer:
            shown: list[str] = [repr(self.target), f"channel={_one(self.channel)}"]
            name = "ablate"
        else:
            shown = [repr(self.target)]
            name = "add_perturbation"
            if self.channel is not None:
                shown.append(f"channel={_one(self.channel)}")
        if self.sample is not None:
            shown.append(f"sample={self.sample}")
        if self.index is not None:
            shown.append(f"index={tuple(map(_one, self.index))}")
        if self.values is not None:
            word = "value" if self.is_layer else "values"
            shown.append(f"{word}={_one(self.values)}")
        if self.scale is not None:
            shown.append(f"scale={self.scale:g}")
        if self.noise is not None:
            shown.append(f"noise={self.noise:g}")
            if self.seed:
                shown.append(f"seed={self.seed}")
        if self.original:
            shown.append("original=True")
        return f"session.{name}({', '.join(shown)})"

    def apply(self, tensor: torch.Tensor, axes: Axes | None, original: torch.Tensor) -> None:
        """Change a tensor in place, which has to be our own; `original` is what it was before any change.

        Raises:
            ValueError: if it does not fit the tensor's shape, saying what does.
        """
        view = samples_places_channels(tensor, axes)
        place = self._place(view.shape, split_axes(tensor.ndim, axes))
        chosen = view[place]
        if self.scale is not None:
            view[place] = (chosen * self.scale).to(tensor.dtype)
        elif self.noise is not None:
            drawn = torch.randn(chosen.shape, generator=torch.Generator().manual_seed(self.seed)) * self.noise
            view[place] = (chosen + drawn.to(chosen.device)).to(tensor.dtype)
        elif self.original:
            view[place] = samples_places_channels(original, axes)[place]
        elif self.values is not None:
            view[place] = torch.tensor(self.values, dtype=torch.float64).to(tensor.device, tensor.dtype)

    def where(self, shape: tuple[int, ...], axes: Axes | None) -> torch.Tensor:
        """The values of a tensor of this shape that it changes: True there.

        Raises `ValueError` as `apply`.
        """
        mask = torch.zeros(shape, dtype=torch.bool)
        view = samples_places_channels(mask, axes)
        view[self._place(view.shape, split_axes(len(shape), axes))] = True
        return mask

    def check(self, shape: tuple[int, ...], axes: Axes | None) -> None:
        """Raises `ValueError` as `apply`."""
        self.where(shape, axes)

    def _place(self, shape: torch.Size, split: SplitAxes) -> tuple[Any, ...]:
        """Its place in `samples_places_channels`: the last axis of what it selects is the channel's."""
        samples = slice(None)
        if self.sample is not None:
            if split.batch is None:
                raise ValueError(f"sample={self.sample} must be None: {self.target} has no batch axis")
            at = _checked("sample", self.sample, shape[0], self.target)
            samples = slice(at, at + 1)
        channels, index = self.channel, self.index
        if channels is not None and split.channel is None:
            raise ValueError(f"channel={_one(channels)} must be None: {self.target} has no channel axis")
        if index is not None and not split.others and split.channel is not None:  # features
            if channels is not None or len(index) != 1:
                raise ValueError(
                    f"index={index!r} must have one entry, of features, and no channel beside it"
                )
            channels, index = _several(index[0]), None
        own = None
        if channels is not None:
            own = torch.tensor([_checked("channel", one, shape[-1], self.target) for one in channels])
        count = shape[-1] if own is None else len(own)
        if self.values is not None and len(self.values) not in (1, count):
            raise ValueError(f"values={self.values!r} must be one number, or {count}: one for each channel")
        if index is None:
            return (samples, *(slice(None) for _ in split.others), slice(None) if own is None else own)
        sizes = shape[1:-1]
        if len(index) != len(sizes):
            raise ValueError(f"index={index!r} must have {len(sizes)} entries, for places in {tuple(sizes)}")
        entries = [
            [_checked("index", one, size, self.target) for one in _several(entry)]
            for entry, size in zip(index, sizes, strict=True)
        ]
        lengths = {len(entry) for entry in entries} - {1}
        if len(lengths) > 1:
            raise ValueError(f"index={index!r} must have as many places along each axis")
        # Places one after the other; each with all of the channels.
        places = [torch.tensor(entry)[:, None] for entry in entries]
        return (samples, *places, (torch.arange(shape[-1]) if own is None else own)[None])


class SplitAxes(NamedTuple):
    """Batch axis, channel axis, and the others."""

    batch: int | None
    channel: int | None
    others: tuple[int, ...]


def split_axes(ndim: int, axes: Axes | None) -> SplitAxes:
    """What the axes of a tensor are; where nothing is known, first the batch and then the channels."""
    batch = (0 if ndim else None) if axes is None else axes.batch
    channel = (1 if ndim > 1 else None) if axes is None else axes.channel
    batch = None if batch is None or not -ndim <= batch < ndim else batch % ndim
    channel = None if channel is None or not -ndim <= channel < ndim else channel % ndim
    return SplitAxes(batch, channel, tuple(axis for axis in range(ndim) if axis not in (batch, channel)))


def samples_places_channels(tensor: torch.Tensor, axes: Axes | None) -> torch.Tensor:
    """A view of a tensor with the batch first and the channels last, each of size 1 where there is none."""
    split = split_axes(tensor.ndim, axes)
    order = [axis for axis in (split.batch, *split.others, split.channel) if axis is not None]
    view = tensor.permute(order)
    view = view if split.batch is not None else view[None]
    return view if split.channel is not None else view[..., None]


def _checked(what: str, value: int, size: int, target: str) -> int:
    if not -size <= value < size:
        raise ValueError(f"{what}={value} is out of range: {target} has {size} there")
    return value % size


def _several(entry: int | tuple[int, ...]) -> tuple[int, ...]:
    return (entry,) if isinstance(entry, int) else entry


def _one(values: Any) -> Any:
    if isinstance(values, tuple):
        return values[0] if len(values) == 1 else list(values)
    return values
