"""A moment is small: weights and gradients around one batch and the optimizer's state, no activations."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import nansense_widgets

F = nn.functional


class Block(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        same = stride == 1 and inner == outer
        shortcut = (nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))
        self.down = nn.Identity() if same else nn.Sequential(*shortcut)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inside = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        out: torch.Tensor = F.relu(inside + self.down(x))
        return out


def resnet18() -> nn.Module:
    """The shape of the usual one, 11.7 million parameters."""
    widths = (64, 64, 128, 128, 256, 256, 512, 512)
    blocks = [
        Block(inner, outer, 1 + (inner != outer)) for inner, outer in zip((64, *widths), widths, strict=False)
    ]
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def loss(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def test_a_file_is_less_than_three_times_weights_and_optimizer_state(tmp_path: Path) -> None:
    path = tmp_path / "a.moment"
    model = resnet18()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    session = nansense_widgets.start(model, optimizer=optimizer)
    session.watch("*")
    session.detach()
    session.freeze_moment(path, phase="train", epoch=0, batch_idx=1)
    data = [(torch.randn(4, 3, 64, 64), torch.randint(0, 1000, (4,))) for _ in range(2)]
    for batch in session.batches(data, phase="train", epoch=0):
        optimizer.zero_grad()
        loss(model, batch).backward()
        optimizer.step()
    assert session.notice == ""
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    by_kind = session.memory().by_kind
    statistics = by_kind["statistics"] + by_kind["parameters"] + by_kind["patches"]
    assert path.stat().st_size < 3 * (2 * weights) + statistics
    snapshot = session.snapshot
    assert snapshot is not None
    loaded = nansense_widgets.load_moment(resnet18(), path, replay=loss).snapshot
    assert loaded is not None
    assert loaded.notes == ()
    for name, value in snapshot.activations.items():
        assert torch.equal(loaded.activations[name], value), name
    for name, value in snapshot.weight_updates.items():
        assert torch.equal(loaded.weight_updates[name], value), name
    assert len(loaded.optimizer_state) == len(list(model.parameters()))
