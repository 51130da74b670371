"""The dashboard: controls, graph and layer cards in one widget."""

from __future__ import annotations

from nansense_widgets.widgets.cards import CardsPart
from nansense_widgets.widgets.graph import GraphPart

__all__ = ["Dashboard"]


class Dashboard(GraphPart, CardsPart, front_end="dashboard"):
    """`session.dashboard()`: everything; its parts are also widgets of their own."""
