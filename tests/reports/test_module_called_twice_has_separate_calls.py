"""One pooling layer called twice, and one encoder on inputs of different lengths, in one batch: a tool that
keeps one value a module shows the last call as if it were the only one.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.reports.training import watched


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool, self.encoder = nn.MaxPool2d(2), nn.Embedding(9, 3)

    def forward(
        self, x: torch.Tensor, short: torch.Tensor, long: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.pool(self.pool(x)), self.encoder(short), self.encoder(long)


def test_module_called_twice_has_separate_calls() -> None:
    torch.manual_seed(0)
    model = Twice()
    x = torch.randn(1, 2, 8, 8, requires_grad=True)
    short, long = torch.randint(0, 9, (1, 50)), torch.randint(0, 9, (1, 71))

    def loss() -> torch.Tensor:
        pooled, a, b = model(x, short, long)
        return pooled.square().sum() + a.sum() + b.square().sum()

    def body(_: int) -> None:
        model.zero_grad()
        loss().backward()

    with watched(model, body) as run:
        once = F.max_pool2d(x.detach(), 2).requires_grad_()
        twice = F.max_pool2d(once, 2)
        twice.square().sum().backward()
        assert [call.call for call in run.snapshot.layers["pool"]] == [1, 2]
        for call, value, gradient in ((1, once, once.grad), (2, twice, 2 * twice)):
            leaf = run.leaf("pool", call)
            assert torch.equal(leaf.activation, value)
            assert torch.equal(leaf.gradient, gradient)
            assert run.draws("pool", value[0], call=call)
        assert run.leaf("encoder", 1).activation.shape == (1, 50, 3)
        assert torch.equal(run.leaf("encoder", 2).activation, model.encoder(long))
        assert run.card("encoder", call=2)["calls"] == 2
        assert run.session.architecture.nodes["encoder"].calls == 2
        summed = torch.autograd.grad(loss(), model.encoder.weight)[0]
        assert torch.allclose(run.snapshot.weight_gradients["encoder.weight"], summed)
