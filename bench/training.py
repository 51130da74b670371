"""What the debugger adds to a training step, as ratios to the same step without it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

import nansense_widgets
from bench.models import Program, deep, gpt, resnet20
from bench.peer import PEER
from bench.peer import is_installed as peer_is_installed
from bench.table import Row
from nansense_widgets import Session


def measure() -> Iterator[Row]:
    """One row a model and way of watching."""
    for build in (resnet20, gpt):
        name = build().name
        yield ratio(f"step, enabled=False ({name})", build, disabled, goal=1.01)
        yield ratio(f"step, detached ({name})", build, detached, goal=1.01)
        yield ratio(f"step, statistics of 1 layer ({name})", build, one_layer, goal=1.05)
        yield ratio(f"step, statistics of 5 layers ({name})", build, five_layers, goal=1.15)
        yield ratio(f"step, the same and extreme patches ({name})", build, five_with_patches, goal=1.25)
        yield ratio(f"step, statistics of all layers ({name})", build, all_layers, goal=1.6)
        yield ratio(f"step, 5 layers shown, published every batch ({name})", build, published, goal=1.15)
        for what, begin in PEER.items() if peer_is_installed() else ():
            yield ratio(f"nansense: step, {what} ({name})", build, begin, goal=None)
    # The step that it is compared with collects the statistics of all layers too.
    yield ratio("step, one metric of 302 layers: sparsity", deep, sparsity, goal=1.05, base=without_metric)
    yield ratio("step, one metric of 302 layers: a constant", deep, constant, goal=1.05, base=without_metric)


def sparsity(program: Program) -> Session:
    session = all_layers(program)

    @session.watch_metric("sparsity")
    def sparsity(ctx: nansense_widgets.LayerContext) -> float:
        return float((ctx.activation > 0).float().mean())

    return session


def constant(program: Program) -> Session:
    """What evaluating costs, whatever is evaluated."""
    session = all_layers(program)
    session.watch_metric("constant")(lambda _: 1.0)
    return session


def without_metric(session: Session, program: Program) -> Callable[[], None]:
    instruments = session._stats.instruments  # noqa: SLF001  of the two steps only one evaluates it

    def step() -> None:
        with_metric, instruments.begin = instruments.begin, lambda *_: None  # type: ignore[method-assign]
        with session.batch(phase="train", epoch=0):
            program.step()
        instruments.begin = with_metric  # type: ignore[method-assign]

    return step


def disabled(program: Program) -> Session:
    return nansense_widgets.start(program.model, optimizer=program.optimizer, enabled=False)


def detached(program: Program) -> Session:
    session = nansense_widgets.start(program.model, optimizer=program.optimizer)
    session.detach()
    return session


def one_layer(program: Program) -> Session:
    return statistics_of(program, program.five[2:3])


def five_layers(program: Program) -> Session:
    return statistics_of(program, program.five)


def five_with_patches(program: Program) -> Session:
    """At most 0.10 above the row before: the goals of both rows differ by as much."""
    session = five_layers(program)
    session.set_patch_layers(None)
    return session


def all_layers(program: Program) -> Session:
    session = statistics_of(program, [])
    session.set_stats_scope("all")
    return session


def statistics_of(program: Program, layers: Sequence[str]) -> Session:
    """Every batch is folded into the statistics; none is shown but a first one, which tells the layers."""
    session = nansense_widgets.start(program.model, optimizer=program.optimizer)
    session.watch(*layers)
    session.set_patch_layers([])
    session.request_snapshot()
    session.detach()
    return session


def published(program: Program) -> Session:
    """A view that confirms each picture at once, so that every batch is painted: more than a browser asks."""
    session = nansense_widgets.start(program.model, optimizer=program.optimizer, epochs=2)
    session.watch(*program.five)
    session.set_stats_scope("none")  # they have rows of their own
    session.set_update_frequency(unit="batch")
    session.step_run()
    dashboard = session.dashboard()

    def confirm(message: dict[str, Any], _buffers: Any = None) -> None:
        if message["type"] == "cards":
            dashboard.handle({"type": "ack", "view": "bench", "seq": message["seq"]})

    dashboard.send = confirm
    options = {"sample": 0, "average": False, "transform": "none", "part": "magnitude"}
    options |= {"first": 0, "count": 16, "px": 56, "depth": 0, "shows": "difference"}
    cards = [
        {"layer": layer, "call": 1, "leaf": 0, "view": "strips", "options": options} for layer in program.five
    ]
    dashboard.handle({"type": "want", "view": "bench", "cards": cards})
    return session


def ratio(
    name: str,
    build: Callable[[], Program],
    begin: Callable[[Program], Any],
    goal: float | None,
    seconds: float = 20.0,
    base: Callable[[Session, Program], Callable[[], None]] = lambda _, program: program.step,
) -> Row:
    """Steps inside the session's batches against steps between them, in turns; the lower quartiles of each.

    `base` gives another step to compare with; a `goal` of None is none of ours.

    Both are steps of one model: two of them lie differently in memory, which alone makes some hundredths.
    Between batches nothing is installed. Counted is the processor time of the training thread, on one torch
    thread: whatever else the machine does hardly moves it. The clock's time is given beside it.
    """
    torch.set_num_threads(1)
    program = build()
    session = begin(program)

    def watched_step() -> None:
        with session.batch(phase="train", epoch=0):
            program.step()

    def timed(step: Callable[[], None]) -> tuple[float, float]:
        clock, own = time.perf_counter(), time.thread_time()
        step()
        return time.perf_counter() - clock, time.thread_time() - own

    plain_step = base(session, program)
    for _ in range(5):
        plain_step(), watched_step()
    without: list[tuple[float, float]] = []
    within: list[tuple[float, float]] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(within) < 20:
        # Who goes first changes, so that neither profits from what the other left in the caches.
        turns = [(plain_step, without), (watched_step, within)]
        for step, times in turns if len(within) % 2 else reversed(turns):
            times.append(timed(step))
    session.close()
    clock, own = (
        statistics.quantiles([t[part] for t in within])[0]
        / statistics.quantiles([t[part] for t in without])[0]
        for part in (0, 1)
    )
    return Row(
        name,
        f"{own:.3f}x",
        "" if goal is None else f"<= {goal:.2f}x",
        goal is None or own <= goal,
        f"training thread, {len(within)} steps; by the clock {clock:.2f}x",
    )


def quartile(times: list[float]) -> float:
    return statistics.quantiles(times)[0]
