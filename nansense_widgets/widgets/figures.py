"""bqplot figures of curves, made on the kernel's main thread and changed in place: nothing flashes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nansense_widgets.widgets.protocol_statistics import CurveLine

if TYPE_CHECKING:
    import bqplot

__all__ = ["CurvePicture", "FigureSpec", "Line", "Mark"]

STYLES = ("solid", "dashed", "dotted", "dash_dotted")
"""Of the phases, in their order: never told apart by colour alone."""

MAIN, OTHER, FAINT = "#2b7de0", "#808080", "#a0a0a0"
"""Of the first line, the middle ones and the ends; they are seen on white and on black."""

COLORS = (MAIN, "#c4781f", OTHER, "#a05cb5")
"""Of several tensors in one figure; the colour-blind tell them apart too."""

HEIGHT = "176px"

MOST_DOTS = 60
"""Points of a line up to which each has a dot."""


@dataclass(frozen=True)
class Line:
    """One line of a figure.

    Attributes:
        phase: decides its style.
        label: what it is, for the legend.
        color: one of those above.
        xs: in epochs, counted from 0; growing, and whole numbers for points of whole epochs.
        values: as many; NaN leaves a gap.
        running: which of the points are of an epoch that is not over.
    """

    phase: str
    label: str
    color: str
    xs: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]
    running: npt.NDArray[np.bool_]
    dots: bool = True
    """Whether its points are marked, if there are few."""


@dataclass(frozen=True)
class Mark:
    """Something that happened: an upright line at `x`, in epochs counted from 0."""

    x: float
    color: str


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
    marks: tuple[Mark, ...] = ()
    """What happened meanwhile."""
    begin: float | None = None
    """Where its axis begins at the latest, in epochs counted from 0; None: with its lines."""
    end: float = 0
    """Where it ends at least."""

    @property
    def newest_text(self) -> str:
        """The last number of each line, such as `train, epoch 3: mean 0.21, max 4.5.`"""
        lines: dict[tuple[str, int], list[str]] = {}
        for line in self.lines:
            if len(line.xs):
                place = (line.phase, int(line.xs[-1]))
                lines.setdefault(place, []).append(f"{line.label} {line.values[-1]:.3g}")
        return " ".join(
            f"{phase}, epoch {epoch + 1}: {', '.join(numbers)}.".lstrip(", ")
            for (phase, epoch), numbers in lines.items()
        )

    @property
    def legend(self) -> list[CurveLine]:
        """Each line once, with its newest number."""
        first: dict[str, Line] = {}
        for line in self.lines:
            if line.label not in first or not len(first[line.label].values):
                first[line.label] = line
        return [
            {
                "label": line.label,
                "color": line.color,
                "style": STYLES.index(_style(self, line.phase)),
                "newest": _newest(line),
            }
            for line in first.values()
        ]


def _newest(line: Line) -> float | None:
    return float(line.values[-1]) if len(line.values) and np.isfinite(line.values[-1]) else None


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
        self._events = self._lines("dotted")
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
        for widget in (self.figure, *marks, self._events, self._epochs, self._height, self._x, self._y):
            widget.close()

    def update(self, spec: FigureSpec) -> None:
        """Show the lines of `spec`, which is of the same key."""
        phases = list(dict.fromkeys(line.phase for line in spec.lines))
        for phase in phases:
            if phase not in self._marks:
                self._marks[phase] = self._marks_of(_style(spec, phase))
            self._draw(self._marks[phase], [line for line in spec.lines if line.phase == phase])
        marks = [mark for phase in phases for mark in self._marks[phase]]
        marks += [self._events] if spec.marks else []
        if marks != self.figure.marks:
            self.figure.marks = marks
        xs = np.concatenate([np.zeros(0), *(line.xs for line in spec.lines)])
        begin = spec.end if spec.begin is None else spec.begin
        self._scale_epochs(float(xs.min(initial=begin)) + 1, float(xs.max(initial=spec.end)) + 1)
        values = np.concatenate([np.zeros(0), *(line.values for line in spec.lines)])
        self._scale_values(values[np.isfinite(values)], whole=spec.whole)
        if spec.marks:
            ends = [[mark.x + 1.0] * 2 for mark in spec.marks]
            _set(
                self._events,
                x=np.array(ends),
                y=np.array([[self._y.min, self._y.max]] * len(ends)),
                colors=[mark.color for mark in spec.marks],
            )

    def _marks_of(self, style: str) -> tuple[bqplot.Lines, bqplot.Scatter, bqplot.Scatter]:
        scales = {"x": self._x, "y": self._y}
        done, partial = (
            self._bqplot.Scatter(
                x=np.zeros(0), y=np.zeros(0), scales=scales, default_size=size, fill=fill, stroke_width=1.5,
                colors=[OTHER],
            )
            for size, fill in ((14, True), (52, False))
        )  # fmt: skip
        return self._lines(style), done, partial

    def _lines(self, style: str) -> bqplot.Lines:
        return self._bqplot.Lines(
            x=np.zeros(0),
            y=np.zeros(0),
            scales={"x": self._x, "y": self._y},
            line_style=style,
            stroke_width=1.5,
        )

    def _draw(self, marks: tuple[bqplot.Lines, bqplot.Scatter, bqplot.Scatter], lines: list[Line]) -> None:
        line, done, partial = marks
        # Two points at least: bqplot would take a column for a row. And it puts a label at the end of a line,
        # which has to be a number.
        longest = max(2, *(len(one.xs) + _ends_in_a_gap(one) for one in lines))
        xs, ys = np.full((2, len(lines), longest), np.nan)
        for row, one in enumerate(lines):
            some = len(one.xs)
            finite = np.flatnonzero(np.isfinite(one.values))
            xs[row, :some] = one.xs + 1.0
            ys[row, :some] = np.where(np.isfinite(one.values), one.values, np.nan)
            # The last point again, up to the length of the longest line.
            last = finite[-1] if len(finite) else None
            xs[row, some:] = 0.0 if last is None else one.xs[last] + 1.0
            if some:
                ys[row, some:] = 0.0 if last is None else one.values[last]
        alike = all(np.array_equal(one.xs, lines[0].xs) for one in lines)
        _set(line, x=xs[0] if alike else xs, y=ys, colors=[one.color for one in lines])
        for mark, running in ((done, False), (partial, True)):
            points = [
                (x + 1.0, value, one.color)
                for one in lines
                if one.dots and len(one.xs) <= MOST_DOTS
                for x, value, goes_on in zip(one.xs, one.values, one.running, strict=True)
                if goes_on == running and np.isfinite(value)
            ]
            xs, ys = (np.array([point[i] for point in points], np.float64) for i in (0, 1))
            _set(mark, x=xs, y=ys, colors=[point[2] for point in points] or [OTHER])

    def _scale_epochs(self, first: float, last: float) -> None:
        start = int(np.ceil(first))
        step = max(1, -(-(int(last) - start + 1) // 8))
        ticks = np.arange(start, last + 1e-9, step, dtype=np.float64)
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


def _ends_in_a_gap(line: Line) -> bool:
    return len(line.values) > 0 and not np.isfinite(line.values[-1])


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
        after = np.squeeze(after)  # as bqplot does
        return (
            isinstance(before, np.ndarray)
            and before.shape == after.shape
            and np.array_equal(before, after, equal_nan=True)
        )
    return bool(before == after)
