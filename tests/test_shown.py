"""Promise 2: what is shown of a kind's first batch is what plain hooks of one's own see in the same batch."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import pytest
import torch
from torch.optim import Optimizer

import nansense_widgets
from nansense_widgets import BatchSnapshot
from tests.kinds import KINDS, Bare, Program
from tests.test_unchanged import seeded

WRAPPED = "inside a torch.func transform"


class OneBatch(Bare):
    """Ends the loop after its first batch."""

    class Over(BaseException):
        pass

    def batches(self, loader: Iterable[Any], *, phase: str) -> Iterator[Any]:
        for item in loader:
            yield item
            raise self.Over

    @contextmanager
    def _batch(self) -> Iterator[None]:
        yield
        raise self.Over

    def batch(self, *, phase: str) -> Any:
        return self._batch()


@dataclass
class Call:
    """One call of a module: its output tensors, and by their index what flowed back through them."""

    values: list[torch.Tensor | str]
    has_graph: bool
    backward: dict[int, torch.Tensor] = field(default_factory=dict)
    aside: dict[int, torch.Tensor] = field(default_factory=dict)
    """In passes of `torch.autograd.grad`, which count only where no `backward` came by."""

    @property
    def gradients(self) -> dict[int, torch.Tensor]:
        return {**self.aside, **self.backward}


@dataclass
class Seen:
    """What the hooks saw: the calls of each module, and the gradients that optimizers stepped with. And, from
    the end of the batch, weights and optimizer state.
    """

    calls: dict[str, list[Call]] = field(default_factory=dict)
    stepped: dict[str, torch.Tensor] = field(default_factory=dict)
    weights: dict[str, torch.Tensor] = field(default_factory=dict)
    state: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)
    scale: float = 1.0
    """What the loss was multiplied by."""


def tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)
    elif is_dataclass(value):
        for entry in fields(value):
            yield from tensors(getattr(value, entry.name))


def copied(tensor: torch.Tensor) -> torch.Tensor | str:
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):  # noqa: SLF001
        return WRAPPED
    return tensor.detach().clone() if not tensor.is_nested else "nested"


def observe(program: Program) -> Seen:
    """Run the first batch with plain hooks on every module and optimizer."""
    seen = Seen()

    asides: list[bool] = []

    def note(name: str, output: Any) -> None:
        if torch.compiler.is_compiling():
            return  # a branch that Dynamo traces
        with torch._C.DisableTorchFunction():  # noqa: SLF001  subclasses and modes that count
            found = list(tensors(output))
            call = Call([copied(t) for t in found], any(t.requires_grad for t in found))
            if torch._C._current_graph_task_id() == -1:  # noqa: SLF001
                seen.calls.setdefault(name, []).append(call)
            else:  # computed anew in backward: if at first without a graph, this one has its gradients
                call = next((old for old in seen.calls[name] if not old.has_graph and near(old, call)), call)
            # Not under no_grad: what a view or an op in place makes there may have no node, and torch crash.
            for index, tensor in enumerate(found if torch.is_grad_enabled() else ()):
                if tensor.requires_grad and not isinstance(call.values[index], str):
                    tensor.register_hook(lambda g, index=index: keep(call, index, g))

    def keep(call: Call, index: int, gradient: torch.Tensor | None) -> None:
        if gradient is not None:
            into = call.aside if asides[-1] else call.backward
            with torch.no_grad():
                into[index] = into[index] + gradient if index in into else gradient.clone()

    def passing(function: Any, aside: bool) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            asides.append(aside)
            try:
                return function(*args, **kwargs)
            finally:
                asides.pop()

        return called

    def stepping(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and id(parameter) in names:
                    seen.stepped[names[id(parameter)]] = parameter.grad.clone()

    model = program.model
    model = getattr(model, "_orig_mod", model)
    names = {id(p): name for name, p in model.named_parameters()}
    for name, module in model.named_modules():
        if name and not isinstance(module, torch.jit.ScriptModule):
            module.register_forward_hook(lambda m, args, out, name=name: note(name, out))
    for optimizer in program.optimizers:
        optimizer.register_step_pre_hook(stepping)
    state = program.also()
    if isinstance(state, dict) and "growth_factor" in state:  # of a GradScaler
        seen.scale = state["scale"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.autograd, "grad", passing(torch.autograd.grad, True))
        patch.setattr(torch.autograd, "backward", passing(torch.autograd.backward, False))
        with torch.compiler.set_stance("force_eager"), suppress(OneBatch.Over):
            program.run(OneBatch())
    for name, parameter in model.named_parameters():
        if not parameter.is_meta:
            seen.weights[name] = parameter.detach().clone()
    for optimizer in program.optimizers:
        for parameter, entries in optimizer.state.items():
            if id(parameter) in names and isinstance(entries, dict):
                numbers = {k: v for k, v in entries.items() if isinstance(v, (int, float, torch.Tensor))}
                seen.state[names[id(parameter)]] = {k: torch.as_tensor(v) for k, v in numbers.items()}
    return seen


def near(old: Call, new: Call) -> bool:
    """Whether one call repeats the other; what a reversible block computes back is off by a few bits."""
    return all(
        isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and torch.allclose(a, b, atol=1e-6)
        for a, b in zip(old.values, new.values, strict=True)
    )


def captured(program: Program) -> BatchSnapshot:
    session = nansense_widgets.start(
        program.model, optimizer=program.optimizers, scheduler=program.schedulers
    )
    session.watch("*")
    session.launch(program.run, session)
    assert session.wait_until_paused(timeout=60)
    snapshot = session.snapshot
    assert snapshot is not None
    session.close()
    return snapshot


def unscaled(gradient: torch.Tensor, scale: float) -> torch.Tensor:
    """Exact, since scales are powers of two; in float32, where a half-precision gradient may not fit."""
    return gradient if scale == 1 else gradient.float() / scale


def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.is_quantized:
        a, b = a.dequantize(), b.dequantize()
    if a.layout is not torch.strided:
        a, b = a.to_dense(), b.to_dense()
    plain, other = a.as_subclass(torch.Tensor), b.as_subclass(torch.Tensor)
    return plain.dtype == other.dtype and torch.equal(torch.nan_to_num(plain), torch.nan_to_num(other))


KNOWN = {
    "control_flow_operators": "no hook is called in the branches of `torch.cond`; their modules say so",
}
"""What cannot be shown, and why."""

# Plain hooks travel with a copy of the model and cannot be pickled.
OBSERVED = [name for name in KINDS if name != "copied_and_pickled_while_training"]


def cases() -> Iterator[Any]:
    for name in OBSERVED:
        marks = [pytest.mark.xfail(strict=True, reason=KNOWN[name])] if name in KNOWN else []
        yield pytest.param(name, marks=marks, id=name)


@pytest.mark.parametrize("name", cases())
def test_shown_is_what_plain_hooks_see(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = observe(seeded(name))
        snapshot = captured(seeded(name))

    wrong = []
    for layer, calls in seen.calls.items():
        if not any(call.values for call in calls):
            continue
        shown = snapshot.layers.get(layer, ())
        if not shown and "another thread" in snapshot.missing[layer]:
            assert name == "parts_in_threads_of_the_loops_own"
            continue
        if len(shown) != min(len(calls), 64):
            wrong.append(f"{layer}: {len(shown)} of {len(calls)} calls, {snapshot.missing.get(layer)}")
            continue
        for call, other in zip(calls, shown, strict=False):
            wrong += [f"{layer}, call {other.call}: {fault}" for fault in faults(call, other, seen.scale)]
    for parameter, gradient in seen.stepped.items():
        found = snapshot.weight_gradients.get(parameter)
        if found is None or not equal(found, gradient):
            wrong.append(f"gradient of {parameter}")
    if snapshot.weights.keys() != seen.weights.keys():
        wrong.append(f"weights {snapshot.weights.keys() ^ seen.weights.keys()}")
    wrong += [
        f"weight {k}"
        for k, v in snapshot.weights.items()
        if k in seen.weights and not equal(v, seen.weights[k])
    ]
    for parameter, entries in seen.state.items():
        found_state = snapshot.optimizer_state.get(parameter, {})
        wrong += [
            f"{key} of {parameter}"
            for key, value in entries.items()
            if key not in found_state or not equal(found_state[key], value)
        ]
    assert wrong == []


def faults(call: Call, shown: Any, scale: float) -> Iterator[str]:
    if len(call.values) != len(shown.leaves):
        yield f"{len(shown.leaves)} of {len(call.values)} tensors"
        return
    for index, (value, leaf) in enumerate(zip(call.values, shown.leaves, strict=True)):
        where = leaf.path or "output"
        if isinstance(value, str):
            if value not in leaf.activation_reason:
                yield f"{where}: {leaf.activation_reason!r}"
            continue
        if leaf.activation is None or not equal(leaf.activation, value):
            yield f"{where}: {leaf.activation_reason or 'another value'}"
        gradient = call.gradients.get(index)
        if (gradient is None) != (leaf.gradient is None):
            yield f"gradient of {where}: {leaf.gradient_reason or 'there should be none'}"
        elif gradient is not None and not equal(leaf.gradient, unscaled(gradient, scale)):
            yield f"gradient of {where}: another value"
