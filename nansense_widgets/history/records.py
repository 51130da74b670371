"""Snapshots, statistics and other records as plain text and tensors, and back, without running any code.

Text, because a file that is read safely is read by Python itself, an instruction at a time: for the
thousands of patches of a run that takes seconds, and JSON takes none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from nansense_widgets.history.arena import Arena

__all__ = ["pack_records", "unpack_records"]

T = TypeVar("T")

Pack = Callable[[Any], Any]

Special = tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""Of a class that is no dataclass, or not to be kept as one: to something simpler, and back."""


def pack_records(
    value: object, classes: Sequence[type], special: Mapping[type, Special], shared: Sequence[type]
) -> dict[str, object]:
    """Plain values for a file.

    Args:
        value: numbers, strings, tensors, arrays and containers of them, and instances of `classes`.
        classes: dataclasses that may occur.
        special: classes that are put away as something simpler.
        shared: those of `classes` whose instances stay one where they occur several times.

    Raises:
        TypeError: for anything else.
    """
    packer = _Packer(classes, special, shared)
    root = packer.pack(value)
    fields = {kind.__name__: packer.fields[kind] for kind in packer.used}
    text = json.dumps({"root": root, "shared": packer.shared, "fields": fields}, separators=(",", ":"))
    data = torch.frombuffer(bytearray(text.encode("utf-8", "surrogatepass")), dtype=torch.uint8)
    return {"text": data, **packer.arena.packed()}


class _Packer:
    """Numbers and strings stand for themselves; all else is a list that begins with what it is."""

    def __init__(
        self, classes: Sequence[type], special: Mapping[type, Special], shared: Sequence[type]
    ) -> None:
        self.arena = Arena()
        self.fields = {kind: [field.name for field in dataclasses.fields(kind)] for kind in classes}
        self.used: dict[type, None] = {}
        self.shared: list[Any] = []
        self._shares = frozenset(shared)
        self._special = special
        self._known: dict[int, int] = {}

    def pack(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind in self._special:
            return ["S", kind.__name__, self.pack(self._special[kind][0](value))]
        if kind in self.fields:
            return self._share(value) if kind in self._shares else self._record(value)
        if isinstance(value, torch.Tensor):
            return ["T", *self.arena.put(value)]
        if kind is np.ndarray:
            return ["A", *self.arena.put(torch.from_numpy(np.ascontiguousarray(value)))]
        if kind is tuple:
            return ["t", *map(self.pack, value)]
        if kind is list:
            return ["l", *map(self.pack, value)]
        if kind in (set, frozenset):
            return ["f", *map(self.pack, value)]
        if isinstance(value, Mapping):
            return ["d", *([self.pack(key), self.pack(entry)] for key, entry in value.items())]
        if isinstance(value, torch.Size):
            return ["t", *value]
        if isinstance(value, np.generic):
            return self.pack(value.item())
        if kind is torch.dtype:
            return ["D", str(value).removeprefix("torch.")]
        raise TypeError(f"a {kind.__module__}.{kind.__qualname__} cannot be stored")

    def _record(self, value: Any) -> Any:
        kind = type(value)
        self.used[kind] = None
        return ["R", kind.__name__, *(self.pack(getattr(value, name)) for name in self.fields[kind])]

    def _share(self, value: Any) -> Any:
        at = self._known.get(id(value))
        if at is None:
            record = self._record(value)
            at = self._known[id(value)] = len(self.shared)
            self.shared.append(record)
        return ["=", at]


def unpack_records(packed: Any, kind: type[T], classes: Sequence[type], special: Mapping[type, Special]) -> T:
    """What was packed, an instance of `kind`; `classes` and `special` as they were then.

    Raises:
        Exception: of any kind, for anything that `pack_records` has not made.
    """
    with _without_collector():
        document = json.loads(packed["text"].numpy().tobytes().decode("utf-8", "surrogatepass"))
        unpacker = _Unpacker(packed, document, {one.__name__: one for one in classes}, special)
        for record in document["shared"]:
            unpacker.shared.append(unpacker.unpack(record))
        found = unpacker.unpack(document["root"])
    if not isinstance(found, kind):
        raise TypeError(f"it holds a {type(found).__name__}, not a {kind.__name__}")
    return found


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """It would look for cycles again and again, among some hundred thousand new objects that are none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Unpacker:
    def __init__(
        self, packed: Any, document: Any, classes: Mapping[str, type], special: Mapping[type, Special]
    ) -> None:
        self.shared: list[Any] = []
        self._packed = packed
        self._classes = classes
        self._special = {known.__name__: back for known, (_, back) in special.items()}
        self._tensors: dict[str, torch.Tensor] = {}
        self._fields = {}
        for name, fields in document["fields"].items():
            known = {field.name for field in dataclasses.fields(classes[name])}
            if unknown := [field for field in fields if field not in known]:
                raise TypeError(f"{name} has no field {', '.join(unknown)} in this version")
            self._fields[name] = fields

    def unpack(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        tag, *rest = value
        if tag == "R":
            name, *values = rest
            fields = self._fields[name]
            return self._classes[name](**dict(zip(fields, map(self.unpack, values), strict=True)))
        if tag == "t":
            return tuple(map(self.unpack, rest))
        if tag == "T":
            return self._tensor(rest)
        if tag == "d":
            return {self.unpack(key): self.unpack(entry) for key, entry in rest}
        if tag == "=":
            return self.shared[rest[0]]
        if tag == "l":
            return list(map(self.unpack, rest))
        if tag == "f":
            return frozenset(map(self.unpack, rest))
        if tag == "A":
            return self._tensor(rest).numpy()
        if tag == "S":
            return self._special[rest[0]](self.unpack(rest[1]))
        if tag == "D":
            dtype = getattr(torch, rest[0])
            if isinstance(dtype, torch.dtype):
                return dtype
        raise ValueError(f"{str(value)[:80]} is no record")

    def _tensor(self, place: Any) -> torch.Tensor:
        key = str(place)
        if key not in self._tensors:
            self._tensors[key] = Arena.get(self._packed, place)
        return self._tensors[key]
