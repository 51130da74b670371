"""Whatever an instrument does, training does not change, and nothing of a batch outlives it."""

from __future__ import annotations

import copy
import gc
import random
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nansense_widgets import LayerContext, Session
from tests.stats.test_instruments import Net, batches, session_of


def draws(ctx: LayerContext) -> float:
    torch.manual_seed(3)
    random.random(), np.random.rand()
    return float((ctx.activation + torch.rand_like(ctx.activation)).mean())


def raises(_: LayerContext) -> float:
    raise ValueError("no\nsuch\nthing")


class Cancelled(BaseException):
    pass


def cancels(_: LayerContext) -> float:
    raise Cancelled


def leaves_modes(ctx: LayerContext) -> float:
    torch.set_grad_enabled(True)
    torch.set_autocast_enabled("cpu", True)
    torch.autocast("cpu").__enter__()
    torch.set_default_dtype(torch.float64)
    return float(ctx.activation.sum())


def garbage(ctx: LayerContext) -> Any:
    return {1: 2.0} if ctx.layer == "norm" else {"a": "x"}


def builds_graphs(ctx: LayerContext) -> Any:
    with torch.enable_grad():
        weight = next(iter(ctx.weights.values()), None)
        return None if weight is None else (weight * 2).sum()


def random_fold(values: list[float]) -> float:
    return values[0] + random.random() + float(torch.rand(()))


INSTRUMENTS = [draws, raises, cancels, leaves_modes, garbage, builds_graphs, lambda _: float("nan")]


def trained(prepare: Callable[[nn.Module, Any], Session | None]) -> list[Any]:
    torch.manual_seed(0), random.seed(0), np.random.seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.3), nn.BatchNorm1d(8), nn.ReLU(True), nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    session = prepare(model, optimizer)
    losses = []
    loader = batches()
    for epoch in range(2):
        steps = loader if session is None else session.batches(loader, phase="train", epoch=epoch)
        for x, y in steps:
            noise = 0.01 * random.random() + 0.01 * np.random.rand()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(x + noise + 0.01 * torch.randn_like(x)), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=epoch == 0)
            losses.append(loss.detach())
            assert torch.is_grad_enabled()
            assert not torch.is_autocast_enabled("cpu")
    assert torch.get_default_dtype() is torch.float32
    state = [torch.get_rng_state(), random.random(), np.random.rand()]
    grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    if session is not None:
        session.close()
    return [losses, copy.deepcopy(model.state_dict()), optimizer.state_dict()["state"], grads, state]


@pytest.mark.parametrize("captures", [False, True])
def test_training_is_unchanged_bit_for_bit(captures: bool) -> None:
    def prepare(model: nn.Module, optimizer: Any) -> Session:
        session = session_of(model, optimizer, captures=captures)
        for number, function in enumerate(INSTRUMENTS):
            session.watch_metric(f"metric {number}")(function)
            session.watch_metric(f"fold {number}", on="epoch", reduce=lambda v: v[0] + random.random())(
                function
            )
            session.watch_layer_tensor(f"layer {number}")(function)
            session.watch_weight_tensor(f"weight {number}")(lambda ctx: torch.rand_like(ctx.weight))
        return session

    with_instruments, plain = trained(prepare), trained(lambda *_: None)
    for found, expected in zip(with_instruments, plain, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_keyboard_interrupt_is_the_users() -> None:
    model = Net()
    session = session_of(model)

    @session.watch_metric("slow")
    def slow(_: LayerContext) -> float:
        raise KeyboardInterrupt

    def train() -> None:
        for x, _ in session.batches(batches(), phase="train", epoch=0):
            model(x)

    with pytest.raises(KeyboardInterrupt):
        train()
    assert session.instrument_errors == {}
    session.close()


def living(of: list[weakref.ref[torch.Tensor]]) -> int:
    gc.collect()
    return sum(one() is not None for one in of)


@pytest.mark.parametrize("captures", [False, True])
def test_nothing_of_a_batch_outlives_it(captures: bool) -> None:
    model = Net(inplace=False)
    session = session_of(model, captures=captures)
    refs: list[weakref.ref[torch.Tensor]] = []
    kept: list[LayerContext] = []

    @session.watch_metric("reads")
    def reads(ctx: LayerContext) -> float:
        refs.append(weakref.ref(ctx.activation))
        refs.extend(weakref.ref(tensor) for tensor in ctx.weight_gradients.values())
        if ctx.gradient is not None:
            refs.append(weakref.ref(ctx.gradient))
        if ctx.position.batch_idx == 4:
            raise ValueError("with a traceback")
        return 1.0

    @session.watch_metric("keeps")
    def keeps(ctx: LayerContext) -> None:
        kept.append(ctx)

    session.watch_layer_tensor("tensor")(lambda ctx: ctx.activation)
    for x, y in session.batches(batches(), phase="train", epoch=0):
        model.truth = {}
        F.cross_entropy(model(x), y).backward()
        model.zero_grad()
        del x, y
    assert len(refs) > 20
    kept = [ctx for ctx in kept if ctx.position.batch_idx == 5]  # those of which nothing was read
    assert living(refs[-20:]) == 0
    with pytest.raises(RuntimeError, match="the batch of this context is over"):
        _ = kept[0].weights
    session.close()


class Stamp(torch.autograd.Function):
    """Hands on a copy in memory of numpy's, which tells when it is freed."""

    made: ClassVar[list[weakref.ref[Any]]] = []

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        array = x.detach().numpy().copy()
        Stamp.made.append(weakref.ref(array))
        return torch.from_numpy(array)

    @staticmethod
    def backward(_: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class Stamped(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Stamp.apply(x)


@pytest.mark.parametrize("reads", ["weights", "gradient", "activation"])
def test_what_nobody_reads_is_not_held(reads: str) -> None:
    model = nn.Sequential(nn.Linear(5, 5), Stamped(), nn.Linear(5, 5), Stamped(), nn.Linear(5, 5))
    session = session_of(model)
    session.watch_metric("reader")(lambda ctx: None if getattr(ctx, reads) is None else 1.0)
    if reads != "weights":
        session.watch_metric("other")(lambda ctx: float(len(ctx.weights)))
    alive = []
    for x, _ in session.batches(batches(), phase="train", epoch=0):
        Stamp.made.clear()
        model(x).sum().backward()
        alive.append(living(Stamp.made))
    # In the first three batches that tell what is read, everything is held.
    assert alive[0] == 2
    assert alive[-1] == (2 if reads == "activation" else 0)
    session.close()


def test_what_is_read_for_the_first_time_is_missing_once_and_said() -> None:
    model = Net(inplace=False)
    session = session_of(model)
    seen: list[int] = []

    @session.watch_metric("late")
    def late(ctx: LayerContext) -> float | None:
        if ctx.position.batch_idx < 5 or ctx.layer != "last":
            return None
        seen.append(ctx.position.batch_idx)
        return None if ctx.gradient is None else float(ctx.gradient.sum())

    for x, y in session.batches(batches(8), phase="train", epoch=0):
        F.cross_entropy(model(x), y).backward()
    snapshot = session.watch_metrics_snapshot()
    assert snapshot.series["last", "train", "late", ""].batches == [6, 7]
    assert seen == [5, 6, 7]
    assert "batch 5" in snapshot.notes["last"]
    assert "had not been read" in snapshot.notes["last"]
    session.close()
