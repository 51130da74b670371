"""The view Curves: statistics against the epoch, in bqplot figures that live in the card."""

from __future__ import annotations

from typing import Any

import numpy as np

from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.stats.curves import DEAD, NONFINITE, STATISTICS, STEPS, Series, layer_series
from nansense_widgets.widgets import protocol, protocol_statistics
from nansense_widgets.widgets.board import FigureBoard
from nansense_widgets.widgets.figures import COLORS, FAINT, MAIN, OTHER, FigureSpec, Line
from nansense_widgets.widgets.metric_figures import metric_problems, metric_specs, only_problem
from nansense_widgets.widgets.shown import ShownOutput
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.views.statistics import running_epoch, statistics_hint

__all__ = ["CurvesView", "figure_specs"]

FIRST = ("mean", "median", "5%", "95%")
"""Drawn until somebody chooses."""


class CurvesView:
    """Curves of any layer. Numbers are read on the painter thread; figures change on the main thread."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._board = FigureBoard()
        self._chosen: dict[str, list[str]] = {}
        """Statistics that are drawn of each layer, in all views: they show the same figures."""
        self._changed = False
        self._last: dict[str, protocol_statistics.CurvesContent] = {}

    def content(
        self,
        snapshot: BatchSnapshot | None,  # noqa: ARG002  curves are of epochs
        shown: ShownOutput,
        want: protocol.CardWant,
        buffers: list[bytes],  # noqa: ARG002  bqplot sends its own
    ) -> protocol_statistics.CurvesContent:
        """Which figures there are; what they show is sent by themselves."""
        options: protocol_statistics.CurvesOptions = want["options"]
        series = layer_series(
            self._source.watch_snapshot(layers=[shown.layer]), shown.layer, running_epoch(self._source)
        )
        hint, offer = statistics_hint(self._source, shown.layer, bool(series))
        layer, asked = shown.layer, options["statistics"]
        if not series and layer in self._last:  # released: the figures stay on the page as they were
            return {**self._last[layer], "hint": hint, "offer": offer}
        chosen = self._chosen.setdefault(layer, list(FIRST))
        if asked is not None and asked != chosen:
            chosen = self._chosen[layer] = [name for name in STATISTICS if name in asked]
            self._changed = True
        metrics = self._source.watch_metrics_snapshot(layers=[layer])
        own = metric_specs(metrics, layer, running_epoch(self._source), _phases(series))
        wait, figures = self._board.show(layer, figure_specs(series, chosen) + own)
        problems = metric_problems(metrics, layer)
        for figure in figures:
            figure["problem"] = problems.get(figure["key"], "")
        drawn = {spec.key for spec in own}
        figures += [only_problem(key, why) for key, why in problems.items() if key not in drawn]
        content: protocol_statistics.CurvesContent = {
            "statistics": list(STATISTICS),
            "chosen": chosen,
            "phases": list(_phases(series)),
            "partial": self._partial(series),
            "hint": hint,
            "offer": offer,
            "wait": wait,
            "figures": figures,
        }
        self._last[layer] = content
        return content

    def fetch(self, want: protocol.CardWant, ask: Any) -> tuple[dict[str, Any], list[bytes]]:
        """There is nothing to ask: the figures hold their numbers."""
        raise NotImplementedError

    @property
    def waits(self) -> bool:
        """Whether the main thread has something to draw."""
        return self._board.waits

    def refresh(self) -> bool:
        """Make and change the figures (main thread only); True if some are new."""
        # Boxes in other views follow what one has chosen.
        changed, self._changed = self._changed, False
        return self._board.refresh() or changed

    def _partial(self, series: list[Series]) -> list[str]:
        texts = []
        for one in series:
            if one.tensor == "activations" and one.running.any():
                at = int(one.running.argmax())
                total = self._source.schedule.phase_count(one.phase)
                of = "" if total is None else f" of {total}"
                texts.append(
                    f"{one.phase} \u00b7 epoch {one.epochs[at] + 1}: {one.batches[at]}{of} batches so far"
                )
        return texts


def _phases(series: list[Series]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.phase for one in series if one.phase))


def figure_specs(series: list[Series], statistics: list[str]) -> list[FigureSpec]:
    """The figures of a layer: one a tensor, one for dead channels, one for each measure of its steps."""
    phases = _phases(series)
    specs = []
    for kind in ("activations", "gradients"):
        of_kind = [one for one in series if one.tensor == kind]
        specs += _figure(kind, kind.capitalize(), "value", of_kind, statistics, phases)
    broken = [one for one in series if NONFINITE in one.values and one.values[NONFINITE].any()]
    specs += _figure(NONFINITE, "Not finite", "values that are NaN or Inf", broken, [NONFINITE], phases, True)
    dead = [one for one in series if DEAD in one.values]
    specs += _figure(DEAD, "Dead channels", "channels", dead, [DEAD], phases)
    parameters = dict.fromkeys(one.tensor for one in series if one.tensor not in ("activations", "gradients"))
    for name in parameters:
        weights = [one for one in series if one.tensor == name and not one.phase]
        specs += _figure(f"weights {name}", name, "value", weights, statistics, phases)
    for measure in STEPS:
        unit = {"gradient norm": "norm, mean over the steps", "update ratio": "ratio, mean over the steps"}
        stepped = [one for one in series if measure in one.values]
        specs += _figure(measure, measure.capitalize(), unit[measure], stepped, [measure], phases, True)
    return specs


def _figure(
    key: str,
    title: str,
    unit: str,
    series: list[Series],
    names: list[str],
    phases: tuple[str, ...],
    by_tensor: bool = False,
) -> list[FigureSpec]:
    order = list(dict.fromkeys(one.tensor for one in series))
    lines = tuple(
        Line(
            one.phase,
            one.tensor.rpartition(".")[2] if by_tensor else name,
            COLORS[order.index(one.tensor) % len(COLORS)] if by_tensor else _color(name, at),
            one.epochs.astype(np.float64),
            one.values[name],
            one.running,
        )
        for one in series
        for at, name in enumerate(names)
        if np.isfinite(one.values[name]).any()  # of others the figure "not finite" tells
    )
    return [FigureSpec(key, title, unit, lines, phases, whole=key in (DEAD, NONFINITE))] if lines else []


def _color(name: str, at: int) -> str:
    if at == 0:
        return MAIN
    return FAINT if name in ("min", "max", "5%", "95%") else OTHER
