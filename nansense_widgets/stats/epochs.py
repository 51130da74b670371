"""Buckets by name, phase and epoch: the last epochs whole, of older ones the few numbers that are kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

__all__ = ["MOST_EPOCHS", "SMALL", "WHOLE_EPOCHS", "Epochs", "EpochsMark"]

WHOLE_EPOCHS = 2
"""Epochs of a phase, those begun last, that are kept whole; of others scalars and quantiles."""

MOST_EPOCHS = 1000
"""Older epochs of a phase that are kept; of more, every other one of their older half goes."""

SMALL = 1700
"""Bytes of the Python objects of one epoch's numbers, about."""

Own = TypeVar("Own")
Snapshot = TypeVar("Snapshot")
Out_co = TypeVar("Out_co", covariant=True)


class Whole(Protocol[Out_co]):
    """Where values of one epoch add up."""

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""

    def snapshot(self, name: str, phase: str, epoch: int) -> Out_co:
        """What is known now."""

    def collapsed(self, name: str, phase: str, epoch: int) -> Out_co:
        """What is kept of it when newer epochs have begun."""

    def copy(self: Own) -> Own:
        """An independent copy."""


B = TypeVar("B", bound=Whole)  # type: ignore[type-arg]


@dataclass(frozen=True)
class EpochsMark(Generic[B, Snapshot]):
    """All buckets at one moment: copies of those that still grow, the others themselves."""

    whole: dict[str, dict[tuple[str, int], B]]
    old: dict[str, dict[tuple[str, int], Snapshot]]
    growing: tuple[str, int]
    nbytes: int


class Epochs(Generic[B, Snapshot]):
    """Folding happens on the training thread, reading on any."""

    def __init__(self, is_precious: Callable[[Snapshot], bool] = lambda _: False) -> None:
        """`is_precious`: of the old epochs of which it is true, the first stays, however many there are."""
        self._is_precious = is_precious
        self._whole: dict[str, dict[tuple[str, int], B]] = {}
        self._old: dict[str, dict[tuple[str, int], Snapshot]] = {}
        self._lock = threading.Lock()

    def find(self, name: str, phase: str, epoch: int) -> B | None:
        """The bucket of an epoch that is kept whole."""
        whole = self._whole.get(name)
        return None if whole is None else whole.get((phase, epoch))

    def begin(self, name: str, phase: str, epoch: int, make: Callable[[], B]) -> B:
        """A new bucket; of epochs that are too many the one begun first collapses."""
        bucket = make()
        with self._lock:
            whole = self._whole.setdefault(name, {})
            old = dict(self._old.get(name, {}))  # a new one: marks hold that of before
            old.pop((phase, epoch), None)  # its values come again
            whole[(phase, epoch)] = bucket
            of_phase = [key for key in whole if key[0] == phase]
            for key in of_phase[:-WHOLE_EPOCHS]:
                old[key] = whole.pop(key).collapsed(name, *key)
            self._thin(old, phase)
            self._old[name] = old
        return bucket

    def show(self, snapshots: Mapping[tuple[str, str, int], Snapshot]) -> None:
        """Hold these in place of all: what they were of goes on elsewhere, or no more."""
        with self._lock:
            self._whole, self._old = {}, {}
            for (name, phase, epoch), snapshot in snapshots.items():
                self._whole.setdefault(name, {})
                self._old.setdefault(name, {})[(phase, epoch)] = snapshot

    def newest(self, name: str) -> B | None:
        """The bucket that was begun last."""
        with self._lock:
            whole = self._whole.get(name)
            return next(reversed(whole.values())) if whole else None

    def has_epoch(self, name: str, epoch: int) -> bool:
        """Whether any phase of an epoch has been begun."""
        with self._lock:
            return any(key[1] == epoch for kept in (self._whole, self._old) for key in kept.get(name, ()))

    def snapshots(self, names: Collection[str] | None = None) -> dict[tuple[str, str, int], Snapshot]:
        """All epochs of some names (None: of all), by name, phase and epoch."""
        with self._lock:
            wanted = self._whole if names is None else [name for name in names if name in self._whole]
            old = {(name, *key): kept for name in wanted for key, kept in self._old[name].items()}
            whole = {(name, *key): bucket for name in wanted for key, bucket in self._whole[name].items()}
        return {**old, **{key: bucket.snapshot(*key) for key, bucket in whole.items()}}

    def kept(self) -> dict[str, tuple[dict[tuple[str, int], B], Mapping[tuple[str, int], Snapshot]]]:
        """By name: buckets of epochs kept whole, and a mapping of the old ones that is never changed."""
        with self._lock:
            return {name: (dict(whole), self._old.get(name, {})) for name, whole in self._whole.items()}

    def buckets(self) -> Iterator[tuple[str, B]]:
        """Name and bucket of each epoch that is kept whole."""
        with self._lock:
            found = [(name, bucket) for name, whole in self._whole.items() for bucket in whole.values()]
        return iter(found)

    def sizes(self) -> Iterator[tuple[str, int]]:
        """Name and bytes of what is held."""
        with self._lock:
            old = [(name, len(kept) * SMALL) for name, kept in self._old.items()]
        yield from old
        for name, bucket in self.buckets():
            yield name, bucket.nbytes + SMALL

    def drop_from(self, epoch: int) -> None:
        """Forget this epoch and those after it."""
        with self._lock:
            for whole in self._whole.values():
                for key in [key for key in whole if key[1] >= epoch]:
                    del whole[key]
            self._old = {
                name: {key: kept for key, kept in old.items() if key[1] < epoch}
                for name, old in self._old.items()
            }

    def mark(self, phase: str, epoch: int) -> EpochsMark[B, Snapshot]:
        """This moment, to return to while the phase goes on: only its own buckets grow until then."""
        growing = (phase, epoch)
        with self._lock:
            whole = {name: _with_copy(buckets, growing) for name, buckets in self._whole.items()}
            old = dict(self._old)
        size = sum(buckets[growing].nbytes for buckets in whole.values() if growing in buckets)
        return EpochsMark(whole, old, growing, size)

    def return_to(self, mark: EpochsMark[B, Snapshot]) -> None:
        """All buckets are as they were then. The mark may be returned to again."""
        whole = {name: _with_copy(buckets, mark.growing) for name, buckets in mark.whole.items()}
        with self._lock:
            self._whole = whole
            self._old = dict(mark.old)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._whole.clear()
            self._old.clear()

    def _thin(self, old: dict[tuple[str, int], Snapshot], phase: str) -> None:
        epochs = sorted(epoch for of, epoch in old if of == phase)
        if len(epochs) > MOST_EPOCHS:
            first = next((epoch for epoch in epochs if self._is_precious(old[(phase, epoch)])), None)
            for epoch in epochs[1 : len(epochs) // 2 : 2]:
                if epoch != first:
                    del old[(phase, epoch)]


def _with_copy(buckets: dict[tuple[str, int], B], growing: tuple[str, int]) -> dict[tuple[str, int], B]:
    return {key: bucket.copy() if key == growing else bucket for key, bucket in buckets.items()}
