"""Random programs of modules, ops in place, views, hooks and checkpoints: captured or not, they compute the
same to the bit, or fail with the same error; and what is shown of their modules is what plain hooks see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

from nansense_widgets import BatchSnapshot
from tests.capture.test_capture import capture
from tests.kinds import Program
from tests.kinds.machinery import AddInPlace, Barrier, Clamp
from tests.test_shown import faults, observe

Step = tuple[str, int, int]
"""What to do, with which of the values so far, and with which other one (or which module)."""


def modules() -> nn.ModuleList:
    return nn.ModuleList(
        [
            nn.Linear(4, 4),
            nn.ReLU(inplace=True),
            nn.LayerNorm(4),
            nn.BatchNorm1d(4),
            nn.Dropout(0.4),
            nn.Sequential(nn.Linear(4, 4), nn.ELU(inplace=True)),
            nn.GRUCell(4, 4),
        ]
    )


class Random(nn.Module):
    """Carries out its steps on a growing list of values of shape (3, 4)."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.steps, self.parts = steps, modules()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values = [x]
        for name, index, other in self.steps:
            values.append(STEPS[name](self, values[index % len(values)], values[other % len(values)], other))
        return torch.stack([value.sum(1) for value in values[1:]]).square().sum()

    def part(self, number: int) -> nn.Module:
        return self.parts[number % len(self.parts)]


def hooked(x: torch.Tensor) -> torch.Tensor:
    # Torch may crash in `register_hook` on a tensor that needs a gradient and has no node, or an invalid one,
    # as in-place ops under no_grad make; reading `grad_fn` raises for the latter.
    if x.requires_grad and x.grad_fn is not None:
        x.register_hook(lambda gradient: gradient * 1.5)
    return x


def view_changed(x: torch.Tensor) -> torch.Tensor:
    x[:, 1:3].mul_(0.5)
    return x


def set_rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[0] = y[1]
    return x


def without_grad(model: Random, x: torch.Tensor, number: int) -> torch.Tensor:
    with torch.no_grad():
        out: torch.Tensor = model.part(number)(x)
    return out


STEPS: dict[str, Callable[[Random, torch.Tensor, torch.Tensor, int], torch.Tensor]] = {
    "module": lambda m, x, y, n: m.part(n)(x),
    "module again": lambda m, x, y, n: m.part(0)(m.part(0)(x)),
    "checkpoint": lambda m, x, y, n: checkpoint(m.part(n), x, use_reentrant=False),
    "reentrant checkpoint": lambda m, x, y, n: checkpoint(m.part(n), x, use_reentrant=True),
    "no grad": lambda m, x, y, n: without_grad(m, x, n),
    "scale": lambda m, x, y, n: x * m.scale,
    "linear": lambda m, x, y, n: F.linear(x, m.get_parameter("parts.0.weight")),
    "add": lambda m, x, y, n: x + y,
    "add in place": lambda m, x, y, n: x.add_(y),
    "relu in place": lambda m, x, y, n: torch.relu_(x),
    "clone": lambda m, x, y, n: x.clone(),
    "copy": lambda m, x, y, n: x * 1,
    "view changed": lambda m, x, y, n: view_changed(x),
    "rows set": lambda m, x, y, n: set_rows(x, y),
    "transposed": lambda m, x, y, n: x.t().contiguous().t(),
    "parts": lambda m, x, y, n: torch.cat(x.unbind(1)[:2] * 2).view(4, -1).t(),
    "chunks": lambda m, x, y, n: torch.cat([x.chunk(2, 1)[1], y.chunk(2, 1)[0]], 1),
    "detach": lambda m, x, y, n: x.detach(),
    "hook": lambda m, x, y, n: hooked(x),
    "straight through": lambda m, x, y, n: Clamp.apply(x),
    "returned as it is": lambda m, x, y, n: Barrier.apply(x),
    "function in place": lambda m, x, y, n: AddInPlace.apply(x, y),
    "branch": lambda m, x, y, n: x.exp() if x.sum() > y.sum() else x.sin(),
}

programs = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=9
)


