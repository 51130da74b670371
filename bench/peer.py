"""The existing tool, nansense, doing the same in the same run, where it is installed.

It needs none of its web interface for this: `pip install nansense` beside this package, in any environment
that `python -m bench` is then run in.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

from bench.models import Program

__all__ = ["PEER", "is_installed"]


def is_installed() -> bool:
    return importlib.util.find_spec("nansense") is not None


def _statistics_of(program: Program, layers: Sequence[str], scope: str = "watched") -> Any:
    import nansense  # type: ignore[import-not-found]  # not a dependency of ours

    session = nansense.start(program.model, optimizer=program.optimizer, open_browser=False)
    for layer in layers:
        session.watch(layer)
    session.set_stats_scope(nansense.StatsScope(scope))
    session.set_patch_layers([])
    session.detach()
    return session


PEER: dict[str, Callable[[Program], Any]] = {
    "detached": lambda program: _statistics_of(program, []),
    "statistics of 1 layer": lambda program: _statistics_of(program, program.five[2:3]),
    "statistics of 5 layers": lambda program: _statistics_of(program, program.five),
    "statistics of all layers": lambda program: _statistics_of(program, [], "all"),
}
"""What is measured, and how the tool is told to do it."""
