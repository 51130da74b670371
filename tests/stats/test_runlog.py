"""What the loop logs, and the loss that `backward()` starts from, are where and what they were."""

from __future__ import annotations

import gc
import re
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.utils.checkpoint import checkpoint

import nansense_widgets
from nansense_widgets import Session
from tests.driver import TIMEOUT_S, small_data, small_model, small_training, start_small


def run(session: Session, loop: Any, *, detached: bool = True) -> None:
    if detached:
        session.detach()
    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    session.result  # noqa: B018  raises what the loop raised


def test_logged_values_lie_at_their_batches() -> None:
    session, _ = start_small()
    session.log("start", 1)
    data = small_data()

    def loop() -> None:
        for epoch in session.epochs(2):
            for batch, _ in enumerate(session.batches(data, phase="train")):
                session.log("accuracy", torch.tensor(epoch + batch / 10))
                session.log("twice", 0.0)
                session.log("twice", np.float32(batch))
            session.log("mean", np.array([epoch]))  # after the phase: at its last batch
            for _ in session.batches(data[:2], phase="val"):
                session.log("accuracy", True)

    run(session, loop)
    log = session.run_log
    train = log.series("accuracy")["train"]
    assert train.values.tolist() == pytest.approx([e + b / 10 for e in (0, 1) for b in range(5)])
    assert list(zip(train.epochs.tolist(), train.batches, strict=True)) == [
        (e, b) for e in (0, 1) for b in range(5)
    ]
    assert train.xs.tolist() == [e + b / 5 for e in (0, 1) for b in range(5)]
    assert log.series("accuracy")["val"].values.tolist() == [1.0] * 4
    assert log.series("twice")["train"].values.tolist() == [0, 1, 2, 3, 4] * 2
    assert log.series("mean")["train"].batches == [4, 4]
    assert log.series("start")[""].values.tolist() == [1.0]
    assert log.series("unknown") == {}
    assert {entry.name for entry in session.memory().entries if entry.kind == "run log"} >= {
        "accuracy",
        "mean",
    }
    session.close()


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ((3, 1.0), TypeError, "name=3 must be a string"),
        (("", 1.0), ValueError, "name='' must not be empty"),
        (("x", "1"), TypeError, "value='1' must be a number"),
        (("x", None), TypeError, "value=None must be a number"),
        (("x", torch.zeros(2)), ValueError, "must have one element"),
        (("x", 1j), TypeError, "value=1j must be a number"),
        (("x", torch.tensor(1j)), ValueError, "that is a real number"),
        (("x", np.zeros(3)), TypeError, "must be a number, or a tensor"),
    ],
)
def test_what_is_no_number_raises_at_once(
    arguments: tuple[Any, Any], error: type[Exception], said: str
) -> None:
    session, _ = start_small()
    with pytest.raises(error, match=re.escape(said)):
        session.log(*arguments)
    assert session.run_log.names == []
    session.close()
    off = nansense_widgets.start(small_model(), enabled=False)
    off.log("x", 1.0)
    assert off.run_log.names == []


@pytest.mark.parametrize("how", ["detached", "stepped", "watched"])
def test_the_loss_is_what_backward_starts_from(how: str) -> None:
    session, model, optimizer = small_training()
    if how == "watched":
        session.watch("*")
    losses: list[float] = []

    def loop() -> None:
        for _ in session.epochs(2):
            for x, y in session.batches(small_data(), phase="train"):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                losses.append(loss.item())
                loss.detach().zero_()  # whatever becomes of it later
                optimizer.step()
            with torch.no_grad():
                for x, _y in session.batches(small_data(2), phase="val"):
                    model(x)

    before = torch.autograd.backward
    if how == "stepped":
        session.launch(loop)
        for _ in range(10):
            assert session.wait_until_paused(timeout=TIMEOUT_S)
            session.step_batch()
        session.detach()
        assert session.wait(TIMEOUT_S)
    else:
        run(session, loop)
    assert torch.autograd.backward is before
    found = session.run_log
    assert set(found.series("loss")) == {"train"}
    assert found.series("loss")["train"].values.tolist() == losses
    assert found.series("lr")["train"].values.tolist() == [0.1] * 10
    session.close()


