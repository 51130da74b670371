"""bqplot figures of curves, made on the kernel's main thread and changed in place: nothing flashes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import bqplot

__all__ = ["CurvePicture", "FigureSpec", "Line"]

STYLES = ("solid", "dashed", "dotted", "dash_dotted")
"""Of the phases, in their order: never told apart by colour alone."""

MAIN, OTHER, FAINT = "#2b7de0", "#808080", "#a0a0a0"
"""Of the first line, the middle ones and the ends; they are seen on white and on black."""

COLORS = (MAIN, "#c4781f", OTHER, "#a05cb5")
"""Of several tensors in one figure; the colour-blind tell them apart too."""

HEIGHT = "176px"


@dataclass(frozen=True)
class Line:
    """One line of a figure.

    Attributes:
        phase: decides its style.
        label: what it is, for the legend.
        color: one of those above.
        epochs: counted from 0.
        values: as many; NaN leaves a gap.
        running: which of the points are of an epoch that is not over.
    """

    phase: str
    label: str
    color: str
    epochs: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    running: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class FigureSpec:
    """What one figure shows; `key` tells it from others of the layer, `unit` names its height."""

    key: str
    title: str
    unit: str
    lines: tuple[Line, ...]
    phases: tuple[str, ...] = ()
    """All phases of the layer, in the order of their styles; any other is solid."""
    whole: bool = False
    """Its values are counts."""


class CurvePicture:
    """One bqplot figure, and what is drawn in it."""

    def __init__(self, spec: FigureSpec) -> None:
        import bqplot

        self._bqplot = bqplot
        self._x, self._y = bqplot.LinearScale(), bqplot.LinearScale()
        # Grey is read on white and on black, in files too, where the styles of the page are not.
        grid = {
            "grid_lines": "solid",
            "grid_color": "#80808033",
            "color": "#80808080",
            "label_color": OTHER,
            "tick_style": {"fill": OTHER, "font-size": "10px"},
        }
        self._epochs = bqplot.Axis(scale=self._x, label="epoch", tick_format="d", **grid)
        self._height = bqplot.Axis(scale=self._y, orientation="vertical", **grid)
        self._marks: dict[str, tuple[bqplot.Lines, bqplot.Scatter, bqplot.Scatter]] = {}
        self.figure = bqplot.Figure(
            axes=[self._epochs, self._height],
            marks=[],
            fig_margin={"top": 10, "bottom": 34, "left": 52, "right": 8},
            background_style={"fill": "none"},
            padding_x=0,
            padding_y=0,
            display_toolbar=False,
            layout={"height": HEIGHT, "width": "auto", "min_width": "0"},
        )
        self.update(spec)

    @property
    def model(self) -> str:
        """Id of the figure's model."""
        return str(self.figure.model_id)

    def close(self) -> None:
        """Let go of the widgets; the figure goes from the page too."""
        marks = [mark for marks in self._marks.values() for mark in marks]
        for widget in (self.figure, *marks, self._epochs, self._height, self._x, self._y):
            widget.close()

    def update(self, spec: FigureSpec) -> None:
        """Show the lines of `spec`, which is of the same key."""
        phases = list(dict.fromkeys(line.phase for line in spec.lines))
        for phase in phases:
            if phase not in self._marks:
                self._marks[phase] = self._marks_of(_style(spec, phase))
            self._draw(self._marks[phase], [line for line in spec.lines if line.phase == phase])
        marks = [mark for phase in phases for mark in self._marks[phase]]
        if marks != self.figure.marks:
            self.figure.marks = marks
        epochs = [int(epoch) for line in spec.lines for epoch in line.epochs]
        self._scale_epochs(min(epochs, default=0) + 1, max(epochs, default=0) + 1)
        values = np.concatenate([np.zeros(0), *(line.values for line in spec.lines)])
        self._scale_values(values[np.isfinite(values)], whole=spec.whole)

    def _marks_of(self, style: str) -> tuple[bqplot.Lines, bqplot.Scatter, bqplot.Scatter]:
        scales = {"x": self._x, "y": self._y}
        line = self._bqplot.Lines(
            x=np.zeros(0), y=np.zeros(0), scales=scales, line_style=style, stroke_width=1.5
        )
        done, partial = (
            self._bqplot.Scatter(
                x=np.zeros(0), y=np.zeros(0), scales=scales, default_size=size, fill=fill, stroke_width=1.5,
                colors=[OTHER],
            )
            for size, fill in ((14, True), (52, False))
        )  # fmt: skip
        return line, done, partial

    def _draw(self, marks: tuple[bqplot.Lines, bqplot.Scatter, bqplot.Scatter], lines: list[Line]) -> None:
        line, done, partial = marks
        epochs = np.unique(np.concatenate([np.zeros(0, np.int64), *(one.epochs for one in lines)]))
        table = np.full((len(lines), len(epochs)), np.nan)
        for row, one in enumerate(lines):
            table[row, np.searchsorted(epochs, one.epochs)] = one.values
        if len(epochs) == 1:  # bqplot would take a column for a row
            epochs, table = np.repeat(epochs, 2), np.repeat(table, 2, axis=1)
        _set(
            line,
            x=epochs + 1.0,
            y=table,
            colors=[one.color for one in lines],
        )
        for mark, running in ((done, False), (partial, True)):
            points = [
                (epoch + 1.0, value, one.color)
                for one in lines
                for epoch, value, goes_on in zip(one.epochs, one.values, one.running, strict=True)
                if goes_on == running and np.isfinite(value)
            ]
            xs, ys = (np.array([point[i] for point in points], np.float64) for i in (0, 1))
            _set(mark, x=xs, y=ys, colors=[point[2] for point in points] or [OTHER])

    def _scale_epochs(self, first: int, last: int) -> None:
        step = max(1, -(-(last - first + 1) // 8))
        ticks = np.arange(first, last + 1, step, dtype=np.float64)
        room = max(last - first, 1)
        _set(self._x, min=first - 0.04 * room, max=last + 0.04 * room)
        _set(self._epochs, tick_values=ticks)

    def _scale_values(self, values: npt.NDArray[np.float64], *, whole: bool) -> None:
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
        if low == high:
            apart = 1.0 if whole or low == 0 else abs(low) / 2
            low, high = (low if whole else low - apart), high + apart
        room = 0.08 * (high - low)
        ticks = nice_ticks(low - room, high + room, whole=whole)
        size = max(abs(low), abs(high))
        step = ticks[1] - ticks[0] if len(ticks) > 1 else size
        # As many digits as tell neighbours apart.
        digits = int(np.clip(np.ceil(np.log10(max(size / step, 1.0))) + 1, 2, 6))
        small = not whole and not 1e-3 <= size < 1e5
        _set(self._y, min=low - room, max=high + room)
        _set(self._height, tick_values=ticks, tick_format=f".{digits - 1}~e" if small else f".{digits}~g")


def nice_ticks(low: float, high: float, *, whole: bool = False) -> npt.NDArray[np.float64]:
    """About five round numbers between two ends: float64 of shape (ticks,)."""
    rough = (high - low) / 5
    power = 10.0 ** np.floor(np.log10(rough))
    step = next((factor * power for factor in (1, 2, 5) if factor * power >= rough), 10 * power)
    if whole:
        step = max(1.0, np.ceil(step))
    ticks: npt.NDArray[np.float64] = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    return ticks


def _style(spec: FigureSpec, phase: str) -> str:
    return STYLES[spec.phases.index(phase) % len(STYLES)] if phase in spec.phases else STYLES[0]


def _set(widget: Any, **values: Any) -> None:
    """Set what differs, in one message."""
    changed: Mapping[str, Any] = {
        name: value for name, value in values.items() if not _same(getattr(widget, name), value)
    }
    if changed:
        with widget.hold_sync():
            for name, value in changed.items():
                setattr(widget, name, value)


def _same(before: Any, after: Any) -> bool:
    if isinstance(after, np.ndarray):
        return (
            isinstance(before, np.ndarray)
            and before.shape == after.shape
            and np.array_equal(before, after, equal_nan=True)
        )
    return bool(before == after)
