"""Keeps what the model was given in the batch that is shown, so that it may be given it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.values import size_of, unobserved, unreadable
from nansense_widgets.history.computing import Computing
from nansense_widgets.history.random_state import RandomState
from nansense_widgets.probe.batch import InputBatch, InputPlace
from nansense_widgets.probe.copies import CopyError, copied_arguments
from nansense_widgets.run.item import LoaderItem
from nansense_widgets.run.position import BatchPosition

__all__ = ["Keeper", "KeptCall", "flags_of", "named_inputs", "read_output"]

TARGET_BYTES = 4 * 2**20
"""Tensors beyond this are not looked at as labels."""

OUTPUT_BYTES = 2**26
"""Of a larger output nothing is said: it would be copied in each batch that is shown."""

InputValues = Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, eq=False)
class KeptCall:
    """One call of the model: its arguments, and what else decides what comes out.

    Attributes:
        batch: the same, to be shown.
        args: nobody is given these; `fresh` gives copies.
        kwargs: the same.
        random: state of the generators as the call began.
        computing: threads, autocast, inference mode.
        grad: whether autograd recorded it.
        item: for each tensor of the arguments that came from the loader's item, by its path there, its path
            in `(args, kwargs)`; and the paths of all tensors of the item.
    """

    batch: InputBatch
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    random: RandomState
    computing: Computing
    grad: bool
    item: ItemPaths

    def fresh(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments that the model may do with what it likes."""
        return copied_arguments(self.args, self.kwargs)

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        kept = (*self.batch.targets.values(), *self.batch.output.values())
        own = sum(size_of(tensor) for _, tensor in leaves((self.args, dict(self.kwargs))))
        return own + sum(map(size_of, kept)) + self.random.nbytes


@dataclass(frozen=True)
class ItemPaths:
    """Where the tensors of the loader's item went."""

    all: tuple[str, ...] = ()
    given: Mapping[str, str] | None = None
    """Path in `(args, kwargs)` to path in the item, if every tensor of the arguments came from it."""


