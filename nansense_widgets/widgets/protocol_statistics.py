"""What the statistics views of a card want and show; `js/src/lib/protocol_statistics.ts` states the same.

Bins are those of `stats.bins`, told apart by magnitude: number `m`, from 0 to 1019, of either sign. Buffers
of counts hold first the negative bins `first`, `first + 1`, …, by growing magnitude, then as many positive
ones. Zero has a count of its own. Numbers that do not exist are null.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from nansense_widgets.widgets.protocol import Kind

__all__ = [
    "Bars", "ChannelRows", "CurveFigure", "CurveLine", "CurvesContent", "CurvesOptions", "Figure",
    "HistogramContent", "HistogramOptions", "InBin", "InBinAsk", "Numbers", "Offer", "StatsRow",
]  # fmt: skip

Offer = Literal["", "watch", "collect"]
"""The one action that would give a card statistics, if one would."""


class Numbers(TypedDict):
    """Statistics of one tensor. With `missing` set, there are none."""

    missing: str
    n: int
    """Finite values."""
    mean: float | None
    std: float | None
    median: float | None
    min: float | None
    max: float | None
    nan: int
    posinf: int
    neginf: int
    since: int | None
    """Index of the batch with the first of these; null if that is not known."""
    dead: int | None
    """Of all channels, not only of those that have rows; null without a channel axis."""
    channels: int | None


class StatsRow(TypedDict):
    """One phase of one epoch, or the batch of the snapshot."""

    key: str
    """`phase:epoch`, or `batch`."""
    phase: str
    epoch: int
    """From 0."""
    batches: int
    """Folded in so far."""
    total: int | None
    """Batches of the whole phase; null while unknown."""
    running: bool
    """More batches are to come."""
    note: str
    activations: Numbers
    gradients: Numbers


class Bars(TypedDict):
    """The histogram of one tensor. With `missing` set, only that means anything."""

    missing: str
    dtype: str
    """Of the values seen, e.g. `float16`."""
    n: int
    nonfinite: int
    zero: int
    first: int
    count: int
    buffer: int
    """`2 * count` counts, float64."""


class Figure(TypedDict):
    """The histograms of one row of the table."""

    key: str
    activations: Bars
    gradients: Bars


class ChannelRows(TypedDict):
    """Histograms of single channels, of the kind that was asked for. With `missing` set, there are none."""

    kind: Kind
    missing: str
    axis: str
    """What the architecture calls the axis: `channels`, `features`, `heads`."""
    channels: int
    rows: int
    """Channels that have a histogram of their own: the first ones."""
    zeros: list[int]
    nonfinite: list[int]
    dead: list[int]
    """Of all channels."""
    first: int
    count: int
    buffer: int
    """`rows` times `2 * count` counts, float32 (exact up to 16,777,216)."""


class HistogramOptions(TypedDict):
    source: str
    """Key of the row to draw; `phase:` for the newest epoch of a phase; empty: the phase in training if it
    has statistics, else the current batch."""
    compare: str
    """Key of a second row, drawn as an outline; empty: none."""
    rows: Kind
    """Which tensor's channels are drawn as rows."""


class HistogramContent(TypedDict):
    rows: list[StatsRow]
    """All that can be drawn: epochs whose histograms are kept, newest first, then the current batch."""
    chosen: str
    """The row that is drawn; empty if there is none."""
    hint: str
    """Why there is nothing, or not more; else empty."""
    offer: Offer
    figures: list[Figure]
    """Of the chosen row and, if there is one, of that to compare with."""
    channels: ChannelRows | None


class InBinAsk(TypedDict):
    """View Histogram: which samples of the current batch have values in these bins. The reply: `InBin`."""

    kind: Kind
    sign: Literal[-1, 0, 1]
    """0: values that are zero; `low` and `high` mean nothing then."""
    low: int
    """First bin, by magnitude."""
    high: int
    """Last bin, included."""


class InBin(TypedDict):
    type: Literal["in_bin"]
    view: str
    req: int
    snapshot: int
    missing: str
    samples: list[tuple[int, int]]
    """Index in the batch and number of values there, most values first; the first few."""
    total: int
    """Samples with such values."""
    of: int
    """Samples in the batch."""


class CurvesOptions(TypedDict):
    statistics: list[str] | None
    """Which are drawn of each tensor: names of `stats.curves.STATISTICS`; null: as before."""


class CurveLine(TypedDict):
    """What the legend says of one line."""

    label: str
    color: str
    style: int
    """Of the line: solid, dashed, dotted, dash-dotted."""
    newest: float | None
    """Its last number; null if that is not finite, or there is none."""


class CurveFigure(TypedDict):
    key: str
    title: str
    unit: str
    """What its height is."""
    text: str
    """The newest numbers in words, for who does not see the picture."""
    lines: list[CurveLine]
    """Of the first phase that has some; the same lines of other phases differ in style."""
    problem: str
    """Of a metric of the user's: what went wrong with it, or batches that it lacks; else empty."""
    model: str
    """Id of the bqplot figure's model; empty where there is nothing to draw but the problem."""


class CurvesContent(TypedDict):
    """All views of a widget show the same figures, and so the same statistics."""

    statistics: list[str]
    """All that can be drawn, in order."""
    chosen: list[str]
    """What is drawn."""
    phases: list[str]
    """In the order of their line styles: solid, dashed, dotted, dash-dotted."""
    partial: list[str]
    """What is drawn as not finished, in words."""
    hint: str
    offer: Offer
    wait: str
    """Why there are no figures yet, else empty."""
    figures: list[CurveFigure]
