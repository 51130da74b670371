"""Who is told of a loop's batches, and who gives it its epochs; the rooms above fill these in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from nansense_widgets.run.item import LoaderItem
from nansense_widgets.run.position import BatchPosition

__all__ = ["BatchFreezer", "BatchObserver", "Blind", "EpochSource"]


class BatchObserver(Protocol):
    """Watches single batches; called on the training thread. What it raises is its own to report."""

    def begin(
        self, position: BatchPosition, *, captures: bool, pauses: bool, item: LoaderItem | None = None
    ) -> None:
        """Install what this batch needs, if it `captures` or something runs along every batch.

        `item` is what the loader gave, if it is known; it must not be kept.
        """

    def end(self, position: BatchPosition, *, complete: bool) -> None:
        """Take everything down again and publish; `complete` False: the body broke off or raised."""

    def restart(self) -> None:
        """Another run begins: epochs are counted anew."""

    def rest(self) -> None:
        """The loop is over; another one may come."""


class BatchFreezer(Protocol):
    """Keeps all of one batch; called on the training thread. What it raises is its own to report."""

    def begins(self, position: BatchPosition, item: LoaderItem | None) -> bool:
        """A batch is about to begin; whether it is the one to be kept, and so has to be captured."""

    def ended(self, position: BatchPosition) -> None:
        """It is over, and its values are in the statistics."""


class EpochSource(Protocol):
    """Gives the epochs of a run, perhaps some of them again."""

    def iter_epochs(self) -> Iterator[int]:
        """Epochs from where the run stands to its end."""

    def go_back(self, epoch: int) -> None:
        """The next `iter_epochs` begins with this one."""


class Blind:
    """The observer of a disabled session: it sees nothing."""

    def begin(
        self, position: BatchPosition, *, captures: bool, pauses: bool, item: LoaderItem | None = None
    ) -> None:
        """Nothing to install."""

    def end(self, position: BatchPosition, *, complete: bool) -> None:
        """Nothing to publish."""

    def restart(self) -> None:
        """Nothing to forget."""

    def rest(self) -> None:
        """Nothing to take down."""
