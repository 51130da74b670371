"""What a card is told of tensors that are no plain pictures: ids, complex and quantized values, maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nansense_widgets
from nansense_widgets import Session
from tests.driver import Driver
from tests.widgets.test_messages import Browser, decoded, want


def paused(
    model: nn.Module, step: Any, watch: tuple[str, ...] = ("*",), **options: Any
) -> tuple[Session, Browser]:
    """A session that has captured two batches of `step` (so that ops are known) and shows the second."""
    session = nansense_widgets.start(model, **options)
    session.watch("*")

    def loop() -> None:
        for _ in session.batches(range(10), phase="train"):
            step()

    driver = Driver(session, loop)
    session.watch(*watch)
    driver.do("step_batch")
    return session, Browser(session.dashboard())


def card(browser: Browser, layer: str, **other: Any) -> tuple[dict[str, Any], list[bytes]]:
    seq = len(browser.cards())
    browser.send(type="want", view=f"v{seq}", cards=[want(layer, **other)])
    message, buffers = browser.cards()[-1]
    return message["cards"][0], buffers


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 4)
        self.lstm = nn.LSTM(4, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.lstm(self.embed(ids))[0]


@pytest.mark.parametrize("kind", ["none", "list", "text", "fails"])
def test_token_ids_are_ids_with_their_text(kind: str) -> None:
    def fails(ids: torch.Tensor) -> str:
        raise KeyError("unknown id")

    transforms: dict[str, Any] = {
        "none": None,
        "list": lambda ids: [f"<{i}>" for i in ids.tolist()],
        "text": lambda ids: "-".join(str(i) for i in ids.tolist()),
        "fails": fails,
    }
    model = Tagger()
    ids = torch.randint(0, 20, (5, 3))  # (T, B): the LSTM is time-first
    session, browser = paused(
        model,
        lambda: model(ids).sum().backward(),
        input_transform=None if kind == "none" else {"ids": transforms[kind]},
    )
    shown, buffers = card(browser, "ids", sample=2)
    strip = shown["content"]["strips"][0]
    expected = ids[:, 2].tolist()
    assert (strip["layout"], strip["axes"], strip["samples"]) == ("ids", "T B", 3)
    assert strip["tokens"]["ids"] == expected
    assert strip["tokens"]["total"] == 5
    assert strip["tokens"]["texts"] == ([f"<{i}>" for i in expected] if kind == "list" else [])
    assert strip["tokens"]["text"] == ("-".join(map(str, expected)) if kind == "text" else "")
    assert ("input_transform failed: KeyError" in strip["about"]) == (kind == "fails")
    assert buffers == []
    assert shown["content"]["strips"][1]["missing"] == "no gradient: int64 values have none"
    session.close()


def test_outputs_of_an_lstm_have_their_own_axes() -> None:
    model = Tagger()
    ids = torch.randint(0, 20, (5, 3))
    session, browser = paused(model, lambda: model(ids).sum().backward())
    shown, _ = card(browser, "lstm")
    assert shown["leaves"] == ["lstm[0]", "lstm[1][0]", "lstm[1][1]"]
    assert shown["content"]["strips"][0]["axes"] == "T B C"
    assert shown["content"]["strips"][0]["samples"] == 3
    shown, _ = card(browser, "lstm", leaf=1)
    assert shown["content"]["strips"][0]["axes"] == "layers B C"
    assert shown["axes"] == {
        "output": "lstm[1][0]", "ndim": 3, "channel": 2, "batch": 1, "known": True, "chosen": False,
    }  # fmt: skip
    session.close()


def test_axes_that_the_user_chooses_are_drawn_at_once() -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    model = Odd()
    x = torch.arange(24.0).reshape(2, 3, 4)
    session, browser = paused(model, lambda: model(x))
    shown, _ = card(browser, "mul")
    assert shown["axes"]["known"] is False
    browser.send(
        type="action", view="v", req=1, name="set_axes", args={"layer": "mul", "channel": 0, "batch": None}
    )
    echoes = [message for message, _ in browser.received if message["type"] == "echo"]
    assert echoes[-1]["error"] == ""
    assert echoes[-1]["code"] == "session.set_axes(layer='mul', channel=0, batch=None)"
    shown, buffers = card(browser, "mul")
    strip = shown["content"]["strips"][0]
    assert (strip["channels"], strip["full"], strip["samples"]) == (2, (3, 4), 0)
    np.testing.assert_allclose(
        decoded(strip, buffers).reshape(2, 3, 4), (x * 2).numpy(), atol=strip["scale"] / 126
    )
    assert shown["axes"]["chosen"] is True
    session.set_axes("mul")  # as its class says again
    assert session.architecture.nodes["mul"].axes is None

    for arguments, message in (
        ({"layer": "nul"}, "did you mean 'mul'"),
        ({"layer": "mul", "channel": 3}, "from -3 to 2"),
        ({"layer": "mul", "channel": 1, "batch": -2}, "different axes"),
    ):
        with pytest.raises(ValueError, match=message):
            session.set_axes(**arguments)
    with pytest.raises(TypeError, match="channel='first'"):
        session.set_axes("mul", channel="first")
    session.close()


def test_the_parts_of_complex_values() -> None:
    class Spectrum(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.rfft2(x)

    model = Spectrum()
    x = torch.randn(2, 3, 6, 6)
    spectrum = torch.fft.rfft2(x)[1]
    session, browser = paused(model, lambda: model(x))
    for part, expected, axes, unsigned in (
        ("magnitude", spectrum.abs(), "B d1 d2 d3", True),
        ("real", spectrum.real, "B d1 d2 d3 Re z", False),
        ("imaginary", spectrum.imag, "B d1 d2 d3 Im z", False),
    ):
        shown, buffers = card(browser, "fft_rfft2", part=part, sample=1)
        strip = shown["content"]["strips"][0]
        assert (strip["dtype"], strip["axes"], strip["unsigned"]) == ("complex64", axes, unsigned)
        np.testing.assert_allclose(
            decoded(strip, buffers).reshape(3, 6, 4), expected.numpy(), atol=strip["scale"] / 126 * 0.51
        )
    browser.send(
        type="fetch",
        view="v",
        req=1,
        card=want("fft_rfft2", part="imaginary"),
        ask={"kind": "activations", "channel": 0, "window": None},
    )
    message, [values] = browser.received[-1]
    exact = np.frombuffer(values, message["dtype"])
    np.testing.assert_array_equal(exact, torch.fft.rfft2(x)[0, 0].imag.flatten().numpy())
    session.close()


def test_quantized_values_are_drawn_as_the_numbers_they_stand_for() -> None:
    class Quantizes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.quantize_per_tensor(x, 0.5, 3, torch.quint8).dequantize()

    model = Quantizes()
    x = torch.randn(2, 5)
    session, browser = paused(model, lambda: model(x))
    shown, buffers = card(browser, "quantize_per_tensor")
    strip = shown["content"]["strips"][0]
    assert strip["dtype"] == "quint8"
    expected = torch.quantize_per_tensor(x, 0.5, 3, torch.quint8).dequantize()[0]
    np.testing.assert_allclose(decoded(strip, buffers), expected.numpy(), atol=strip["scale"] / 126 * 0.51)
    session.close()


def test_attention_weights_are_one_more_output_on_request() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = nn.MultiheadAttention(8, 2, batch_first=True)
            self.fc = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(self.attn(x, x, x, need_weights=False)[0])

    model = Block()
    x = torch.randn(3, 5, 8)
    session, browser = paused(model, lambda: model(x).sum().backward())
    shown, _ = card(browser, "attn")
    assert (shown["attention"], shown["leaves"]) == ("off", ["attn[0]"])
    assert card(browser, "fc")[0]["attention"] == "none"
    with pytest.raises(ValueError, match="can give no attention weights; those that can: attn"):
        session.watch_attention("fc")
    assert session.watch_attention("*") == ["attn"]
    before = session.pause_count
    session.step_batch()
    session.wait_until_paused(after_pauses=before, timeout=20)
    shown, _ = card(browser, "attn", leaf=1)
    assert (shown["attention"], shown["leaves"]) == ("on", ["attn[0]", "attn.attention_weights"])
    strip = shown["content"]["strips"][0]
    assert (strip["axes"], strip["channels"], strip["full"]) == ("B heads T S", 2, (5, 5))
    assert strip["about"] == "formed beside the forward, before dropout"
    assert session.unwatch_attention() == ["attn"]
    assert session.attention_layers == ()
    assert "attn" in session.watched_layers
    session.close()


def test_notes_of_the_batch_and_of_gradients_are_sent() -> None:
    model = nn.Linear(2, 2, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)

    def step() -> None:
        optimizer.zero_grad()
        scaler.scale(model(torch.full((1, 2), 1e3)).sum() * 1e3).backward()
        scaler.step(optimizer)
        scaler.update(2.0**127)

    session, browser = paused(model, step, optimizer=optimizer)
    shown, _ = card(browser, "linear")
    message, _ = browser.cards()[-1]
    assert message["notes"] == ["SGD: step skipped, because GradScaler found Inf or NaN in a gradient"]
    assert shown["content"]["strips"][1]["about"] == "divided by the loss scale"
    session.close()
