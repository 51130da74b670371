"""A small program under a session, and stepping it from the test's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

import nansense_widgets
from nansense_widgets import BatchSnapshot, Session

TIMEOUT_S = 20.0


def small_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))


def small_data(batches: int = 5) -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(1)
    return [(torch.randn(4, 1, 4, 4), torch.randint(0, 3, (4,))) for _ in range(batches)]


class Driver:
    """Runs `loop` in the session's worker; each command waits for the pause that it leads to."""

    def __init__(self, session: Session, loop: Callable[[], Any]) -> None:
        self.session = session
        session.launch(loop)
        self.paused()

    def paused(self, after: int = 0) -> None:
        assert self.session.wait_until_paused(after_pauses=after, timeout=TIMEOUT_S), self.session.status

    def do(self, command: str, *args: Any, **kwargs: Any) -> None:
        before = self.session.pause_count
        getattr(self.session, command)(*args, **kwargs)
        self.paused(before)

    @property
    def live(self) -> tuple[str, int, int]:
        assert self.session.live_position is not None
        return self.session.live_position.key

    @property
    def snapshot(self) -> BatchSnapshot:
        assert self.session.snapshot is not None
        return self.session.snapshot

    @property
    def shown(self) -> tuple[str, int, int]:
        return self.snapshot.position.key

    def finish(self) -> Any:
        self.session.detach()
        assert self.session.wait(TIMEOUT_S)
        return self.session.result


def small_training(**arguments: Any) -> tuple[Session, nn.Module, torch.optim.Optimizer]:
    """The small classifier with its optimizer, under a session."""
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return nansense_widgets.start(model, optimizer=optimizer, **arguments), model, optimizer


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: Iterable[tuple[torch.Tensor, torch.Tensor]]
) -> None:
    for x, y in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def start_small(**arguments: Any) -> tuple[Session, Callable[[], Any]]:
    """A session over a small classifier and its loop of 3 epochs: 5 training and 2 validation batches."""
    session, model, optimizer = small_training(**arguments)
    data = small_data()

    def loop() -> str:
        for _ in session.epochs(3):
            train(model, optimizer, session.batches(data, phase="train"))
            with torch.no_grad():
                for x, _y in session.batches(data[:2], phase="val"):
                    model(x)
        return "trained"

    return session, loop
