"""Keeping the past costs a share of the time, and no more."""

from __future__ import annotations

import time

import torch

import nansense_widgets
from nansense_widgets.history.spending import AT_ONCE, CHEAP, SHARE, Spending
from tests.driver import Driver, small_model


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_spending_is_a_share_of_the_time() -> None:
    clock = Clock()
    spending = Spending(clock)
    spent = 0
    for _ in range(
        2000
    ):  # a minute of batches of 30 ms, with work of 10 ms that would like to be done at each
        clock.now += 0.03
        if spending.affords("frame"):
            spent += 1
            with spending.on("frame"):
                busy(0.01)
    assert 0.5 * SHARE * 60 <= 0.01 * spent <= SHARE * 60 + AT_ONCE + 0.02


def test_spending_what_is_dear_waits_longer_and_is_done_all_the_same() -> None:
    clock = Clock()
    spending = Spending(clock)
    with spending.on("frame"):
        busy(0.2)  # more than may come together otherwise
    assert not spending.affords("frame")
    clock.now += 0.2 / SHARE
    assert not spending.affords("frame")
    clock.now += 0.25 / SHARE
    assert spending.affords("frame")


def test_spending_on_what_is_cheap_goes_on() -> None:
    spending = Spending(Clock())
    assert spending.is_cheap("items")
    with spending.on("items"):
        busy(CHEAP / 4)
    assert spending.is_cheap("items")
    for _ in range(8):
        with spending.on("items"):
            busy(4 * CHEAP)
    assert not spending.is_cheap("items")


def test_spending_on_items_that_take_too_long_to_keep_ends_while_training_runs() -> None:
    session = nansense_widgets.start(small_model(), epochs=1)
    items = [[list(range(20_000))] for _ in range(60)]

    def loop() -> None:
        for _ in session.batches(items, phase="train", epoch=0):
            torch.ones(1)

    driver = Driver(session, loop)
    driver.do("step_batch")
    assert session.history.first_batch == -1
    driver.do("step_until_position", "train", 0, 50)
    assert (
        session.history.reason.startswith("batches are too short to be kept")
        or session.history.first_batch > 5
    )
    driver.do("step_batch")  # one by one they are
    assert session.history.last_batch == 51
    driver.finish()
    session.close()
