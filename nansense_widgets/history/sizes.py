"""How much memory the past of a run may take, and takes."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import torch

__all__ = ["as_bytes", "default_budget", "said_size", "size_of_state"]

MOST = 512 * 2**20
"""Bytes that the history takes by default, at most."""

PART = 50
"""By default it takes one part in so many of the machine's memory, if that is less."""

UNKNOWN = 128 * 2**20
"""Bytes by default where the machine's memory is not known."""

_UNITS = {"": 1, "B": 1} | {
    f"{letter}{infix}B": base**power
    for power, letter in enumerate("KMGT", 1)
    for infix, base in (("", 1000), ("i", 1024))
}

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?i?B?)\s*")


def size_of_state(state: Any) -> int:
    """Bytes of all tensors in it, and a little for everything else."""
    if isinstance(state, torch.Tensor):
        return state.numel() * state.element_size() + 100
    if isinstance(state, dict):
        return sum(map(size_of_state, state.values())) + 100
    if isinstance(state, (list, tuple)):
        return sum(map(size_of_state, state)) + 60
    return 30


def default_budget() -> int:
    """Bytes: a small share of this machine's memory."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return UNKNOWN
    return min(MOST, whole // PART)


def as_bytes(budget: Any) -> int:
    """A size in bytes, given as the argument `budget`."""
    if isinstance(budget, bool) or not isinstance(budget, (int, str)):
        raise TypeError(f"budget={budget!r} must be bytes (an int) or a text such as '1 GB'")
    if isinstance(budget, int):
        if budget < 0:
            raise ValueError(f"budget={budget!r} must not be negative")
        return budget
    found = _SIZE.fullmatch(budget)
    unit = "" if found is None else found[2].replace("k", "K")
    if found is None or (unit and unit not in _UNITS):
        raise ValueError(
            f"budget={budget!r} must be a number with a unit: kB, MB, GB, TB, KiB, MiB, GiB or TiB"
        )
    size = float(found[1]) * _UNITS[unit]
    if size > sys.maxsize:
        raise ValueError(f"budget={budget[:40]!r} must be at most {sys.maxsize:,} bytes")
    return int(size)


def said_size(size: int) -> str:
    """In words, rounded."""
    for unit, base in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= base:
            return f"{size / base:,.3g} {unit}"
    return f"{size} bytes"
