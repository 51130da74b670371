"""Small trainings made anew, from the same seeds, as often as wanted; and whether two show the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

import nansense_widgets
from nansense_widgets import Session
from nansense_widgets.stats.rows import RowCounts

F = nn.functional

AT: dict[str, Any] = {"phase": "train", "epoch": 1, "batch_idx": 2}


class Program:
    """Dropout and BatchNorm in both phases, a momentum, and a logged number."""

    watched: tuple[str, ...] = ("*",)

    def model(self) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Dropout(0.4),
            nn.Conv2d(8, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2),
            nn.Linear(144, 5),
        )  # fmt: skip

    def data(self) -> Iterable[Any]:
        return [(torch.randn(6, 3, 8, 8), torch.randint(0, 5, (6,))) for _ in range(4)]

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        return F.cross_entropy(model(batch[0]), batch[1])

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


class Training:
    """One run of a program, under a session or bare."""

    def __init__(self, program: Program, *, enabled: bool = True) -> None:
        torch.manual_seed(3)
        self.program = program
        self.model = program.model()
        self.data = program.data()
        self.optimizer = program.optimizer(self.model)
        self.session = nansense_widgets.start(self.model, optimizer=self.optimizer, enabled=enabled)
        self.losses: list[float] = []

    def loop(self) -> None:
        for _ in self.session.epochs(3):
            self.model.train()
            for batch in self.session.batches(self.data, phase="train"):
                self.optimizer.zero_grad()
                loss = self.program.loss(self.model, batch)
                loss.backward()
                self.optimizer.step()
                self.losses.append(loss.item())
                self.session.log("half", loss.item() / 2)
            self.model.eval()
            with torch.no_grad():
                for batch in self.session.batches(list(self.data)[:2], phase="val"):
                    self.losses.append(self.program.loss(self.model, batch).item())


class Tokens(Program):
    """A dictionary of tokens and a mask, attention, and Adam."""

    def model(self) -> nn.Module:
        return Reader()

    def data(self) -> Iterable[Any]:
        def batch() -> dict[str, Any]:
            ids = torch.randint(0, 30, (3, 7))
            return {"ids": ids, "pad": ids > 27, "more": (torch.rand(3), ["a", "b", "c"])}

        return [batch() for _ in range(4)]

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        logits = model(batch["ids"], pad=batch["pad"])["logits"]
        return (
            F.cross_entropy(logits[:, :-1].flatten(0, 1), batch["ids"][:, 1:].flatten())
            + batch["more"][0].mean()
        )

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=0.01)


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.attend = nn.MultiheadAttention(16, 4, dropout=0.1, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.out = nn.Linear(16, 30)

    def forward(self, ids: torch.Tensor, pad: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.embed(ids)
        y, _ = self.attend(x, x, x, key_padding_mask=pad, need_weights=False)
        hidden = F.dropout(self.norm(x + F.gelu(y)), 0.1, self.training)
        return {"logits": self.out(hidden), "hidden": hidden}


class Halves(Program):
    """Autocast to bfloat16."""

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return F.cross_entropy(model(batch[0]), batch[1])


NEVER = {"cost", "locate"}
"""Fields that differ from run to run, or are functions."""


def differences(a: Any, b: Any, place: str = "") -> list[str]:
    """Where two values differ, bit by bit; the first few places."""
    if isinstance(a, torch.Tensor):
        same = isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape
        return [] if same and bits(a) == bits(b) else [place]
    if isinstance(a, np.ndarray):
        return [] if isinstance(b, np.ndarray) and np.array_equal(a, b, equal_nan=True) else [place]
    if isinstance(a, RowCounts):
        return differences(a.parts(), b.parts(), place)
    if type(a) is not type(b) and not (isinstance(a, Mapping) and isinstance(b, Mapping)):
        return [f"{place}: {type(a).__name__} and {type(b).__name__}"]
    if is_dataclass(a):
        names = [field.name for field in fields(a) if field.name not in NEVER]
        pairs = [(getattr(a, name), getattr(b, name), f"{place}.{name}") for name in names]
    elif isinstance(a, Mapping):
        if list(a) != list(b):
            return [f"{place}: {list(a)} and {list(b)}"]
        pairs = [(a[key], b[key], f"{place}[{key!r}]") for key in a]
    elif isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return [f"{place}: {len(a)} and {len(b)} entries"]
        pairs = [(x, y, f"{place}[{at}]") for at, (x, y) in enumerate(zip(a, b, strict=True))]
    else:
        return [] if a == b or (a != a and b != b) else [f"{place}: {a!r} and {b!r}"]  # noqa: PLR0124  NaN
    return [found for x, y, where in pairs for found in differences(x, y, where)][:5]


def bits(tensor: torch.Tensor) -> bytes:
    copy = tensor.detach().clone(memory_format=torch.contiguous_format)
    return copy.view(-1).view(torch.uint8).numpy().tobytes()


def shown(session: Session) -> dict[str, Any]:
    """All that a session shows, besides the way it goes on."""
    watch = session.watch_snapshot()
    fields_of = [
        patch.receptive_field
        for stats in watch.stats.values()
        if stats.gallery is not None
        for patch in stats.gallery
    ]
    return {
        "snapshot": session.snapshot,
        "watched": session.watched_layers,
        "statistics": watch,
        "fields": fields_of,
        "metrics": session.watch_metrics_snapshot(),
        "instruments": session.instruments,
        "run log": session.run_log,
        "hyperparameters": session.hyperparameters,
        "position": session.live_position,
        "standing": session.standing,
        "progress": session.progress,
        "phases": session.schedule.phases,
        "frequency": session.update_frequency,
        "performance": session.watch_performance,
        "layers": {name: node for name, node in session.architecture.nodes.items() if node.ran},
        "edges": sorted(session.architecture.edges),
    }
