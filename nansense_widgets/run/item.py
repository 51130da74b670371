"""What the loader gave for one batch."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["LoaderItem"]


class LoaderItem(NamedTuple):
    """An item, where it came from, and how many items the same iterator gave before it (None: not known).

    It is looked at as the batch begins and not kept: the loop's own variable is to be the only one that
    keeps a batch alive.
    """

    value: Any
    loader: Any = None
    number: int | None = None
