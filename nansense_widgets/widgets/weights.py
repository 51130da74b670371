"""The weights of one layer, alone in a cell."""

from __future__ import annotations

from nansense_widgets.widgets.cards import CardsPart

__all__ = ["Weights"]


class Weights(CardsPart, front_end="weights"):
    """`session.weights(layer)`: the card of one layer, with its parameters, their gradients and updates."""

    _opens_on = "weights"
