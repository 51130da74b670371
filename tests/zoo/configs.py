"""Reading configurations of any architecture."""

from __future__ import annotations

from typing import Any

__all__ = ["find", "first", "number", "parts"]


def parts(config: Any) -> list[Any]:
    """All configurations inside one, outer ones first."""
    found = []
    for name in getattr(config, "sub_configs", {}):
        part = getattr(config, name, None)
        if part is not None and hasattr(part, "model_type"):
            found += [part, *parts(part)]
    return found


def find(config: Any, name: str) -> Any:
    """A field, or None; some are properties that fail."""
    try:
        return getattr(config, name, None)
    except Exception:
        return None


def first(config: Any, *names: str) -> Any:
    """The first whole number under one of these names, in a configuration or one inside it."""
    for part in (config, *parts(config)):
        for name in names:
            value = find(part, name)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
    return None


def number(value: Any) -> int:
    """A size that may be given for each side."""
    if isinstance(value, dict):
        return int(next(iter(value.values())))
    return int(value[-1] if isinstance(value, (list, tuple)) else value)
