"""A probe gives what an independent forward of a copy gives, for every kind of model that can be copied."""

from __future__ import annotations

import copy
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import nansense_widgets
from nansense_widgets import Session, SessionStateError
from nansense_widgets.probe.keeper import KeptCall, read_output
from nansense_widgets.probe.probe import Probe
from nansense_widgets.probe.result import ProbeMode, ProbeResult
from tests.driver import TIMEOUT_S
from tests.kinds import KINDS
from tests.probe.conftest import Paused, pictures, small_net, step
from tests.test_unchanged import NO_PROBE, seeded


def probed(session: Session) -> ProbeResult:
    result = session.wait_for_probe(TIMEOUT_S)
    assert result is not None
    assert result.error == "", result.error
    return result


def kept(session: Session) -> KeptCall:
    assert isinstance(session.probe, Probe)
    found = session.probe.kept
    assert found is not None
    return found


def forward_of_a_copy(call: KeptCall, model: nn.Module, mode: ProbeMode) -> Any:
    """What the model's copy gives to the same arguments, with the same random numbers."""
    if mode != "unchanged":
        model.train(mode == "train")
    args, kwargs = call.fresh()
    with call.computing.applied(), torch.set_grad_enabled(call.grad):
        call.random.restore()
        return nn.Module.__call__(model, *args, **kwargs)  # what a `__call__` of its own has made of them


def equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.layout is not torch.strided or one.is_quantized:
        return torch.equal(one.detach().to_dense(), other.detach().to_dense())
    return one.shape == other.shape and torch.equal(one.detach().nan_to_num(), other.detach().nan_to_num())


@pytest.mark.parametrize("name", KINDS)
def test_a_probe_equals_a_forward_of_a_copy(name: str) -> None:
    program = seeded(name)
    session = nansense_widgets.start(program.model, optimizer=program.optimizers)
    try:
        session.launch(program.run, session)
        assert session.wait_until_paused(timeout=60)
        if not session.pin_current_batch():
            pytest.skip(f"no probe: {session.probe.why_none}")
        try:
            model = copy.deepcopy(program.model)
            call = kept(session)
        except Exception as error:  # noqa: BLE001  of the kind: there is nothing to compare with
            pytest.skip(f"the model cannot be copied: {type(error).__name__}")
        for mode in ("unchanged", "eval"):
            session.set_probe_mode(mode)
            result = session.wait_for_probe(60)
            assert result is not None
            if result.error and any(why in result.error for why in NO_PROBE):
                continue
            assert result.error == ""
            random = torch.get_rng_state()
            expected = forward_of_a_copy(call, copy.deepcopy(model), mode)
            torch.set_rng_state(random)
            for path, tensor in read_output(expected).items():
                assert equal(result.output[path], tensor), (mode, path)
    finally:
        session.detach()
        session.wait(60)
        session.close()


def test_layers_are_those_of_a_copy_too(paused: Paused) -> None:
    model = small_net()
    session = paused(model, pictures())
    copied = copy.deepcopy(model)
    seen: dict[str, torch.Tensor] = {}
    for name, module in copied.named_children():
        module.register_forward_hook(lambda _m, _a, out, name=name: seen.__setitem__(name, out.detach()))
    session.pin_current_batch()
    result = probed(session)
    random = torch.get_rng_state()
    forward_of_a_copy(kept(session), copied, "unchanged")
    torch.set_rng_state(random)
    assert set(seen) <= set(result.layers)
    for name, value in seen.items():
        activation = result.layers[name][0].leaves[0].activation
        assert activation is not None
        assert torch.equal(activation, value), name
    assert "a forward only" in result.layers["0"][0].leaves[0].gradient_reason


def test_a_pinned_batch_is_run_again_at_every_update(paused: Paused) -> None:
    session = paused(small_net(), pictures(5), epochs=2)
    assert session.pin_current_batch()
    assert session.is_pinned
    assert session.pinned_position is not None
    assert session.pinned_position.key == ("train", 0, 0)
    first = probed(session)
    step(session)
    second = probed(session)
    assert session.pinned_position.key == ("train", 0, 0)
    assert second.weights_at is not None
    assert second.weights_at.key == ("train", 0, 1)
    assert not torch.equal(first.output[""], second.output[""])
    assert [update.at.key for update in session.probe.updates if update.at] == [
        ("train", 0, 0),
        ("train", 0, 1),
    ]
    losses = session.probe.updates[-1].losses
    assert losses is not None
    expected = nn.functional.cross_entropy(second.output[""], pictures()[0][1], reduction="none")
    assert torch.allclose(losses.float(), expected, atol=1e-6)
    session.unpin_batch()
    assert session.probe_result is None
    assert session.memory().by_kind["probe"] > 0
    assert "pinned batch" not in session.memory().by_name


