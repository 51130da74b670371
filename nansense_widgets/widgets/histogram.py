"""The statistics and histograms of one layer, alone in a cell."""

from __future__ import annotations

from nansense_widgets.widgets.cards import CardsPart

__all__ = ["Histogram"]


class Histogram(CardsPart, front_end="histogram"):
    """`session.histogram(layer)`: the card of one layer, with its statistics."""

    _opens_on = "histogram"
