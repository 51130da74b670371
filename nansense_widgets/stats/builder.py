"""The patches of one layer in one phase of one epoch, as they come."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable

from nansense_widgets.stats.cut import Cutting
from nansense_widgets.stats.gallery import ChannelExtremes, Gallery, InputKind
from nansense_widgets.stats.performance import WatchPerformance
from nansense_widgets.stats.ranking import Ranking

__all__ = ["GalleryBuilder"]


class GalleryBuilder:
    """Filled on the training thread, read on any.

    Args:
        settings: how many channels and patches there are to be.
    """

    def __init__(self, settings: WatchPerformance) -> None:
        self.settings = settings
        self._count = settings.samples_per_channel
        self._lock = threading.Lock()
        self._ends: dict[tuple[str, int], Ranking[Cutting]] = {}
        self._channels = 0
        self._rows = 0
        self._nan = 0
        self._input = ""
        self._kind: InputKind = "picture"
        self.note = ""
        self.refused = False
        """There was no room for it."""

    @property
    def is_empty(self) -> bool:
        """Nothing has been collected yet."""
        return not self._ends

    def begin(self, name: str, kind: InputKind, channels: int, rows: int) -> bool:
        """Say what patches are to come; False if they are of another kind than those that are there."""
        if self._ends:
            return (name, kind, rows) == (self._input, self._kind, self._rows)
        self._input, self._kind, self._channels, self._rows = name, kind, channels, rows
        return True

    def ranking(self, by: str, sign: int) -> Ranking[Cutting]:
        """The samples with the largest (1) or smallest (-1) responses by `pixel` or `average`."""
        found = self._ends.get((by, sign))
        if found is None:
            found = self._ends[(by, sign)] = Ranking(self._rows, self._count, sign)
        return found

    def add(self, cuttings: Iterable[tuple[str, int, int, Cutting]]) -> None:
        """Keep what belongs to an end (`by`, sign) of a channel."""
        with self._lock:
            for by, sign, channel, cutting in cuttings:
                self.ranking(by, sign).add(channel, cutting)

    def count_nan(self, nan: int) -> None:
        """Responses that were passed over."""
        self._nan += nan

    def copy(self) -> GalleryBuilder:
        """An independent copy; the patches themselves are shared, since nothing changes them."""
        with self._lock:
            other = copy.copy(self)
            other._lock = threading.Lock()
            other._ends = {end: ranking.copy() for end, ranking in self._ends.items()}
        return other

    def snapshot(self) -> Gallery:
        """What is known now."""
        with self._lock:
            return Gallery(
                self._input,
                self._kind,
                self._channels,
                self._of("pixel"),
                self._of("average"),
                self._count,
                self._nan,
                self.note,
            )

    def _of(self, by: str) -> tuple[ChannelExtremes, ...]:
        high, low = self._ends.get((by, 1)), self._ends.get((by, -1))
        if high is None or low is None:
            return ()
        return tuple(
            ChannelExtremes(*(tuple(cutting.patch() for cutting in end.of(channel)) for end in (high, low)))
            for channel in range(self._rows)
        )
