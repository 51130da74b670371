"""From what a user types to layer names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from nansense_widgets.capture.architecture import Architecture

__all__ = ["select_layers"]


def select_layers(
    architecture: Architecture, patterns: Iterable[object], *, also: Iterable[str], on_trust: bool
) -> list[str]:
    """Names that the patterns (names, globs, classes) mean, without repeats.

    Args:
        architecture: the layers known so far.
        patterns: what the user gave.
        also: names that are good although the architecture does not have them (watched beforehand).
        on_trust: take names that match nothing as ops to come, while no forward has been traced.

    Raises:
        TypeError, ValueError: for a pattern that is no string or matches nothing.
    """
    known = set(also)
    chosen: dict[str, None] = {}
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise TypeError(f"layers={pattern!r} must be layer names (strings)")
        found = architecture.select(pattern)
        if not found and (pattern in known or (on_trust and not architecture.traced)):
            found = [pattern]
        if not found:
            close = difflib.get_close_matches(pattern, architecture.nodes, n=3)
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise ValueError(
                f"layers={pattern!r} matches no layer{hint} (session.layer_names lists them all)"
            )
        chosen.update(dict.fromkeys(found))
    return list(chosen)
