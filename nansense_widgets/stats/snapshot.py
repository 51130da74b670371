"""Statistics as they were at one moment; immutable, on the CPU, safe to read from any thread."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch

from nansense_widgets.run.position import BatchPosition
from nansense_widgets.stats.bins import BINS, histogram_edges
from nansense_widgets.stats.gallery import Gallery
from nansense_widgets.stats.rows import RowCounts

__all__ = [
    "LayerStatsSnapshot",
    "ParameterStatsSnapshot",
    "StepSeries",
    "TensorStatsSnapshot",
    "WatchSnapshot",
]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Kept of an epoch whose histogram has gone."""


@dataclass(frozen=True, slots=True)
class TensorStatsSnapshot:
    """All values of one layer, phase, epoch and kind (activations or gradients) seen so far.

    Attributes:
        n: finite values.
        sum: of the finite values.
        sum_sq: of their squares.
        min: least finite value; NaN before any.
        max: largest finite value; NaN before any.
        nan: values that are NaN.
        posinf: values that are +Inf.
        neginf: values that are -Inf.
        first_nonfinite: index of the batch with the first of these; None if there are none, or if the values
            lie on an accelerator, where nothing looks at them batch by batch.
        hist: finite values in each bin between `histogram_edges()`: int64 of shape (2041,).
        rows: counts of the first channels, in a compact form; None without a channel axis.
        alive: whether each channel, all of them, has had a value that is not zero: bool of shape (channels,).
        mean: of the finite values; NaN before any.
        variance: population variance of the finite values; NaN before any.
        quantiles: of an old epoch, whose histogram has gone, some quantiles; else empty.
        dead: of such an epoch, the number of dead channels.
        dtype: of the tensors that the values came from; None before any.
    """

    n: int = 0
    sum: float = 0.0
    sum_sq: float = 0.0
    min: float = math.nan
    max: float = math.nan
    nan: int = 0
    posinf: int = 0
    neginf: int = 0
    first_nonfinite: int | None = None
    hist: torch.Tensor | None = field(default=None, repr=False)
    rows: RowCounts | None = field(default=None, repr=False)
    alive: torch.Tensor | None = field(default=None, repr=False)
    mean: float = math.nan
    variance: float = math.nan

    quantiles: Mapping[float, float] = field(default_factory=dict)
    dead: int | None = None
    dtype: torch.dtype | None = None

    @property
    def std(self) -> float:
        """Population standard deviation of the finite values."""
        return math.sqrt(self.variance) if self.variance >= 0 else math.nan

    @property
    def median(self) -> float:
        """Middle of the bin that holds the median; a bin is at most a quarter of its lower edge wide."""
        return self.quantile(0.5)

    @property
    def channel_hists(self) -> torch.Tensor | None:
        """`hist` of each of the first channels: int64 of shape (rows, 2041); None without a channel axis."""
        return None if self.rows is None else self.rows.hists()

    @property
    def channel_nonfinite(self) -> torch.Tensor | None:
        """Values of each of these channels that are NaN or infinite: int64 of shape (rows,)."""
        return None if self.rows is None else self.rows.nonfinite()

    @property
    def dead_channel_count(self) -> int | None:
        """Channels whose every value was zero; None without a channel axis."""
        return self.dead if self.alive is None else int((~self.alive).sum())

    def quantile(self, q: float) -> float:
        """Middle of the bin that holds the `q`-quantile of the finite values; NaN before any.

        Of an old epoch only those in `quantiles` are known; others are NaN. Raises `TypeError` or
        `ValueError` if `q` is no number between 0 and 1.
        """
        low, high = self.quantile_bin(q)
        return low / 2 + high / 2

    def collapsed(self) -> TensorStatsSnapshot:
        """The same without histograms."""
        return replace(
            self,
            hist=None,
            rows=None,
            alive=None,
            quantiles={q: self.quantile(q) for q in QUANTILES},
            dead=self.dead_channel_count,
        )

    def quantile_bin(self, q: float) -> tuple[float, float]:
        """Edges of the bin that holds the `q`-quantile, cut to the least and the largest value."""
        if isinstance(q, bool) or not isinstance(q, (int, float)):
            raise TypeError(f"q={q!r} must be a number between 0 and 1")
        if not 0 <= q <= 1:
            raise ValueError(f"q={q!r} must be between 0 and 1")
        if self.hist is None and q in self.quantiles:
            return self.quantiles[q], self.quantiles[q]
        if self.hist is None or self.n == 0:
            return math.nan, math.nan
        rank = min(int(q * self.n), self.n - 1)
        at = int(torch.searchsorted(self.hist.cumsum(0), rank, right=True))
        if at == BINS // 2:
            return 0.0, 0.0
        edges = histogram_edges()
        low, high = float(edges[at]), float(edges[at + 1])
        # The bins next to zero and the outermost ones hold also what float32 cannot.
        if at == BINS // 2 + 1:
            low = 0.0
        if at == BINS // 2 - 1:
            high = 0.0
        if at in (0, BINS - 1):
            low, high = (-math.inf, high) if at == 0 else (low, math.inf)
        return max(low, self.min), min(high, self.max)


