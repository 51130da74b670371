"""The theoretical receptive field equals the measured one, for whatever the theory says is exact."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import nansense_widgets
from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.receptive import ReceptiveField
from tests.driver import TIMEOUT_S

Box = tuple[tuple[int, int], ...]


def traced(model: nn.Module, *inputs: Any) -> Architecture:
    session = nansense_widgets.start(model)

    def loop() -> None:
        with torch.no_grad():
            for _ in session.batches(range(1), phase="train"):
                model(*inputs)

    session.launch(loop)
    assert session.wait_until_paused(timeout=TIMEOUT_S)
    found = session.architecture
    session.close()
    return found


def output_of(model: nn.Module, layer: str, x: torch.Tensor) -> torch.Tensor:
    if not layer:
        return model(x)
    seen: list[torch.Tensor] = []
    handle = model.get_submodule(layer).register_forward_hook(lambda _m, _a, out: seen.append(out))
    model(x)
    handle.remove()
    return seen[0]


def units_at(output: torch.Tensor, at: tuple[int, ...]) -> torch.Tensor:
    """All samples' and channels' values at one place."""
    for i in at:
        output = output.select(2, i)
    return output


def by_gradient(model: nn.Module, layer: str, size: Sequence[int], at: tuple[int, ...]) -> Box | None:
    """Where the gradient of one unit is not zero, with weights and inputs that are all positive."""
    x = torch.rand(1, *size).add(0.5).requires_grad_()
    unit = units_at(output_of(model, layer, x), at).sum()
    (gradient,) = torch.autograd.grad(unit, x)
    places = gradient[0].abs().sum(0).nonzero()
    return tuple((int(index.min()), int(index.max()) + 1) for index in places.T)


def by_nan(model: nn.Module, layer: str, size: Sequence[int], at: tuple[int, ...]) -> Box | None:
    """Which rows and columns make one unit NaN if they are: also where a maximum hides a gradient.

    None: the unit lies in the padding.
    """
    found = []
    for axis in range(1, len(size)):
        probes = torch.rand(size[axis], *size)
        for i in range(size[axis]):
            probes[i].select(axis, i).fill_(torch.nan)
        with torch.no_grad():
            units = units_at(output_of(model, layer, probes), at)
        seen = units.isnan().any(1).nonzero()[:, 0]
        if not len(seen):
            return None
        found.append((int(seen.min()), int(seen.max()) + 1))
    return tuple(found)


def positive(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(0.1, 0.2)
    return model.eval()


def check(
    model: nn.Module,
    layer: str,
    size: Sequence[int],
    measure: Callable[..., Box | None] = by_nan,
    *,
    units: int = 7,
) -> None:
    """At up to `units` places of a layer, its corners among them."""
    architecture = traced(positive(model), torch.rand(1, *size))
    with torch.no_grad():
        sizes = output_of(model, layer, torch.rand(1, *size)).shape[2:]
    name = layer or last(architecture)
    corners = set(itertools.product(*({0, int(n) // 2, int(n) - 1} for n in sizes)))
    for at in sorted(corners)[:: max(1, len(corners) // units)]:
        fields = architecture.receptive_field(name, at)
        measured = measure(model, layer, size, at)
        assert [field.box for field in fields] == [box for box in [measured] if box], (name, at, fields)
        assert not [field for field in fields if field.approximated]
        for field in fields:
            for (start, stop), (first, end) in zip(field.extent, field.box, strict=True):
                assert start <= first < end <= stop


def last(architecture: Architecture) -> str:
    """The layer whose output nobody reads."""
    (name,) = {b for _, b in architecture.edges} - {a for a, _ in architecture.edges}
    return name


class Block(nn.Module):
    """One ReLU for all places, as torchvision's blocks have it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn(self.conv1(x)))
        return self.relu(self.conv2(y) + x)


class Strided(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(4, 6, 3, 2, 1), nn.Conv2d(6, 4, 3, padding=1)
        self.skip = nn.Conv2d(4, 4, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.conv2(F.relu(self.conv1(x))) + self.skip(x))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(50, 8), nn.Embedding(16, 8)
        self.norm, self.qkv, self.head = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 50)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        q, k, v = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        head: torch.Tensor = self.head(x + y.transpose(1, 2).flatten(2))
        return head


