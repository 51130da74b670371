"""The instruments of a session: what is registered, what they gave, and what each batch does with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType

from nansense_widgets.run.position import BatchPosition
from nansense_widgets.stats.instruments.batch import InstrumentBatch
from nansense_widgets.stats.instruments.guard import undisturbed
from nansense_widgets.stats.instruments.held import Rewritten
from nansense_widgets.stats.instruments.live import ModelParts
from nansense_widgets.stats.instruments.registry import Kind, Registry
from nansense_widgets.stats.instruments.store import MetricsSnapshot, MetricStore

__all__ = ["Instruments"]


class Instruments:
    """Evaluation happens on the training thread, everything else on any."""

    def __init__(self) -> None:
        self.registry = Registry()
        self._store = MetricStore()
        self._rewritten = Rewritten()
        self._notes: dict[str, str] = {}

    def begin(self, parts: Callable[[], ModelParts], position: BatchPosition) -> InstrumentBatch | None:
        """What one batch does; None if nothing is registered."""
        if not self.registry.kinds:
            return None
        return InstrumentBatch(self.registry, self._store, self._rewritten, self._notes, parts(), position)

    def snapshot(
        self, layers: Collection[str] | None, batches: Callable[[str], int | None]
    ) -> MetricsSnapshot:
        """All series as they are now, or those of some layers."""
        kinds = self.registry.kinds
        notes = {name: why for name, why in dict(self._notes).items() if not layers or name in ("", *layers)}
        errors = {name: why for name, why in self.registry.errors.items() if kinds.get(name) == "metric"}
        return MetricsSnapshot(
            self._store.snapshot(layers, batches), MappingProxyType(errors), MappingProxyType(notes)
        )

    def show(self, metrics: MetricsSnapshot, kinds: Mapping[str, Kind], errors: Mapping[str, str]) -> None:
        """Hold the series of another run, and know its instruments by name."""
        self._store.show(metrics.series)
        self._notes = dict(metrics.notes)
        self.registry.show(kinds, errors)

    def sizes(self) -> Iterator[tuple[str, int]]:
        """Layer and bytes of the series that are held."""
        return self._store.sizes()

    def rewind(self, epoch: int, batch: int = 0, phase: str | None = None) -> None:
        """Drop what was collected in this batch and those after it, and tell the instruments.

        With a `phase`, which goes on, the others of its epoch were before it and stay.
        """
        self._store.drop_from(epoch, batch, phase)
        self._tell(epoch)

    def restart(self) -> None:
        """Another run begins."""
        self._store.clear()
        self._notes.clear()
        self._tell(0)

    def _tell(self, epoch: int) -> None:
        if self.registry.kinds:
            with undisturbed():
                self.registry.rewound(epoch)

    def release(self) -> None:
        """Nothing will be evaluated any more."""
        self._store.clear()
        self._notes.clear()
        self.registry.clear()
