"""Pictures, features, tokens and signals of one input of a batch, for the view Inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from nansense_widgets.capture.axes import Axes
from nansense_widgets.media.inputs import InputConfig
from nansense_widgets.media.picture import (
    Ends,
    InputLook,
    Seen,
    bytes_of,
    numbers_of,
    pooled_lines,
    usual_ends,
)
from nansense_widgets.media.values import unreadable
from nansense_widgets.probe.batch import InputBatch
from nansense_widgets.probe.perturbation import Perturbation, samples_places_channels, split_axes
from nansense_widgets.widgets.protocol_inputs import (
    FeaturesShown,
    InputKind,
    PictureShown,
    SignalShown,
)
from nansense_widgets.widgets.protocol_strips import Tokens
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.tokens import are_tokens, tokens_of
from nansense_widgets.widgets.views.kept import Kept

__all__ = ["InputPictures", "ShownInput", "kind_of_input"]

MOST_EDITED = 4096
"""Painted pixels that are told."""

MOST_FEATURES = 4096

SIGNAL_CHANNELS = 8

SIGNAL_LENGTH = 512

UNKNOWN_AXES = (
    "what its axes are is not known: drawn as one channel, and not to be painted (session.set_axes says it)"
)


@dataclass(frozen=True)
class ShownInput:
    """One input of a batch.

    Attributes:
        name: as in `add_perturbation`.
        layer: the input's layer, by which the user says how it is shown.
        tensor: as it is to be seen.
        original: without perturbations.
        axes: of it, as far as known, or as they are presumed where `paintable` is False.
        kind: what it is shown as.
        other: a sentence, of one that cannot be drawn.
        samples: 0: it has no batch axis.
        paintable: whether a place in its picture is one for `add_perturbation`.
        perturbations: those of this input.
    """

    name: str
    layer: str
    tensor: torch.Tensor
    original: torch.Tensor
    axes: Axes | None
    kind: InputKind
    other: str
    samples: int
    paintable: bool
    perturbations: tuple[Perturbation, ...]

    @property
    def is_volume(self) -> bool:
        return len(split_axes(self.tensor.ndim, self.axes).others) == 3

    def sample(self, number: int) -> torch.Tensor:
        """One sample as (channels, *places)."""
        view = samples_places_channels(self.tensor, self.axes)
        return view[number].movedim(-1, 0)

    def concerning(self, sample: int) -> tuple[Perturbation, ...]:
        """What was changed in one sample."""
        return tuple(
            one
            for one in self.perturbations
            if not self.samples or one.sample is None or one.sample % self.samples == sample
        )

    def edited(self, sample: int) -> torch.Tensor:
        """Where one sample was changed, and not put back: bool of shape (channels, *places)."""
        shape = list(self.tensor.shape)
        batch = split_axes(self.tensor.ndim, self.axes).batch
        if self.samples and batch is not None:
            shape[batch] = 1
        mask = torch.zeros(shape, dtype=torch.bool)
        for one in self.concerning(sample):
            try:
                where = (replace(one, sample=None) if self.samples else one).where(tuple(shape), self.axes)
            except ValueError:  # of an earlier batch, that had another shape
                continue
            mask = mask & ~where if one.original else mask | where
        view = samples_places_channels(mask, self.axes)
        return (view[0] if self.samples else view.amax(0)).movedim(-1, 0)


def kind_of_input(
    source: Source, batch: InputBatch, name: str
) -> tuple[InputKind, Axes | None, str, int, bool]:
    """Kind, axes, sentence, samples and whether it can be painted: see `ShownInput`."""
    tensor, place = batch.inputs[name], batch.places[name]
    why = unreadable(tensor)
    if why:
        return "other", None, why, 0, False
    if not tensor.ndim:
        return "other", None, f"a single number: {_number(tensor)}", 0, False
    axes = source.architecture.axes(place.layer, place.path, tensor.ndim)
    split = split_axes(tensor.ndim, axes)
    samples = 0 if split.batch is None else tensor.shape[split.batch]
    if are_tokens(tensor, axes, named=source.input_config.names(place.layer)):
        if tensor.ndim > 1:
            return "tokens", axes, "", samples, True
        others = [one for key, one in batch.inputs.items() if key != name and one.ndim]
        if not any(len(one) == len(tensor) for one in others):  # ids of one sequence
            return "tokens", axes, "", 0, True
    kinds: dict[int, InputKind] = {0: "features", 1: "signal", 2: "picture", 3: "picture"}
    kind = kinds.get(len(split.others), "other")
    if axes is None and tensor.ndim == 3 and tensor.shape[1] == tensor.shape[2] >= 8:
        return "picture", Axes(None, 0), "", samples, False
    if kind == "other":
        about = f"{len(split.others)} axes besides those of samples and channels: no picture of it"
        return "other", axes, about, samples, False
    return kind, axes, "", samples, True


class InputPictures:
    """Draws the samples of one input, all between the same black and white."""

    def __init__(self, shown: ShownInput, inputs: InputConfig, ends: Kept) -> None:
        self.shown = shown
        self._inputs = inputs
        self._ends = ends

    def picture(
        self, sample: int, *, channel: int, depth: int, px: int, buffers: list[bytes]
    ) -> PictureShown:
        """The picture that is looked at; its pixels are appended to `buffers`."""
        shown = self.shown
        values = shown.sample(sample)
        look = InputLook(shown.layer, self._inputs)
        if not shown.paintable:
            look.say(UNKNOWN_AXES)
        slices = values.shape[1] if shown.is_volume else 0
        seen = look.see(values, channel=channel, depth=depth)
        ends = self._black_and_white(seen, look)
        rows, columns = values.shape[-2:]
        factor = max(1, -(-max(seen.values.shape[1:]) // max(1, px)))
        pixels = bytes_of(seen.values, ends, factor)
        bad = int((~np.isfinite(seen.values)).sum())
        if bad:
            look.say(f"{bad:,} of its values are not finite: Inf is white, NaN and -Inf black")
        if shown.tensor.is_complex():
            look.say("magnitudes of complex numbers")
        at = depth if 0 <= depth < slices else slices // 2
        paint = list(seen.channels) if shown.paintable else []
        if seen.transformed and seen.values.shape[1:] != (rows, columns):
            paint = []
            look.say("input_transform changes its size, so that it cannot be painted")
        elif seen.transformed and paint:
            look.say(f"painting {_those(paint)} sets the least and largest values that the batch has there")
        black, white = self._values_of_ends(seen, ends, paint)
        edited = self._edited(sample, at if slices else None, look)
        buffers.append(pixels.tobytes())
        return {
            "rows": pixels.shape[0],
            "columns": pixels.shape[1],
            "full": (rows, columns),
            "pool": factor,
            "colour": pixels.ndim == 3,
            "channels": len(values),
            "depth": slices,
            "slice": at,
            "black": black,
            "white": white,
            "paint": paint,
            "about": look.about,
            "edited": edited,
            "buffer": len(buffers) - 1,
        }

    def thumb(self, sample: int, px: int) -> tuple[bytes, int, int, bool]:
        """Pixels, rows, columns, and whether they are colours."""
        look = InputLook(self.shown.layer, self._inputs)
        seen = look.see(self.shown.sample(sample))
        factor = max(1, -(-max(seen.values.shape[1:]) // max(1, px)))
        pixels = bytes_of(seen.values, self._black_and_white(seen, look), factor)
        return pixels.tobytes(), pixels.shape[0], pixels.shape[1], pixels.ndim == 3

    def features(self, sample: int, buffers: list[bytes]) -> FeaturesShown:
        """Values of a sample that has nothing but channels."""
        values = numbers_of(self.shown.sample(sample)).reshape(-1)
        sent = values[:MOST_FEATURES].astype(np.float32)
        finite = np.abs(values[np.isfinite(values)])
        edited = self.shown.edited(sample).reshape(-1)[:MOST_FEATURES].nonzero()[:, 0].tolist()
        buffers.append(sent.tobytes())
        return {
            "first": 0,
            "count": len(sent),
            "total": len(values),
            "scale": float(finite.max()) if finite.size else 0.0,
            "edited": edited,
            "buffer": len(buffers) - 1,
        }

    def signal(self, sample: int, buffers: list[bytes]) -> SignalShown:
        """Lines of a sample: its first channels."""
        values = numbers_of(self.shown.sample(sample)[:SIGNAL_CHANNELS])
        lines, pool = pooled_lines(values, SIGNAL_LENGTH)
        finite = lines[np.isfinite(lines)]
        buffers.append(lines.tobytes())
        return {
            "channels": len(lines),
            "total": len(self.shown.sample(sample)),
            "length": lines.shape[1],
            "full": values.shape[1],
            "pool": pool,
            "low": float(finite.min()) if finite.size else 0.0,
            "high": float(finite.max()) if finite.size else 0.0,
            "buffer": len(buffers) - 1,
        }

    def tokens(self, sample: int) -> tuple[Tokens, str]:
        """Ids of a sample with their text, and what went wrong in the user's function."""
        shown = self.shown
        text = self._inputs.transform_for(shown.layer)
        axes = shown.axes or Axes()
        try:
            return tokens_of(shown.tensor, axes, sample, text), ""
        except Exception as error:  # noqa: BLE001  the user's own function: the ids are shown without it
            why = f"input_transform failed: {type(error).__name__}: {error}"
            return tokens_of(shown.tensor, axes, sample, None), why

    def edited_tokens(self, sample: int) -> list[int]:
        """Places of tokens that were changed."""
        found: list[int] = self.shown.edited(sample).reshape(-1).nonzero()[:, 0].tolist()
        return found

    def words(self, sample: int) -> str:
        """What stands in place of a small picture."""
        kind = self.shown.kind
        if kind == "tokens":
            tokens, _ = self.tokens(sample)
            text = tokens["text"] or "".join(tokens["texts"][:12]) or " ".join(map(str, tokens["ids"][:8]))
            return text[:40]
        values = numbers_of(self.shown.sample(sample)).reshape(-1)
        if kind == "features":
            return " ".join(f"{one:.3g}" for one in values[:3]) + (" …" if len(values) > 3 else "")
        finite = values[np.isfinite(values)]
        return f"{finite.min():.3g} to {finite.max():.3g}" if finite.size else "not finite"

    def _black_and_white(self, seen: Seen, look: InputLook) -> Ends:
        """Of all samples as they were, so that painting moves nothing; of what a transform made, its own."""
        original = self.shown.original
        if seen.transformed:
            finite = seen.values[np.isfinite(seen.values)]
            own = [(float(finite.min()), float(finite.max()))] if finite.size else []
            ends, usual = usual_ends(own, bytes_only=False)
        else:
            scale, shift = look.undone(self._total_channels)

            def find() -> tuple[Ends, bool]:
                known: list[Ends] = []
                for channel in seen.channels:
                    low, high = self._least_and_largest(channel)
                    known.append(
                        (low * scale[channel] + shift[channel], high * scale[channel] + shift[channel])
                    )
                return usual_ends(known, bytes_only=original.dtype is torch.uint8)

            ends, usual = self._ends.get((self.shown.name, seen.channels), find)
        low, high = ends
        if low == high:
            high = low + 1.0
        if not usual:
            look.say(f"black is {low:.3g}, white {high:.3g}")
        return low, high

    @property
    def _total_channels(self) -> int:
        channel = split_axes(self.shown.original.ndim, self.shown.axes).channel
        return 1 if channel is None else self.shown.original.shape[channel]

    def _least_and_largest(self, channel: int) -> Ends:
        """Finite values of one channel in the whole batch."""
        return self._ends.get((self.shown.name, channel), lambda: self._search(channel))

    def _search(self, channel: int) -> Ends:
        values = samples_places_channels(self.shown.original, self.shown.axes)[..., channel]
        values = values.abs() if values.is_complex() else values
        values = values if values.dtype is torch.float64 else values.float()
        low, high = (float(end) for end in torch.aminmax(values))
        if not (np.isfinite(low) and np.isfinite(high)):
            values = values[values.isfinite()]
            if not values.numel():
                return 0.0, 1.0
            low, high = (float(end) for end in torch.aminmax(values))
        return low, high

    def _values_of_ends(
        self, seen: Seen, ends: Ends, channels: Sequence[int]
    ) -> tuple[list[float], list[float]]:
        """What black and white are in values of the input's channels."""
        if seen.transformed:
            found = [self._least_and_largest(channel) for channel in channels]
            return [low for low, _ in found], [high for _, high in found]
        scale, shift = InputLook(self.shown.layer, self._inputs).undone(self._total_channels)
        black, white = (
            [float((end - shift[channel]) / scale[channel]) for channel in channels] for end in ends
        )
        return black, white

    def _edited(self, sample: int, depth: int | None, look: InputLook) -> list[list[int]]:
        if not self.shown.paintable or not self.shown.concerning(sample):
            return []
        mask = self.shown.edited(sample).amax(0)
        places = (mask if depth is None else mask[depth]).nonzero()
        if len(places) > MOST_EDITED:
            look.say(f"the first {MOST_EDITED:,} of {len(places):,} painted pixels are marked")
        found: list[list[int]] = places[:MOST_EDITED].tolist()
        return found


def _those(channels: Sequence[int]) -> str:
    if len(channels) == 1:
        return f"channel {channels[0]}"
    return f"channels {channels[0]} to {channels[-1]}"


def _number(tensor: torch.Tensor) -> str:
    value: Any = tensor.item()
    return f"{value:.6g}" if isinstance(value, (int, float)) else str(value)
