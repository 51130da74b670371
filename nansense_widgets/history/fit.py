"""Whether a state is one at all, and one of these parts: asked before anything is changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeGuard

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter
from torch.optim import Optimizer

from nansense_widgets.history.pack import unpack
from nansense_widgets.history.parts import RunParts, names_in
from nansense_widgets.history.random_state import generator_problem, random_problems

__all__ = ["loader_problems", "state_problems", "structure_problems"]

MOST = 3
"""Problems that are told."""

_SHAPED_AS_PARAMETER = frozenset({
    "momentum_buffer", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "exp_inf", "square_avg", "grad_avg",
    "acc_delta", "sum", "prev", "step_size", "ax",
})  # fmt: skip
"""State of torch's own optimizers that has one value for each of the parameter's."""


def state_problems(parts: RunParts, state: Any, *, foreign: bool = False) -> list[str]:
    """Why a state is not one of these parts; empty if it is.

    Of a `foreign` one, from another process, buffers and state of optimizers have to have the shapes of those
    here; in a run that goes on they may have changed.
    """
    if broken := structure_problems(state):
        return broken
    found = list(islice(_misfits(parts, state, foreign), MOST + 1))
    return found if len(found) <= MOST else [*found[:MOST], "and more"]


def structure_problems(state: Any) -> list[str]:
    """Why something is no state, whatever the parts; empty if it is one, of which no part is missing."""
    return list(islice(_broken(state), MOST))


def loader_problems(loaders: Any) -> list[str]:
    """Why something holds no states of loaders."""
    if not _is_named(loaders, dict):
        return [f"its loaders are {_kind(loaders)}"]
    found = []
    for key, state in loaders.items():
        generators = state.get("generators")
        if not _is_named(generators, object):
            found.append(f"the generators of loader {key!r} are {_kind(generators)}")
            continue
        for name, kept in generators.items():
            if wrong := generator_problem(kept):
                found.append(f"the state of {name} of loader {key!r} is none of a generator: {wrong}")
    return found[:MOST]


# ---------------------------------------------------------------- a state by itself


def _broken(state: Any) -> Iterator[str]:
    if not isinstance(state, dict):
        yield f"the state is {_kind(state)}"
        return
    if not isinstance(state.get("grad"), bool):
        yield f"its part 'grad' is {_kind(state.get('grad'))}"
    model = state.get("model")
    if isinstance(model, dict):
        yield from _broken_model(model)
    else:
        yield f"its part 'model' is {_kind(model)}"
    for part in ("optimizers", "schedulers"):
        entries = state.get(part)
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            yield f"its part {part!r} is {_kind(entries)}"
    optimizers = state.get("optimizers")
    for at, one in enumerate(optimizers if isinstance(optimizers, list) else ()):
        if isinstance(one, dict):
            yield from (f"optimizer {at}: {wrong}" for wrong in _broken_optimizer(one))
    if not _is_named(state.get("tracked"), object):
        yield f"its part 'tracked' is {_kind(state.get('tracked'))}"
    for part in ("schedulers", "tracked"):
        if wrong := _unreadable(state.get(part)):
            yield f"its part {part!r} cannot be read: {wrong}"
    yield from random_problems(state.get("random"))


def _broken_model(model: Mapping[Any, Any]) -> Iterator[str]:
    tensors: dict[str, tuple[type, ...]] = {
        "parameters": (torch.Tensor, type(None)),
        "gradients": (torch.Tensor,),
        "buffers": (torch.Tensor,),
    }
    wrong = {part for part, kinds in tensors.items() if not _is_named(model.get(part), *kinds)}
    lists = ["frozen", "training", *(part for part in ("empty", "learning") if part in model)]
    wrong |= {part for part in lists if not _is_list(model.get(part), str)}
    if not _is_named(model.get("extra"), object):
        wrong.add("extra")
    for part in sorted(wrong):
        yield f"its part {part!r} is {_kind(model.get(part))}"
    if wrong:
        return
    of = {**model["buffers"], **model["parameters"]}
    for name, gradient in model["gradients"].items():
        kept = of.get(name)
        if kept is None:
            yield f"it has a gradient of {name}, and no such parameter"
        elif gradient.shape != kept.shape:
            yield f"the gradient of {name} is {_said(gradient)}, and {name} {_said(kept)}"
    for name in model.get("learning", ()):
        if name in model["buffers"] and not _is_real(model["buffers"][name]):
            yield f"buffer {name} of {model['buffers'][name].dtype} can have no gradient"
    for name, kept in model["parameters"].items():
        if kept is not None and name not in model["frozen"] and not _is_real(kept):
            yield f"parameter {name} of {kept.dtype} can have no gradient"
    if unread := _unreadable(model["extra"]):
        yield f"its extra state cannot be read: {unread}"


def _broken_optimizer(saved: Mapping[Any, Any]) -> Iterator[str]:
    if not isinstance(saved.get("class"), str):
        yield f"its part 'class' is {_kind(saved.get('class'))}"
    if "own" in saved:
        if not isinstance(saved["own"], dict):
            yield f"its state is {_kind(saved['own'])}"
        elif unread := _unreadable(saved["own"]):
            yield f"its state cannot be read: {unread}"
        return
    sizes, groups, names = saved.get("sizes"), saved.get("groups"), saved.get("names")
    if not _is_list(sizes, int):
        yield f"its part 'sizes' is {_kind(sizes)}"
        return
    if not _is_list(groups, dict) or len(groups) != len(sizes):
        yield f"its part 'groups' is {_kind(groups)}"
    count = sum(sizes)
    if names is not None and (not _is_list(names, str, type(None)) or len(names) != count):
        yield f"its part 'names' is {_kind(names)}"
    if not isinstance(saved.get("others"), dict):
        yield f"its part 'others' is {_kind(saved.get('others'))}"
    for part, kind in (
        ("parameters", torch.Tensor),
        ("state", dict),
        ("devices", dict),
        ("gradients", torch.Tensor),
    ):
        found = saved.get(part, {} if part == "gradients" else None)
        if not _is_numbered(found, kind, count):
            yield f"its part {part!r} is {_kind(found)}"
        elif part == "devices" and not all(
            _is_device(name) for one in found.values() for name in one.values()
        ):
            yield "it names unknown devices"
    for part in ("groups", "others", "state"):
        if unread := _unreadable(saved.get(part)):
            yield f"its {part} cannot be read: {unread}"


# ---------------------------------------------------------------- of these parts


def _misfits(parts: RunParts, state: Mapping[str, Any], foreign: bool) -> Iterator[str]:
    yield from _model_misfits(parts.model, state["model"], foreign)
    for what, here, there in (
        ("optimizers", parts.optimizers, state["optimizers"]),
        ("schedulers", parts.schedulers, state["schedulers"]),
    ):
        if len(here) != len(there):
            yield f"it has {len(there)} {what}, this session {len(here)}"
    names = names_in(parts.model)
    for at, (optimizer, kept) in enumerate(zip(parts.optimizers, state["optimizers"], strict=False)):
        yield from _optimizer_misfits(f"optimizer {at}", optimizer, kept, names, foreign)


def _model_misfits(model: nn.Module, state: Mapping[str, Any], foreign: bool) -> Iterator[str]:
    saved, parameters = state["parameters"], dict(model.named_parameters())
    if missing := sorted(saved.keys() - parameters.keys()):
        yield f"this model has no parameter {_some(missing)}"
    if added := sorted(parameters.keys() - saved.keys()):
        yield f"parameter {_some(added)} of this model is not in it"
    for name, tensor in saved.items():
        here = parameters.get(name)
        if here is None:
            continue
        lazy = isinstance(here, UninitializedParameter)
        if tensor is None:
            if not lazy:
                yield f"parameter {name} had no shape yet"
        elif not lazy and (here.shape != tensor.shape or here.dtype != tensor.dtype):
            yield f"parameter {name} is {_said(tensor)} there and {_said(here)} here"
        elif not lazy and (gradient := state["gradients"].get(name)) is not None:
            wanted = getattr(here, "grad_dtype", here.dtype)  # None: any, in a newer torch
            if wanted is not None and gradient.dtype != wanted:
                yield f"the gradient of {name} is {_said(gradient)} there, and {name} {_said(here)} here"
    modules = dict(model.named_modules())
    if gone := sorted(name for name in state["buffers"] if name.rpartition(".")[0] not in modules):
        yield f"this model has no module for the buffer {_some(gone)}"
    for name, buffer in model.named_buffers() if foreign else ():
        kept = state["buffers"].get(name)
        if kept is not None and (kept.shape != buffer.shape or kept.dtype != buffer.dtype):
            yield f"buffer {name} is {_said(kept)} there and {_said(buffer)} here"
    for name in state["extra"]:
        module = modules.get(name)
        if module is not None and type(module).set_extra_state is nn.Module.set_extra_state:
            yield f"module {name or '(the model)'} takes no extra state here"


def _optimizer_misfits(
    place: str, optimizer: Optimizer, saved: Mapping[str, Any], names: Mapping[int, str], foreign: bool
) -> Iterator[str]:
    kind = type(optimizer)
    if saved["class"] != kind.__name__:
        yield f"{place} is a {saved['class']} there and a {kind.__name__} here"
        return
    if "own" in saved:
        return
    if saved["sizes"] != [len(group["params"]) for group in optimizer.param_groups]:
        yield f"{place} has other parameter groups"
        return
    ordered = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    here = [names.get(id(parameter)) for parameter in ordered]
    for at, (there, name) in enumerate(zip(saved.get("names") or here, here, strict=True)):
        if there != name:
            of = [one or "one outside the model" for one in (there, name)]
            yield f"{place} has its parameters in another order: number {at} is {of[0]} there, {of[1]} here"
            return
    for at, kept in saved["parameters"].items():
        if kept.shape != ordered[at].shape or kept.dtype != ordered[at].dtype:
            yield f"{place}: parameter {at} is {_said(kept)} there and {_said(ordered[at])} here"
        elif (gradient := saved.get("gradients", {}).get(at)) is not None and gradient.shape != kept.shape:
            yield f"{place}: the gradient of parameter {at} is {_said(gradient)}, and it {_said(kept)}"
    if not foreign:
        return
    for at, (group, defaults) in enumerate((group, optimizer.defaults) for group in saved["groups"]):
        if lacking := sorted(defaults.keys() - group.keys()):
            yield f"{place}: group {at} has no {_some(lacking)}"
    if not kind.__module__.startswith("torch.optim"):
        return  # what shapes another one's state has is its own affair
    for at, state in saved["state"].items():
        parameter = ordered[at]
        for key, value in state.items():
            known = key in _SHAPED_AS_PARAMETER and isinstance(value, torch.Tensor)
            if known and not isinstance(parameter, UninitializedParameter) and value.shape != parameter.shape:
                name = here[at] or f"parameter {at}"
                yield f"{place}: {key} of {name} is {_said(value)} there, and {name} {_said(parameter)} here"


# ---------------------------------------------------------------- kinds


def _is_named(value: Any, *kinds: type) -> bool:
    """Whether it is a dict of these by name."""
    return isinstance(value, dict) and all(
        isinstance(key, str) and isinstance(one, kinds) for key, one in value.items()
    )


def _is_numbered(value: Any, kind: type, count: int) -> bool:
    return isinstance(value, dict) and all(
        type(key) is int and 0 <= key < count and isinstance(one, kind) for key, one in value.items()
    )


def _is_list(value: Any, *kinds: type) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and all(isinstance(one, kinds) for one in value)


def _is_device(name: Any) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[a-z]+(:\d+)?", name) is not None


def _is_real(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _unreadable(value: Any) -> str:
    """Why what `pack` wrote down in plain values cannot be made of them again; empty if it can."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list) or (type(one) is tuple and not (one and isinstance(one[0], str))):
            waiting += one
        elif type(one) is tuple:
            try:
                unpack(one)
            except Exception as error:  # noqa: BLE001  whatever is in it
                return f"{type(error).__name__}: {error}"
    return ""


def _kind(value: Any) -> str:
    """What was found in the place of something else, in words."""
    return "missing" if value is None else f"not of the kind that belongs there ({type(value).__name__})"


def _said(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
