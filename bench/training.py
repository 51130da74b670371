"""What the debugger adds to a training step, as ratios to the same step without it."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import nansense_widgets
from bench.models import Program, gpt, resnet20
from bench.table import Row
from nansense_widgets import Session


def measure() -> Iterator[Row]:
    """One row a model and way of watching."""
    for build in (resnet20, gpt):
        name = build().name
        yield ratio(f"step, enabled=False ({name})", build, disabled, goal=1.01)
        yield ratio(f"step, detached ({name})", build, detached, goal=1.01)
        yield ratio(f"step, 5 layers shown, published every batch ({name})", build, published, goal=1.15)


def disabled(program: Program) -> Session:
    return nansense_widgets.start(program.model, optimizer=program.optimizer, enabled=False)


def detached(program: Program) -> Session:
    session = nansense_widgets.start(program.model, optimizer=program.optimizer)
    session.watch(*program.five)
    session.detach()
    return session


def published(program: Program) -> Session:
    """A view that confirms each picture at once, so that every batch is painted: more than a browser asks."""
    session = nansense_widgets.start(program.model, optimizer=program.optimizer, epochs=2)
    session.watch(*program.five)
    session.set_update_frequency(unit="batch")
    session.step_run()
    dashboard = session.dashboard()

    def confirm(message: dict[str, Any], _buffers: Any = None) -> None:
        if message["type"] == "strips":
            dashboard.handle({"type": "ack", "view": "bench", "seq": message["seq"]})

    dashboard.send = confirm
    cards = [
        {"layer": layer, "call": 1, "leaf": 0, "sample": 0, "average": False, "transform": "none"}
        | {"first": 0, "count": 16, "px": 56, "depth": 0}
        for layer in program.five
    ]
    dashboard.handle({"type": "want", "view": "bench", "cards": cards})
    return session


def ratio(
    name: str,
    build: Callable[[], Program],
    begin: Callable[[Program], Session],
    goal: float,
    seconds: float = 20.0,
) -> Row:
    """Median over pairs of steps, one without and one with the session, taken in turns.

    Two copies of the program run side by side, so that whatever slows the machine slows both.
    """
    bare, watched = build(), build()
    session = begin(watched)
    batches = session.batches(itertools.count(), phase="train")
    next(batches)

    def bare_step() -> float:
        began = time.perf_counter()
        bare.step()
        return time.perf_counter() - began

    def watched_step() -> float:
        began = time.perf_counter()
        watched.step()
        next(batches)  # the end of this batch and the beginning of the next
        return time.perf_counter() - began

    for _ in range(5):
        bare_step(), watched_step()
    ratios: list[float] = []
    end = time.monotonic() + seconds
    order = True
    while time.monotonic() < end or len(ratios) < 20:
        first, second = (bare_step, watched_step) if order else (watched_step, bare_step)
        a, b = first(), second()
        ratios.append(b / a if order else a / b)
        order = not order
    session.close()
    spread = statistics.quantiles(ratios, n=20)
    return Row(
        name,
        f"{statistics.median(ratios):.3f}x",
        f"<= {goal:.2f}x",
        statistics.median(ratios) <= goal,
        f"{len(ratios)} pairs, 5-95 % {spread[0]:.2f}-{spread[-1]:.2f}",
    )
