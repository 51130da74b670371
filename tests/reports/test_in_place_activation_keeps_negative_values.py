"""A convolution whose output an in-place ReLU overwrites is shown with its negative values."""

from __future__ import annotations

import torch
from torch import nn

from tests.reports.training import watched


def test_in_place_activation_keeps_negative_values() -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 4, 3)
    model = nn.Sequential(conv, nn.ReLU(inplace=True))
    x = torch.randn(1, 3, 5, 5)
    with watched(model, lambda _: model(x).sum().backward()) as run:
        expected = conv(x)
        assert (expected < 0).any()
        assert torch.equal(run.snapshot.activations["0"], expected)
        assert torch.equal(run.snapshot.activations["1"], expected.clamp(min=0))
        assert run.draws("0", expected[0])
        assert run.draws("1", expected[0].clamp(min=0))
        # The gradient is that of the value before the ReLU: zero where the value is negative.
        assert torch.equal(run.snapshot.activation_gradients["0"], (expected > 0).float())
        assert run.draws("0", (expected > 0)[0].float(), "gradients")
