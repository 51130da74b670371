"""The extreme patches of one layer, alone in a cell."""

from __future__ import annotations

from nansense_widgets.widgets.cards import CardsPart

__all__ = ["Extremes"]


class Extremes(CardsPart, front_end="extremes"):
    """`session.extremes(layer)`: the card of one layer, with the inputs that drove its channels."""

    _opens_on = "extremes"
