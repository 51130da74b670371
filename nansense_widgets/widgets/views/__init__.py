"""The views of a layer card, a module each: from what a session holds to a message and bytes.

To add one: its module here, a line in `VIEWS`, its shapes in `protocol.py`; on the other side its folder in
`js/src` and a line in `js/src/cards/views.ts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nansense_widgets.widgets import protocol
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.views.base import CardView, HasWidgets
from nansense_widgets.widgets.views.curves import CurvesView
from nansense_widgets.widgets.views.extremes import ExtremesView
from nansense_widgets.widgets.views.histogram import HistogramView
from nansense_widgets.widgets.views.inputs import InputsView
from nansense_widgets.widgets.views.run import RunView
from nansense_widgets.widgets.views.strips import StripsView
from nansense_widgets.widgets.views.timeline import TimelineView
from nansense_widgets.widgets.views.weights import WeightsView

__all__ = ["VIEWS", "CardView", "HasWidgets"]

VIEWS: Mapping[protocol.ViewName, Callable[[Source], CardView]] = {
    "strips": StripsView,
    "histogram": HistogramView,
    "extremes": ExtremesView,
    "curves": CurvesView,
    "run": RunView,
    "timeline": TimelineView,
    "weights": WeightsView,
    "inputs": InputsView,
}
"""Made once a widget, when first asked for."""
