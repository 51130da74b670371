"""What the model is given, alone in a cell: to be looked at, changed and pinned."""

from __future__ import annotations

from nansense_widgets.widgets.cards import CardsPart

__all__ = ["Inputs"]


class Inputs(CardsPart, front_end="inputs"):
    """`session.inputs()`: samples of the batch, what is changed about them, what the model says of them."""

    _opens_on = "inputs"
