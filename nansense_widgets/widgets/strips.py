"""Strips of activations and gradients, alone in a cell."""

from __future__ import annotations

from nansense_widgets.widgets.cards import CardsPart

__all__ = ["Strips"]


class Strips(CardsPart, front_end="strips"):
    """`session.strips(*layers)`: cards of the given layers, or of all watched ones."""
