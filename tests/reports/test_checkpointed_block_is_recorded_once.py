"""Activation checkpointing runs a block again in backward: its second forward is no second call, and counts
nothing twice.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from nansense_widgets import Architecture, BatchSnapshot
from tests.reports.training import watched


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(4, 6), nn.Linear(6, 2)
        self.block = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Tanh())
        self.reentrant: bool | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        if self.reentrant is None:
            x = self.block(x)
        else:
            x = checkpoint(self.block, x, use_reentrant=self.reentrant)
        out: torch.Tensor = self.head(x)
        return out


def run_once(
    reentrant: bool | None, x: torch.Tensor, twice: bool = False
) -> tuple[BatchSnapshot, Architecture]:
    torch.manual_seed(0)
    model = Model()
    model.reentrant = reentrant

    def body(_: int) -> None:
        loss = model(x).square().sum()
        loss.backward(retain_graph=twice)
        if twice:
            (loss * 0.5).backward()

    with watched(model, body, batches=1) as run:
        return run.snapshot, run.session.architecture


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_block_is_recorded_once(reentrant: bool) -> None:
    x = torch.randn(5, 4)
    snapshot, architecture = run_once(reentrant, x)
    plain, plain_architecture = run_once(None, x)
    for layer in ("stem", "block", "block.0", "block.1", "block.2", "head"):
        assert [call.call for call in snapshot.layers[layer]] == [1], layer
        assert architecture.nodes[layer].calls == 1
        assert torch.equal(snapshot.activations[layer], plain.activations[layer]), layer
        assert torch.allclose(snapshot.activation_gradients[layer], plain.activation_gradients[layer]), layer
    assert architecture.edges == plain_architecture.edges
    for name, gradient in plain.weight_gradients.items():
        assert torch.allclose(snapshot.weight_gradients[name], gradient), name


@pytest.mark.parametrize(
    "reentrant",
    [
        True,
        False,
    ],
)
def test_two_passes_through_a_checkpointed_block_add_up(reentrant: bool) -> None:
    x = torch.randn(5, 4)
    snapshot, _ = run_once(reentrant, x, twice=True)
    once, _ = run_once(None, x)
    for layer in ("block", "block.0", "block.2"):
        assert torch.allclose(
            snapshot.activation_gradients[layer], 1.5 * once.activation_gradients[layer], atol=1e-6
        ), layer
