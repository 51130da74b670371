"""The view model of the input pane: what is drawn of a batch, and what the model is said to say of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from nansense_widgets.capture.axes import Axes
from nansense_widgets.media.inputs import InputConfig
from nansense_widgets.probe.answers import answers_of
from nansense_widgets.probe.batch import InputBatch, InputPlace
from nansense_widgets.probe.perturbation import Perturbation
from nansense_widgets.probe.reading import NoProbe
from nansense_widgets.probe.result import Moved, ProbeResult
from nansense_widgets.probe.updates import PinUpdate
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.widgets.cards import STILL_OPTIONS
from nansense_widgets.widgets.protocol_inputs import InputsContent
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.views import VIEWS
from nansense_widgets.widgets.views.inputs import InputsView

AT = BatchPosition("train", 0, 2)


class MadeProbe(NoProbe):
    why_none = ""

    """A probe with nothing behind it."""

    def inputs(self, *, original: bool = False) -> Mapping[str, torch.Tensor]:
        assert self.batch is not None
        if original or not self.perturbations:
            return self.batch.inputs
        found = dict(self.batch.inputs)
        for one in self.perturbations:
            if not one.is_layer:
                before = self.batch.inputs[one.target]
                if found[one.target] is before:
                    found[one.target] = before.clone()
                one.apply(found[one.target], AXES.get(before.ndim), before)
        return found


AXES: dict[int, Axes | None] = {}
"""What the axes of inputs are, by their number."""


@pytest.fixture(autouse=True)
def no_axes_are_known() -> None:
    AXES.clear()


class Pane:
    """The view, over a probe of one batch."""

    def __init__(
        self,
        inputs: torch.Tensor | dict[str, torch.Tensor],
        *,
        output: torch.Tensor | None = None,
        target: torch.Tensor | None = None,
        losses: tuple[float, ...] = (),
        position: BatchPosition | None = AT,
        **config: Any,
    ) -> None:
        given = inputs if isinstance(inputs, dict) else {"input": inputs}
        places = {}
        for name in given:
            layer, dot, path = name.partition(".")
            places[name] = InputPlace(layer, dot + path)
        self.batch = InputBatch(
            position,
            given,
            places,
            {} if target is None else {"[1]": target},
            {} if output is None else {"": output},
            losses,
        )
        self.probe = MadeProbe()
        self.probe.batch, self.probe.answers = self.batch, answers_of(self.batch)
        schedule = SimpleNamespace(phase_order=("train",), phase_count=lambda _: 10, epochs=3)
        self.source = SimpleNamespace(
            probe=self.probe,
            input_config=InputConfig(**config),
            architecture=SimpleNamespace(version=0, axes=lambda _layer, _path, ndim: AXES.get(ndim)),
            schedule=schedule,
            trail=(),
            status=SimpleNamespace(word="paused"),
            locked=False,
        )
        self.view = InputsView(cast("Source", self.source))

    def show(self, **given: Any) -> tuple[InputsContent, list[bytes]]:
        options = {
            "input": "", "sample": 0, "order": "batch", "channel": -1, "depth": -1, "original": False,
            "px": 64, "thumb": 16, "first": 0, "count": 4,
        } | given  # fmt: skip
        return self._ask(options)

    def _ask(self, options: Any) -> tuple[InputsContent, list[bytes]]:
        buffers: list[bytes] = [b"of another card"]
        want: Any = {"layer": "inputs", "call": 1, "leaf": 0, "view": "inputs", "options": options}
        content = self.view.content(None, cast("Any", None), want, buffers)
        json.dumps(content, allow_nan=False)
        return content, buffers

    def still(self) -> InputsContent:
        return self._ask(STILL_OPTIONS["inputs"])[0]

    def perturb(self, *perturbations: Perturbation, **result: Any) -> None:
        self.probe.perturbations = perturbations
        self.probe.result = ProbeResult(
            0, self.batch, False, AT, "unchanged", "train", perturbations, **result
        )


def pixels(shown: Any, buffers: list[bytes]) -> np.ndarray:
    shape = (shown["rows"], shown["columns"], *([3] if shown["colour"] else []))
    return np.frombuffer(buffers[shown["buffer"]], np.uint8).reshape(shape)


def picture(content: InputsContent) -> Any:
    assert content["kind"] == "picture"
    assert content["picture"] is not None
    return content["picture"]


def random(*shape: int) -> torch.Tensor:
    torch.manual_seed(sum(shape))
    return torch.rand(*shape)


def test_it_is_registered_and_says_why_there_is_nothing() -> None:
    assert VIEWS["inputs"] is InputsView
    pane = Pane(random(2, 1, 4, 4))
    pane.probe.batch = None
    assert pane.show()[0]["missing"] == "no batch has been captured yet"
    pane.probe.why_none = "the model has not run yet"
    content = pane.still()
    assert content["missing"] == content["probe"]["can_pin"] == "the model has not run yet"
    pane.probe.why_none = ""
    pane.source.status.word = "closed"
    assert "released" in pane.still()["missing"]
    assert Pane({}).show()[0]["missing"] == "the model was given no tensors"


def test_a_grey_picture() -> None:
    x = random(3, 1, 10, 8)
    content, buffers = Pane(x).show(sample=1)
    shown = picture(content)
    assert content["of"] == "epoch 1, train, batch 3"
    assert content["inputs"] == [
        {"name": "input", "shape": [3, 1, 10, 8], "dtype": "float32", "kind": "picture"}
    ]
    assert (content["samples"], content["sample"], len(content["thumbs"])) == (3, 1, 3)
    assert (shown["full"], shown["pool"], shown["colour"]) == ((10, 8), 1, False)
    assert (shown["black"], shown["white"], shown["paint"], shown["about"]) == ([0.0], [1.0], [0], [])
    assert np.abs(pixels(shown, buffers) - x[1, 0].numpy() * 255).max() <= 0.5
    thumb = content["thumbs"][2]
    assert np.abs(pixels(thumb, buffers) - x[2, 0].numpy() * 255).max() <= 0.5
    assert Pane(x).show(sample=99)[0]["sample"] == 2
    assert Pane(x).still()["missing"] == ""


def test_colours_with_mean_and_deviation_undone_tell_what_white_is() -> None:
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
    raw = random(2, 3, 70, 70)
    m, s = torch.tensor(mean)[:, None, None], torch.tensor(std)[:, None, None]
    pane = Pane((raw - m) / s, mean=mean, std=std)
    content, buffers = pane.show(px=35)
    shown = picture(content)
    assert (shown["colour"], shown["pool"], shown["rows"], shown["paint"]) == (True, 2, 35, [0, 1, 2])
    expected = raw[0].reshape(3, 35, 2, 35, 2).mean((2, 4)).permute(1, 2, 0).numpy() * 255
    assert np.abs(pixels(shown, buffers) - expected).max() <= 0.51
    torch.testing.assert_close(torch.tensor(shown["white"]), ((1 - m) / s).flatten())
    torch.testing.assert_close(torch.tensor(shown["black"]), (-m / s).flatten())
    assert shown["about"] == ["with input_mean and input_std undone"]
    # What is painted white is white.
    painted = Perturbation(0, "input", sample=0, index=((3, 4), (5, 5)), values=tuple(shown["white"]))
    pane.perturb(painted)
    content, buffers = pane.show(px=70)
    shown = picture(content)
    assert pixels(shown, buffers)[3:5, 5].tolist() == [[255, 255, 255]] * 2
    assert shown["edited"] == [[3, 5], [4, 5]]
    before, buffers = pane.show(px=70, original=True)
    assert picture(before)["edited"] == []
    assert np.abs(pixels(before["picture"], buffers)[3, 5] - raw[0, :, 3, 5].numpy() * 255).max() <= 0.5
    assert picture(pane.show(px=70, sample=1)[0])["edited"] == []
    # One channel of it alone.
    shown = picture(pane.show(channel=1, px=70, original=True)[0])
    assert (shown["colour"], shown["paint"]) == (False, [1])
    assert shown["white"] == pytest.approx([(1 - 0.4) / 0.25])
    assert "channel 1 of 3" in shown["about"]


def test_many_channels_are_said() -> None:
    x = random(2, 12, 6, 6) * 8 - 4
    pane = Pane(x)
    shown = picture(pane.show()[0])
    assert (shown["colour"], shown["channels"], shown["paint"]) == (True, 12, [0, 1, 2])
    low, high = float(x[:, :3].min()), float(x[:, :3].max())
    assert shown["about"] == ["first three of 12 channels", f"black is {low:.3g}, white {high:.3g}"]
    assert shown["white"] == pytest.approx([high] * 3)
    content, buffers = pane.show(channel=7)
    shown = picture(content)
    ends = x[:, 7].min(), x[:, 7].max()
    expected = (x[0, 7] - ends[0]) / (ends[1] - ends[0]) * 255
    assert np.abs(pixels(shown, buffers) - expected.numpy()).max() <= 0.51
    assert shown["about"][0] == "channel 7 of 12"


def test_a_transform_makes_the_picture_and_painting_goes_to_the_channel() -> None:
    x = random(2, 4, 6, 6) * 3
    content, buffers = Pane(x, transform=lambda one: one[3] / 3).show()
    shown = picture(content)
    assert np.abs(pixels(shown, buffers) - x[0, 3].numpy() / 3 * 255).max() <= 0.51
    assert shown["paint"] == [0, 1, 2]
    assert shown["white"] == pytest.approx([float(x[:, c].max()) for c in range(3)])
    assert shown["about"] == [
        "painting channels 0 to 2 sets the least and largest values that the batch has there"
    ]
    shown = picture(Pane(x, transform=lambda one: one[:1, ::2, ::2]).show()[0])
    assert (shown["paint"], shown["full"], shown["rows"]) == ([], (6, 6), 3)

    def fails(_: torch.Tensor) -> None:
        raise KeyError("no")

    shown = picture(Pane(x, transform=fails).show()[0])
    assert shown["about"][0] == "input_transform failed: KeyError: 'no'"


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.bfloat16, torch.float64, torch.int16])
def test_pictures_of_any_dtype(dtype: torch.dtype) -> None:
    x = (random(2, 1, 6, 6) * (200 if dtype in (torch.uint8, torch.int16) else 1)).round().to(dtype)
    content, buffers = Pane(x).show()
    shown = picture(content)
    white = {torch.uint8: 255.0, torch.int16: float(x.max())}.get(dtype, 1.0)
    assert shown["white"] == [white]
    low = float(x.min()) if dtype is torch.int16 else 0.0
    expected = (x[0, 0].double().numpy() - low) / (white - low) * 255
    assert np.abs(pixels(shown, buffers) - expected).max() <= 0.51


def test_values_that_are_not_finite_are_said() -> None:
    x = random(2, 1, 6, 6)
    x[0, 0, 0, :2] = torch.tensor([float("nan"), float("inf")])
    content, buffers = Pane(x).show()
    shown = picture(content)
    assert shown["about"] == ["2 of its values are not finite: Inf is white, NaN and -Inf black"]
    assert pixels(shown, buffers)[0, :2].tolist() == [0, 255]
    assert picture(Pane(torch.full((2, 1, 4, 4), float("nan"))).show()[0])["white"] == [1.0]
    # All the same: black and white are still two values.
    shown = picture(Pane(torch.full((2, 1, 4, 4), 7.0)).show()[0])
    assert (shown["black"], shown["white"]) == ([7.0], [8.0])


def test_pictures_without_batch_or_channel_axis_or_with_an_unknown_one() -> None:
    AXES[3] = Axes(0, None)
    content, _ = Pane(random(3, 6, 6)).show()
    assert (content["samples"], content["thumbs"], picture(content)["colour"]) == (0, [], True)
    AXES[3] = Axes(None, 0)
    content, _ = Pane(random(4, 6, 7)).show(sample=3)
    assert (content["samples"], picture(content)["full"], picture(content)["paint"]) == (4, (6, 7), [0])
    del AXES[3]
    content, buffers = Pane(random(4, 9, 9)).show(sample=3)
    assert (picture(content)["paint"], picture(content)["black"]) == ([], [])
    assert "session.set_axes" in picture(content)["about"][0]
    assert np.abs(pixels(content["picture"], buffers) - random(4, 9, 9)[3].numpy() * 255).max() <= 0.51
    content, _ = Pane(random(1, 1, 6, 6)).show()
    assert (content["samples"], len(content["thumbs"])) == (1, 1)


def test_a_slice_of_a_volume() -> None:
    x = random(2, 1, 5, 6, 7)
    pane = Pane(x)
    content, buffers = pane.show()
    shown = picture(content)
    assert (shown["depth"], shown["slice"], shown["full"]) == (5, 2, (6, 7))
    assert np.abs(pixels(shown, buffers) - x[0, 0, 2].numpy() * 255).max() <= 0.51
    pane.perturb(Perturbation(0, "input", index=(4, 1, 2), values=(0.0,)))
    content, buffers = pane.show(depth=4)
    assert (picture(content)["slice"], picture(content)["edited"]) == (4, [[1, 2]])
    assert picture(pane.show(depth=3)[0])["edited"] == []


def test_features_and_signals() -> None:
    x = random(3, 20) - 0.5
    pane = Pane(x)
    pane.perturb(Perturbation(0, "input", sample=1, index=((2, 5),), values=(9.0,)))
    content, buffers = pane.show(sample=1)
    shown = content["features"]
    assert content["kind"] == "features"
    assert shown is not None
    assert (shown["total"], shown["edited"], shown["scale"]) == (20, [2, 5], 9.0)
    values = np.frombuffer(buffers[shown["buffer"]], np.float32)
    assert values[[2, 5]].tolist() == [9.0, 9.0]
    assert values[0] == x[1, 0]
    assert content["thumbs"][0]["text"].startswith(f"{float(x[0, 0]):.3g} ")
    assert content["thumbs"][0]["buffer"] == -1
    AXES[2] = Axes(1, 0)  # whole numbers that no embedding reads
    assert Pane(torch.arange(12).reshape(3, 4)).show()[0]["kind"] == "features"
    assert Pane(random(5)).show(sample=4)[0]["kind"] == "features"
    content, buffers = Pane(random(2, 12, 2000)).show()
    signal = content["signal"]
    assert content["kind"] == "signal"
    assert signal is not None
    assert (signal["channels"], signal["total"], signal["full"], signal["pool"]) == (8, 12, 2000, 4)
    assert len(buffers[signal["buffer"]]) == 8 * signal["length"] * 4


def test_tokens_with_their_text() -> None:
    AXES[2] = Axes(None, 0)
    ids = torch.arange(12).reshape(3, 4)
    pane = Pane(ids, transform=lambda ids: [f"<{one}>" for one in ids.tolist()])
    pane.perturb(Perturbation(0, "input", sample=1, index=(2,), values=(7.0,)))
    content, _ = pane.show(sample=1)
    assert content["kind"] == "tokens"
    assert content["tokens"] == {
        "ids": [4, 5, 7, 7],
        "texts": ["<4>", "<5>", "<7>", "<7>"],
        "text": "",
        "total": 4,
    }
    assert content["edited_tokens"] == [2]
    assert content["thumbs"][0]["text"] == "<0><1><2><3>"

    def fails(_: torch.Tensor) -> str:
        raise ValueError("no words")

    content, _ = Pane(ids, transform=fails).show()
    assert content["other"] == "input_transform failed: ValueError: no words"
    assert content["tokens"] is not None
    assert content["tokens"]["ids"] == [0, 1, 2, 3]


def test_several_inputs_and_what_cannot_be_drawn() -> None:
    pane = Pane(
        {"batch.image": random(2, 1, 4, 4), "scale": torch.tensor(0.5), "sparse": random(2, 3).to_sparse()}
    )
    content, _ = pane.show()
    assert [one["kind"] for one in content["inputs"]] == ["picture", "other", "other"]
    assert content["input"] == "batch.image"
    content, _ = pane.show(input="scale")
    assert (content["input"], content["kind"], content["other"]) == ("scale", "other", "a single number: 0.5")
    assert "sparse" in pane.show(input="sparse")[0]["other"]
    assert pane.show(input="no such input")[0]["input"] == "batch.image"
    assert "axes besides" in Pane(random(1, 2, 2, 2, 2, 2)).show()[0]["other"]


def classifier(**given: Any) -> tuple[Pane, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    logits, labels = torch.randn(6, 20), torch.randint(20, (6,))
    loss = float(F.cross_entropy(logits, labels))
    return Pane(random(6, 1, 4, 4), output=logits, target=labels, losses=(loss,), **given), logits, labels


def test_the_answer_and_the_order_of_losses() -> None:
    pane, logits, labels = classifier()
    each = F.cross_entropy(logits, labels, reduction="none")
    content, _ = pane.show(sample=2, order="loss", count=6)
    answer = content["answer"]
    shares = logits[2].softmax(0)
    assert (answer["kind"], answer["total"], answer["loss_name"]) == ("classes", 20, "cross-entropy")
    assert (answer["predicted"], answer["label"]) == (int(shares.argmax()), int(labels[2]))
    assert answer["loss"] == pytest.approx(float(each[2]))
    indices = [one["index"] for one in answer["classes"]]
    assert indices == sorted({*shares.topk(10).indices.tolist(), int(labels[2])})
    assert all(one["share"] == pytest.approx(float(shares[one["index"]])) for one in answer["classes"])
    assert all(one["before"] is None for one in answer["classes"])
    assert (content["order"], content["order_note"], content["label"]) == ("loss", "", str(int(labels[2])))
    assert [one["sample"] for one in content["thumbs"]] == each.argsort(descending=True).tolist()
    thumb = content["thumbs"][0]
    assert thumb["loss"] == pytest.approx(float(each.max()))
    assert thumb["right"] == (int(logits[thumb["sample"]].argmax()) == int(labels[thumb["sample"]]))
    content, _ = pane.show(order="loss", first=4, count=6)
    assert (content["first"], len(content["thumbs"])) == (4, 2)


def test_no_order_of_losses_that_are_not_known() -> None:
    content, _ = Pane(random(6, 1, 4, 4), output=random(6, 3)).show(order="loss")
    assert (content["order"], content["order_note"]) == (
        "batch", "not known which loss it is: no backward() was seen",
    )  # fmt: skip
    assert content["answer"]["kind"] == "values"
    assert content["answer"]["text"].startswith("output ")
    content, _ = Pane(random(6, 1, 4, 4), output=random(3, 3)).show()
    assert content["answer"]["text"] == "the model gives 3 answers for 6 samples"
    content, _ = Pane(random(6, 1, 4, 4)).show()
    assert content["answer"]["text"] == "the model gave no tensor of real numbers"


def test_a_perturbation_is_answered_beside_what_was_said_before() -> None:
    pane, logits, labels = classifier()
    change = Perturbation(0, "input", sample=2, index=(1, 1), values=(1.0,))
    other = logits.clone()
    other[2] = other[2].roll(3)
    pane.perturb(
        change,
        output={"": logits},
        perturbed_output={"": other},
        moved={"a": Moved(0.5, 1.0), "b": Moved(0.0, 0.0)},
        notes=("BatchNorm mixes samples",),
        seconds=0.25,
    )
    content, _ = pane.show(sample=2, order="loss")
    answer = content["answer"]
    now, before = other[2].softmax(0), logits[2].softmax(0)
    for one in answer["classes"]:
        assert one["share"] == pytest.approx(float(now[one["index"]]))
        assert one["before"] == pytest.approx(float(before[one["index"]]))
    each = F.cross_entropy(logits, labels, reduction="none")
    assert answer["loss_before"] == pytest.approx(float(each[2]))
    assert answer["loss"] == pytest.approx(float(F.cross_entropy(other[2], labels[2])))
    assert content["order_note"] == "in the order of the losses without the perturbations"
    assert [one["sample"] for one in content["thumbs"]] == each.argsort(descending=True)[:4].tolist()
    assert content["perturbations"] == [{"number": 0, "text": change.text, "target": "input", "sample": 2}]
    state = content["probe"]
    assert (state["moved"], state["notes"], state["seconds"]) == (
        "1 of 2 layers changed", ["BatchNorm mixes samples"], 0.25,
    )  # fmt: skip
    assert state["mode_note"] == "as the loop has left it (train)"
    # One more that has not been computed.
    pane.probe.perturbations += (Perturbation(1, "input", sample=2, index=(2, 2), values=(1.0,)),)
    pane.probe.computing = True
    content, _ = pane.show(sample=2)
    assert content["answer"]["loss_note"].startswith("as before the last change, which is being computed")
    assert picture(content)["edited"] == [[1, 1], [2, 2]]
    # A probe that failed: the batch itself.
    pane.perturb(change, error="RuntimeError: no")
    content, _ = pane.show(sample=2)
    assert (content["probe"]["error"], content["answer"]["loss_before"]) == ("RuntimeError: no", None)
    assert content["answer"]["loss_note"].startswith("of the batch as it ran")
    assert content["answer"]["loss"] == pytest.approx(float(each[2]))


def test_what_was_put_back_is_not_marked() -> None:
    pane = Pane(random(2, 1, 4, 4))
    pane.perturb(
        Perturbation(0, "input", sample=0, values=(1.0,)),
        Perturbation(1, "input", sample=0, index=(tuple(range(4)), (0,)), original=True),
    )
    assert len(picture(pane.show()[0])["edited"]) == 12
    pane = Pane(random(1, 1, 100, 100))
    pane.perturb(Perturbation(0, "input", noise=0.1))
    shown = picture(pane.show()[0])
    assert len(shown["edited"]) == 4096
    assert "the first 4,096 of 10,000 painted pixels are marked" in shown["about"]


def test_a_pinned_batch_and_its_losses() -> None:
    pane, logits, _ = classifier()
    probe = pane.probe
    probe.is_pinned = True
    content, _ = pane.show()
    assert content["of"] == "pinned: epoch 1, train, batch 3"
    pinned = content["pinned"]
    assert pinned is not None
    assert (pinned["losses"], pinned["losses_note"]) == ([], "no update since it was pinned")
    probe.updates = (
        PinUpdate(None, torch.full((6,), 4.0)),
        *(
            PinUpdate(BatchPosition("train", i // 10, i % 10), torch.full((6,), 1 / (i + 1)))
            for i in range(2000)
        ),
        PinUpdate(BatchPosition("train", 200, 0), torch.full((6,), float("nan"))),
        PinUpdate(BatchPosition("train", 200, 1), None),
    )
    probe.result = ProbeResult(1, pane.batch, True, AT, "unchanged", "eval", output={"": logits * 2})
    pinned = pane.show(sample=3)[0]["pinned"]
    assert pinned is not None
    assert (len(pinned["losses"]), pinned["losses_note"]) == (500, "1 of them are not finite")
    assert pinned["losses"][0] == {"at": 0.0, "loss": 4.0}
    assert pinned["losses"][-1]["at"] == pytest.approx(200)
    content, _ = pane.show(sample=3)
    shares = (logits[3] * 2).softmax(0)
    assert content["answer"]["classes"][0]["share"] == pytest.approx(
        float(shares[content["answer"]["classes"][0]["index"]])
    )
    assert content["probe"]["mode_note"] == "as the loop has left it (eval)"
    own = Pane(random(2, 1, 4, 4), position=None)
    own.probe.is_pinned = True
    content, _ = own.show()
    assert content["of"] == "pinned: your own batch"


def test_outputs_that_are_not_finite() -> None:
    pane, logits, _ = classifier()
    bad = logits.clone()
    bad[1] = float("nan")
    pane.probe.result = ProbeResult(1, pane.batch, True, AT, "unchanged", output={"": bad})
    content, _ = pane.show(sample=1, order="loss")
    assert content["thumbs"][0]["sample"] == 1
    assert (content["thumbs"][0]["loss"], content["thumbs"][0]["right"]) == (None, None)
    assert content["answer"]["kind"] == "none"
    assert content["answer"]["text"] == "the model's output is not finite: no probabilities"
    assert content["answer"]["loss_note"].endswith("of this sample it is nan")


def test_what_was_painted_once_is_not_painted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pane = Pane(random(6, 1, 8, 8))
    first, buffers = pane.show()
    from nansense_widgets.media.picture import InputLook

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("painted again")

    with monkeypatch.context() as patch:
        patch.setattr(InputLook, "see", never)
        again, same = pane.show()
        assert again == first
        assert same == buffers
        pane.perturb(Perturbation(0, "input", sample=5, values=(0.0,)))
        assert pane.show()[0]["picture"] == first["picture"]  # another sample was painted
    changed, _ = pane.show(sample=5)
    assert len(picture(changed)["edited"]) == 64