def test_going_back_drops_what_came_after(paused: Paused) -> None:
    session = paused(small_net(), pictures(6))
    session.pin_current_batch()
    probed(session)
    outputs = {0: probed(session).output[""]}
    for batch in (1, 2, 3):
        step(session)
        outputs[batch] = probed(session).output[""]
    pauses = session.pause_count
    session.step_back(2)
    assert session.wait_until_paused(after_pauses=pauses, timeout=TIMEOUT_S)
    again = probed(session)
    assert [update.at.batch_idx for update in session.probe.updates if update.at] == [0, 1]
    assert torch.equal(again.output[""], outputs[1])  # the same weights, the same dropout
    step(session)
    assert torch.equal(probed(session).output[""], outputs[2])


def test_a_batch_of_ones_own(paused: Paused) -> None:
    model = small_net()
    session = paused(model, pictures())
    mine = torch.randn(2, 1, 8, 8)
    session.set_probe_mode("eval")
    assert session.pin(mine, targets=torch.tensor([0, 2]))
    result = probed(session)
    assert result.batch.position is None
    assert torch.equal(result.output[""], copy.deepcopy(model).eval()(mine))
    assert session.probe.updates[-1].losses is not None  # by the loss that the run has
    item = (torch.randn(3, 1, 8, 8), torch.tensor([0, 1, 2]))
    assert session.pin(item)  # as the loader gives it
    result = probed(session)
    assert torch.equal(result.output[""], copy.deepcopy(model).eval()(item[0]))
    assert result.batch.targets["[1]"].tolist() == [0, 1, 2]
    mine.zero_()
    assert result.batch.inputs["input"].abs().sum() > 0
    for wrong, error in (((), TypeError), (("text",), TypeError)):
        with pytest.raises(error, match="at least one tensor"):
            session.pin(*wrong)
    with pytest.raises(TypeError, match="must be a tensor"):
        session.pin(mine, targets="cat")


class Keywords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.numbers = nn.Embedding(11, 8), nn.Linear(5, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, batch: dict[str, torch.Tensor], *, mask: torch.Tensor, scale: float = 1.0) -> Any:
        words = self.words(batch["tokens"]) * mask[..., None]
        return {"logits": self.out(words.mean(1) + scale * self.numbers(batch["features"]))}


def keyword_batches() -> list[Any]:
    generator = torch.Generator().manual_seed(2)
    return [
        {
            "tokens": torch.randint(0, 11, (4, 6), generator=generator),
            "features": torch.randn(4, 5, generator=generator),
            "mask": torch.ones(4, 6),
            "labels": torch.arange(4) % 3,
        }
        for _ in range(3)
    ]


def keyword_loss(model: nn.Module, item: Any) -> torch.Tensor:
    inside = {"tokens": item["tokens"], "features": item["features"]}
    return nn.functional.cross_entropy(model(inside, mask=item["mask"], scale=0.5)["logits"], item["labels"])


def test_keyword_nested_and_token_inputs(paused: Paused) -> None:
    model = Keywords()
    session = paused(model, keyword_batches(), loss=keyword_loss)
    batch = session.probe.batch
    assert batch is not None
    assert list(batch.inputs) == ["batch.tokens", "batch.features", "mask"]
    session.add_perturbation("batch.tokens", sample=1, index=(2,), values=7)
    session.add_perturbation("mask", sample=1, index=(2,), values=0.25)
    session.add_perturbation("batch.features", sample=1, channel=4, values=2.5)
    result = probed(session)
    item = keyword_batches()[0]
    item["tokens"][1, 2], item["mask"][1, 2], item["features"][1, 4] = 7, 0.25, 2.5
    inside = {"tokens": item["tokens"], "features": item["features"]}
    expected = copy.deepcopy(model)(inside, mask=item["mask"], scale=0.5)["logits"]
    assert torch.equal(result.perturbed_output[".logits"], expected)
    same = [0, 2, 3]
    assert torch.equal(result.output[".logits"][same], expected[same])
    assert session.probe.inputs()["batch.tokens"][1, 2] == 7
    assert session.probe.inputs(original=True)["batch.tokens"][1, 2] == keyword_batches()[0]["tokens"][1, 2]
    with pytest.raises(ValueError, match="must be whole"):
        session.add_perturbation("batch.tokens", sample=1, index=(2,), values=1.5)
    with pytest.raises(
        ValueError, match=r"input_name='tokens' must be one of the model's inputs: batch\.tokens"
    ):
        session.add_perturbation("tokens", values=1)
    assert session.pin({"tokens": item["tokens"], "features": item["features"]}, mask=item["mask"], scale=0.5)
    assert torch.equal(probed(session).output[".logits"], result.perturbed_output[".logits"])