@dataclass(frozen=True, slots=True)
class LayerStatsSnapshot:
    """Statistics of one layer in one phase of one epoch: of its first output, all its calls.

    Attributes:
        layer: its name.
        phase: e.g. `train`.
        epoch: counted from 0.
        activations: of the values.
        gradients: of the gradients of the loss; each `backward()` counts by itself, `torch.autograd.grad`
            does not, and a `GradScaler`'s factor is taken out.
        batches: batches that were folded in.
        note: why there is nothing, or not everything; else empty.
        gallery: inputs that drove the layer's channels to their extremes; None: none is collected, or the
            epoch is an old one.
    """

    layer: str
    phase: str
    epoch: int
    activations: TensorStatsSnapshot
    gradients: TensorStatsSnapshot
    batches: int = 0
    note: str = ""
    gallery: Gallery | None = field(default=None, repr=False)

    def collapsed(self) -> LayerStatsSnapshot:
        """The same without histograms and patches."""
        return replace(
            self,
            activations=self.activations.collapsed(),
            gradients=self.gradients.collapsed(),
            gallery=None,
        )

    def of(self, layer: str, phase: str, epoch: int) -> LayerStatsSnapshot:
        """The same numbers under another name."""
        return replace(self, layer=layer, phase=phase, epoch=epoch)


_NO_BATCHES: npt.NDArray[np.int64] = np.zeros(0, np.int64)
_NO_VALUES: npt.NDArray[np.float64] = np.zeros(0, np.float64)


@dataclass(frozen=True, slots=True)
class StepSeries:
    """One number for each optimizer step of a parameter in one phase of one epoch.

    Attributes:
        steps: steps measured.
        mean: over the steps whose number is finite; NaN before any.
        min: the least finite number.
        max: the largest finite number.
        nonfinite: steps whose number is NaN or infinite.
        batches: index of the batch of each of the last (up to 1,024) steps: int64 of shape (kept,). Empty for
            epochs before the last two.
        values: the numbers of these steps: float64 of shape (kept,).
    """

    steps: int = 0
    mean: float = math.nan
    min: float = math.nan
    max: float = math.nan
    nonfinite: int = 0
    batches: npt.NDArray[np.int64] = field(default_factory=lambda: _NO_BATCHES, repr=False)
    values: npt.NDArray[np.float64] = field(default_factory=lambda: _NO_VALUES, repr=False)

    def collapsed(self) -> StepSeries:
        """The same without single steps."""
        return replace(self, batches=_NO_BATCHES, values=_NO_VALUES)


