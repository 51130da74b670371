"""Sizes of what is sent to the browser once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nansense_widgets
from bench.table import Row

LIMIT = 150_000


def measure() -> Iterator[Row]:
    """One row a widget."""
    static = Path(nansense_widgets.__file__).parent / "widgets/static"
    for path in sorted(static.glob("*.js")):
        size = path.stat().st_size
        yield Row(f"JavaScript of {path.stem}", f"{size / 1000:.0f} kB", "<= 150 kB", size <= LIMIT)
