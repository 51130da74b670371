"""A moment that is frozen and loaded shows the very numbers, and neither saving nor loading moves a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

import nansense_widgets
from nansense_widgets import Session

F = nn.functional
AT = {"phase": "train", "epoch": 1, "batch_idx": 2}


class Program:
    """A model, its data and its step, made anew from the same seed as often as wanted."""

    watched: tuple[str, ...] = ("*",)

    def model(self) -> nn.Module:
        raise NotImplementedError

    def data(self) -> list[Any]:
        raise NotImplementedError

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        raise NotImplementedError

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def train(self, path: Path | None, at: Mapping[str, Any] = AT) -> tuple[Session, nn.Module]:
        torch.manual_seed(3)
        model, data = self.model(), self.data()
        optimizer = self.optimizer(model)
        session = nansense_widgets.start(model, optimizer=optimizer)
        session.detach()
        if path is not None:
            session.watch(*self.watched)
            session.freeze_moment(path, **at)  # type: ignore[arg-type]
        for _ in session.epochs(3):
            model.train()
            for batch in session.batches(data, phase="train"):
                optimizer.zero_grad()
                loss = self.loss(model, batch)
                loss.backward()
                optimizer.step()
                session.log("accuracy", loss.item() / 2)
            model.eval()
            with torch.no_grad():
                for batch in session.batches(data[:2], phase="val"):
                    self.loss(model, batch)
            if path is not None and session.schedule.phase_order == ["train", "val"]:
                continue
        return session, model


class Pictures(Program):
    def model(self) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Dropout(0.4),
            nn.Conv2d(8, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(144, 5),
        )  # fmt: skip

    def data(self) -> list[Any]:
        return [(torch.randn(6, 3, 8, 8), torch.randint(0, 5, (6,))) for _ in range(5)]

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        return F.cross_entropy(model(batch[0]), batch[1])


def freeze(program: Program, path: Path, at: Mapping[str, Any] = AT) -> Seen:
    """What the session showed at the moment that it froze; the run is over."""
    seen: list[Seen] = []
    session_of: list[Session] = []
    write = nansense_widgets.history.freezer.write_moment

    def spy(*args: Any) -> None:
        write(*args)
        seen.append(Seen(session_of[0]))

    del write, spy
    return seen[0]


class Seen:
    def __init__(self, session: Session) -> None:
        self.snapshot = session.snapshot


def test_quick(tmp_path: Path) -> None:
    program = Pictures()
    session, _ = program.train(tmp_path / "a.moment")
    assert session.notice == ""
    loaded = nansense_widgets.load_moment(program.model(), tmp_path / "a.moment", replay=program.loss)
    print(loaded.snapshot, loaded.status, loaded.notice, loaded.snapshot.notes)
    print(
        loaded.watch_snapshot(),
        loaded.run_log.names,
        loaded.progress,
        loaded.events,
        loaded.hyperparameters[:2],
    )
    print((tmp_path / "a.moment").stat().st_size)
    assert 0