@dataclass(frozen=True, slots=True)
class ParameterStatsSnapshot:
    """Statistics of one parameter in one phase of one epoch.

    Attributes:
        name: as in `model.named_parameters()`.
        phase: e.g. `train`.
        epoch: counted from 0.
        weight: of its values when they were sampled.
        sampled: the batch of the sample: the epoch's first one, before it, or the last one captured or the
            last of the phase, after it.
        gradient_norm: Euclidean norm of the gradient that a torch optimizer stepped with (after clipping),
            without the scale of a `GradScaler`. A step that a scaler skipped is not counted.
        update_ratio: norm of what the step changed over the norm of the weights before it. Around 1e-3 is
            common. NaN where all weights were zero.
        note: why something was not measured; else empty.
    """

    name: str
    phase: str
    epoch: int
    weight: TensorStatsSnapshot
    sampled: BatchPosition | None
    gradient_norm: StepSeries
    update_ratio: StepSeries
    note: str = ""

    def collapsed(self) -> ParameterStatsSnapshot:
        """The same without single steps and histogram."""
        return replace(
            self,
            weight=self.weight.collapsed(),
            gradient_norm=self.gradient_norm.collapsed(),
            update_ratio=self.update_ratio.collapsed(),
        )


@dataclass(frozen=True, slots=True)
class WatchSnapshot:
    """All statistics at one moment.

    Attributes:
        stats: by (layer, phase, epoch).
        parameters: by (parameter, phase, epoch).
        owned: layer to the names of the parameters it owns or, for an op, uses directly.
    """

    stats: Mapping[tuple[str, str, int], LayerStatsSnapshot] = field(default_factory=dict)
    parameters: Mapping[tuple[str, str, int], ParameterStatsSnapshot] = field(default_factory=dict)
    owned: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:  # the default one would print all of it
        layers = {layer for layer, _, _ in self.stats}
        phases = sorted({f"{phase} {epoch}" for _, phase, epoch in self.stats})
        return f"<WatchSnapshot of {len(layers)} layers in {', '.join(phases[:6])}{' …' * (len(phases) > 6)}>"

    def latest_per_phase(self, layer: str) -> dict[str, LayerStatsSnapshot]:
        """Phase to the statistics of the newest epoch seen; empty if the layer has none."""
        found: dict[str, LayerStatsSnapshot] = {}
        for (name, phase, epoch), stats in self.stats.items():
            if name == layer and (phase not in found or epoch > found[phase].epoch):
                found[phase] = stats
        return found

    def phase_history(self, layer: str, phase: str) -> list[LayerStatsSnapshot]:
        """Statistics of a layer in a phase, by epoch. Of older epochs scalars and quantiles only."""
        found = [stats for (name, of, _), stats in self.stats.items() if name == layer and of == phase]
        return sorted(found, key=lambda stats: stats.epoch)

    def parameter_history(self, layer: str) -> dict[str, list[ParameterStatsSnapshot]]:
        """Parameter to its statistics in every phase and epoch, by epoch; empty if the layer has none."""
        found: dict[str, list[ParameterStatsSnapshot]] = {}
        for name in self.owned.get(layer, ()):
            entries = [stats for (of, _, _), stats in self.parameters.items() if of == name]
            if entries:
                found[name] = sorted(entries, key=lambda stats: stats.epoch)
        return found

    def weight_history(self, layer: str) -> dict[str, list[tuple[int, TensorStatsSnapshot]]]:
        """Parameter to its weights, one sample an epoch (the last one taken), by epoch."""
        history: dict[str, list[tuple[int, TensorStatsSnapshot]]] = {}
        for name, entries in self.parameter_history(layer).items():
            last: dict[int, ParameterStatsSnapshot] = {}
            for entry in entries:
                if entry.sampled is None:
                    continue
                known = last.get(entry.epoch)
                # Of an epoch's phases the one that steps is the one that changes the weights.
                if known is None or entry.update_ratio.steps >= known.update_ratio.steps:
                    last[entry.epoch] = entry
            history[name] = [(epoch, entry.weight) for epoch, entry in sorted(last.items())]
        return history
