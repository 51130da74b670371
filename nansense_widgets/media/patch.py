"""Pictures of extreme patches: the part of an input that drove a channel, as bytes to draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from nansense_widgets.media.inputs import InputConfig
from nansense_widgets.media.picture import Ends, InputLook, bytes_of, numbers_of, pooled_lines, usual_ends
from nansense_widgets.media.pool import mean_pool
from nansense_widgets.stats.gallery import Patch

__all__ = ["Heat", "PatchPainter", "Picture", "Signal", "heat_of"]

Floats = npt.NDArray[np.float64]

Frame = tuple[tuple[int, int], tuple[int, int]]
"""First row and the one behind the last, first column and …, in the sample."""

SIGNAL_LENGTH = 256
SIGNAL_CHANNELS = 3


@dataclass(frozen=True)
class Picture:
    """A patch as bytes.

    Attributes:
        pixels: rows, columns and, for colours, red, green and blue.
        rows: of pixels.
        columns: of pixels.
        colour: three bytes a pixel; else one.
        pool: so many values along each axis of the input are one pixel.
        frame: the part of the sample that it shows, in values of the input, padding among it.
        offset: rows and columns of pixels in the frame before the first one of the picture.
        size: rows and columns of pixels of the whole frame.
    """

    pixels: bytes
    rows: int
    columns: int
    colour: bool
    pool: int
    frame: Frame
    offset: tuple[int, int]
    size: tuple[int, int]


@dataclass(frozen=True)
class Signal:
    """A window of a signal: float32 of shape (channels, length), and how many values are one of them."""

    values: npt.NDArray[np.float32]
    pool: int


@dataclass(frozen=True)
class Heat:
    """A channel's response to a whole sample: codes as in `protocol.py`, and the largest magnitude."""

    codes: bytes
    rows: int
    columns: int


@dataclass
class PatchPainter:
    """Draws patches of one input, all on one scale.

    Args:
        name: of the input.
        inputs: how the user wants inputs shown.
        patches: all that will be drawn together.
    """

    name: str
    inputs: InputConfig
    patches: Sequence[Patch]
    about: list[str] = field(default_factory=list)
    """What else to know of the pictures."""

    def __post_init__(self) -> None:
        self._look = InputLook(self.name, self.inputs, self.about)
        self._shown: dict[int, tuple[Floats, int]] = {}
        for patch in self.patches:
            tensor, pool = patch.cut()
            self._shown[id(patch)] = (self._look.see(tensor).values, pool)
        self._ends = self._range()

    def picture(self, patch: Patch, px: int) -> Picture:
        """A patch of a picture (or of the middle slice of a volume), at most `px` pixels on a side."""
        values, pool = self._shown[id(patch)]
        factor = max(1, -(-max(values.shape[1:]) // max(1, px)))
        pixels = bytes_of(values, self._ends, factor)
        pool *= factor
        box, frame = _last_two(patch.box), self._frame(patch)
        before = tuple((start - first) // pool for (start, _), (first, _) in zip(box, frame, strict=True))
        full = tuple(-(-(stop - first) // pool) for first, stop in frame)
        rows, columns = pixels.shape[:2]
        return Picture(
            pixels.tobytes(),
            rows,
            columns,
            pixels.ndim == 3,
            pool,
            frame,
            (before[0], before[1]),
            (max(rows + before[0], full[0]), max(columns + before[1], full[1])),
        )

    def signal(self, patch: Patch) -> Signal:
        """A patch of a signal, or the features of a sample."""
        values, pool = patch.cut()
        numbers = numbers_of(values)
        lines = numbers[None] if numbers.ndim == 1 else numbers[:SIGNAL_CHANNELS]
        if not patch.box:  # features are the channels
            lines = numbers.reshape(1, -1)
        pooled, factor = pooled_lines(lines, SIGNAL_LENGTH)
        return Signal(pooled, pool * factor)

    def _frame(self, patch: Patch) -> Frame:
        """The field with its padding; one that is larger than the picture: all of the picture."""
        extent, sizes = _last_two(patch.receptive_field.extent), patch.sample.shape[-2:]
        fits = all(stop - start <= size for (start, stop), size in zip(extent, sizes, strict=True))
        return extent if fits else ((0, sizes[0]), (0, sizes[1]))

    def _range(self) -> Ends:
        """What is black and what is white."""
        finite = [values[np.isfinite(values)] for values, _ in self._shown.values()]
        ends = [(float(part.min()), float(part.max())) for part in finite if part.size]
        bytes_only = all(p.sample.values.dtype is torch.uint8 or p.sample.pool > 1 for p in self.patches)
        (low, high), usual = usual_ends(ends, bytes_only=bytes_only)
        if not usual:
            self._look.say(f"black is {low:.3g}, white {high:.3g}")
        return low, high


def heat_of(patch: Patch, scale: float, px: int) -> Heat | None:
    """A patch's heat as codes between -`scale` and `scale`, at most `px` on a side; None if it has none."""
    if patch.heat is None or patch.heat.ndim > 3:
        return None
    values = numbers_of(patch.heat)
    if values.ndim == 3:  # a volume's middle slice, as of the picture
        values = values[len(values) // 2]
    if values.ndim == 1:
        values = values[None]
    factors = tuple(max(1, -(-size // px)) for size in values.shape)
    values = mean_pool(values[None], (factors[0], factors[1]))[0]
    with np.errstate(invalid="ignore"):
        share = np.clip(values / (scale or 1.0), -1, 1)
    codes = np.round(np.nan_to_num(share) * 126) + 129
    codes[np.isnan(values)] = 0
    rows, columns = values.shape
    return Heat(codes.astype(np.uint8).tobytes(), rows, columns)


def _last_two(box: tuple[tuple[int, int], ...]) -> Frame:
    return box[-2], box[-1]
