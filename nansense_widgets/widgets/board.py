"""Figures that a view shows: what they are to show comes from the painter thread, the main thread draws."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence

from nansense_widgets.widgets import protocol_statistics
from nansense_widgets.widgets.figures import CurvePicture, FigureSpec

__all__ = ["FigureBoard"]

MOST_CARDS = 24
"""Cards whose figures are kept: each is some dozens of widgets. Those looked at last stay."""

WAIT = "Making the figures, as soon as the kernel's main thread is free\u2026"


class FigureBoard:
    """bqplot figures by card and key. All views of a card show the same ones, which change in place."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._specs: dict[str, Sequence[FigureSpec]] = {}
        """What is to be drawn of each card that is looked at, until the main thread has."""
        self._pictures: dict[str, dict[str, CurvePicture]] = {}

    def show(
        self, card: str, specs: Sequence[FigureSpec]
    ) -> tuple[str, list[protocol_statistics.CurveFigure]]:
        """Have figures drawn (painter thread): why some are not there yet, and those that are."""
        importlib.import_module("bqplot")  # takes seconds, which the main thread is not to spend
        with self._lock:
            self._specs[card] = specs
        pictures = self._pictures.get(card, {})
        figures: list[protocol_statistics.CurveFigure] = [
            {
                "key": spec.key,
                "title": spec.title,
                "unit": spec.unit,
                "text": spec.newest_text,
                "lines": spec.legend,
                "problem": "",
                "model": pictures[spec.key].model,
            }
            for spec in specs
            if spec.key in pictures
        ]
        return "" if len(figures) == len(specs) else WAIT, figures

    @property
    def waits(self) -> bool:
        """Whether the main thread has something to draw."""
        return bool(self._specs)

    def refresh(self) -> bool:
        """Make and change the figures (main thread only); True if some are new."""
        with self._lock:
            waiting, self._specs = self._specs, {}
        new = False
        for card, specs in waiting.items():
            known = self._pictures.get(card, {})
            pictures = dict(known)
            for spec in specs:
                if spec.key in known:
                    known[spec.key].update(spec)
                else:
                    pictures[spec.key] = CurvePicture(spec)
                    new = True
            self._pictures.pop(card, None)
            self._pictures[card] = pictures  # whole: the painter thread reads it meanwhile
        for card in list(self._pictures)[:-MOST_CARDS]:
            if card not in waiting:
                for picture in self._pictures.pop(card).values():
                    picture.close()
        return new
