"""What is seen of one sample of an input: a picture, by the user's mean, deviation and transform."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from nansense_widgets.media.inputs import InputConfig
from nansense_widgets.media.pool import mean_pool

__all__ = ["Ends", "InputLook", "Seen", "bytes_of", "numbers_of", "pooled_lines", "usual_ends"]

Floats = npt.NDArray[np.float64]

Ends = tuple[float, float]
"""What is black and what is white."""

_ROUNDING = 1e-3
"""What undoing a normalisation may leave beyond 0 and 1."""


@dataclass(frozen=True)
class Seen:
    """What is to be seen of a sample, before it is scaled.

    Attributes:
        values: (1 or 3, rows, columns).
        channels: of the input, that these are.
        transformed: whether the user's function made them, so that they are no channels of the input.
    """

    values: Floats
    channels: tuple[int, ...]
    transformed: bool


@dataclass
class InputLook:
    """How one input looks.

    Args:
        name: of the input.
        inputs: how the user wants inputs shown.
        about: what else to know of its pictures; sentences are added.
    """

    name: str
    inputs: InputConfig
    about: list[str] = field(default_factory=list)

    def see(self, sample: torch.Tensor, *, channel: int = -1, depth: int = -1) -> Seen:
        """A picture (C, H, W), or a slice of a volume (C, D, H, W).

        Args:
            sample: not written to.
            channel: the only one to see; -1: three, or the first.
            depth: the slice; -1: the middle one.
        """
        if sample.ndim == 4:
            sample = self._slice(sample, depth)
        one = 0 <= channel < len(sample)
        transform = None if one else self.inputs.transform_for(self.name)
        channels = self.channels(len(sample), channel)
        if transform is not None:
            try:
                return Seen(transformed(transform(sample.float().clone())), channels, True)
            except Exception as error:  # noqa: BLE001  the user's own function: shown without it
                self.say(f"input_transform failed: {type(error).__name__}: {error}")
        if one and len(sample) > 1:
            self.say(f"channel {channel} of {len(sample)}")
        scale, shift = self.undone(len(sample))
        first, last = channels[0], channels[-1] + 1
        values = numbers_of(sample[first:last])
        values = values * scale[first:last].reshape(-1, 1, 1) + shift[first:last].reshape(-1, 1, 1)
        if not one and (len(sample) == 2 or len(sample) > 3):
            self.say(f"first {'three' if len(sample) > 3 else 'one'} of {len(sample)} channels")
        return Seen(values, channels, False)

    def channels(self, total: int, channel: int = -1) -> tuple[int, ...]:
        """Channels of the input that a picture shows, of so many."""
        if 0 <= channel < total:
            return (channel,)
        return (0, 1, 2) if total > 2 else (0,)

    def undone(self, channels: int) -> tuple[Floats, Floats]:
        """Factor and summand for each channel that undo the user's normalisation, and says so."""
        mean, std = (self.inputs.numbers(which, self.name, channels) for which in ("mean", "std"))
        if mean is not None or std is not None:
            self.say("with input_mean and input_std undone")
        elif self.inputs.is_given("mean", self.name) or self.inputs.is_given("std", self.name):
            self.say(f"input_mean or input_std has not one value, nor {channels}: not undone")
        ones, zeros = np.ones(channels), np.zeros(channels)
        return ones if std is None else std, zeros if mean is None else mean

    def say(self, what: str) -> None:
        """Add a sentence, once."""
        if what not in self.about:
            self.about.append(what)

    def _slice(self, sample: torch.Tensor, depth: int) -> torch.Tensor:
        if 0 <= depth < sample.shape[1]:
            return sample[:, depth]
        self.say("the middle slice of each volume")
        return sample[:, sample.shape[1] // 2]


def transformed(result: object) -> Floats:
    """What the user's function gave, as a picture.

    Raises:
        ValueError: if it is none.
    """
    values = np.asarray(result.detach().cpu() if isinstance(result, torch.Tensor) else result)
    values = values[None] if values.ndim == 2 else values
    if values.ndim != 3 or len(values) not in (1, 3):
        raise ValueError(f"it gave the shape {values.shape}, not 1 or 3 channels of a picture")
    return values / 255.0 if values.dtype == np.uint8 else values.astype(np.float64)


def usual_ends(ends: Iterable[Ends], *, bytes_only: bool) -> tuple[Ends, bool]:
    """What is black and what is white, from least and largest values; whether that is as it usually is."""
    known = list(ends)
    if not known:
        return (0.0, 1.0), True
    low, high = min(low for low, _ in known), max(high for _, high in known)
    if low >= -_ROUNDING and high <= 1 + _ROUNDING:
        return (0.0, 1.0), True
    if bytes_only and low >= 0 and high <= 255:
        return (0.0, 255.0), True
    return (low, high), False


def bytes_of(values: Floats, ends: Ends, factor: int) -> npt.NDArray[np.uint8]:
    """A picture (1 or 3, rows, columns), made smaller by a factor, between black and white.

    Returns:
        Of shape (rows, columns), or (rows, columns, 3) for colours. NaN is black.
    """
    values = mean_pool(values, (factor, factor)).astype(np.float64)
    low, high = ends
    with np.errstate(over="ignore", invalid="ignore"):
        share = (values - low) / ((high - low) or 1.0)
    share = np.nan_to_num(share, nan=0.0, posinf=1.0, neginf=0.0)
    pixels = np.round(np.clip(share, 0, 1) * 255).astype(np.uint8)
    return np.ascontiguousarray(pixels.transpose(1, 2, 0) if len(pixels) == 3 else pixels[0])


def pooled_lines(lines: Floats, longest: int) -> tuple[npt.NDArray[np.float32], int]:
    """Lines (n, length) as means of so many values each that no line is longer; and how many those are."""
    factor = max(1, -(-lines.shape[1] // longest))
    return mean_pool(lines[None], (1, factor))[0].astype(np.float32), factor


def numbers_of(tensor: torch.Tensor) -> Floats:
    """Values in float64, of complex numbers the magnitudes."""
    values = tensor.abs() if tensor.is_complex() else tensor
    return values.double().numpy()
