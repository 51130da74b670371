"""What the debugger itself holds in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.capture.values import size_of

__all__ = ["MemoryEntry", "MemoryReport", "snapshot_entries"]


@dataclass(frozen=True)
class MemoryEntry:
    """One kind of thing held for one layer or parameter.

    Attributes:
        kind: `snapshot`: tensors of the last captured batch; `statistics`: counts and moments of a layer;
            `parameters`: of its parameters; `metrics`: series of the user's own metrics; `patches`: extreme
            input patches; `run log`: a series of the run; `history`: states and items to go back to;
            `branches`: series of futures that were left; `moment`: what a frozen moment is replayed from.
        name: of the layer or parameter, or of what it is.
        bytes: its size; of small Python objects an estimate.
    """

    kind: str
    name: str
    bytes: int


@dataclass(frozen=True)
class MemoryReport:
    """What a session holds, largest first; `print` it for a table.

    Attributes:
        entries: one a kind and layer (or parameter).
    """

    entries: tuple[MemoryEntry, ...]

    @staticmethod
    def of(entries: Iterable[MemoryEntry]) -> MemoryReport:
        """The report of some entries; those of one kind and name are added up."""
        total: Counter[tuple[str, str]] = Counter()
        for entry in entries:
            total[(entry.kind, entry.name)] += entry.bytes
        found = (MemoryEntry(kind, name, size) for (kind, name), size in total.items() if size)
        return MemoryReport(tuple(sorted(found, key=lambda entry: (-entry.bytes, entry.kind, entry.name))))

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(entry.bytes for entry in self.entries)

    @property
    def by_kind(self) -> dict[str, int]:
        """Kind to bytes, largest first."""
        return self._by("kind")

    @property
    def by_name(self) -> dict[str, int]:
        """Layer or parameter to bytes, largest first."""
        return self._by("name")

    def __str__(self) -> str:
        lines = [f"{_said(self.total)} held by the debugger"]
        for kind, size in self.by_kind.items():
            lines.append(f"  {kind:<14} {_said(size):>12}")
            of_kind = [entry for entry in self.entries if entry.kind == kind]
            lines += [f"    {entry.name:<32} {_said(entry.bytes):>12}" for entry in of_kind[:8]]
            if len(of_kind) > 8:
                lines.append(f"    … and {len(of_kind) - 8} more")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"<MemoryReport: {self.total / 1e6:,.1f} MB in {len(self.entries)} entries; print it for a table>"
        )

    def _by(self, field: str) -> dict[str, int]:
        found: Counter[str] = Counter()
        for entry in self.entries:
            found[getattr(entry, field)] += entry.bytes
        return dict(found.most_common())


def snapshot_entries(snapshot: BatchSnapshot | None) -> Iterator[MemoryEntry]:
    """What the last captured batch holds."""
    if snapshot is None:
        return
    for layer, calls in snapshot.layers.items():
        for call in calls:
            for leaf in call.leaves:
                for tensor in (leaf.activation, leaf.gradient):
                    if tensor is not None:
                        yield MemoryEntry("snapshot", layer, size_of(tensor))
    for tensors in (snapshot.weights, snapshot.weight_gradients, snapshot.weight_updates, snapshot.buffers):
        for name, tensor in tensors.items():
            yield MemoryEntry("snapshot", name, size_of(tensor))
    for name, custom in (*snapshot.custom_activations.items(), *snapshot.custom_weight_tensors.items()):
        for tensor in custom.values():
            yield MemoryEntry("snapshot", name, size_of(tensor))
    for name, state in snapshot.optimizer_state.items():
        for tensor in state.values():
            yield MemoryEntry("snapshot", name, size_of(tensor))


def _said(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"
