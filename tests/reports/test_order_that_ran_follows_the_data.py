"""A model that loops over its input, and one that branches on a value: what is shown is what ran in this
batch, in the order in which it ran, not what a trace of an earlier batch has fixed.
"""

from __future__ import annotations

import torch
from torch import nn

from tests.reports.training import watched


class Loops(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out, self.cell = nn.Linear(3, 1), nn.Linear(3, 3)  # declared in the other order

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(3)
        for row in x:
            h = torch.tanh(self.cell(h + row))
        out: torch.Tensor = self.out(h)
        return out


def test_calls_are_as_many_as_the_input_is_long() -> None:
    model = Loops()
    lengths = [3, 5, 1]
    x = [torch.randn(n, 3) for n in lengths]
    with watched(model, lambda i: model(x[i]).sum().backward()) as run:
        for index, length in enumerate(lengths):
            order = [n for n, node in run.session.architecture.nodes.items() if node.kind == "module"]
            assert order == ["cell", "out"]
            assert [call.call for call in run.snapshot.layers["cell"]] == list(range(1, length + 1))
            assert run.session.architecture.nodes["cell"].calls == length
            h = torch.zeros(3)
            for call, row in enumerate(x[index], 1):
                assert torch.equal(run.leaf("cell", call).activation, model.cell(h + row))
                h = torch.tanh(model.cell(h + row))
            if index < 2:
                run.do("step_batch")


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.warm, self.cold, self.out = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.warm(x) if x.sum() > 0 else torch.relu(self.cold(x))
        out: torch.Tensor = self.out(y)
        return out


def test_a_branch_that_was_not_taken_has_no_values() -> None:
    model = Branches()
    x = [torch.ones(2, 3), -torch.ones(2, 3), torch.ones(2, 3)]
    with watched(model, lambda i: model(x[i]).sum().backward()) as run:
        assert torch.equal(run.snapshot.activations["warm"], model.warm(x[0]))
        assert run.snapshot.missing["cold"] == "never ran"
        edges = {("x", "sum"), ("sum", "gt"), ("x", "warm"), ("warm", "out")}
        assert run.session.architecture.edges == edges
        run.again()
        assert torch.equal(run.snapshot.activations["cold"], model.cold(x[1]))
        assert "warm" not in run.snapshot.layers
        assert run.card("warm")["by_kind"]["activations"]["missing"] == "did not run in this batch"
        assert {("cold", "relu"), ("relu", "out"), ("warm", "out")} <= run.session.architecture.edges
        run.again()
        assert run.snapshot.missing["cold"] == "did not run in this batch"
        assert run.snapshot.missing["relu"] == "did not run in this batch"
        assert torch.equal(run.snapshot.activations["warm"], model.warm(x[2]))
