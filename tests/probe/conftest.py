"""Sessions that stand at a pause after their first batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import nansense_widgets
from nansense_widgets import Session
from tests.driver import TIMEOUT_S

Paused = Callable[..., Session]


@pytest.fixture
def paused() -> Iterator[Paused]:
    """Starts a session of a model on its batches, and waits for the first pause; all layers are watched."""
    sessions: list[Session] = []

    def start(
        model: nn.Module,
        batches: list[Any],
        *,
        loss: Callable[[nn.Module, Any], torch.Tensor] | None = None,
        train: bool = True,
        epochs: int = 1,
        **kwargs: Any,
    ) -> Session:
        torch.manual_seed(0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        session = nansense_widgets.start(model, optimizer=optimizer, **kwargs)
        session.watch("*")
        sessions.append(session)

        def loop() -> None:
            for _ in session.epochs(epochs):
                model.train(train)
                for item in session.batches(batches, phase="train"):
                    optimizer.zero_grad()
                    found = (loss or classified)(model, item)
                    found.backward()
                    optimizer.step()

        session.launch(loop)
        assert session.wait_until_paused(timeout=TIMEOUT_S)
        session.watch("*")
        return session

    yield start
    for session in sessions:
        session.close()


def classified(model: nn.Module, item: Any) -> torch.Tensor:
    return nn.functional.cross_entropy(model(item[0]), item[1])


def pictures(count: int = 3, samples: int = 4) -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(samples, 1, 8, 8, generator=generator), torch.arange(samples) % 3) for _ in range(count)
    ]


def small_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Conv2d(4, 4, 3, padding=1),
        nn.Flatten(),
        nn.Linear(256, 3),
    )


def step(session: Session) -> None:
    pauses = session.pause_count
    session.step_batch()
    assert session.wait_until_paused(after_pauses=pauses, timeout=TIMEOUT_S)
