"""A few batches of a test's own under a session, and its cards as the browser gets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

import nansense_widgets
from nansense_widgets.capture.snapshot import LeafValue
from nansense_widgets.widgets.cards import CardPainter
from tests.driver import TIMEOUT_S, Driver
from tests.widgets.test_messages import decoded, want


class Watched(Driver):
    """Stands after the first batch, with everything watched."""

    def again(self) -> None:
        """One more batch, with the ops watched that are known by now."""
        self.session.watch("*")
        self.do("step_batch")

    def leaf(self, layer: str, call: int = 1, leaf: int = 0) -> LeafValue:
        return self.snapshot.layers[layer][call - 1].leaves[leaf]

    def card(self, layer: str, **other: Any) -> Any:
        """The card's payload; `shown` is what its strips show, as the browser decodes it."""
        buffers: list[bytes] = []
        wanted: Any = want(layer, **other)
        card: Any = CardPainter(self.session).card(self.snapshot, wanted, buffers)
        shown = {
            strip["kind"]: decoded(strip, buffers).reshape(strip["count"], *strip["tile"])
            for strip in card["content"]["strips"]
            if strip["buffer"] >= 0
        }
        return card | {
            "shown": shown,
            "by_kind": {strip["kind"]: strip for strip in card["content"]["strips"]},
        }

    def draws(self, layer: str, expected: torch.Tensor, kind: str = "activations", **other: Any) -> bool:
        """Whether the card shows these values (channels, rows, columns), to the half step of a code."""
        card = self.card(layer, **other)
        step = card["by_kind"][kind]["scale"] / 126
        shown = card["shown"][kind]
        return shown.shape == tuple(expected.shape) and bool(
            np.allclose(shown, expected.detach().numpy(), atol=0.51 * step)
        )


@contextmanager
def watched(
    model: nn.Module, body: Callable[[int], Any], *, batches: int = 3, watch: str = "*", **arguments: Any
) -> Iterator[Watched]:
    """Train `batches` batches, each `body(index)`; at the end the loop has run through and raised nothing."""
    session = nansense_widgets.start(model, **arguments)
    if watch:
        session.watch(watch)

    def loop() -> str:
        for index in session.batches(range(batches), phase="train"):
            body(index)
        return "trained"

    driver = Watched(session, loop)
    try:
        yield driver
        session.detach()
        assert session.wait(TIMEOUT_S)
        assert session.result == "trained"
        assert session.notice == ""
    finally:
        session.close()
