"""The view Curves: statistics against the epoch, in bqplot figures that live in the card."""

from __future__ import annotations

import importlib
import threading
from typing import Any

import numpy as np

from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.stats.curves import DEAD, NONFINITE, STATISTICS, STEPS, Series, layer_series
from nansense_widgets.widgets import protocol, protocol_statistics
from nansense_widgets.widgets.figures import COLORS, FAINT, MAIN, OTHER, CurvePicture, FigureSpec, Line
from nansense_widgets.widgets.metric_figures import metric_problems, metric_specs, only_problem
from nansense_widgets.widgets.shown import ShownOutput
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.views.statistics import finite, running_epoch, statistics_hint

__all__ = ["CurvesView", "figure_specs", "legend", "newest_text"]

MOST_LAYERS = 24
"""Layers whose figures are kept: each is some dozens of widgets. Those looked at last stay."""

FIRST = ("mean", "median", "5%", "95%")
"""Drawn until somebody chooses."""

WAIT = "Making the figures, as soon as the kernel's main thread is free\u2026"


class CurvesView:
    """Curves of any layer. Numbers are read on the painter thread; figures change on the main thread."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._specs: dict[str, list[FigureSpec]] = {}
        """What is to be drawn of each layer that is looked at, until the main thread has."""
        self._pictures: dict[str, dict[str, CurvePicture]] = {}
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
        running = running_epoch(self._source)
        specs = figure_specs(series, chosen) + metric_specs(metrics, layer, running, _phases(series))
        problems = metric_problems(metrics, layer)
        importlib.import_module("bqplot")  # takes seconds, which the main thread is not to spend
        with self._lock:
            self._specs[shown.layer] = specs
        pictures = self._pictures.get(shown.layer, {})
        waiting = {spec.key for spec in specs if spec.key not in pictures}
        content: protocol_statistics.CurvesContent = {
            "statistics": list(STATISTICS),
            "chosen": chosen,
            "phases": list(_phases(series)),
            "partial": self._partial(series),
            "hint": hint,
            "offer": offer,
            "wait": WAIT if waiting else "",
            "figures": [
                {
                    "key": spec.key,
                    "title": spec.title,
                    "unit": spec.unit,
                    "text": newest_text(spec),
                    "lines": legend(spec),
                    "problem": problems.pop(spec.key, ""),
                    "model": pictures[spec.key].model,
                }
                for spec in specs
                if spec.key in pictures
            ],
        }
        content["figures"] += [only_problem(key, why) for key, why in problems.items() if key not in waiting]
        self._last[layer] = content
        return content

    def fetch(self, want: protocol.CardWant, ask: Any) -> tuple[dict[str, Any], list[bytes]]:
        """There is nothing to ask: the figures hold their numbers."""
        raise NotImplementedError

    @property
    def waits(self) -> bool:
        """Whether the main thread has something to draw."""
        return bool(self._specs)

    def refresh(self) -> bool:
        """Make and change the figures (main thread only); True if some are new."""
        with self._lock:
            waiting, self._specs = self._specs, {}
        # Boxes in other views follow what one has chosen.
        new, self._changed = self._changed, False
        for layer, specs in waiting.items():
            known = self._pictures.get(layer, {})
            pictures = dict(known)
            for spec in specs:
                if spec.key in known:
                    known[spec.key].update(spec)
                else:
                    pictures[spec.key] = CurvePicture(spec)
                    new = True
            self._pictures.pop(layer, None)
            self._pictures[layer] = pictures  # whole: the painter thread reads it meanwhile
        for layer in list(self._pictures)[:-MOST_LAYERS]:
            if layer not in waiting:
                for picture in self._pictures.pop(layer).values():
                    picture.close()
        return new

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


def _phases(series: list[Series]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.phase for one in series if one.phase))


def newest_text(spec: FigureSpec) -> str:
    """The last number of each line, such as `train, epoch 3: mean 0.21, max 4.5.`"""
    lines: dict[tuple[str, int], list[str]] = {}
    for line in spec.lines:
        if len(line.xs):
            place = (line.phase, int(line.xs[-1]))
            lines.setdefault(place, []).append(f"{line.label} {line.values[-1]:.3g}")
    return " ".join(
        f"{phase}, epoch {epoch + 1}: {', '.join(numbers)}.".lstrip(", ")
        for (phase, epoch), numbers in lines.items()
    )


def legend(spec: FigureSpec) -> list[protocol_statistics.CurveLine]:
    """Each line once, with its newest number."""
    first = next((line.phase for line in spec.lines if len(line.values)), "")
    return [
        {
            "label": line.label,
            "color": line.color,
            "newest": finite(float(line.values[-1])) if len(line.values) else None,
        }
        for line in spec.lines
        if line.phase == first
    ]


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
