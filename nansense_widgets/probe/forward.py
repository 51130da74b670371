"""One forward of a kept call, with or without perturbations, without a trace in the run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.engine import CaptureEngine
from nansense_widgets.capture.forward import Taker
from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.values import unobserved, unreadable
from nansense_widgets.history.random_state import RandomState
from nansense_widgets.probe.copies import like
from nansense_widgets.probe.footprint import SandboxError
from nansense_widgets.probe.keeper import KeptCall, flags_of, read_output
from nansense_widgets.probe.perturbation import Perturbation, split_axes
from nansense_widgets.probe.result import ProbeMode
from nansense_widgets.probe.sandbox import Sandbox

__all__ = ["Forward", "Prepare", "run_forward"]

Prepare = Callable[[Mapping[str, torch.Tensor]], None]
"""Changes inputs, by name, in place."""


@dataclass(frozen=True)
class Forward:
    """What came of it: the model's output, on the CPU, and the flags of its modules."""

    output: Mapping[str, torch.Tensor]
    training: str


class _Output:
    """Listens for what the model itself gives."""

    def __init__(self) -> None:
        self.value: dict[str, torch.Tensor] = {}

    def entered(self, call: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The call is ours."""

    def left(self, call: int, output: Any) -> None:
        if call == 1:
            self.value = read_output(output)


def run_forward(
    engine: CaptureEngine,
    kept: KeptCall,
    mode: ProbeMode,
    taker: Taker,
    layers: Sequence[str],
    perturbations: Sequence[Perturbation] = (),
    prepare: Prepare | None = None,
) -> Forward:
    """Call the model as it was called then, with the weights that it has now; on the thread that owns it.

    Random generators begin where they began then, so that dropout draws the same.

    Args:
        engine: has the model, and watches it.
        kept: the call.
        mode: flags of the modules.
        taker: is given the values of layers.
        layers: which ones.
        perturbations: applied one after the other.
        prepare: changes inputs after them.

    Raises whatever the model raises; it is as before then too.
    """
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        raise SandboxError("not probed: in distributed training a forward may wait for other processes")
    model, architecture = engine.model, engine.architecture
    of_layers: dict[str, list[Perturbation]] = {}
    for one in perturbations:
        if one.is_layer:
            of_layers.setdefault(one.target, []).append(one)
    edits = {name: _Edit(name, changes, architecture) for name, changes in of_layers.items()}
    output, before = _Output(), RandomState()
    try:
        with ExitStack() as entered:
            # Modes of the user's that count or log what is computed are not to see this.
            entered.enter_context(_disable_current_modes())
            given = [value for value in (*kept.args, *kept.kwargs.values()) if isinstance(value, nn.Module)]
            classes = {type(tensor) for _, tensor in leaves((kept.args, dict(kept.kwargs)))}
            entered.enter_context(Sandbox(model, given, classes))
            if mode != "unchanged":
                model.train(mode == "train")
            modules = dict(model.named_modules())
            for name, edit in edits.items():
                if name in modules:
                    modules[name].register_forward_hook(edit.after_module)
            args, kwargs = kept.fresh()
            with unobserved():
                inputs = _inputs(engine, args, kwargs)
                change_inputs(inputs, kept, perturbations, architecture)
                if prepare is not None:
                    prepare(inputs)
            entered.enter_context(_NoAutocastCache())
            entered.enter_context(kept.computing.applied())
            entered.enter_context(torch.set_grad_enabled(kept.grad))
            replaced = {name: edit.of for name, edit in edits.items() if name not in modules}
            entered.enter_context(engine.watching([*layers, *replaced], taker, output, replaced))
            training = flags_of(model)
            kept.random.restore()
            nn.Module.__call__(model, *args, **kwargs)  # one of the user's own has made these arguments
    finally:
        before.restore()
    for edit in edits.values():
        edit.check()
    found = {path: tensor.cpu() for path, tensor in output.value.items()}
    return Forward(found, training)


def change_inputs(
    inputs: Mapping[str, torch.Tensor],
    kept: KeptCall,
    perturbations: Sequence[Perturbation],
    architecture: Architecture,
) -> None:
    """Apply the perturbations that are of inputs, in place.

    Raises:
        ValueError: if one does not fit.
    """
    for one in perturbations:
        if one.is_layer:
            continue
        if one.target not in inputs:
            raise ValueError(f"{one.text}: this batch has no input {one.target!r}, but {', '.join(inputs)}")
        tensor, place = inputs[one.target], kept.batch.places[one.target]
        axes = architecture.axes(place.layer, place.path, tensor.ndim)
        one.apply(tensor, axes, kept.batch.inputs[one.target].to(tensor.device))


def check_inputs(kept: KeptCall, perturbations: Sequence[Perturbation], architecture: Architecture) -> None:
    """Raise `ValueError`, before anything is run, for a perturbation that does not fit this batch."""
    size = None
    for name, tensor in kept.batch.inputs.items():
        place = kept.batch.places[name]
        axes = architecture.axes(place.layer, place.path, tensor.ndim)
        for one in perturbations:
            if not one.is_layer and one.target == name:
                one.check(tuple(tensor.shape), axes)
        axis = split_axes(tensor.ndim, axes).batch
        size = tensor.shape[axis] if size is None and axis is not None else size
    for one in perturbations:
        if size is not None and one.sample is not None and one.sample >= size:
            raise ValueError(f"{one.text}: this batch has {size} samples")


def _inputs(engine: CaptureEngine, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors that will be given to the model, by the names of inputs."""
    return {
        layer + path: tensor
        for layer, value in engine.input_values(args, kwargs).items()
        for path, tensor in leaves(value)
    }


class _Edit:
    """Changes the first output of a layer, at each of its calls."""

    def __init__(self, layer: str, changes: Sequence[Perturbation], architecture: Architecture) -> None:
        self._layer = layer
        self._changes = changes
        self._architecture = architecture
        self._calls = 0

    def after_module(self, _module: Any, _args: Any, output: Any) -> Any:
        """As a forward hook."""
        return self.of(output)

    def of(self, value: Any) -> Any:
        """The value with the changes; a tensor anew, one inside of something else in place."""
        self._calls += 1
        path, tensor = next(leaves(value), ("", None))
        if tensor is None:
            return value
        if tensor.layout is not torch.strided or tensor.is_quantized or unreadable(tensor):
            raise ValueError(f"{self._changes[0].text}: the layer gives no plain tensor")
        axes = self._architecture.axes(self._layer, path, tensor.ndim)
        original = tensor.detach().clone()
        edited = like(tensor, tensor.clone())
        for one in self._changes:
            one.apply(edited, axes, original)
        return _replaced(value, tensor, edited)

    def check(self) -> None:
        """Raises `ValueError` if the layer did not run, so that nothing was changed."""
        if not self._calls:
            raise ValueError(f"{self._changes[0].text}: the layer did not run")


def _replaced(value: Any, old: torch.Tensor, new: torch.Tensor) -> Any:
    """An output with one of its tensors replaced."""
    if value is old:
        return new
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_replaced(entry, old, new) for entry in value))
    if type(value) in (tuple, list):
        return type(value)(_replaced(entry, old, new) for entry in value)
    if isinstance(value, dict):  # transformers' outputs too: fields of theirs are entries
        made = copy.copy(value)
        for key, entry in value.items():
            made[key] = _replaced(entry, old, new)
        return made
    if next(leaves(value), None) is not None and any(leaf is old for _, leaf in leaves(value)):
        with torch.no_grad():  # an object of the user's own
            old.copy_(new)
    return value


class _NoAutocastCache:
    """Copies of weights in half precision are not to be added to the cache of a region of the user's."""

    def __enter__(self) -> None:
        self._before = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)

    def __exit__(self, *_: object) -> None:
        torch.set_autocast_cache_enabled(self._before)
