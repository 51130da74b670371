"""The instruments of a session by name, and what went wrong with those that are off."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["REDUCES", "Instrument", "Kind", "Reduce", "Registry", "checked_metric", "checked_name"]

Kind = Literal["metric", "layer tensor", "weight tensor"]

Reduce = str | Callable[[list[float]], float]

REDUCES = ("mean", "sum", "min", "max", "last")

LEARNING = 3
"""Batches of a phase in which everything is held for an instrument, to see what it reads."""


@dataclass(eq=False)
class Instrument:
    """One registered function.

    Attributes:
        name: labels its plot or strip.
        kind: what it gives.
        function: of a `LayerContext` or `WeightContext`.
        reduce: of a metric: how the values of an epoch become one; None: each batch has its own.
        reads: the fields of its context that it has read so far.
        batches: phase to how many it was evaluated in.
    """

    name: str
    kind: Kind
    function: Callable[[Any], Any]
    reduce: Reduce | None = None
    reads: set[str] = field(default_factory=set)
    batches: Counter[str] = field(default_factory=Counter)

    def may_read(self, phase: str, everything: frozenset[str]) -> frozenset[str]:
        """What is to be held for it in a batch of this phase: everything, until it is known what it reads."""
        return everything & self.reads if self.batches[phase] >= LEARNING else everything


class Registry:
    """Names are unique over all kinds. Registering happens on any thread, evaluation on the training one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Instrument] = {}
        self._errors: dict[str, str] = {}
        self._active: dict[Kind, tuple[Instrument, ...]] = {}

    def add(self, instrument: Instrument) -> None:
        """Register, in place of an earlier one of the same name and kind.

        Raises:
            ValueError: if the name is taken by another kind.
            TypeError: if the function cannot be called.
        """
        if not callable(instrument.function):
            raise TypeError(
                f"{instrument.function!r} cannot be called: an instrument is a function of a context"
            )
        with self._lock:
            self._check_free(instrument.name, instrument.kind)
            self._known = {**self._known, instrument.name: instrument}
            self._errors.pop(instrument.name, None)
            self._sort()

    def check_free(self, name: str, kind: Kind) -> None:
        """Raises `ValueError` if the name is taken by another kind."""
        with self._lock:
            self._check_free(name, kind)

    def _check_free(self, name: str, kind: Kind) -> None:
        taken = self._known.get(name)
        if taken is not None and taken.kind != kind:
            raise ValueError(
                f"name={name!r} is that of a {taken.kind} already: names are unique, as they label plots"
            )

    def active(self, kind: Kind) -> tuple[Instrument, ...]:
        """Those that are evaluated, in the order of their registration."""
        return self._active.get(kind, ())

    @property
    def kinds(self) -> dict[str, Kind]:
        """Name to kind, of those that are off too."""
        return {name: instrument.kind for name, instrument in self._known.items()}

    @property
    def errors(self) -> dict[str, str]:
        """Name to what went wrong, of those that are off."""
        with self._lock:
            return dict(self._errors)

    def error(self, instrument: Instrument) -> str:
        """Why it is off, or an empty string."""
        return self._errors.get(instrument.name, "")

    def of_kind(self, kind: Kind) -> list[Instrument]:
        """All of a kind, those that are off too."""
        return [instrument for instrument in self._known.values() if instrument.kind == kind]

    def fail(self, instrument: Instrument, why: str) -> None:
        """Evaluate it no more, and say so in one line."""
        with self._lock:
            # A definition that has been replaced meanwhile is nobody's concern any more.
            if self._known.get(instrument.name) is not instrument or instrument.name in self._errors:
                return
            self._errors[instrument.name] = why
            self._sort()
        with suppress(Exception):  # a console that is gone
            line = f"nansense_widgets: {instrument.kind} {instrument.name!r} is off from here on: {why}"
            print(line, file=sys.stderr, flush=True)  # noqa: T201  nobody may be looking at a widget

    def rewound(self, epoch: int) -> None:
        """Tell instruments that keep something from batch to batch that this epoch comes again."""
        for instrument in self._known.values():
            hook = getattr(instrument.function, "on_rewind", None)
            if callable(hook):
                try:
                    hook(epoch)
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    self.fail(instrument, f"{described(error)} (in on_rewind({epoch}))")

    def show(self, kinds: Mapping[str, Kind], errors: Mapping[str, str]) -> None:
        """Know the names of another session's instruments, whose functions are not here."""
        with self._lock:
            self._known = {name: Instrument(name, kind, _gone) for name, kind in kinds.items()}
            self._errors = dict(errors)

    def clear(self) -> None:
        """Let go of the functions, which may hold a model; what went wrong stays known."""
        with self._lock:
            self._known = {}
            self._sort()

    def _sort(self) -> None:
        on = [instrument for instrument in self._known.values() if instrument.name not in self._errors]
        kinds: Sequence[Kind] = ("metric", "layer tensor", "weight tensor")
        self._active = {kind: tuple(one for one in on if one.kind == kind) for kind in kinds}


def _gone(_context: object) -> None:
    """Stands for a function of another process."""


def described(error: BaseException) -> str:
    """An exception in one line."""
    with suppress(Exception):  # its own `__str__` may raise
        text = " ".join(str(error).split())
        return f"{type(error).__name__}: {text[:500]}" if text else type(error).__name__
    return type(error).__name__


def checked_name(name: object) -> str:
    """The name of an instrument; raises `TypeError` or `ValueError`."""
    if not isinstance(name, str):
        hint = ": write @session.watch_…('name'), with a name" if callable(name) else ""
        raise TypeError(f"name={name!r} must be a string{hint}")
    if not name.strip():
        raise ValueError(f"name={name!r} must not be empty")
    return name


def checked_metric(on: object, reduce: object) -> Reduce | None:
    """How a metric's values become points; raises `ValueError`."""
    if on not in ("batch", "epoch"):
        raise ValueError(f"on={on!r} must be 'batch' (a point each) or 'epoch' (one point an epoch)")
    if on == "batch":
        if reduce is not None:
            raise ValueError(f"reduce={reduce!r} needs on='epoch': on='batch' keeps every value")
        return None
    if reduce is None:
        return "mean"
    if isinstance(reduce, str) and reduce in REDUCES:
        return reduce
    if callable(reduce):
        return reduce
    raise ValueError(
        f"reduce={reduce!r} must be one of {', '.join(map(repr, REDUCES))}, or a function of a list"
    )
