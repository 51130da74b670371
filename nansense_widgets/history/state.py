"""Everything of a run that decides its next batch: taken without moving anything, put back bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.optim import Optimizer

from nansense_widgets.capture.values import size_of, unobserved
from nansense_widgets.errors import TimeTravelError
from nansense_widgets.history.fit import state_problems
from nansense_widgets.history.pack import pack, unpack
from nansense_widgets.history.parts import RunParts, names_in
from nansense_widgets.history.random_state import restore_random, take_random

__all__ = ["RunParts", "least_size", "restore_state", "take_state", "unchanged_by_errors"]


def take_state(parts: RunParts) -> dict[str, Any]:
    """The state as plain values and tensors on the CPU that nothing else uses.

    Raises:
        UnstorableError: if some of it cannot be stored, naming it.
    """
    grad = torch.is_grad_enabled()
    names = names_in(parts.model)
    with unobserved():
        return {
            "grad": grad,
            "model": _take_model(parts.model),
            "optimizers": [
                _take_optimizer(one, f"optimizer {at}", names) for at, one in enumerate(parts.optimizers)
            ],
            "schedulers": [
                pack(one.state_dict(), f"scheduler {at}") for at, one in enumerate(parts.schedulers)
            ],
            "tracked": {name: pack(one.state_dict(), name) for name, one in parts.tracked.items()},
            "random": take_random(),
        }


@contextmanager
def unchanged_by_errors(parts: RunParts) -> Iterator[None]:
    """Where an error leaves the block, all is as it was before it, as far as it could be kept."""
    before: dict[str, Any] | None = None
    with suppress(Exception):  # what cannot be stored may be changed all the same
        before = take_state(parts)
    try:
        yield
    except BaseException:
        if before is not None:
            with suppress(Exception):  # modules of the model may be other ones by now
                restore_state(parts, before)
        raise


def least_size(parts: RunParts) -> int:
    """Bytes of parameters, buffers, gradients and optimizer state, without taking any of it."""
    with unobserved():
        tensors: dict[int, torch.Tensor] = {}
        for one in (*parts.model.parameters(), *parts.model.buffers()):
            tensors[id(one)] = one
            if one.is_leaf and one.grad is not None:
                tensors[id(one.grad)] = one.grad
        for optimizer in parts.optimizers:
            for state in list(optimizer.state.values()):
                entries = state.values() if isinstance(state, dict) else ()
                tensors.update({id(entry): entry for entry in entries if isinstance(entry, torch.Tensor)})
        lazy = (UninitializedParameter, UninitializedBuffer)
        return sum(size_of(one) for one in tensors.values() if not isinstance(one, lazy))


def restore_state(parts: RunParts, state: Mapping[str, Any]) -> list[str]:
    """Put a state back, and say what of the tracked objects could not be.

    Tensors keep their identity: they are written to in place where they fit.

    Raises:
        TimeTravelError: if it is not the state of such parts; then nothing has changed.
    """
    problems = state_problems(parts, state)
    if problems:
        raise TimeTravelError("; ".join(problems))
    with unobserved():
        _restore_model(parts.model, state["model"])
        for optimizer, saved in zip(parts.optimizers, state["optimizers"], strict=True):
            _restore_optimizer(optimizer, saved)
        for scheduler, saved in zip(parts.schedulers, state["schedulers"], strict=True):
            scheduler.load_state_dict(unpack(saved))
        errors = []
        for name, one in parts.tracked.items():
            if name in state["tracked"]:
                try:
                    one.load_state_dict(unpack(state["tracked"][name]))
                except Exception as error:  # noqa: BLE001  an object of the user's own
                    errors.append(f"{name} was not put back: {type(error).__name__}: {error}")
        restore_random(state["random"])
    torch.set_grad_enabled(state["grad"])
    return errors


# ---------------------------------------------------------------- the model


def _take_model(model: nn.Module) -> dict[str, Any]:
    parameters = dict(model.named_parameters())
    extra = {
        name: pack(module.get_extra_state(), f"extra state of {name or 'the model'}")
        for name, module in model.named_modules()
        if type(module).get_extra_state is not nn.Module.get_extra_state
    }
    buffers = dict(model.named_buffers())
    # A buffer may learn as well: a perturbation that the loop moves along its gradient.
    learning = {name: one for name, one in buffers.items() if one.is_leaf and one.requires_grad}
    gradients = {name: p.grad for name, p in {**parameters, **learning}.items() if p.grad is not None}
    return {
        "parameters": {
            name: None if isinstance(parameter, UninitializedParameter) else pack(parameter, name)
            for name, parameter in parameters.items()
        },
        "gradients": {name: pack(grad, f"gradient of {name}") for name, grad in gradients.items()},
        "buffers": {
            name: pack(buffer, name)
            for name, buffer in buffers.items()
            if not isinstance(buffer, UninitializedBuffer)
        },
        "learning": list(learning),
        "empty": [
            f"{place}.{name}" if place else name
            for place, module in model.named_modules()
            for name, buffer in module._buffers.items()  # noqa: SLF001
            if buffer is None
        ],
        "frozen": [name for name, p in parameters.items() if not p.requires_grad],
        "training": [name for name, module in model.named_modules() if module.training],
        "extra": extra,
    }


def _restore_model(model: nn.Module, saved: Mapping[str, Any]) -> None:
    frozen, training = set(saved["frozen"]), set(saved["training"])
    for name, parameter in model.named_parameters():
        kept = saved["parameters"][name]
        if kept is None:
            continue
        if isinstance(parameter, UninitializedParameter):
            parameter.materialize(kept.shape, device=parameter.device, dtype=kept.dtype)
        # Past its version: a loss that the loop still holds would refuse its backward, and end the run.
        parameter.data.copy_(kept)
        parameter.requires_grad_(name not in frozen)
        gradient = saved["gradients"].get(name)
        parameter.grad = _like(parameter.grad, gradient, parameter.device)
    buffers = dict(model.named_buffers())
    for name in buffers.keys() | saved["buffers"].keys():
        owner, _, last = name.rpartition(".")
        module = model.get_submodule(owner)
        if name not in saved["buffers"] and name not in saved.get("empty", (name,)):
            del module._buffers[last]  # noqa: SLF001  a forward has registered it since
            module._non_persistent_buffers_set.discard(last)  # noqa: SLF001
        elif last in module._buffers:  # noqa: SLF001  torch has no other way to a buffer that is None
            before, kept = module._buffers[last], saved["buffers"].get(name)  # noqa: SLF001
            device = before.device if before is not None else next(iter(_devices(model)), torch.device("cpu"))
            module._buffers[last] = _buffer(name, before, kept, device, saved)  # noqa: SLF001
    for name, module in model.named_modules():
        module.training = name in training
        if name in saved["extra"]:
            module.set_extra_state(unpack(saved["extra"][name]))


def _buffer(
    name: str,
    before: torch.Tensor | None,
    kept: torch.Tensor | None,
    device: torch.device,
    saved: Mapping[str, Any],
) -> torch.Tensor | None:
    """A buffer as it was, with its gradient if it is one that learns."""
    learns = before is not None and before.is_leaf and before.requires_grad
    buffer = _like(before, kept, device)
    if buffer is None or not (buffer.is_floating_point() or buffer.is_complex()):
        return buffer
    learns = name in saved["learning"] if "learning" in saved else learns
    if learns != buffer.requires_grad:
        buffer.requires_grad_(learns)
    if learns or buffer.grad is not None:
        buffer.grad = _like(buffer.grad, saved["gradients"].get(name), buffer.device)
    return buffer


def _devices(model: nn.Module) -> list[torch.device]:
    return [p.device for p in model.parameters()]


def _like(
    before: torch.Tensor | None, kept: torch.Tensor | None, device: torch.device
) -> torch.Tensor | None:
    """`kept`, in the place of `before` where it fits there: the very tensor, unless it hangs on a graph."""
    if kept is None:
        return None
    fits = (
        before is not None
        and before.layout is kept.layout is torch.strided
        and before.shape == kept.shape
        and before.dtype == kept.dtype
        and not before.is_inference()
    )
    if fits and before is not None:
        # Past its version, as parameters are: a loss that the loop still holds may have used it.
        before.data.copy_(kept)
        return before if before.is_leaf else before.detach()
    return kept.detach().clone().to(device)


# ---------------------------------------------------------------- optimizers


def _take_optimizer(optimizer: Optimizer, place: str, names: Mapping[int, str]) -> dict[str, Any]:
    kind = type(optimizer)
    if kind.state_dict is not Optimizer.state_dict or kind.load_state_dict is not Optimizer.load_state_dict:
        return {"class": kind.__name__, "own": pack(optimizer.state_dict(), place)}
    # Not by `state_dict`: loading casts the state to the dtype of its parameter, and makes new tensors.
    ordered = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    held: dict[Any, Any] = optimizer.state
    others = {key: value for key, value in held.items() if not isinstance(key, torch.Tensor)}
    return {
        "class": kind.__name__,
        # State belongs to a place in this order, which another process may have in another way.
        "names": [names.get(id(parameter)) for parameter in ordered],
        # A learned temperature, master weights in float32: in no module, and trained all the same.
        "parameters": {
            at: pack(parameter, f"{place}, parameter {at}")
            for at, parameter in enumerate(ordered)
            if id(parameter) not in names
        },
        "gradients": {
            at: pack(parameter.grad, f"{place}, gradient of parameter {at}")
            for at, parameter in enumerate(ordered)
            if id(parameter) not in names and parameter.is_leaf and parameter.grad is not None
        },
        "others": pack(others, f"{place}, state"),
        "sizes": [len(group["params"]) for group in optimizer.param_groups],
        "groups": [
            pack({key: value for key, value in group.items() if key != "params"}, f"{place}, group {at}")
            for at, group in enumerate(optimizer.param_groups)
        ],
        "state": {
            at: pack(optimizer.state[parameter], f"{place}, state of parameter {at}")
            for at, parameter in enumerate(ordered)
            if parameter in optimizer.state
        },
        "devices": {
            at: {
                key: str(value.device)
                for key, value in optimizer.state[parameter].items()
                if isinstance(value, torch.Tensor)
            }
            for at, parameter in enumerate(ordered)
            if isinstance(optimizer.state.get(parameter), dict)
        },
    }


def _restore_optimizer(optimizer: Optimizer, saved: Mapping[str, Any]) -> None:
    if "own" in saved:
        optimizer.load_state_dict(unpack(saved["own"]))
        return
    for group, kept in zip(optimizer.param_groups, saved["groups"], strict=True):
        values = unpack(kept)
        for key in [key for key in group if key != "params" and key not in values]:
            del group[key]
        for key, value in values.items():
            before = group.get(key)
            if isinstance(value, torch.Tensor):
                device = before.device if isinstance(before, torch.Tensor) else torch.device("cpu")
                value = _like(before if isinstance(before, torch.Tensor) else None, value, device)  # noqa: PLW2901
            group[key] = value
    ordered = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for at, kept in saved["parameters"].items():
        ordered[at].data.copy_(kept)  # past its version
        if "gradients" in saved:
            ordered[at].grad = _like(ordered[at].grad, saved["gradients"].get(at), ordered[at].device)
    held: dict[Any, Any] = optimizer.state
    for key in [key for key in held if not isinstance(key, torch.Tensor)]:
        del held[key]
    held.update(unpack(saved["others"]))
    for at, parameter in enumerate(ordered):
        kept = saved["state"].get(at)
        if kept is None:
            optimizer.state.pop(parameter, None)
            continue
        before, values = optimizer.state.get(parameter, {}), unpack(kept)
        devices = saved["devices"].get(at, {})
        optimizer.state[parameter] = {
            key: _like(_tensor_in(before, key), value, _device(devices.get(key), parameter))
            if isinstance(value, torch.Tensor)
            else value
            for key, value in values.items()
        }


def _tensor_in(state: Any, key: Any) -> torch.Tensor | None:
    found = state.get(key) if isinstance(state, dict) else None
    return found if isinstance(found, torch.Tensor) else None


def _device(name: str | None, parameter: torch.Tensor) -> torch.device:
    """Where a tensor lay, or its kind of device in a process that numbers them in another way."""
    if name is None or torch.device(name).type not in ("cpu", parameter.device.type):
        return parameter.device
    return torch.device("cpu") if name == "cpu" else parameter.device
