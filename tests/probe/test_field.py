"""Measured receptive fields equal the theoretical ones where all that can have an influence has one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from nansense_widgets.probe.field import MeasuredField
from tests.driver import TIMEOUT_S
from tests.probe.conftest import Paused, small_net


def squared(model: nn.Module, item: Any) -> torch.Tensor:
    found: torch.Tensor = model(item[0])
    return found.pow(2).mean()


def images(*shape: int) -> list[Any]:
    generator = torch.Generator().manual_seed(4)
    return [(torch.randn(*shape, generator=generator),) for _ in range(2)]


def measured(
    paused: Paused, model: nn.Module, shape: tuple[int, ...], layer: str, **unit: Any
) -> MeasuredField:
    session = paused(model, images(*shape), loss=squared)
    session.measure_receptive_field(layer, **unit)
    found = session.wait_for_receptive_field(60)
    assert found is not None
    assert found is session.receptive_field
    return found


def stack() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 8, 5, stride=2, padding=2),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 4, 3, dilation=2, padding=2),
    )


@pytest.mark.parametrize(
    ("layer", "channel", "index"),
    [
        ("0", 3, (0, 0)),
        ("1", 1, (27, 13)),
        ("2", 0, (7, 7)),
        ("3", 2, (0, 6)),
        ("4", 1, (3, 3)),
        ("4", 0, (6, 0)),
    ],
)
def test_of_a_plain_stack_it_is_the_theoretical_one(
    paused: Paused, layer: str, channel: int, index: tuple[int, ...]
) -> None:
    found = measured(paused, stack(), (4, 1, 28, 28), layer, channel=channel, index=index, sample=1)
    assert found.error == ""
    assert found.theoretical is not None
    assert found.theoretical_note == ""
    assert found.measured == found.theoretical.box
    assert found.sensitivity is not None
    assert found.sensitivity.shape == (28, 28)
    rows, columns = found.theoretical.box
    outside = found.sensitivity.clone()
    outside[rows[0] : rows[1], columns[0] : columns[1]] = 0
    assert outside.abs().sum() == 0
    assert "each pixel replaced by noise, 8 rounds, in eval mode" in found.note


def test_large_pictures_are_searched_to_the_pixel(paused: Paused) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 7, stride=2, padding=3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, padding=1)
    )
    found = measured(paused, model, (2, 3, 70, 70), "2", channel=1, index=(10, 20))
    assert found.block == (3, 3)
    assert found.theoretical is not None
    assert found.measured == found.theoretical.box
    assert "blocks of 3 x 3" in found.note


def test_signals_features_and_tokens(paused: Paused) -> None:
    torch.manual_seed(0)
    signal = nn.Sequential(nn.Conv1d(2, 4, 5), nn.ReLU(), nn.Conv1d(4, 4, 3))
    found = measured(paused, signal, (4, 2, 40), "2", index=(10,))
    assert found.measured == ((10, 17),)
    assert found.theoretical is not None
    assert found.theoretical.box == ((10, 17),)
    sparse = nn.Linear(10, 3)
    with torch.no_grad():
        sparse.requires_grad_(False).weight[1, :4] = 0
    found = measured(paused, nn.Sequential(sparse, nn.Linear(3, 2)), (4, 10), "0", channel=1)
    assert found.measured == ((4, 10),)  # theory says all of them; these weights are zero

    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.mix = nn.Embedding(9, 4), nn.Conv1d(4, 4, 3)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.mix(nn.functional.pad(self.words(ids).transpose(1, 2), (2, 0)))

    words = [(torch.randint(0, 9, (3, 12)),) for _ in range(2)]
    session = paused(Causal(), words, loss=squared)
    session.measure_receptive_field("mix", index=(6,))
    causal = session.wait_for_receptive_field(60)
    assert causal is not None
    assert causal.measured == ((4, 7),)


def test_what_cannot_be_measured_says_why(paused: Paused) -> None:
    class Mixing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.conv(x)
            return y - y.mean(0)

    found = measured(paused, Mixing(), (4, 1, 8, 8), "sub")
    assert "mixes the samples of a batch even in eval mode" in found.error
    session = paused(stack(), images(2, 1, 28, 28), loss=squared)
    for wrong, match in (
        ({"layer": "4", "channel": 9}, "channel=9 must be 0 … 3"),
        ({"layer": "4", "index": (1,)}, r"index=\(1,\) must have 2 entries"),
        ({"layer": "4", "index": (1, 7)}, r"must be 0 … 6"),
        ({"layer": "4", "sample": 2}, "sample=2 must be 0 … 1"),
        ({"layer": "none"}, "none"),
        ({"layer": "4", "input_name": "x"}, "must be one of the model's inputs: input"),
    ):
        with pytest.raises(ValueError, match=match):
            session.measure_receptive_field(**wrong)
    assert session.receptive_field is None


def test_it_leaves_no_trace_and_can_be_stopped(paused: Paused) -> None:
    model = small_net()
    session = paused(model, [(torch.randn(4, 1, 8, 8), torch.zeros(4, dtype=torch.long))] * 3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    session.measure_receptive_field("4", channel=1)
    assert session.wait_for_receptive_field(TIMEOUT_S) is not None
    assert torch.equal(random, torch.get_rng_state())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    session.cancel()
    assert session.receptive_field is not None  # it is over: there is nothing to cancel
    session.clear_receptive_field()
    assert session.receptive_field is None
