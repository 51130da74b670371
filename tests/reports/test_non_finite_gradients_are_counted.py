"""A gradient with one NaN, one that is all NaN, one -Inf at step 50: the finite part is drawn on its own
scale, the others are counted by kind, and the batches around are as they were.

That a histogram bins the finite part, and that its history survives, belongs here once there are histograms.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from tests.reports.training import watched

NAN, INF = math.nan, math.inf
FINITE = torch.tensor([0.5, -2.0, 0.25, 1.0, 0.0, -0.5])
CASES = {
    "one nan": (torch.tensor([0.5, NAN, 0.25, 1.0, 0.0, -0.5]), (1, 0, 0), 1.0),
    "all nan": (torch.full((6,), NAN), (6, 0, 0), 0.0),
    "both infinities": (torch.tensor([INF, -2.0, INF, 1.0, -INF, NAN]), (1, 2, 1), 2.0),
    "all finite": (FINITE, (0, 0, 0), 2.0),
}


@pytest.mark.parametrize("case", CASES)
def test_non_finite_gradients_are_counted(case: str) -> None:
    given, (nan, posinf, neginf), scale = CASES[case]
    model = nn.Sequential(nn.Linear(2, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    def body(_: int) -> None:
        optimizer.zero_grad()
        model(torch.ones(1, 2)).backward(given[None])  # the gradient itself
        optimizer.step()

    with watched(model, body, optimizer=optimizer) as run:
        strip = run.card("0")["by_kind"]["gradients"]
        assert strip["nonfinite"] == {"nan": nan, "posinf": posinf, "neginf": neginf}
        assert strip["scale"] == scale
        shown = run.card("0")["shown"]["gradients"].flatten()
        for value, pixel in zip(given.tolist(), shown.tolist(), strict=True):
            if math.isfinite(value):
                assert pixel == pytest.approx(value, abs=scale / 126)
        found = run.snapshot.activation_gradients["0"][0]
        assert torch.equal(found.nan_to_num(9), given.nan_to_num(9))
        bias = run.snapshot.weight_gradients["0.bias"]
        assert torch.equal(bias.nan_to_num(9), given.nan_to_num(9))


def test_one_infinity_at_step_fifty_is_of_that_step_only() -> None:
    model = nn.Sequential(nn.Linear(2, 6))
    x = torch.ones(1, 2)

    def body(index: int) -> None:
        gradient = FINITE.clone()
        if index == 50:
            gradient[2] = -INF
        model(x).backward(gradient[None])

    with watched(model, body, batches=53) as run:
        found = []
        for index in (49, 50, 51):
            run.do("step_until_position", "train", 0, index)
            assert run.shown == ("train", 0, index)
            strip = run.card("0")["by_kind"]["gradients"]
            found.append((strip["nonfinite"]["neginf"], strip["scale"]))
            assert run.card("0")["by_kind"]["activations"]["nonfinite"]["neginf"] == 0
        assert found == [(0, 2.0), (1, 2.0), (0, 2.0)]