def test_several_losses_of_a_batch_are_told_apart_and_scales_taken_out() -> None:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    session = nansense_widgets.start(model, optimizer=optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    first: list[float] = []
    second: list[float] = []

    def loop() -> None:
        for x, y in session.batches(small_data(), phase="train"):
            optimizer.zero_grad()
            out = model(x)
            loss, other = nn.functional.cross_entropy(out, y), out.square().mean()
            first.append(loss.item())
            second.append(other.item())
            (scaler.scale(loss) / 2).backward(retain_graph=True)
            torch.autograd.backward([other, out], [None, torch.zeros_like(out)])
            scaler.step(optimizer)
            scaler.update()

    run(session, loop)
    assert session.run_log.series("loss")["train"].values.tolist() == pytest.approx(
        [value / 2 for value in first], rel=1e-6
    )
    assert session.run_log.series("loss 2")["train"].values.tolist() == second
    assert session.run_log.names == ["loss", "lr", "loss 2"]
    session.close()


def test_what_is_logged_under_the_name_comes_before_what_was_seen() -> None:
    session, _ = start_small()
    weight = torch.ones(1, requires_grad=True)

    def loop() -> None:
        for _ in session.batches(range(3), phase="train"):
            weight.sum().backward()
            session.log("loss", 7.0)

    run(session, loop)
    assert session.run_log.series("loss")["train"].values.tolist() == [7.0] * 3
    assert session.run_log.all["loss", "loss", "train"].values.tolist() == [1.0] * 3
    session.close()


def test_another_run_begins_anew_and_rewinding_drops_what_was_rewound() -> None:
    session, loop = start_small()
    run(session, loop)
    assert len(session.run_log.series("loss")["train"]) == 15
    session._log.rewind_to_epoch(1)  # noqa: SLF001
    assert len(session.run_log.series("loss")["train"]) == 5
    run(session, loop, detached=False)
    assert len(session.run_log.series("loss")["train"]) == 15
    session.close()


def test_learning_rates_of_many_groups_are_limited_and_it_is_said() -> None:
    weights = [nn.Parameter(torch.ones(1)) for _ in range(12)]
    model = nn.ParameterList(weights)
    optimizer = torch.optim.SGD([{"params": [w], "lr": 0.1 * i} for i, w in enumerate(weights)], lr=1.0)
    session = nansense_widgets.start(model, optimizer=optimizer)

    def loop() -> None:
        for _ in session.batches(range(2), phase="train"):
            sum(w.sum() for w in weights).backward()  # type: ignore[union-attr]
            optimizer.step()

    run(session, loop)
    names = [name for name in session.run_log.names if name.startswith("lr")]
    assert names == [f"lr (SGD, group {i})" for i in range(1, 9)]
    assert session.run_log.notes == ("learning rates of the first 8 of 12 parameter groups",)
    session.close()


def test_nothing_is_left_in_torch_however_a_loop_ends() -> None:
    before = torch.autograd.backward
    session, _, _ = small_training()

    def fails() -> None:
        for _ in session.batches(range(2), phase="train"):
            raise ZeroDivisionError

    session.detach()
    session.launch(fails)
    with pytest.raises(ZeroDivisionError):
        session.wait(TIMEOUT_S)
    assert torch.autograd.backward is before
    session.close()

    dropped, model, optimizer = small_training()
    dropped.detach()
    alive = weakref.ref(model)
    for x, _ in dropped.batches(small_data(2), phase="train"):
        model(x).sum().backward()
        break
    del dropped, model, optimizer, x
    gc.collect()
    assert alive() is None
    assert torch.autograd.backward is before


def test_what_others_put_in_its_place_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    session, _, _ = small_training()
    before = torch.autograd.backward
    calls: list[int] = []

    def loop() -> None:
        weight = torch.ones(1, requires_grad=True)
        for batch in session.batches(range(3), phase="train"):
            if batch == 1:
                inner = torch.autograd.backward

                def theirs(*args: Any, inner: Any = inner, **kwargs: Any) -> Any:
                    calls.append(1)
                    return inner(*args, **kwargs)

                monkeypatch.setattr(torch.autograd, "backward", theirs)
            weight.sum().backward()

    run(session, loop)
    assert torch.autograd.backward is not before
    torch.ones(1, requires_grad=True).sum().backward()
    assert len(calls) == 3
    assert len(session.run_log.series("loss")["train"]) == 3
    session.close()


def test_passes_inside_a_pass_are_no_losses() -> None:
    """Reentrant checkpointing calls `backward` in the backward."""
    session, _, _ = small_training()
    layer = nn.Linear(3, 3)

    def loop() -> None:
        for _ in session.batches(range(3), phase="train"):
            x = torch.ones(2, 3, requires_grad=True)
            checkpoint(layer, x, use_reentrant=True).sum().backward()

    run(session, loop)
    assert session.run_log.names == ["loss", "lr"]
    assert len(session.run_log.series("loss")["train"]) == 3
    session.close()


def test_a_compiled_step_is_seen_without_being_changed() -> None:
    results = []
    for enabled in (False, True):
        torch.compiler.reset()
        session, model, optimizer = small_training(enabled=enabled)

        def step(
            x: torch.Tensor, y: torch.Tensor, model: Any = model, optimizer: Any = optimizer
        ) -> torch.Tensor:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        counter = CompileCounter()
        compiled = torch.compile(step, backend=counter)
        losses: list[float] = []

        def loop(session: Session = session, compiled: Any = compiled, losses: list[float] = losses) -> None:
            for x, y in session.batches(small_data(6), phase="train"):
                losses.append(compiled(x, y).item())

        if enabled:
            run(session, loop)
        else:
            loop()
        results.append((losses, counter.frame_count))
        seen = session.run_log.series("loss")
        session.close()
        assert not enabled or seen["train"].values.tolist() == losses
    assert results[0] == results[1]