class Keeper:
    """Looks at each captured batch; `kept` is the last one in which the model was called.

    Args:
        model: gives the model (training thread).
        input_values: names what a call gives to its inputs.
        losses: of a batch that is just over.
    """

    def __init__(
        self,
        model: Callable[[], nn.Module],
        input_values: InputValues,
        losses: Callable[[BatchPosition], tuple[float, ...]],
    ) -> None:
        self.kept: KeptCall | None = None
        self.why_none = "no batch has been captured yet"
        self._model = model
        self._input_values = input_values
        self._losses = losses
        self._position: BatchPosition | None = None
        self._open: _Open | None = None

    def begin(self, position: BatchPosition, item: LoaderItem | None) -> None:
        """A captured batch begins."""
        self._position, self._open = position, _Open()
        try:
            self._open.look_at(None if item is None else item.value)
        except Exception as error:
            self._open.why_none = _said(error)

    def entered(self, call: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The model is called."""
        found = self._open
        if found is None:
            return
        found.calls = call
        if call > 1 or found.args is not None:
            return
        try:
            found.keep(args, kwargs)
            found.training = flags_of(self._model())
        except CopyError as error:
            found.why_none = f"not kept: {error}"
        except Exception as error:
            found.why_none = _said(error)

    def left(self, call: int, output: Any) -> None:
        """It has given its output."""
        if self._open is not None and call == 1:
            try:
                self._open.output = read_output(output)
            except Exception as error:
                self._open.why_none = _said(error)

    def end(self) -> None:
        """The batch is over."""
        found, self._open = self._open, None
        if found is None or self._position is None:
            return
        try:
            self.kept = self._put_together(found, self._position)
            self.why_none = "" if self.kept is not None else found.why_none
        except Exception as error:
            self.kept, self.why_none = None, _said(error)

    def look_again(self) -> None:
        """Losses of the batch became known after its end."""
        kept = self.kept
        if kept is not None and kept.batch.position is not None:
            batch = replace(kept.batch, losses=self._losses(kept.batch.position))
            self.kept = replace(kept, batch=batch)

    def release(self) -> None:
        """Let go of what is kept."""
        self.kept, self.why_none = None, "released: this session is closed"

    def _put_together(self, found: _Open, position: BatchPosition) -> KeptCall | None:
        if found.args is None or found.kwargs is None or found.random is None:
            return None
        with unobserved():
            inputs, places = named_inputs(self._input_values(found.args, found.kwargs))
            output = {path: tensor.cpu() for path, tensor in found.output.items()}
        if not inputs:
            found.why_none = "the model was given no tensors"
            return None
        batch = InputBatch(
            position,
            inputs,
            places,
            found.targets,
            output,
            self._losses(position),
            found.calls,
            found.training,
        )
        return KeptCall(
            batch, found.args, found.kwargs, found.random, found.computing, found.grad, found.item_paths()
        )


class _Open:
    """What is seen of a batch that goes on."""

    def __init__(self) -> None:
        self.args: tuple[Any, ...] | None = None
        self.kwargs: dict[str, Any] | None = None
        self.random: RandomState | None = None
        self.computing = Computing()
        self.grad = True
        self.training = ""
        self.calls = 0
        self.targets: dict[str, torch.Tensor] = {}
        self.output: dict[str, torch.Tensor] = {}
        self.why_none = "the model itself was not called in this batch, only parts of it or its forward()"
        self._item: dict[str, int] = {}
        """Path in the item to the tensor's identity, while the batch is open."""
        self._given: dict[str, int] = {}

    def look_at(self, item: Any) -> None:
        with unobserved():
            for path, tensor in leaves(item):
                self._item[path] = id(tensor)
                self._note_target(path, tensor)

    def keep(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.random = RandomState()
        self.grad = torch.is_grad_enabled()
        self.computing = Computing.now()
        self.args, self.kwargs = copied_arguments(args, kwargs)
        self._given = {path: id(tensor) for path, tensor in leaves((args, kwargs))}
        with unobserved():
            for path, tensor in leaves(kwargs):
                self._note_target(path.removeprefix("."), tensor)

    def item_paths(self) -> ItemPaths:
        known = {identity: path for path, identity in self._item.items()}
        given = {path: known[identity] for path, identity in self._given.items() if identity in known}
        return ItemPaths(tuple(self._item), given if len(given) == len(self._given) else None)

    def _note_target(self, path: str, tensor: torch.Tensor) -> None:
        if size_of(tensor) <= TARGET_BYTES and not unreadable(tensor):
            self.targets[path] = tensor.detach().to("cpu", copy=True)


def named_inputs(values: Mapping[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, InputPlace]]:
    """Tensors of each input, on the CPU, by their names, and where each is found."""
    inputs, places = {}, {}
    for layer, value in values.items():
        for path, tensor in leaves(value):
            place = InputPlace(layer, path)
            inputs[place.name] = tensor.detach().cpu()
            places[place.name] = place
    return inputs, places


def read_output(output: Any) -> dict[str, torch.Tensor]:
    """Copies of what the model gave, on their device, as far as it is not too large."""
    found, size = {}, 0
    with unobserved():
        for path, tensor in leaves(output):
            size += size_of(tensor)
            if size > OUTPUT_BYTES:
                break
            if not unreadable(tensor):
                found[path] = tensor.detach().clone()
    return found


def flags_of(model: nn.Module) -> str:
    """`train`, `eval` or `mixed`: flags of its modules, of those that have modules inside among them."""
    flags = {module.training for module in model.modules()}
    return "mixed" if len(flags) > 1 else "train" if True in flags else "eval"


def _said(error: Exception) -> str:
    return f"not kept: {type(error).__name__}: {error}"
