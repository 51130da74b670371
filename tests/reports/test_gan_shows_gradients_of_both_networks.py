"""A GAN: two optimizers, `fake.detach()` in one of the two passes. Gradients of both networks are shown,
each as its own optimizer used them, and the state of each optimizer.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import Optimizer

from tests.reports.training import watched


def train(model: Any, for_g: Optimizer, for_d: Optimizer, real: torch.Tensor) -> dict[str, torch.Tensor]:
    """One batch; returns the gradients that each optimizer stepped with."""
    fake = model["g"](real[:, :2])
    loss = F.softplus(model["d"](fake.detach())).mean() + F.softplus(-model["d"](real)).mean()
    for_d.zero_grad()
    loss.backward()
    used = {name: p.grad.clone() for name, p in model.named_parameters() if name.startswith("d.")}
    for_d.step()
    for_g.zero_grad()
    F.softplus(-model["d"](fake)).mean().backward()  # this reaches the critic's weights as well
    used |= {name: p.grad.clone() for name, p in model.named_parameters() if name.startswith("g.")}
    for_g.step()
    return used


def optimizers(model: Any) -> tuple[Optimizer, Optimizer]:
    return (
        torch.optim.Adam(model["g"].parameters(), lr=0.1),
        torch.optim.SGD(model["d"].parameters(), lr=0.1, momentum=0.9),
    )


def test_gan_shows_gradients_of_both_networks() -> None:
    torch.manual_seed(0)
    model = nn.ModuleDict({"g": nn.Linear(2, 3), "d": nn.Linear(3, 1)})
    alone = copy.deepcopy(model)
    for_g, for_d = optimizers(model)
    real = torch.randn(5, 3)
    with watched(model, lambda _: train(model, for_g, for_d, real), optimizer=[for_g, for_d]) as run:
        other_g, other_d = optimizers(alone)
        fake = alone["g"](real[:, :2]).detach()
        used = train(alone, other_g, other_d, real)
        assert run.snapshot.weight_gradients.keys() == used.keys()
        for name, gradient in used.items():
            assert torch.equal(run.snapshot.weight_gradients[name], gradient), name
        for name, parameter in alone.named_parameters():
            state = (other_g if name.startswith("g.") else other_d).state[parameter]
            found = run.snapshot.optimizer_state[name]
            assert found.keys() == state.keys()
            assert all(torch.equal(found[key], torch.as_tensor(state[key])) for key in state)
        assert run.snapshot.optimizer_hyperparams["d.weight"]["momentum"] == 0.9
        # Three calls of the critic: on the detached fake, on the real batch, on the fake again.
        assert [call.call for call in run.snapshot.layers["d"]] == [1, 2, 3]
        assert torch.equal(run.snapshot.activations["g"], fake)
        assert run.leaf("g").gradient is not None
        assert all(run.leaf("d", call).gradient is not None for call in (1, 2, 3))
