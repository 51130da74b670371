"""Which axis is the channel and which the batch: by class, by op, by what is around, and as the user says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nansense_widgets import Axes, BatchPosition
from nansense_widgets.capture.engine import CaptureEngine
from tests.capture.test_capture import capture


def axes_of(engine: CaptureEngine, name: str, path: str = "", ndim: int | None = None) -> tuple[Any, Any]:
    node = engine.architecture.nodes[name]
    rank = ndim if ndim is not None else len(node.output_shapes[node.output_paths.index(path)])
    axes = engine.architecture.axes(name, path, rank)
    assert axes is not None, name
    channel = None if axes.channel is None else axes.channel % rank
    return channel, axes.batch


def run(model: nn.Module, *inputs: torch.Tensor) -> CaptureEngine:
    engine, _ = capture(model, lambda: model(*inputs))
    return engine


@pytest.mark.parametrize(
    ("module", "shape", "expected"),
    [
        (nn.Conv1d(3, 4, 3), (2, 3, 9), (1, 0)),
        (nn.Conv2d(3, 4, 3), (2, 3, 5, 5), (1, 0)),
        (nn.Conv2d(3, 4, 3), (3, 5, 5), (0, None)),
        (nn.ConvTranspose3d(3, 4, 2), (2, 3, 4, 4, 4), (1, 0)),
        (nn.BatchNorm1d(3), (2, 3), (1, 0)),
        (nn.InstanceNorm2d(3), (3, 5, 5), (0, None)),
        (nn.GroupNorm(1, 3), (2, 3, 5), (1, 0)),
        (nn.MaxPool1d(2), (2, 3, 8), (1, 0)),
        (nn.AdaptiveAvgPool3d(1), (3, 4, 4, 4), (0, None)),
        (nn.PixelShuffle(2), (2, 4, 3, 3), (1, 0)),
        (nn.Linear(3, 4), (3,), (0, None)),
        (nn.Linear(3, 4), (2, 5, 3), (2, 0)),
        (nn.LayerNorm(3), (2, 4, 3), (2, 0)),
    ],
    ids=lambda value: repr(value) if isinstance(value, nn.Module) else str(value),
)
def test_class_and_number_of_axes_tell(
    module: nn.Module, shape: tuple[int, ...], expected: tuple[int, int | None]
) -> None:
    model = nn.Sequential(module, nn.ReLU())
    engine = run(model, torch.randn(shape))
    assert axes_of(engine, "0") == expected
    assert axes_of(engine, "1") == expected  # an activation keeps the axes of what it is given


@pytest.mark.parametrize("batch_first", [True, False])
def test_recurrent_layers_have_axes_for_each_of_their_outputs(batch_first: bool) -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.drop = nn.Dropout(0.1)
            self.lstm = nn.LSTM(8, 6, num_layers=2, batch_first=batch_first)
            self.norm = nn.LayerNorm(6)
            self.fc = nn.Linear(6, 3)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            out, _ = self.lstm(self.drop(self.embed(ids)))
            return F.gelu(self.fc(self.norm(out)))

    batch = 0 if batch_first else 1
    engine = run(Tagger(), torch.randint(0, 11, (4, 7) if batch_first else (7, 4)))
    assert axes_of(engine, "lstm", "[0]") == (2, batch)
    for state in ("[1][0]", "[1][1]"):
        assert axes_of(engine, "lstm", state) == (2, 1)
    # What comes before and after has the batch where the LSTM has it.
    for name in ("embed", "drop", "norm", "fc", "gelu"):
        assert axes_of(engine, name) == (2, batch), name
    assert axes_of(engine, "ids") == (None, batch)

    gru = nn.Sequential(nn.GRU(3, 4))
    engine = run(gru, torch.randn(5, 3))  # no batch dimension
    assert axes_of(engine, "0", "[0]") == (1, None)
    assert axes_of(engine, "0", "[1]") == (1, None)


def test_attention_weights_are_maps_of_queries_by_keys() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.attn(x, x, x, average_attn_weights=False)[0]

    engine = run(Block(), torch.randn(2, 5, 8))
    assert axes_of(engine, "attn", "[0]") == (2, 0)
    weights = engine.architecture.axes("attn", "[1]", 4)
    assert weights == Axes(1, 0, "B heads T S")
    assert axes_of(engine, "x") == (2, 0)


def test_ops_have_the_axes_of_their_kind_or_of_what_they_are_given() -> None:
    class Ops(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 3, 3, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = F.max_pool2d(F.conv2d(x, self.weight), 2)
            z = F.interpolate(torch.sigmoid(y), scale_factor=2)
            return z.permute(0, 2, 3, 1)

    engine = run(Ops(), torch.randn(2, 3, 8, 8))
    for name in ("x", "conv2d", "max_pool2d", "sigmoid", "interpolate"):
        if name != "x":
            assert axes_of(engine, name) == (1, 0), name
    # A permutation moves the axes; nothing says what they are now.
    assert engine.architecture.nodes["permute"].axes is None


def test_the_users_axes_go_over_the_class_and_flow_on() -> None:
    class Odd(nn.Module):
        """Works on (features, tokens): nothing here could be known."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x * 2)

    engine = run(Odd(), torch.randn(3, 4, 5))
    assert engine.architecture.nodes["mul"].axes is None
    before = engine.architecture
    engine.choose_axes("mul", Axes(2, None))
    after = engine.architecture
    assert after.version > before.version
    assert after.nodes["mul"].axes == Axes(2, None)
    assert after.nodes["tanh"].axes == Axes(2, None)
    engine.choose_axes("mul", None)
    assert engine.architecture.nodes["tanh"].axes is None

    lstm = nn.Sequential(nn.LSTM(3, 4))
    engine = run(lstm, torch.randn(2, 1, 3))
    engine.choose_axes("0[1][0]", Axes(0, None))
    assert axes_of(engine, "0", "[1][0]") == (0, None)
    assert axes_of(engine, "0", "[1][1]") == (2, 1)


def test_axes_that_moved_are_not_said_to_be_known() -> None:
    class Moves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.fc = nn.Conv2d(2, 4, 3, padding=1), nn.Linear(3, 3)
            self.norm = nn.LayerNorm([4, 5, 5])

        def forward(self, image: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            y = self.norm(self.conv(image))
            h = self.fc(x)
            return y.sum() + h.T.relu().sum() + torch.mm(h.t(), h).sigmoid().sum() + torch.cdist(h, h).sum()

    engine = run(Moves(), torch.randn(2, 2, 5, 5), torch.randn(3, 3))
    assert axes_of(engine, "norm") == (1, 0)  # from the convolution before it, not its last axis
    for name in ("T", "relu", "mm", "sigmoid", "cdist", "t"):
        assert engine.architecture.nodes[name].axes is None, name


def test_chosen_axes_that_an_output_does_not_have_are_left_out() -> None:
    model = nn.Sequential(nn.Linear(3, 4))
    engine = CaptureEngine(model, [], lambda snapshot: None)
    engine.choose_axes("0", Axes(7, 5, chosen=True))  # before the first forward no shape is known
    engine.begin(BatchPosition("train", 0, 0), pauses=True)
    model(torch.ones(2, 3))
    engine.end(BatchPosition("train", 0, 0), complete=True)
    assert engine.architecture.nodes["0"].axes == Axes(-1, 0)
