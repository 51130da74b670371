"""Perturbations from arguments of any kind."""

from __future__ import annotations

import math
from typing import Any

import torch

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.probe.field import Unit
from nansense_widgets.probe.perturbation import Index, Perturbation, split_axes

__all__ = ["check_whole", "checked_perturbation", "checked_unit"]


def checked_perturbation(
    target: str,
    *,
    is_layer: bool = False,
    sample: Any,
    index: Any = None,
    channel: Any,
    values: Any,
    scale: Any,
    noise: Any = None,
    seed: Any = 0,
    original: Any = False,
) -> Perturbation:
    """From arguments of any kind; what does not fit the tensor's shape is found out later."""
    value_name = "value" if is_layer else "values"
    given = [
        name
        for name, value in ((value_name, values), ("scale", scale), ("noise", noise))
        if value is not None
    ] + (["original"] if original else [])
    if len(given) != 1:
        said = ", ".join(given) or "none of them"
        raise ValueError(f"exactly one of values, scale, noise and original must be given, not {said}")
    if noise is not None and _number("noise", noise) < 0:
        raise ValueError(f"noise={noise!r} must not be negative")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"seed={seed!r} must be an int")
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed={seed!r} must be 0 … 2**63 - 1")
    if not isinstance(original, bool):
        raise TypeError(f"original={original!r} must be True or False")
    return Perturbation(
        0,
        target,
        is_layer,
        None if sample is None else _whole("sample", sample),
        None if index is None else _checked_index(index),
        None if channel is None else _several("channel", channel),
        None if values is None else _checked_values(value_name, values),
        None if scale is None else _number("scale", scale),
        None if noise is None else _number("noise", noise),
        seed,
        bool(original),
    )


def checked_unit(
    architecture: Architecture, layer: str, channel: Any, index: Any, sample: Any, into: str
) -> Unit:
    """A unit of a layer that has run; raises `TypeError` or `ValueError` for one that there is not."""
    node = architecture.nodes[layer]
    shape = node.output_shapes[0] if node.output_shapes else ()
    if any(type(size) is not int for size in shape):
        raise ValueError(f"layer={layer!r} gives a nested tensor, in which there are no single units")
    path = node.output_paths[0] if node.output_paths else ""
    split = split_axes(len(shape), architecture.axes(layer, path, len(shape)))
    sizes = tuple(shape[axis] for axis in split.others)
    if split.channel is None:
        if channel is not None:
            raise ValueError(f"channel={channel!r} must be None: {layer} has no channel axis")
        which = None
    else:
        which = _inside("channel", 0 if channel is None else _whole("channel", channel), shape[split.channel])
    entries = (index,) if not isinstance(index, (tuple, list)) and index is not None else index
    if entries is None:
        at = tuple(size // 2 for size in sizes)
    elif len(entries) != len(sizes):
        raise ValueError(f"index={index!r} must have {len(sizes)} entries, for a place in {sizes}")
    else:
        pairs = zip(entries, sizes, strict=True)
        at = tuple(_inside("index", _whole("index", entry), size) for entry, size in pairs)
    return Unit(layer, which, at, _whole("sample", sample), into)


def _inside(name: str, value: int, size: int) -> int:
    if not -size <= value < size:
        raise ValueError(f"{name}={value!r} must be 0 … {size - 1}")
    return value % size


def _checked_index(index: Any) -> Index:
    entries = index if isinstance(index, (tuple, list)) else (index,)
    if not entries:
        raise ValueError(f"index={index!r} must not be empty")
    found: list[int | tuple[int, ...]] = []
    for entry in entries:
        if isinstance(entry, (list, tuple, range, torch.Tensor)) or hasattr(entry, "tolist"):
            several = _several("index", entry)
            if not several:
                raise ValueError(f"index={index!r} must not be empty")
            found.append(several)
        else:
            found.append(_whole("index", entry))
    return tuple(found)


def _checked_values(name: str, values: Any) -> tuple[float, ...]:
    entries = values.tolist() if hasattr(values, "tolist") else values
    entries = list(entries) if isinstance(entries, (list, tuple, range)) else [entries]
    if not entries:
        raise ValueError(f"{name}={values!r} must not be empty")
    return tuple(_number(name, entry, finite=False) for entry in entries)


def _several(name: str, value: Any) -> tuple[int, ...]:
    entries = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(entries, (list, tuple, range)):
        return (_whole(name, entries),)
    if not entries:
        raise ValueError(f"{name}={value!r} must not be empty")
    return tuple(_whole(name, entry) for entry in entries)


def _single(value: Any) -> Any:
    """What a tensor or array of one element holds; anything else as it is."""
    return value.item() if getattr(value, "size", None) is not None and _count(value) == 1 else value


def _count(value: Any) -> int:
    return int(value.numel() if isinstance(value, torch.Tensor) else value.size)


def _whole(name: str, value: Any) -> int:
    value = _single(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}={value!r} must be an int, or several")
    return value


def _number(name: str, value: Any, *, finite: bool = True) -> float:
    value = _single(value)
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"{name}={value!r} must be a number")
    if finite and not math.isfinite(value):
        raise ValueError(f"{name}={value!r} must be finite")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large for a float: {value}"[:100]) from None


def check_whole(name: str, tensor: torch.Tensor, one: Perturbation) -> None:
    """Raise `ValueError` for what whole numbers cannot hold."""
    dtype = tensor.dtype
    kind = str(dtype).removeprefix("torch.")
    if one.scale is not None and dtype is not torch.bool and tensor.numel():
        largest = max(abs(int(end)) for end in tensor.aminmax()) * abs(one.scale)
        if largest > torch.iinfo(dtype).max:
            raise ValueError(
                f"scale={one.scale:g}: {largest:g} does not fit {kind}, which input {name!r} holds"
            )
    if one.noise is not None:
        raise ValueError(f"noise={one.noise:g}: input {name!r} holds {kind}, to which no noise can be added")
    for value in one.values or ():
        if not float(value).is_integer():
            raise ValueError(f"values={value!r} must be whole: input {name!r} holds {kind}")
        if dtype is not torch.bool and not torch.iinfo(dtype).min <= value <= torch.iinfo(dtype).max:
            raise ValueError(f"values={value!r} must fit {kind}, which input {name!r} holds")