def test_a_perturbed_pixel_reaches_what_it_can_and_nothing_else(paused: Paused) -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1))
    session = paused(model, pictures(), loss=lambda model, item: model(item[0]).pow(2).mean())
    session.add_perturbation(sample=2, index=(4, 5), values=3.0)
    result = probed(session)
    assert result.notes == ()
    for layer, reach in (("input", 0), ("0", 1), ("1", 2)):
        before = result.layers[layer][0].leaves[0].activation
        after = result.perturbed[layer][0].leaves[0].activation
        assert before is not None
        assert after is not None
        differs = (before != after).any(1)
        expected = torch.zeros(4, 8, 8, dtype=torch.bool)
        expected[2, 4 - reach : 5 + reach, 5 - reach : 6 + reach] = True
        assert torch.equal(differs, expected), layer
        assert result.moved[layer].share == pytest.approx((before != after)[2].float().mean().item())
        assert result.moved[layer].largest == pytest.approx((after - before).abs().max().item())
    assert list(result.moved) == ["input", "0", "1"]


def test_perturbations_come_one_after_the_other_and_can_be_taken_back(paused: Paused) -> None:
    session = paused(small_net(), pictures())
    original = session.probe.inputs()["input"]
    session.add_perturbation(sample=0, index=(1, 1), values=5.0)
    session.add_perturbation(sample=0, index=(1, 2), values=5.0, join=True)
    session.add_perturbation(sample=0, index=([3, 4], 2), values=5.0, join=True)
    assert [one.number for one in session.perturbations] == [0]
    assert session.perturbations[0].text == (
        "session.add_perturbation('input', sample=0, index=([1, 1, 3, 4], [1, 2, 2, 2]), values=5.0)"
    )
    session.add_perturbation(sample=0, scale=2)
    session.add_perturbation(sample=0, index=(1, 1), original=True)
    session.add_perturbation(sample=1, noise=0.5, seed=3)
    now = session.probe.inputs()["input"]
    assert now[0, 0, 1, 1] == original[0, 0, 1, 1]
    assert now[0, 0, 1, 2] == 10
    assert now[0, 0, 5, 5] == 2 * original[0, 0, 5, 5]
    assert not torch.equal(now[1], original[1])
    assert torch.equal(now[2:], original[2:])
    assert len(probed(session).perturbations) == 4
    taken = session.undo_perturbation()
    assert taken is not None
    assert taken.noise == 0.5
    assert torch.equal(session.probe.inputs()["input"][1], original[1])
    for one in list(session.perturbations):  # what is said is what makes it
        again = eval(one.text, {"session": session})
        assert replace(again, number=one.number) == one
    session.clear_perturbations()
    assert len(session.perturbations) == 0
    assert session.undo_perturbation() is None
    assert session.probe_result is None


def test_a_channel_of_a_layer_is_silenced_scaled_or_replaced(paused: Paused) -> None:
    model = small_net()
    session = paused(model, pictures())
    session.set_probe_mode("eval")
    changed = session.ablate("4", channel=1)
    assert changed is not None
    assert changed.text == "session.ablate('4', channel=1, scale=0)"
    session.ablate("0", channel=[2, 3], scale=2.0)
    session.ablate("2", channel=0, value=1.5, sample=1)
    result = probed(session)
    copied = copy.deepcopy(model).eval()

    def hooked(index: int, change: Any) -> None:
        copied[index].register_forward_hook(lambda _m, _a, out: change(out.clone()))

    def doubled(out: torch.Tensor) -> torch.Tensor:
        out[:, 2:] *= 2
        return out

    def replaced(out: torch.Tensor) -> torch.Tensor:
        out[1, 0] = 1.5
        return out

    def silenced(out: torch.Tensor) -> torch.Tensor:
        out[:, 1] = 0
        return out

    for index, change in ((0, doubled), (2, replaced), (4, silenced)):
        hooked(index, change)
    assert torch.equal(result.perturbed_output[""], copied(pictures()[0][0]))
    for wrong, match in (
        ({"layer": "4", "channel": 9}, "channel=9 is out of range: 4 has 4 there"),
        ({"layer": "input"}, "use add_perturbation"),
        ({"layer": "nothing"}, "nothing"),
        ({"layer": "4", "scale": 1.0, "value": 1.0}, "give one of them"),
    ):
        with pytest.raises(ValueError, match=match):
            session.ablate(**wrong)


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x).relu_()
        left, right = torch.sigmoid(y).chunk(2, dim=1)
        return self.b(torch.cat([left, right], 1))


