"""What keeping the past costs a training step, and how fast one goes back."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator

import torch

import nansense_widgets
from bench.models import Program, gpt, resnet20
from bench.table import Row
from nansense_widgets.history.spending import Spending

SECONDS = 20.0

BLOCK = 10
"""Steps that are taken one after another with the history on, then as many without a session."""


def measure() -> Iterator[Row]:
    """One row a model."""
    for build in (resnet20, gpt):
        yield kept(build)


class Stopwatch:
    """Time that goes by in training with the history; what it may spend is a share of that."""

    def __init__(self) -> None:
        self._total = 0.0
        self._since: float | None = None

    def __call__(self) -> float:
        return self._total + (0.0 if self._since is None else time.perf_counter() - self._since)

    def start(self) -> None:
        self._since = time.perf_counter()

    def stop(self) -> None:
        self._total, self._since = self(), None


def kept(build: Callable[[], Program]) -> Row:
    """Steps of `session.batches` with states and items kept, against bare steps, in turns; processor time."""
    torch.set_num_threads(1)
    program = build()
    session = nansense_widgets.start(program.model, optimizer=program.optimizer, epochs=1)
    session.step_until_position("train", 0, 10**9)  # attached, and never paused
    clock = Stopwatch()
    session._spending = Spending(clock)  # noqa: SLF001  bare steps are no time of its own
    items = itertools.cycle([(torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))) for _ in range(8)])
    batches = session.batches(items, phase="train", epoch=0)
    bare: list[float] = []
    with_history: list[float] = []

    def timed(times: list[float], step: Callable[[], object]) -> None:
        for _ in range(BLOCK):
            before = time.thread_time()
            step()
            times.append(time.thread_time() - before)

    def watched() -> None:
        next(batches)
        program.step()

    for step in (program.step, watched):  # the first batch of an epoch is captured, whatever is kept
        timed([], step)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or len(bare) < 5 * BLOCK:
        timed(bare, program.step)
        clock.start()
        timed(with_history, watched)
        clock.stop()
    history = session.history
    session.close()
    # Means, not quartiles: a state is kept at some of the steps only.
    found = statistics.mean(with_history) / statistics.mean(bare)
    states = f"{len(history.states)} states in {history.used_bytes / 2**20:,.0f} MiB"
    return Row(
        f"step, history kept ({program.name})",
        f"{found:.3f}x",
        "<= 1.05x",
        found <= 1.05,
        f"{states}, {len(with_history)} steps",
    )
