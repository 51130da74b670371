"""Which parameters and buffers of a model go into a snapshot, and under which names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from nansense_widgets.capture.architecture import Architecture

__all__ = ["ModelTensors"]

T = TypeVar("T", bound=torch.Tensor)

ALL_BYTES = 32 * 2**20
"""Up to this size all parameters of a model are copied into a snapshot, above it the watched layers' ones."""


@dataclass(frozen=True)
class ModelTensors:
    """Parameters and buffers to copy, by the first of their names.

    Attributes:
        parameters: those of a layer are its own, those below it and, for an op, those it uses directly.
        buffers: the same for buffers.
        names: all names of those that have several (tied ones), by the first.
        watched: parameters of watched layers, by their first names.
        part: what part of all parameters that is; "" for all.
    """

    parameters: dict[str, nn.Parameter]
    buffers: dict[str, torch.Tensor]
    names: dict[str, tuple[str, ...]]
    watched: frozenset[str]
    part: str

    @staticmethod
    def chosen(
        model: nn.Module, layers: Sequence[str], architecture: Architecture, *, whole: bool = False
    ) -> ModelTensors:
        """Those that a snapshot with these watched layers takes; `whole`: all, and updates of all."""
        parameters, first = _named(model.named_parameters(remove_duplicate=False))
        buffers, first_buffers = _named(model.named_buffers(remove_duplicate=False))
        names: dict[str, list[str]] = {}
        for name, known in (*first.items(), *first_buffers.items()):
            names.setdefault(known, []).append(name)
        several = {name: tuple(all_) for name, all_ in names.items() if len(all_) > 1}
        wanted: set[str] = set()
        for layer in layers:
            of_layer, its_buffers = architecture.tensors_of(layer)
            wanted.update(first.get(name, name) for name in of_layer)
            wanted.update(first_buffers.get(name, name) for name in its_buffers)
        watched = frozenset(wanted & parameters.keys())
        if whole:
            return ModelTensors(parameters, buffers, several, frozenset(parameters), "")
        if _size(parameters.values()) <= ALL_BYTES:
            if _size(buffers.values()) > ALL_BYTES:
                buffers = {name: buffer for name, buffer in buffers.items() if name in wanted}
            return ModelTensors(parameters, buffers, several, watched, "")
        some = {name: parameter for name, parameter in parameters.items() if name in wanted}
        part = f"parameters of the {len(layers)} watched layers only: {len(some)} of {len(parameters)}"
        few = {name: buffer for name, buffer in buffers.items() if name in wanted}
        return ModelTensors(some, few, several, watched, part)


def _named(named: Iterable[tuple[str, T]]) -> tuple[dict[str, T], dict[str, str]]:
    """Tensors by their first names, and the first name for each name."""
    tensors: dict[str, T] = {}
    firsts: dict[int, str] = {}
    names: dict[str, str] = {}
    for name, tensor in named:
        first = firsts.setdefault(id(tensor), name)
        names[name] = first
        if first == name:
            tensors[name] = tensor
    return tensors, names


def _size(tensors: Iterable[torch.Tensor]) -> int:
    lazy = (UninitializedParameter, UninitializedBuffer)
    return sum(t.numel() * t.element_size() for t in tensors if not isinstance(t, lazy))
