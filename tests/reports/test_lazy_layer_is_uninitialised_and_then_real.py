"""Flatten and LazyLinear(10), with the session started before the first batch: first there is no weight to
count, then there is one.
"""

from __future__ import annotations

import torch
from torch import nn

import nansense_widgets
from tests.reports.training import watched


def lazy() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(10))


def test_lazy_layer_says_that_it_is_uninitialised() -> None:
    session = nansense_widgets.start(lazy())
    assert "uninitialised" in session.architecture.nodes["1"].note
    session.close()


def test_lazy_layer_is_made_by_the_first_batch() -> None:
    torch.manual_seed(0)
    model = lazy()
    session = nansense_widgets.start(model)
    node = session.architecture.nodes["1"]
    assert (node.cls, node.parameter_count, node.output_shapes) == ("LazyLinear", 0, ())
    session.close()

    x = torch.randn(2, 1, 3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with watched(model, lambda _: model(x).square().sum().backward(), optimizer=optimizer) as run:
        node = run.session.architecture.nodes["1"]
        assert (node.cls, node.parameter_count, node.output_shapes) == ("Linear", 9 * 10 + 10, ((2, 10),))
        assert node.hyperparameters.startswith("in_features=9, out_features=10")
        out = model(x)
        assert torch.equal(run.snapshot.activations["1"], out)
        assert torch.equal(run.snapshot.weights["1.weight"], model[1].weight)
        by_hand = torch.autograd.grad(out.square().sum(), model[1].weight)[0]
        assert torch.allclose(run.snapshot.weight_gradients["1.weight"], by_hand)
