"""Hyperparameters are read as they are, changed between batches, and refused where they make no sense."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch

import nansense_widgets
from nansense_widgets import Session, SessionStateError
from tests.driver import TIMEOUT_S, Driver, small_data, small_model, small_training, train


def two_optimizers() -> tuple[Session, torch.optim.Optimizer, torch.optim.Optimizer]:
    model = small_model()
    first, second = model[1].parameters(), model[3].parameters()  # type: ignore[index]
    sgd = torch.optim.SGD(
        [{"params": [p], "name": f"part {i}"} for i, p in enumerate(first)], lr=1, momentum=0
    )
    adam = torch.optim.AdamW(second, lr=torch.tensor(0.5), betas=(0.9, 0.99), fused=False, capturable=False)
    return nansense_widgets.start(model, optimizer=[sgd, adam]), sgd, adam


def test_settings_are_listed_group_by_group() -> None:
    session, _, _ = two_optimizers()
    found = {(p.label, p.group_label, p.name): p.value for p in session.hyperparameters}
    assert found["SGD 1", "part 0", "lr"] == 1.0
    assert found["SGD 1", "part 1", "momentum"] == 0.0
    assert found["AdamW 2", "", "betas[1]"] == 0.99
    assert found["AdamW 2", "", "lr"] == 0.5
    assert not {name for *_, name in found} & {"nesterov", "amsgrad", "maximize", "params", "foreach"}
    session.close()


def test_each_kind_of_setting_is_changed_where_it_is() -> None:
    session, sgd, adam = two_optimizers()
    rate = adam.param_groups[0]["lr"]
    session.set_hyperparameter("lr", 0.25)
    assert [group["lr"] for group in sgd.param_groups] == [0.25, 0.25]
    assert adam.param_groups[0]["lr"] is rate  # a tensor that compiled code may hold
    assert rate.item() == 0.25
    session.set_hyperparameter("lr", 2, optimizer=0, group=1)
    assert [group["lr"] for group in sgd.param_groups] == [0.25, 2.0]
    session.set_hyperparameter("momentum", 0.9)
    assert [group["momentum"] for group in sgd.param_groups] == [0.9, 0.9]
    session.set_hyperparameter("betas[0]", 0.5)
    assert adam.param_groups[0]["betas"] == (0.5, 0.99)
    assert [event.text for event in session.events] == [
        "lr 1 \u2192 0.25 (SGD 1, group 1; SGD 1, group 2)",
        "lr 0.5 \u2192 0.25 (AdamW 2)",
        "lr 0.25 \u2192 2 (SGD 1, group 2)",
        "momentum 0 \u2192 0.9 (SGD 1, group 1; SGD 1, group 2)",
        "betas[0] 0.9 \u2192 0.5 (AdamW 2)",
    ]
    session.close()


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ((3, 0.1), TypeError, "name=3 must be a string"),
        (("lr", "0.1"), TypeError, "value='0.1' must be a number"),
        (("lr", True), TypeError, "value=True must be a number"),
        (("lr", math.nan), ValueError, "value=nan must be finite"),
        (("lr", -1.0), ValueError, "value=-1.0: lr must be at least 0"),
        (("betas[0]", 1.0), ValueError, "value=1.0: betas[0] must be in [0, 1)"),
        (
            ("nesterov", 1),
            ValueError,
            "name='nesterov' is no numeric setting of SGD 1 and AdamW 2",
        ),
        (("lr", 0.1, 2), ValueError, "optimizer=2: there are 2 optimizers, counted from 0"),
        (("lr", 0.1, 1, 1), ValueError, "group=1: there are 1 parameter groups, counted from 0"),
        (("lr", 0.1, 0, "a"), TypeError, "group='a' must be an int"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_changes(
    arguments: tuple[Any, ...], error: type[Exception], said: str
) -> None:
    session, sgd, adam = two_optimizers()
    keywords = dict(zip(("optimizer", "group"), arguments[2:], strict=False))
    with pytest.raises(error, match=re.escape(said)):
        session.set_hyperparameter(*arguments[:2], **keywords)
    assert [group["lr"] for group in sgd.param_groups] == [1, 1]
    assert adam.param_groups[0]["betas"] == (0.9, 0.99)
    assert session.events == ()
    session.close()
    with pytest.raises(SessionStateError, match="closed"):
        session.set_hyperparameter("lr", 0.1)


def test_without_optimizer_it_is_said_and_disabled_does_nothing() -> None:
    session = nansense_widgets.start(small_model())
    with pytest.raises(ValueError, match="knows no optimizer"):
        session.set_hyperparameter("lr", 0.1)
    session.close()
    off = nansense_widgets.start(small_model(), enabled=False)
    off.set_hyperparameter("lr", 0.1)
    assert off.hyperparameters == []
    assert off.events == ()


@pytest.mark.parametrize(
    ("make", "name", "value", "said"),
    [
        (lambda p: torch.optim.RMSprop(p, momentum=0), "momentum", 0.9, "began with momentum=0"),
        (lambda p: torch.optim.RMSprop(p, momentum=0.9), "momentum", 0, "but not between zero and others"),
        (torch.optim.LBFGS, "history_size", 50, "LBFGS has made its state for 100"),
        (torch.optim.LBFGS, "max_iter", 2.5, "max_iter must be a whole number, as 20 is"),
        (torch.optim.Adafactor, "d", 0, "d must be at least 1"),
        (torch.optim.RMSprop, "alpha", -3, "alpha must be at least 0"),
        (torch.optim.Rprop, "etas[0]", 3, "etas[0] must be in (0, 1)"),
        (lambda p: torch.optim.SGD(p, momentum=0.9, nesterov=True), "dampening", 0.5, "no dampening"),
        (
            lambda p: torch.optim.SGD([{"params": p, "k": 5}], lr=1),
            "k",
            2.5,
            "k must be a whole number, as 5 is",
        ),
    ],
)
def test_what_would_end_the_loop_in_the_next_step_is_refused(
    make: Any, name: str, value: float, said: str
) -> None:
    model = small_model()
    optimizer = make(list(model.parameters()))
    session = nansense_widgets.start(model, optimizer=optimizer)
    with pytest.raises(ValueError, match=re.escape(said)):
        session.set_hyperparameter(name, value)
    if name in ("max_iter", "k"):
        session.set_hyperparameter(name, 3)
        assert type(optimizer.param_groups[0][name]) is int
    session.close()


def test_a_change_while_training_runs_is_as_one_by_hand() -> None:
    """Bit for bit what the loop gives that changes its own optimizer after the third batch."""
    session, model, optimizer = small_training()
    driver = Driver(session, lambda: train(model, optimizer, session.batches(small_data(), phase="train")))
    for _ in range(2):
        driver.do("step_batch")
    session.set_hyperparameter("lr", 0.01)
    driver.finish()
    [event] = [event for event in session.events if event.kind == "hyperparameter"]
    assert event.position is not None
    assert event.position.key == ("train", 0, 2)
    assert event.text == "lr 0.1 \u2192 0.01"
    rates = session.run_log.series("lr")["train"]
    assert rates.values.tolist() == [0.1, 0.1, 0.1, 0.01, 0.01]
    session.close()

    _, other, by_hand = small_training(enabled=False)
    train(other, by_hand, small_data()[:3])
    by_hand.param_groups[0]["lr"] = 0.01
    train(other, by_hand, small_data()[3:])
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_a_loop_may_change_its_own_in_a_batch_and_it_counts_from_the_next() -> None:
    session, _, optimizer = small_training()
    seen: list[float] = []

    def loop() -> None:
        for batch in session.batches(range(4), phase="train"):
            if batch == 1:
                session.set_hyperparameter("lr", 0.5)
            seen.append(optimizer.param_groups[0]["lr"])

    session.detach()
    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    assert seen == [0.1, 0.1, 0.5, 0.5]
    session.close()
