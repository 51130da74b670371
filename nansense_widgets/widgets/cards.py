"""The view model of a layer card: from a snapshot and what a view wants to see, to messages and bytes."""

from __future__ import annotations

from typing import Any

import torch

from nansense_widgets.capture.snapshot import BatchSnapshot, LeafValue
from nansense_widgets.widgets import protocol
from nansense_widgets.widgets.source import Source

__all__ = ["CardPainter"]


class CardPainter:
    """Paints cards on the painter thread; remembers the scale of what it painted last."""

    def __init__(self, source: Source) -> None:
        self._source = source
