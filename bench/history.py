"""What keeping the past costs a training step, and how fast one goes back."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

import nansense_widgets
from bench.models import Program, gpt, resnet20
from bench.table import Row
from nansense_widgets.history.spending import Spending
from tests.history.test_moment_size import loss, resnet18

SECONDS = 20.0

BLOCK = 10
"""Steps that are taken one after another with the history on, then as many without a session."""


def measure() -> Iterator[Row]:
    """One row a model, and two of a frozen moment."""
    for build in (resnet20, gpt):
        yield kept(build)
    yield from moment()


def moment() -> Iterator[Row]:
    """A moment of ResNet-18 at 224 pixels with statistics of all layers: its size, and how long it loads."""
    torch.set_num_threads(2)
    model = resnet18()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    session = nansense_widgets.start(model, optimizer=optimizer)
    session.watch("*")
    session.detach()
    data = [(torch.randn(4, 3, 224, 224), torch.randint(0, 1000, (4,))) for _ in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet.moment"
        session.freeze_moment(path, phase="train", epoch=0, batch_idx=1)
        for batch in session.batches(data, phase="train", epoch=0):
            optimizer.zero_grad()
            loss(model, batch).backward()
            optimizer.step()
        state = 2 * sum(p.numel() * p.element_size() for p in model.parameters())
        by_kind = session.memory().by_kind
        collected = sum(by_kind[kind] for kind in ("statistics", "parameters", "patches"))
        ratio = (path.stat().st_size - collected) / state
        session.close()
        seconds = []
        for _ in range(3):
            fresh, began = resnet18(), time.perf_counter()
            loaded = nansense_widgets.load_moment(fresh, path, replay=loss)
            seconds.append(time.perf_counter() - began)
            loaded.close()
    yield Row(
        "a moment of ResNet-18, beside its statistics",
        f"{ratio:.2f}x",
        "< 3x",
        ratio < 3,
        f"of weights and optimizer state, {state / 1e6:.0f} MB; statistics {collected / 1e6:.0f} MB",
    )
    took = sorted(seconds)[1]
    yield Row("loading it, its batch among that", f"{took:.1f} s", "< 3 s", took < 3, "median of 3")


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
