"""Values of state as plain ones, which a file can hold that is read without running any code of others.

`torch.load(weights_only=True)` knows tensors, numbers, strings and containers of them. What else torch, numpy
and Python keep as state is written down in those; what cannot be is refused, by its place.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

__all__ = ["UnstorableError", "pack", "unpack", "without_waiting"]

_TAG = "nansense:"


_here = threading.local()


@contextmanager
def without_waiting() -> Iterator[None]:
    """What is packed inside, of CUDA tensors, is there only after `torch.cuda.synchronize()`.

    Copies go to pinned memory in the order of the stream, so that they see the values of now.
    """
    _here.asynchronous = True
    try:
        yield
    finally:
        _here.asynchronous = False


class UnstorableError(TypeError):
    """A value that no file of ours can hold; the message says where it is."""


def pack(value: Any, place: str) -> Any:
    """An independent copy in plain values, tensors on the CPU.

    Raises:
        UnstorableError: naming `place` and what lies there.
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, complex, str, torch.Size, torch.dtype, torch.device):
        return value
    if isinstance(value, torch.Tensor):
        return _packed_tensor(value, place)
    if isinstance(value, Mapping):
        return _packed_mapping(value, place)
    if kind in (list, tuple, set, frozenset, deque):
        items = [pack(entry, f"{place}[{at}]") for at, entry in enumerate(value)]
        if kind is list:
            return items
        if kind is tuple and not (items and isinstance(items[0], str) and items[0].startswith(_TAG)):
            return tuple(items)
        more = (value.maxlen,) if isinstance(value, deque) else ()
        return (f"{_TAG}{kind.__name__}", items, *more)
    if isinstance(value, (bytes, bytearray)):
        return (f"{_TAG}bytes", _bytes(bytes(value)))
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return (f"{_TAG}array", value.dtype.str, list(value.shape), _bytes(value.tobytes()))
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        return (f"{_TAG}scalar", value.dtype.str, [], _bytes(value.tobytes()))
    raise UnstorableError(f"{place} is a {kind.__module__}.{kind.__qualname__}, which cannot be stored")


def unpack(value: Any) -> Any:
    """What was packed. Tensors are copies: who gets them may keep and change them."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return type(value)((key, unpack(entry)) for key, entry in value.items())
    if isinstance(value, list):
        return [unpack(entry) for entry in value]
    if type(value) is not tuple:
        return value
    if value and isinstance(value[0], str) and value[0].startswith(_TAG):
        return _UNPACKED[value[0].removeprefix(_TAG)](*value[1:])
    return tuple(unpack(entry) for entry in value)


def _packed_tensor(tensor: torch.Tensor, place: str) -> torch.Tensor:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        raise UnstorableError(f"{place} is a tensor of class {type(tensor).__name__}, which cannot be stored")
    if tensor.is_meta:
        raise UnstorableError(f"{place} is a meta tensor: it has no values")
    if tensor.is_cuda and tensor.layout is torch.strided and getattr(_here, "asynchronous", False):
        plain = tensor.detach().resolve_conj().resolve_neg()
        return torch.empty_like(plain, device="cpu", pin_memory=True).copy_(plain, non_blocking=True)
    copy = tensor.detach().to("cpu", copy=True)
    # A copy keeps the strides of what was expanded or cut out of something larger, but not its storage.
    return copy if copy.layout is not torch.strided else copy.resolve_conj().resolve_neg()


def _packed_mapping(value: Mapping[Any, Any], place: str) -> Any:
    if any(type(key) not in (str, int, float, bool, tuple, type(None)) for key in value):
        raise UnstorableError(f"{place} is a dict with keys that are no plain values")
    items = [(key, pack(entry, f"{place}[{key!r}]")) for key, entry in value.items()]
    return OrderedDict(items) if isinstance(value, OrderedDict) else dict(items)


def _bytes(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)


def _array(dtype: str, shape: list[int], data: torch.Tensor) -> np.ndarray[Any, Any]:
    return np.frombuffer(data.numpy().tobytes(), np.dtype(dtype)).reshape(shape).copy()


_UNPACKED: dict[str, Callable[..., Any]] = {
    "tuple": lambda items: tuple(map(unpack, items)),
    "set": lambda items: set(map(unpack, items)),
    "frozenset": lambda items: frozenset(map(unpack, items)),
    "deque": lambda items, maxlen: deque(map(unpack, items), maxlen),
    "bytes": lambda data: data.numpy().tobytes(),
    "array": _array,
    "scalar": lambda dtype, shape, data: _array(dtype, shape, data)[()],
}
