"""What decides a forward beside its inputs, as one value to compare: the weights and flags of the model."""

from __future__ import annotations

import zlib
from typing import Any, cast

import torch
from torch import nn

from nansense_widgets.capture.engine import CaptureEngine
from nansense_widgets.capture.values import unobserved, unreadable
from nansense_widgets.history.arena import bytes_of
from nansense_widgets.stats import native

__all__ = ["stamp_of"]


def stamp_of(engine: CaptureEngine) -> tuple[object, ...]:
    """Another one whenever a parameter, a buffer or a flag is another, or a batch has been captured since."""
    model = engine.model
    with unobserved():
        values = tuple(map(_print, (*model.parameters(), *model.buffers())))
    number = -1 if engine.snapshot is None else engine.snapshot.number
    return (number, values, tuple(map(_settings, model.modules())))


def _settings(module: nn.Module) -> tuple[object, ...]:
    """A module's class and plain attributes (flags, a rate of dropout), and which modules are in it."""
    held = module.__dict__
    plain = ((key, value) for key, value in held.items() if isinstance(value, (bool, int, float, str)))
    return (id(module), type(module), *plain, *map(id, held.get("_modules", {}).values()))


def _print(tensor: torch.Tensor) -> object:
    """Changes with the values: a version does not tell of writes through `.data`, as in a user's cell."""
    if unreadable(tensor):
        return None
    if tensor.device.type != "cpu":
        dense = tensor.detach() if tensor.layout is torch.strided else tensor.detach().to_dense()
        return tensor._version, float(dense.abs().double().sum())
    if (
        tensor.dtype is torch.float32
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and native.is_built()
    ):
        return native.checksum(tensor.data_ptr(), 1, tensor.numel(), tensor.numel())
    data = bytes_of(tensor)
    if data is None:
        return None if tensor.is_inference() else tensor._version
    return zlib.crc32(cast("Any", data.numpy()))