def test_functional_layers_can_be_ablated(paused: Paused) -> None:
    data = [(torch.randn(4, 8), torch.arange(4) % 3) for _ in range(2)]
    model = Functional()
    session = paused(model, data)
    for name, change in (("relu_", "relu"), ("sigmoid", "sigmoid"), ("chunk", "chunk")):
        session.clear_perturbations()
        session.ablate(name, channel=1)
        result = probed(session)
        with torch.no_grad():
            y = model.a(data[0][0]).relu()
            y[:, 1] *= 0 if change == "relu" else 1
            y = y.sigmoid()
            y[:, 1] *= 0 if change != "relu" else 1
            assert torch.allclose(result.perturbed_output[""], model.b(y), atol=1e-6), name


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ({}, ValueError, "exactly one of values, scale, noise and original"),
        ({"values": 1, "scale": 2}, ValueError, "not values, scale"),
        ({"values": "red"}, TypeError, "values='red' must be a number"),
        ({"values": [1, 2]}, ValueError, "one number, or 1"),
        ({"values": 1, "sample": 9}, ValueError, "sample=9 is out of range: input has 4"),
        ({"values": 1, "sample": 1.0}, TypeError, "sample=1.0 must be an int"),
        ({"values": 1, "index": (3,)}, ValueError, r"index=\(3,\) must have 2 entries"),
        ({"values": 1, "index": (3, 99)}, ValueError, "index=99 is out of range: input has 8"),
        ({"values": 1, "index": ([1, 2], [1, 2, 3])}, ValueError, "as many places"),
        ({"values": 1, "channel": 4}, ValueError, "channel=4 is out of range"),
        ({"noise": -1.0}, ValueError, "noise=-1.0 must not be negative"),
        ({"scale": float("nan")}, ValueError, "scale=nan must be finite"),
        ({"input_name": 3, "values": 1}, TypeError, "input_name=3 must be a string"),
    ],
)
def test_wrong_arguments_are_named(paused: Paused, wrong: Any, error: type[Exception], match: str) -> None:
    session = paused(small_net(), pictures(1))
    with pytest.raises(error, match=match):
        session.add_perturbation(**wrong)
    assert session.perturbations == ()


def test_before_any_batch_and_after_the_end() -> None:
    session = nansense_widgets.start(small_net())
    assert session.pin_current_batch() is False
    with pytest.raises(SessionStateError, match="no batch has been captured yet"):
        session.add_perturbation(values=1)
    with pytest.raises(ValueError, match="mode='testing' must be one of 'unchanged', 'eval', 'train'"):
        session.set_probe_mode("testing")  # type: ignore[arg-type]
    session.close()
    with pytest.raises(SessionStateError, match="closed"):
        session.add_perturbation(values=1)
    disabled = nansense_widgets.start(small_net(), enabled=False)
    assert disabled.add_perturbation(values=1) is None
    assert disabled.pin_current_batch() is False
    assert disabled.perturbations == ()
    assert disabled.probe.batch is None