class UNet(nn.Module):
    def __init__(self, up: nn.Module) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU())
        self.pool = nn.MaxPool2d(2)
        self.middle = nn.Conv2d(4, 4, 3, padding=1)
        self.up = up
        self.join = nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = self.down(x)
        y = self.up(self.middle(self.pool(skip)))
        return self.join(torch.cat([F.pad(y, (0, 0, 0, 0)), skip], 1))


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4, 2, 3, 3))
        self.back = nn.Parameter(torch.rand(4, 3, 2, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.max_pool2d(F.relu(F.conv2d(x, self.weight, None, 1, padding=2, dilation=2)), 3, stride=2)
        y = F.conv_transpose2d(F.avg_pool2d(y, 2, ceil_mode=True), self.back, stride=2)
        y = F.pad(y, (1, 2, 3, 0))[:, :, 1:, ::2].permute(0, 2, 3, 1).transpose(1, 2)
        return F.interpolate(y.permute(0, 3, 2, 1), scale_factor=2, mode="nearest")


class Patches(nn.Module):
    """A vision transformer's first layers: a token for each patch of the picture."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 5, 4, 4)
        self.norm = nn.LayerNorm(5)
        self.mlp = nn.Linear(5, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.mlp(self.norm(self.embed(x).flatten(2).transpose(1, 2)))


def conv_stack(*settings: dict[str, Any]) -> nn.Module:
    layers: list[nn.Module] = []
    for i, setting in enumerate(settings):
        layers += [nn.Conv2d(2 if i == 0 else 3, 3, **setting), nn.BatchNorm2d(3), nn.ReLU()]
    return nn.Sequential(*layers)


@pytest.mark.parametrize(
    "settings",
    [
        [{"kernel_size": 3, "padding": 1}] * 3,
        [{"kernel_size": 3, "padding": 1, "stride": 2}, {"kernel_size": (1, 5), "padding": (0, 2)}],
        [{"kernel_size": 3, "padding": 1}, {"kernel_size": 3, "dilation": 3, "padding": "same"}],
        [{"kernel_size": 4, "stride": 3}, {"kernel_size": 2, "padding": "valid"}],
        [{"kernel_size": 3, "padding": 1, "padding_mode": "reflect"}],
    ],
)
def test_stacks_of_convolutions(settings: list[dict[str, Any]]) -> None:
    for measure in (by_gradient, by_nan):
        check(conv_stack(*settings), str(3 * len(settings) - 1), (2, 24, 19), measure)


def test_residual_networks() -> None:
    stages = nn.Sequential(Block(), Strided(), Block(), Strided())
    for measure in (by_gradient, by_nan):
        check(stages, "3.conv2", (4, 33, 32), measure)
        check(nn.Sequential(Block(), nn.MaxPool2d(2), Block()), "2", (4, 20, 20), by_nan)
    check(nn.Sequential(Block(), Block()), "1", (4, 20, 20), by_gradient)


@pytest.mark.parametrize(
    "up",
    [
        nn.ConvTranspose2d(4, 4, 2, 2),
        nn.ConvTranspose2d(4, 4, 4, 2, 1),
        nn.Upsample(scale_factor=2),
        nn.Sequential(nn.Conv2d(4, 16, 1), nn.PixelShuffle(2)),
    ],
    ids=["transposed", "overlapping", "nearest", "shuffle"],
)
def test_u_nets(up: nn.Module) -> None:
    check(UNet(up), "", (2, 20, 20))


@pytest.mark.parametrize("align", [False, True])
def test_linear_interpolation_by_gradient(align: bool) -> None:
    up = nn.Upsample(scale_factor=3, mode="bilinear", align_corners=align)
    check(nn.Sequential(nn.AvgPool2d(3, 2, 1), up), "1", (2, 14, 14), by_gradient, units=9)


def test_functions_with_their_arguments() -> None:
    check(Functional(), "", (2, 24, 30), units=9)


def test_tokens_of_a_picture_see_their_patch() -> None:
    model = positive(Patches())
    architecture = traced(model, torch.rand(2, 3, 16, 12))
    for token, (row, column) in enumerate(itertools.product(range(4), range(3))):
        (field,) = architecture.receptive_field("mlp", (token,))
        assert field.box == ((4 * row, 4 * row + 4), (4 * column, 4 * column + 4))
        assert field.approximated == ""


def test_what_sees_everything() -> None:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3)
            self.pool = nn.AdaptiveAvgPool2d(3)
            self.fc = nn.Linear(18, 4)
            self.head = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.relu(self.fc(torch.flatten(self.pool(self.conv(x)), 1))))

    architecture = traced(Classifier(), torch.rand(2, 1, 11, 13))
    for layer in ("fc", "head"):
        (field,) = architecture.receptive_field(layer, ())
        assert (field.box, field.approximated) == (((0, 11), (0, 13)), "")
    check(Classifier(), "pool", (1, 11, 13))
    ids = torch.randint(0, 50, (2, 16))
    gpt = traced(Transformer(), ids)
    (field,) = gpt.receptive_field("norm", (5,))
    assert (field.input, field.box, field.approximated) == ("ids", ((5, 6),), "")
    (field,) = gpt.receptive_field("head", (5,))
    assert field.box == ((0, 16),)


def test_what_is_not_exact_says_why() -> None:
    class Unusual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(2, 4, 3, padding=1)
            self.norm = nn.GroupNorm(2, 4)
            self.round = nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.norm(self.conv(x))
            return self.round(torch.special.i0(y))

    architecture = traced(Unusual(), torch.rand(1, 2, 9, 9))
    (field,) = architecture.receptive_field("norm", (4, 4))
    assert (field.box, field.approximated) == (((3, 6), (3, 6)), "without normalisation statistics")
    (field,) = architecture.receptive_field("round", (4, 4))
    assert field.box == ((2, 7), (2, 7))
    assert "circular padding" in field.approximated
    assert "i0 is taken as pointwise" in field.approximated


def test_a_layer_that_is_called_twice_has_two() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 1, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(self.conv(x))

    architecture = traced(Twice(), torch.rand(1, 1, 9, 9))
    sizes = [architecture.receptive_field("conv", (4, 4), call=call)[0].size for call in (1, 2)]
    assert sizes == [(3, 3), (5, 5)]


def test_several_inputs_have_a_field_each() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Conv2d(1, 1, 3), nn.Conv2d(1, 1, 5, padding=1)

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return self.left(a) + self.right(b)

    architecture = traced(Two(), torch.rand(1, 1, 9, 9), torch.rand(1, 1, 9, 9))
    found = architecture.receptive_field("add", (3, 3))
    assert [(field.input, field.size) for field in found] == [("a", (3, 3)), ("b", (5, 5))]
    assert [field.input for field in architecture.receptive_field("left", (0, 0))] == ["a"]


def test_wrong_arguments_are_named() -> None:
    architecture = traced(nn.Sequential(nn.Conv2d(1, 2, 3)), torch.rand(1, 1, 8, 8))
    with pytest.raises(ValueError, match="layer='nowhere' must be the name of a layer"):
        architecture.receptive_field("nowhere", (0, 0))
    for position in ((0,), (0, 6), (-1, 0)):
        with pytest.raises(ValueError, match="must lie in the axes that are no batch or channel: 6 x 6"):
            architecture.receptive_field("0", position)


LAYER = st.one_of(
    st.builds(
        lambda k, s, p, d: nn.Conv2d(2, 2, k, s, min(p, d * (k - 1)), d),
        st.integers(1, 4), st.integers(1, 3), st.integers(0, 2), st.just(1),
    ),
    st.builds(lambda k, s: nn.MaxPool2d(k, s, k // 2 if k > 1 else 0), st.integers(1, 3), st.integers(1, 3)),
    st.builds(lambda k, s: nn.AvgPool2d(k, s, ceil_mode=True), st.integers(1, 3), st.integers(1, 3)),
    st.builds(
        lambda k, s: nn.ConvTranspose2d(2, 2, k + s - 1, s, (k + s - 1) // 3),
        st.integers(1, 3), st.integers(1, 2),
    ),
    st.builds(nn.AdaptiveAvgPool2d, st.integers(3, 7)),
    st.builds(lambda f: nn.Upsample(scale_factor=f), st.integers(1, 2)),
    st.builds(nn.ZeroPad2d, st.tuples(*[st.integers(0, 2)] * 4)),
)  # fmt: skip


@given(st.lists(LAYER, min_size=1, max_size=5), st.integers(12, 20), st.integers(12, 20), st.data())
def test_random_stacks(layers: list[nn.Module], rows: int, columns: int, data: st.DataObject) -> None:
    model = positive(nn.Sequential(nn.Conv2d(1, 2, 1), *layers))
    try:
        with torch.no_grad():
            sizes = model(torch.rand(1, 1, rows, columns)).shape[2:]
    except RuntimeError:  # nothing is left of the picture
        return
    architecture = traced(model, torch.rand(1, 1, rows, columns))
    at = tuple(data.draw(st.integers(0, n - 1)) for n in sizes)
    fields: tuple[ReceptiveField, ...] = architecture.receptive_field(str(len(layers)), at)
    measured = by_nan(model, "", (1, rows, columns), at)
    assert [field.box for field in fields] == [box for box in [measured] if box]
