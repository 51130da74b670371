"""Modules that return a dict, a list, a dataclass, a named tuple or an ordered dict with fields of its own:
each tensor has a name, a value and a gradient; what is no tensor, or has no gradient, says why.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from tests.reports.training import watched


@dataclass
class Data:
    first: torch.Tensor
    second: torch.Tensor
    label: str = "none"


class Named(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@dataclass
class Output(OrderedDict[str, Any]):
    first: torch.Tensor
    second: torch.Tensor

    def __post_init__(self) -> None:
        self["first"], self["second"] = self.first, self.second


SHAPES: dict[str, tuple[Any, list[str]]] = {
    "dict": (lambda a, b: {"first": a, "a b": b, "n": 3}, [".first", "['a b']"]),
    "list": (lambda a, b: [a, None, b], ["[0]", "[2]"]),
    "nested": (lambda a, b: (a, {"deep": [1, (b,)]}), ["[0]", "[1].deep[1][0]"]),
    "dataclass": (Data, [".first", ".second"]),
    "named tuple": (Named, [".first", ".second"]),
    "output class": (Output, [".first", ".second"]),
}


class Layer(nn.Module):
    def __init__(self, pack: Any) -> None:
        super().__init__()
        self.a, self.b, self.pack = nn.Linear(3, 4), nn.Linear(3, 2), pack

    def forward(self, x: torch.Tensor) -> Any:
        self.made = self.a(x), self.b(x)
        return self.pack(*self.made)


@pytest.mark.parametrize("shape", SHAPES)
def test_each_tensor_is_shown_with_its_gradient(shape: str) -> None:
    pack, paths = SHAPES[shape]
    model = nn.ModuleDict({"layer": Layer(pack)})
    x = torch.randn(2, 3)

    def body(_: int) -> None:
        model["layer"](x)
        made: Any = model["layer"].made
        a, b = made
        (a.square().sum() + 3 * b.sum()).backward()

    with watched(model, body) as run:
        a, b = model["layer"].a(x), model["layer"].b(x)
        card = run.card("layer", leaf=1, sample=1)
        assert card["leaves"] == [f"layer{path}" for path in paths]
        assert run.draws("layer", b[1][:, None, None], leaf=1, sample=1)
        for index, (value, gradient) in enumerate([(a, 2 * a), (b, torch.full_like(b, 3))]):
            leaf = run.leaf("layer", leaf=index)
            assert leaf.path == paths[index]
            assert torch.equal(leaf.activation, value)
            assert torch.equal(leaf.gradient, gradient)


def test_what_is_no_tensor_or_has_no_gradient_says_why() -> None:
    class Odd(nn.Module):
        def __init__(self, value: Any) -> None:
            super().__init__()
            self.value = value

        def forward(self, x: torch.Tensor) -> Any:
            return self.value

    model = nn.ModuleDict({"text": Odd("a string"), "ids": Odd([torch.tensor([1, 2])]), "nothing": Odd(None)})
    with watched(model, lambda _: [layer(torch.ones(1)) for layer in model.values()]) as run:
        assert run.snapshot.missing["text"] == "no tensor: this layer gave a str"
        assert run.snapshot.missing["nothing"] == "no tensor: this layer gave None"
        assert run.card("nothing")["by_kind"]["activations"]["missing"] == run.snapshot.missing["nothing"]
        assert run.leaf("ids").gradient_reason == "no gradient: int64 values have none"
