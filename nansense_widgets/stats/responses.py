"""Responses of one layer to a batch: extremes and means by sample and channel, whole maps of a few."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from nansense_widgets.capture.axes import Axes
from nansense_widgets.stats.summary import as_numbers

__all__ = ["Responses"]

_DIRECT = frozenset(
    {torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8}
    | {torch.int8, torch.int16, torch.int32, torch.int64}
)
"""Compared as they are; others in the float that holds them."""

Table = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Responses:
    """Of shape (samples, channels), on the CPU; NaN where a sample has no number.

    Attributes:
        high: largest value over the places of a channel.
        low: smallest one.
        mean: over the places; None where there is only one.
        nan: values that are NaN.
        places: sizes of the axes behind batch and channel.
        values: (samples, channels, places), on the layer's device.
    """

    high: Table
    low: Table
    mean: Table | None
    nan: int
    places: tuple[int, ...]
    values: torch.Tensor

    @staticmethod
    def of(tensor: torch.Tensor, axes: Axes, limit: int, *, averages: bool) -> Responses:
        """Of the first `limit` channels of a tensor. On a GPU this waits for it, once."""
        values = _samples_first(tensor.detach(), axes, limit)
        places = tuple(values.shape[2:])
        flat = _comparable(values).flatten(2) if places else _comparable(values).unsqueeze(2)
        if flat.shape[2] == 0:
            empty = np.full(tuple(flat.shape[:2]), np.nan)
            return Responses(empty, empty, None, 0, places, flat)
        averages = averages and math.prod(places) > 1
        # On a CPU `torch.aminmax` along an axis takes ten times as long as both of these.
        table = [flat.amin(2), flat.amax(2)]
        if averages:
            kept = flat.dtype in (torch.float32, torch.float64)
            table.append(flat.mean(2, dtype=flat.dtype if kept else _wide(flat)))
        wide = torch.float32 if flat.device.type == "mps" else torch.float64
        numbers = torch.stack([part.to(wide) for part in table]).cpu().double().numpy()
        nan = 0
        if np.isnan(numbers[0]).any():
            mask = flat.isnan()
            nan = int(mask.sum())
            none = mask.all(2).cpu().numpy()
            for row, worst, pick in ((0, math.inf, torch.amin), (1, -math.inf, torch.amax)):
                found = pick(flat.masked_fill(mask, worst), 2).to(wide).cpu().double().numpy()
                numbers[row] = np.where(none, np.nan, found)
        return Responses(numbers[1], numbers[0], numbers[2] if averages else None, nan, places, flat)

    def maps(self, samples: list[int], channels: list[int]) -> torch.Tensor:
        """Whole maps of some samples and channels: (maps, places), on the CPU."""
        at = torch.tensor([samples, channels], device=self.values.device)
        return self.values[at[0], at[1]].cpu()

    def extreme_places(self, maps: torch.Tensor) -> tuple[list[int], list[int]]:
        """Of each map the first place of its largest and of its smallest value, in row-major order."""
        numbers = (maps if maps.dtype is torch.float32 else maps.double()).numpy()
        if self.nan:
            found = [(int(np.nanargmax(row)), int(np.nanargmin(row))) for row in numbers]
            return [high for high, _ in found], [low for _, low in found]
        return numbers.argmax(1).tolist(), numbers.argmin(1).tolist()


def _samples_first(tensor: torch.Tensor, axes: Axes, limit: int) -> torch.Tensor:
    """(samples, channels, *places); a batch or channel axis that is not there is 1 long."""
    batch = None if axes.batch is None else axes.batch % tensor.ndim
    channel = None if axes.channel is None else axes.channel % tensor.ndim
    if channel is not None:
        tensor = tensor.narrow(channel, 0, min(limit, tensor.shape[channel]))
    rest = [axis for axis in range(tensor.ndim) if axis not in (batch, channel)]
    front = [axis for axis in (batch, channel) if axis is not None]
    tensor = tensor.permute(*front, *rest)
    if channel is None:
        tensor = tensor.unsqueeze(0 if batch is None else 1)
    if batch is None:
        tensor = tensor.unsqueeze(0)
    return tensor


def _comparable(values: torch.Tensor) -> torch.Tensor:
    if values.dtype is torch.bool:
        return values.to(torch.uint8)
    if values.dtype in _DIRECT and not values.is_quantized:
        return values.resolve_neg()
    return as_numbers(values)


def _wide(values: torch.Tensor) -> torch.dtype:
    """Halves are added up in float32, whole numbers in float64."""
    return torch.float32 if values.is_floating_point() or values.device.type == "mps" else torch.float64
