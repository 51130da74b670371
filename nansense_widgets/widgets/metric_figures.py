"""Figures of the user's own metrics: one a metric, one line for each of its series and phases."""

from __future__ import annotations

import numpy as np

from nansense_widgets.stats.instruments.store import MetricsSnapshot
from nansense_widgets.stats.series import NO_BATCH, MetricSeries
from nansense_widgets.widgets import protocol_statistics
from nansense_widgets.widgets.figures import COLORS, FigureSpec, Line
from nansense_widgets.widgets.polyline import drawn_points

__all__ = ["MOST_LINES", "PREFIX", "metric_problems", "metric_specs", "only_problem"]

PREFIX = "metric "
"""Before a metric's name, in the key of its figure."""

MOST_LINES = 8
"""Series of a metric that are drawn; `to_dict()` has all."""


def metric_specs(
    metrics: MetricsSnapshot, layer: str, running: tuple[str, int] | None, phases: tuple[str, ...]
) -> list[FigureSpec]:
    """The figures of a layer, in the order of their names.

    Args:
        metrics: all series.
        layer: its name.
        running: phase and epoch that more batches are to come to, if there are any.
        phases: of the layer, in the order of their line styles.
    """
    known = {phase for name, phase, _, _ in metrics.series if name == layer}
    plots = {phase: metrics.plots(layer, phase) for phase in (*phases, *sorted(known.difference(phases)))}
    names = sorted({name for of_phase in plots.values() for name in of_phase})
    specs = []
    for name in names:
        keys = sorted({key for of_phase in plots.values() for key in of_phase.get(name, ())})
        drawn = keys[:MOST_LINES]
        lines = tuple(
            _line(of_phase[name][key], phase, key or name, COLORS[at % len(COLORS)], running)
            for phase, of_phase in plots.items()
            for at, key in enumerate(drawn)
            if key in of_phase.get(name, ())
        )
        unit = "your metric" if drawn == keys else f"your metric, first {len(drawn)} of {len(keys)} series"
        specs.append(FigureSpec(PREFIX + name, name, unit, lines, tuple(plots)))
    return specs


def metric_problems(metrics: MetricsSnapshot, layer: str) -> dict[str, str]:
    """Key of a figure to what went wrong with its metric, or batches that it lacks."""
    names = {name for of, _, name, _ in metrics.series if of == layer}
    note = metrics.notes.get(layer, "")
    found = {PREFIX + name: note for name in names if note.startswith(f"{name} left out ")}
    if "" in metrics.notes:
        found |= {PREFIX + name: metrics.notes[""] for name in names}
    off = {name: f"off from here on: {error}" for name, error in metrics.errors.items()}
    return found | {PREFIX + name: why for name, why in off.items()}


def only_problem(key: str, why: str) -> protocol_statistics.CurveFigure:
    """What stands in the place of a metric that has given nothing."""
    name = key.removeprefix(PREFIX)
    return {
        "key": key,
        "title": name,
        "unit": "your metric",
        "text": "",
        "lines": [],
        "problem": why,
        "model": "",
    }


def _line(series: MetricSeries, phase: str, label: str, color: str, running: tuple[str, int] | None) -> Line:
    # Points of a metric that went over from batches to epochs meanwhile may lie before those already there.
    growing = np.maximum.accumulate(series.xs)
    xs, values = drawn_points(growing, series.values, series.breaks)
    goes_on = np.zeros(len(xs), np.bool_)
    if running is not None and running[0] == phase and series.batch_indices[-1] == NO_BATCH:
        goes_on = xs == running[1]
    return Line(phase, label, color, xs, values, goes_on)
