"""Gradient norms and update-to-weight ratios against those taken by hand around the same steps."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import nansense_widgets
from nansense_widgets import WatchSnapshot
from nansense_widgets.stats import steps
from nansense_widgets.stats.norms import norm, norms
from tests.driver import TIMEOUT_S

Measured = dict[str, list[tuple[float, float]]]


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def by_hand(net: nn.Module, step: Callable[[], Any], found: Measured, before_step: bool = True) -> None:
    before = {name: p.detach().double().clone() for name, p in net.named_parameters()}
    gradients = {name: p.grad.double().norm() for name, p in net.named_parameters() if p.grad is not None}
    step()
    for name, p in net.named_parameters():
        if not before_step:
            gradients[name] = p.grad.double().norm()  # type: ignore[union-attr]
        change = (p.detach().double() - before[name]).norm() / before[name].norm()
        found.setdefault(name, []).append((float(gradients[name]), float(change)))


def run(net: nn.Module, body: Callable[[torch.Tensor], None], layers: tuple[str, ...]) -> WatchSnapshot:
    session = nansense_widgets.start(net)
    session.watch(*layers)
    session.set_stats_scope("watched")
    session.request_snapshot()
    session.detach()
    torch.manual_seed(1)
    data = [torch.randn(4, 6) for _ in range(5)]

    def loop() -> None:
        for _ in session.epochs(3):
            for x in session.batches(data, phase="train"):
                body(x)
            with torch.no_grad():
                for x in session.batches(data[:2], phase="val"):
                    net(x)

    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    assert session.failure is None
    stats = session.watch_snapshot()
    session.close()
    return stats


@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "lbfgs", "two"])
def test_norms_and_ratios_equal_those_around_the_step(optimizer: str) -> None:
    net = model()
    parameters = list(net.parameters())
    builders: dict[str, Callable[[], list[torch.optim.Optimizer]]] = {
        "sgd": lambda: [torch.optim.SGD(parameters, lr=0.1, momentum=0.9)],
        "adamw": lambda: [torch.optim.AdamW(parameters, lr=0.01)],
        "lbfgs": lambda: [torch.optim.LBFGS(parameters, lr=0.1, max_iter=2)],
        "two": lambda: [torch.optim.SGD(parameters[:2], lr=0.1), torch.optim.Adam(parameters[2:], lr=0.01)],
    }
    made = builders[optimizer]()
    found: Measured = {}

    def body(x: torch.Tensor) -> None:
        def closure() -> torch.Tensor:
            for used in made:
                used.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            return loss

        if optimizer == "lbfgs":
            by_hand(net, lambda: made[0].step(closure), found, before_step=False)  # type: ignore[arg-type]
        else:
            closure()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            by_hand(net, lambda: [used.step() for used in made], found)

    stats = run(net, body, ("0", "2"))
    assert stats.owned == {"0": ("0.weight", "0.bias"), "2": ("2.weight", "2.bias")}
    for name, numbers in found.items():
        for epoch in range(3):
            entry = stats.parameters[(name, "train", epoch)]
            expected = numbers[5 * epoch : 5 * epoch + 5]
            for series, column in ((entry.gradient_norm, 0), (entry.update_ratio, 1)):
                values = [pair[column] for pair in expected]
                assert series.steps == 5
                assert series.mean == pytest.approx(sum(values) / 5, rel=1e-5)
                assert (series.min, series.max) == pytest.approx((min(values), max(values)), rel=1e-5)
                kept = values if epoch else []  # of the oldest epoch only the sums are left
                assert list(series.values) == pytest.approx(kept, rel=1e-5)
                assert list(series.batches) == [0, 1, 2, 3, 4][: len(kept)]
        assert (name, "val", 2) not in stats.parameters  # validation takes no step


def test_weights_are_sampled_once_an_epoch_and_at_its_last_step() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    ends: list[torch.Tensor] = []

    def body(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
        ends.append(net.get_parameter("0.weight").detach().clone())

    stats = run(net, body, ("0", "1"))
    history = stats.weight_history("0")
    assert set(history) == {"0.weight", "0.bias"}
    assert [epoch for epoch, _ in history["0.weight"]] == [0, 1, 2]
    for epoch, weight in history["0.weight"]:
        end = ends[5 * epoch + 4].double()
        assert weight.n == 30
        assert weight.mean == pytest.approx(float(end.mean()), rel=1e-6)
        assert weight.std == pytest.approx(float(end.std(correction=0)), rel=1e-6)
    sampled = stats.parameters[("0.weight", "train", 1)].sampled
    assert sampled is not None
    assert (sampled.epoch, sampled.batch_idx) == (1, 4)
    assert stats.weight_history("1") == {}  # a ReLU has no parameters
    assert stats.parameter_history("nothing of this name") == {}


def test_a_step_that_the_scaler_skips_is_not_counted() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    found: Measured = {}
    count = 0

    def body(x: torch.Tensor) -> None:
        nonlocal count
        count += 1
        optimizer.zero_grad()
        loss = net(x).square().mean() * (math.inf if count == 2 else 1.0)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if count == 2:
            scaler.step(optimizer)
        else:
            by_hand(net, lambda: scaler.step(optimizer), found)
        scaler.update()

    stats = run(net, body, ("0",))
    entry = stats.parameters[("0.weight", "train", 0)]
    assert entry.gradient_norm.steps == 4
    assert list(stats.parameters[("0.weight", "train", 1)].gradient_norm.values) == pytest.approx(
        [pair[0] for pair in found["0.weight"][4:9]], rel=1e-5
    )


def test_what_has_no_step_and_no_ratio_says_so() -> None:
    net = model()
    nn.init.zeros_(net.get_parameter("2.bias"))
    net.get_parameter("0.weight").requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)

    def body(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()

    stats = run(net, body, ("0", "2"))
    frozen = stats.parameters[("0.weight", "train", 0)]
    assert frozen.update_ratio.steps == 0
    assert math.isnan(frozen.gradient_norm.mean)
    assert frozen.weight.n == 30
    zero = stats.parameters[("2.bias", "train", 0)]
    assert zero.update_ratio.nonfinite == 1  # the first step: weights of zero have no ratio
    assert zero.update_ratio.steps == 5
    assert math.isfinite(zero.update_ratio.mean)


@pytest.mark.parametrize("scale", [1e-30, 1e-18, 1.0, 1e15, 1e25])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
def test_norms_of_any_size(scale: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    tensor = (torch.randn(700, 3, dtype=torch.float64) * scale).to(dtype)
    exact = float(tensor.to(torch.complex128 if dtype.is_complex else torch.float64).norm())
    assert norm(tensor) == pytest.approx(exact, rel=1e-6)
    assert norms([(tensor, None)]) == [pytest.approx(exact, rel=1e-6)]


def test_norms_of_many_tensors_and_differences_come_in_order() -> None:
    torch.manual_seed(0)
    wide, tall = torch.randn(5, 12), torch.randn(12, 5).T
    missing = torch.tensor([1.0, math.nan]), torch.tensor([math.inf, 1.0])
    pairs = [
        (torch.randn(1001), torch.randn(1001)),  # compiled, with a rest that fills no lane
        (tall, None),  # not contiguous: not compiled
        (wide, tall.clone()),  # pairs that lie differently in memory
        (torch.randn(3, dtype=torch.float64), None),
        *((tensor, None) for tensor in missing),
        (torch.zeros(0), None),
        (nn.Parameter(torch.randn(7)), None),
    ]
    exact = [float((x.detach().double() - (0 if y is None else y.double())).norm()) for x, y in pairs]
    assert norms(pairs) == [pytest.approx(number, rel=1e-6, nan_ok=True) for number in exact]


def test_what_has_no_norm_is_said_and_the_others_are_measured() -> None:
    broken, well = norms([(torch.ones(2), torch.ones(3)), (torch.ones(4), None)])
    assert isinstance(broken, RuntimeError)
    assert well == 2.0


def test_sparse_gradients_have_norms() -> None:
    torch.manual_seed(0)
    net = nn.Embedding(10, 4, sparse=True)
    session = nansense_widgets.start(net)
    session.watch("*")
    session.set_stats_scope("all")
    session.request_snapshot()
    session.detach()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    measured: list[float] = []

    def loop() -> None:
        for ids in session.batches([torch.tensor([1, 1, 3])] * 3, phase="train"):
            optimizer.zero_grad()
            net(ids).square().sum().backward()
            assert net.weight.grad is not None
            measured.append(float(net.weight.grad.to_dense().double().norm()))
            optimizer.step()

    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    (entry,) = session.watch_snapshot().parameters.values()
    assert list(entry.gradient_norm.values) == pytest.approx(measured, rel=1e-6)
    session.close()


def test_weights_of_an_epoch_of_unknown_length_are_those_of_its_end() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    session = nansense_widgets.start(net)
    session.watch("0")
    session.request_snapshot()
    session.detach()
    ends: list[torch.Tensor] = []

    def loop() -> None:
        torch.manual_seed(2)
        for _ in session.epochs(3):
            for x in session.batches((torch.randn(4, 6) for _ in range(4)), phase="train"):
                optimizer.zero_grad()
                net(x).square().mean().backward()
                optimizer.step()
            ends.append(net.get_parameter("0.weight").detach().clone())

    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    history = session.watch_snapshot().weight_history("0")["0.weight"]
    for epoch, weight in history[:2]:
        assert weight.mean == pytest.approx(float(ends[epoch].double().mean()), rel=1e-6)
    sampled = session.watch_snapshot().parameters[("0.weight", "train", 0)].sampled
    assert sampled is not None
    assert sampled.batch_idx == 3
    session.close()


def test_weights_that_are_too_large_have_no_ratio_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "ROOM", 100)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def body(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()

    stats = run(net, body, ("0",))
    large, small = (stats.parameters[(name, "train", 2)] for name in ("0.weight", "0.bias"))
    assert (large.update_ratio.steps, large.gradient_norm.steps) == (0, 5)
    assert "256 MiB" in large.note
    assert small.update_ratio.steps == 5


class Shell(torch.optim.Optimizer):
    """Holds other optimizers, and has no groups of its own."""

    def __init__(self, *optimizers: torch.optim.Optimizer) -> None:
        self.optimizers = optimizers
        self.defaults: dict[str, Any] = {}
        self._optimizer_step_pre_hooks = OrderedDict()
        self._optimizer_step_post_hooks = OrderedDict()
        self._patch_step_function()

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for optimizer in self.optimizers:
            optimizer.step()


def test_an_optimizer_without_groups_is_only_a_shell() -> None:
    net = model()
    shell = Shell(torch.optim.SGD(net.parameters(), lr=0.1))

    def body(x: torch.Tensor) -> None:
        net.zero_grad()
        net(x).square().mean().backward()
        shell.step()

    stats = run(net, body, ("0",))
    assert stats.parameters[("0.weight", "train", 2)].update_ratio.steps == 5


def test_a_tied_parameter_has_its_steps_under_each_name() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    net[2].weight = net[0].weight
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def body(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()

    stats = run(net, body, ("0", "2"))
    for layer in ("0", "2"):
        [name] = [name for name in stats.owned[layer] if name.endswith("weight")]
        assert stats.parameters[(name, "train", 2)].update_ratio.steps == 5