def test_a_model_that_fails_says_so_and_training_goes_on(paused: Paused) -> None:
    class Picky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(64, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.amax() > 90:
                raise RuntimeError("too bright")
            return self.fc(x.flatten(1))

    session = paused(Picky(), pictures(4))
    session.add_perturbation(sample=0, values=99.0)
    result = session.wait_for_probe(TIMEOUT_S)
    assert result is not None
    assert result.error == "RuntimeError: too bright"
    assert session.notice == ""
    step(session)
    assert session.status.word == "paused"
    session.clear_perturbations()
    assert session.probe_result is None
    session.detach()
    assert session.wait(TIMEOUT_S)


def test_memory_says_what_it_holds(paused: Paused) -> None:
    session = paused(small_net(), pictures())
    assert session.memory().by_kind["probe"] > 0
    before = session.memory().by_kind["probe"]
    session.pin_current_batch()
    session.add_perturbation(sample=0, scale=0)
    probed(session)
    assert session.memory().by_kind["probe"] > before


def test_a_layer_that_is_watched_later_comes_from_another_probe(paused: Paused) -> None:
    session = paused(small_net(), pictures())
    session.unwatch()
    session.watch("0")
    session.pin_current_batch()
    assert set(probed(session).layers) == {"0"}
    session.watch("4")
    assert set(probed(session).layers) == {"0", "4"}


def test_weights_that_a_cell_changes_are_noticed(paused: Paused) -> None:
    model = small_net()
    session = paused(model, pictures())
    session.set_probe_mode("eval")
    session.add_perturbation(sample=0, index=(2, 2), values=1.0)
    before = probed(session)
    dict(model.named_parameters())["6.weight"].data.zero_()
    session.add_perturbation(sample=0, index=(2, 3), values=1.0)
    after = probed(session)
    assert not torch.equal(before.output[""], after.output[""])
    assert torch.equal(after.output[""], after.perturbed_output[""])


def test_a_forward_that_does_not_repeat_itself_is_told(paused: Paused) -> None:
    class Clocked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(64, 3)

        def forward(self, x: torch.Tensor) -> Any:
            return self.fc(x.flatten(1)) + next(TICKS)

    session = paused(Clocked(), pictures())
    session.add_perturbation(sample=0, index=(2, 2), values=1.0)
    notes = probed(session).notes
    assert "this forward is not repeatable: run twice, it gives other values in 1 layers (add)" in notes[0]


class _Ticks:
    """Of a class and in a place that nobody looks at."""

    def __init__(self) -> None:
        self.count = 0

    def __next__(self) -> float:
        self.count += 1
        return float(self.count)


TICKS = _Ticks()


def test_what_else_decides_a_forward_is_noticed(paused: Paused) -> None:
    model = small_net()
    session = paused(model, pictures())
    session.add_perturbation(sample=0, scale=1.0)
    assert all(moved.share == 0 for moved in probed(session).moved.values())
    dropout = model[3]
    assert isinstance(dropout, nn.Dropout)
    dropout.p = 0.0
    session.add_perturbation(sample=0, scale=1.0)
    assert all(moved.share == 0 for moved in probed(session).moved.values())
    model[2] = nn.Tanh()
    session.add_perturbation(sample=0, scale=1.0)
    assert all(moved.share == 0 for moved in probed(session).moved.values())


def test_samples_count_from_the_end_too(paused: Paused) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    session = paused(model, [*pictures(1), *pictures(1, samples=2), *pictures(1)])
    one = session.add_perturbation(sample=-1, values=1.0)
    assert one is not None
    assert one.sample == 3
    assert probed(session).notes == ()
    step(session)  # a batch that has no such sample
    result = session.wait_for_probe(TIMEOUT_S)
    assert result is not None
    assert "sample=3 is out of range: input has 2 there" in result.error


def test_another_mode_begins_another_curve(paused: Paused) -> None:
    session = paused(small_net(), pictures(4))
    session.pin_current_batch()
    step(session)
    probed(session)
    session.set_probe_mode("eval")
    probed(session)
    assert len(session.probe.updates) == 1


def test_training_goes_on_while_somebody_paints(paused: Paused) -> None:
    session = paused(small_net(), pictures(100))
    done = threading.Event()

    def paint() -> None:
        while not done.is_set():
            session.add_perturbation(sample=0, index=(1, 1), values=1.0, join=True)
            time.sleep(0.002)

    painter = threading.Thread(target=paint)
    session.detach()
    painter.start()
    try:
        assert session.wait(TIMEOUT_S)
    finally:
        done.set()
        painter.join()
    session.clear_perturbations()


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ({"values": 1, "channel": []}, ValueError, r"channel=\[\] must not be empty"),
        ({"values": 10**400}, ValueError, "too large for a float"),
        ({"values": 1, "sample": torch.tensor([0, 1])}, TypeError, "must be an int"),
        ({"noise": 1, "seed": 2**70}, ValueError, "seed="),
        ({"values": 1, "join": "no"}, TypeError, "join='no' must be True or False"),
        ({"original": "yes"}, TypeError, "original='yes' must be True or False"),
    ],
)
def test_more_wrong_arguments(paused: Paused, wrong: Any, error: type[Exception], match: str) -> None:
    session = paused(small_net(), pictures(1))
    with pytest.raises(error, match=match):
        session.add_perturbation(**wrong)
    with pytest.raises(ValueError, match="target='zzz' is no input or layer"):
        session.clear_perturbations("zzz")
