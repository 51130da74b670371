"""Copies of whatever a model is given: the arguments of a call that may come again."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.values import size_of, unobserved, unreadable

__all__ = ["CopyError", "copied_arguments", "like", "with_gradient"]

MOST_BYTES = 2**28
"""A batch beyond this is not kept: it would take the run's memory."""


class CopyError(Exception):
    """Something cannot be copied, or is too large; the text says what."""


def copied_arguments(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], device: torch.device | None = None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments with tensors and containers of their own.

    Tensors stay on their device, if no other is given, and keep `requires_grad`, but not the graph that they
    come from. Modules, functions and what else holds no tensors of a batch are shared.

    Raises:
        CopyError: if that cannot be done, or would take more than 256 MiB.
    """
    memo: dict[int, Any] = {}
    alive: list[Any] = []
    size = 0
    with unobserved():
        for path, tensor in leaves((args, dict(kwargs))):
            if id(tensor) in memo:
                continue
            if unreadable(tensor):
                raise CopyError(f"the model was given a tensor without values ({path}: {unreadable(tensor)})")
            size += size_of(tensor)
            if size > MOST_BYTES:
                raise CopyError(f"the model's inputs take more than {MOST_BYTES // 2**20} MiB")
            made = like(tensor, tensor.detach().clone().to(device or tensor.device))
            memo[id(tensor)] = with_gradient(tensor, made)
        for value in _shared(args, kwargs):
            memo[id(value)] = value
            alive.append(value)
        try:
            new: tuple[tuple[Any, ...], dict[str, Any]] = copy.deepcopy((args, dict(kwargs)), memo)
        except Exception as error:
            raise CopyError(
                f"what the model was given cannot be copied ({type(error).__name__}: {error})"
            ) from error
    return new


def like(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The values as a tensor of the same class, with the same attributes."""
    if type(tensor) is not torch.Tensor and type(values) is torch.Tensor:
        values = values.as_subclass(type(tensor))
    values.__dict__.update(tensor.__dict__)
    return values


def with_gradient(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The values, which need a gradient if the tensor does; only a leaf must not be written to then."""
    if not tensor.requires_grad:
        return values
    values.requires_grad_()
    if tensor.is_leaf:
        return values
    with torch.enable_grad():
        return like(tensor, values.clone())


def _shared(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """Arguments that are no data."""
    return [value for value in (*args, *kwargs.values()) if isinstance(value, nn.Module) or callable(value)]