class Run:
    """One model of the program, trained for some batches; the error of each batch is part of the result."""

    def __init__(self, steps: list[Step], input_needs_grad: bool, passes: str = "backward") -> None:
        torch.manual_seed(5)
        self.model = Random(steps)
        self.passes = passes
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.input_needs_grad = input_needs_grad
        self.results: list[Any] = []

    def step(self) -> None:
        self.optimizer.zero_grad()
        x = torch.randn(3, 4).requires_grad_(self.input_needs_grad)
        try:
            loss = self.model(x)
            self.differentiate(loss)
            self.optimizer.step()
        except RuntimeError as error:
            self.results.append(str(error).split("\n")[0])
        else:
            self.results += [loss.detach(), None if x.grad is None else x.grad]
        self.results += [p.detach().clone() for p in self.model.parameters()]
        self.results += [b.clone() for b in self.model.buffers()]
        self.results.append(torch.get_rng_state())

    @property
    def failed(self) -> bool:
        return any(isinstance(result, str) for result in self.results)

    def differentiate(self, loss: torch.Tensor) -> None:
        if self.passes == "two":
            loss.backward(retain_graph=True)
            (loss * 0.5).backward()
        elif self.passes == "penalty":
            slope: Any
            (slope,) = torch.autograd.grad(loss, self.model.scale, create_graph=True, allow_unused=True)
            (loss if slope is None else loss + slope.square().sum()).backward()
        else:
            loss.backward()


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a.nan_to_num(7), b.nan_to_num(7))
    return type(a) is type(b) and bool(a == b)


passes = st.sampled_from(["backward", "two", "penalty"])
examples = hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.too_slow], deadline=None)


@examples
@hypothesis.given(programs, st.booleans(), passes, st.integers(0, 3))
def test_a_captured_program_computes_what_it_would_alone(
    steps: list[Step], input_needs_grad: bool, passes: str, skipped: int
) -> None:
    alone = Run(steps, input_needs_grad, passes)
    for _ in range(3):
        alone.step()
    seen = Run(steps, input_needs_grad, passes)
    watch = ["*", "parts.*", "*_", "view*"][skipped]
    _, snapshot = capture(seen.model, seen.step, (watch,), [seen.optimizer], batches=3)
    assert len(seen.results) == len(alone.results)
    wrong = [i for i, (a, b) in enumerate(zip(seen.results, alone.results, strict=True)) if not same(a, b)]
    assert wrong == []
    if not alone.failed:
        assert "Error" not in " ".join(reasons(snapshot))


@examples
@hypothesis.given(programs, st.booleans(), passes)
def test_what_is_shown_of_a_program_is_what_plain_hooks_see(
    steps: list[Step], input_needs_grad: bool, passes: str
) -> None:
    # What a hook of the user's own changes is shown changed, but plain hooks that come earlier see it before.
    # And what a view or an op in place makes under no_grad may have no node to put one on.
    steps = [step for step in steps if step[0] not in ("hook", "no grad")] or [("copy", 0, 0)]
    if passes == "two":  # of a reentrant checkpoint only the first of two passes counts: being mended
        steps = [(name.removeprefix("reentrant "), index, other) for name, index, other in steps]
    plain = Run(steps, input_needs_grad, passes)
    seen = observe(Program(plain.model, [plain.optimizer], [0], lambda _: plain.step()))  # type: ignore[arg-type, return-value]
    run = Run(steps, input_needs_grad, passes)
    _, snapshot = capture(run.model, run.step, optimizers=[run.optimizer])
    if plain.failed:  # somewhere in the forward or backward, so that both saw only a part
        return
    for layer, calls in seen.calls.items():
        shown = snapshot.layers.get(layer, ())
        assert len(shown) == len(calls), (layer, snapshot.missing.get(layer))
        for call, other in zip(calls, shown, strict=True):
            found = list(faults(call, other, 1.0))
            if len(calls) > 1:
                # Of a module called several times nothing says which call a reentrant checkpoint repeats.
                found = [fault for fault in found if not fault.endswith("(torch.no_grad)")]
            assert found == [], layer
    for parameter, gradient in seen.stepped.items():
        assert torch.equal(snapshot.weight_gradients[parameter], gradient)


def reasons(snapshot: BatchSnapshot) -> list[str]:
    found = list(snapshot.missing.values())
    for calls in snapshot.layers.values():
        for leaf in (leaf for call in calls for leaf in call.leaves):
            found += [leaf.activation_reason, leaf.gradient_reason]
    return found
