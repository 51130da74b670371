"""Inputs given by keyword, to the model and to a block inside it, are inputs like any other.

That a probe calls the layer again with the same keywords belongs here once there are probes.
"""

from __future__ import annotations

import torch
from torch import nn

from tests.reports.training import watched


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, *, hidden: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        out: torch.Tensor = self.fc(hidden)
        return out if mask is None else out.masked_fill(mask, 0)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: torch.Tensor, *, m: torch.Tensor | None = None, scale: float = 1.0) -> torch.Tensor:
        out: torch.Tensor = self.block(hidden=x, mask=m)
        return out * scale


def test_keyword_inputs_are_shown() -> None:
    model = Model()
    x = torch.randn(2, 4, requires_grad=True)
    mask = torch.tensor([[True, False, False, True], [False] * 4])
    with watched(model, lambda _: model(x=x, m=mask, scale=2.0).sum().backward(), batches=4) as run:
        run.again()
        expected = model.block.fc(x).masked_fill(mask, 0)
        assert torch.equal(run.snapshot.activations["x"], x)
        assert torch.equal(run.snapshot.activations["m"], mask)
        assert torch.equal(run.snapshot.activations["block"], expected)
        by_hand = torch.autograd.grad(2 * expected.sum(), x)[0]
        assert torch.allclose(run.snapshot.activation_gradients["x"], by_hand)
        assert run.leaf("m").gradient_reason == "no gradient: bool values have none"
        assert {("x", "block.fc"), ("m", "block.masked_fill")} <= run.session.architecture.edges
        assert "scale" not in run.session.architecture.nodes  # a number is no layer
        assert run.card("m")["by_kind"]["activations"]["dtype"] == "bool"
