"""What a metric may return, as numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from nansense_widgets.stats.norms import Number

__all__ = ["as_number", "as_numbers"]

ALLOWED = "a metric returns a number, a tensor of one element, a mapping of names to these, or None"


def as_number(value: object, what: str = ALLOWED) -> Number:
    """A float, or of a tensor on an accelerator a copy there, for which nothing waits.

    Raises:
        TypeError: for anything that is no real number; `what` says what was expected.
    """
    if isinstance(value, float):  # nearly always; of numpy's too
        return float(value)
    if isinstance(value, (bool, int, np.bool_, np.integer, np.floating)):
        return float(value)
    if isinstance(value, torch.Tensor):
        return _of_tensor(value, what)
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "biuf":
        return float(value.reshape(()))
    raise TypeError(f"{what}; not {_named(value)}")


def as_numbers(value: object) -> dict[str, Number]:
    """The numbers that a metric returned by the name of their series, `""` for a plain one; None gives none.

    Raises:
        TypeError: for anything else.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return {"": as_number(value)}
    found: dict[str, Number] = {}
    for key, number in value.items():
        if not isinstance(key, str):
            raise TypeError(f"the names in a metric's mapping are strings; not {_named(key)}")
        if number is not None:
            found[key] = as_number(number, f"in {key!r}: {ALLOWED}")
    return found


def _of_tensor(tensor: torch.Tensor, what: str) -> Number:
    if tensor.numel() != 1 or tensor.is_complex() or tensor.is_meta:
        shape = tuple(tensor.shape)
        raise TypeError(f"{what}; not a tensor of shape {shape}, {tensor.dtype} on {tensor.device}")
    if tensor.device.type == "cpu":
        return float(tensor.item())
    return tensor.detach().clone()  # it may be a view of what training goes on to change


def _named(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}, {value.dtype}"
    text = repr(value)
    return f"{text if len(text) <= 40 else text[:40] + '…'} ({type(value).__name__})"
