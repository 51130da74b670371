"""Layers that give bfloat16, float16, float64, int8, uint8, bool, complex or quantized values are drawn and
labelled with their dtype; an `Embedding(sparse=True)` trains on, its sparse gradient kept as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.reports.training import watched

CASTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "bfloat16": lambda x: x.bfloat16(),
    "float16": lambda x: x.half(),
    "float64": lambda x: x.double(),
    "int8": lambda x: (x * 20).to(torch.int8),
    "int64": lambda x: (x * 20).long(),
    "uint8": lambda x: (x.abs() * 20).to(torch.uint8),
    "bool": lambda x: x > 0,
    "complex64": lambda x: torch.complex(x, x.flip(1)),
}


class Cast(nn.Module):
    def __init__(self, cast: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.cast = cast

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cast(x)


@pytest.mark.parametrize("dtype", CASTS)
def test_every_dtype_is_drawn_or_labelled(dtype: str) -> None:
    torch.manual_seed(0)
    model = nn.ModuleDict({"fc": nn.Linear(3, 5), "cast": Cast(CASTS[dtype])})
    x = torch.randn(4, 3)

    def body(_: int) -> None:
        out = model["cast"](model["fc"](x))
        if out.requires_grad:
            out.abs().float().sum().backward()

    with watched(model, body) as run:
        expected = CASTS[dtype](model["fc"](x))
        assert torch.equal(run.snapshot.activations["cast"], expected)
        strip = run.card("cast", sample=2)["by_kind"]["activations"]
        assert strip["missing"] == ""
        assert strip["dtype"] == dtype
        drawn = expected[2].abs() if expected.is_complex() else expected[2]
        assert run.draws("cast", drawn.float()[:, None, None], sample=2)
        gradients = run.card("cast", sample=2)["by_kind"]["gradients"]
        if expected.requires_grad:
            assert gradients["dtype"] == dtype
        else:
            assert gradients["missing"] == f"no gradient: {dtype} values have none"


def test_sparse_gradients_are_kept_and_training_goes_on() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(9, 3, sparse=True), nn.Flatten(), nn.Linear(6, 2))
    alone = copy.deepcopy(model)
    ids = torch.randint(0, 9, (4, 3, 2))

    def train(model: nn.Sequential, index: int) -> None:
        rows = torch.optim.SparseAdam(model[0].parameters(), lr=0.1)
        model.zero_grad()
        model(ids[index]).square().sum().backward()
        rows.step()

    with watched(model, lambda index: train(model, index), batches=4) as run:
        train(alone, 0)
        gradient = run.snapshot.weight_gradients["0.weight"]
        assert gradient.is_sparse
        assert torch.equal(gradient.to_dense(), alone[0].weight.grad.to_dense())
        assert torch.equal(run.snapshot.activation_gradients["2"], 2 * run.snapshot.activations["2"])
        assert run.card("0")["by_kind"]["activations"]["missing"] == ""
    for index in (1, 2, 3):
        train(alone, index)
    assert torch.equal(model[0].weight, alone[0].weight)
