"""All series of all metrics: by layer, phase, metric and the name of the series."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from nansense_widgets.run.position import BatchPosition
from nansense_widgets.stats.instruments.numbers import as_numbers
from nansense_widgets.stats.instruments.registry import Instrument
from nansense_widgets.stats.instruments.track import StillTrack, Track
from nansense_widgets.stats.series import MetricSeries

__all__ = ["MOST_SERIES", "MetricStore", "MetricsSnapshot"]

MOST_SERIES = 64
"""Series of one metric in one layer and phase: names made anew in each batch would fill the memory."""

Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class MetricsSnapshot:
    """Immutable view of every custom-metric series at a point in time.

    Attributes:
        series: by (layer, phase, metric, series); the last is the key that a metric's mapping gave, and `""`
            for plain numbers.
        errors: metric to what went wrong, of those that are off.
        notes: layer to batches that were left out, and why; `""` to what went wrong in the debugger itself.
    """

    series: Mapping[Key, MetricSeries]
    errors: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)

    def plots(self, layer: str, phase: str) -> dict[str, dict[str, MetricSeries]]:
        """Metric to series name to series, of one layer and phase, in sorted order."""
        found: dict[str, dict[str, MetricSeries]] = {}
        for key in sorted(self.series):
            if key[:2] == (layer, phase):
                found.setdefault(key[2], {})[key[3]] = self.series[key]
        return found

    def __repr__(self) -> str:  # the default one would print every point
        metrics = sorted({metric for _, _, metric, _ in self.series})
        return f"<MetricsSnapshot: {len(self.series)} series of {', '.join(metrics) or 'no metric'}>"


class MetricStore:
    """Values come on the training thread, snapshots are taken on any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tracks: dict[Key, Track] = {}
        self._defined: dict[str, Instrument] = {}
        self._of: dict[tuple[str, str, str], int] = {}

    def define(self, metric: Instrument) -> None:
        """Values of this definition come now; those of another one of the same name end."""
        before = self._defined.get(metric.name)
        if before is metric:
            return
        self._defined[metric.name] = metric
        if before is not None:
            for key, track in self._items():
                if key[2] == metric.name:
                    track.redefine(metric.reduce)

    def add(self, metric: Instrument, layer: str, position: BatchPosition, value: object) -> None:
        """What a metric returned for a layer; raises `TypeError` or `ValueError` for what cannot be kept."""
        # Mostly a plain number of a series that is there.
        if type(value) is float and (track := self._tracks.get((layer, position.phase, metric.name, ""))):
            track.add(position.epoch, position.batch_idx, value)
            return
        for name, number in as_numbers(value).items():
            key = (layer, position.phase, metric.name, name)
            track = self._tracks.get(key) or self._begin(key, metric)
            track.add(position.epoch, position.batch_idx, number)

    def settle(self, metric: Instrument) -> None:
        """Fold what is there of the epoch that goes on (training thread)."""
        if callable(metric.reduce):
            for key, track in self._items():
                if key[2] == metric.name:
                    track.settle()

    def _begin(self, key: Key, metric: Instrument) -> Track:
        of = self._of.get(key[:3], 0)
        if of >= MOST_SERIES:
            raise ValueError(
                f"more than {MOST_SERIES} names in one layer's mappings: each is a series of its own"
            )
        with self._lock:
            self._of[key[:3]] = of + 1
            self._tracks[key] = track = Track(metric.reduce)
        return track

    def snapshot(
        self, layers: Collection[str] | None, batches: Callable[[str], int | None]
    ) -> Mapping[Key, MetricSeries]:
        """All series, or those of some layers; `batches` tells how many a phase has in an epoch."""
        found = {
            key: track.snapshot(batches(key[1]))
            for key, track in self._items()
            if layers is None or key[0] in layers
        }
        return MappingProxyType({key: series for key, series in found.items() if len(series)})

    def show(self, series: Mapping[Key, MetricSeries]) -> None:
        """Hold the series of another run."""
        with self._lock:
            self._tracks = {key: StillTrack(one) for key, one in series.items()}

    def sizes(self) -> Iterator[tuple[str, int]]:
        """Layer and bytes of what is held."""
        for key, track in self._items():
            yield key[0], track.nbytes

    def drop_from(self, epoch: int, batch: int = 0, phase: str | None = None) -> None:
        """Forget the values of this batch and of all after it, of one phase or of all."""
        for key, track in self._items():
            if phase is None or key[1] == phase:
                track.drop_from(epoch, batch)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._tracks, self._of, self._defined = {}, {}, {}

    def _items(self) -> list[tuple[Key, Track]]:
        with self._lock:
            return list(self._tracks.items())
