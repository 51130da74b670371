"""Loaders of a run, and the states that decide what they give."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

from nansense_widgets.history.random_state import generators_of, restore_generator, take_generator

__all__ = ["LoaderStates"]


class LoaderStates:
    """Loaders by phase and number in the epoch. Nobody knows one before the loop iterates it.

    A state of the beginning of an epoch holds those of loaders that are known then. That of a loader which
    comes first later is added to it: until then nothing has drawn from it.
    """

    def __init__(self) -> None:
        self._known: dict[str, weakref.ref[Any]] = {}
        self._first: dict[str, Any] = {}
        """How each was when it first came."""
        self._again: dict[str, Any] = {}
        """States that a jump is to put back in loaders that have not come yet."""

    def take(self) -> dict[str, Any]:
        """States of all that are known and still there."""
        found = {}
        for key, reference in self._known.items():
            loader = reference()
            if loader is not None:
                found[key] = loader_state(loader)
        return found

    def restore(self, states: Mapping[str, Any]) -> None:
        """Put back those that are there; the others when they come."""
        self._again = dict(states)
        done: set[int] = set()
        for key, reference in self._known.items():
            loader = reference()
            if loader is None:
                continue
            # One that came first after the epoch that comes again was until then as it was at first.
            state = self._again.pop(key, None) or self._first.get(key)
            if state is not None and id(loader) not in done:
                restore_loader(loader, state)
                done.add(id(loader))

    def begins(self, key: str, loader: Any, add: Callable[[str, Any], None]) -> None:
        """A loader is about to be iterated; `add` is given the state of one that was not known."""
        state = self._again.pop(key, None)
        known = {id(reference()) for reference in self._known.values()}
        if id(loader) in known:
            self._remember(key, loader)
            return
        if state is not None:
            restore_loader(loader, state)
        found = loader_state(loader)
        self._remember(key, loader)
        if found["generators"]:
            self._first.setdefault(key, found)
            add(key, found)

    def _remember(self, key: str, loader: Any) -> None:
        try:
            self._known[key] = weakref.ref(loader)
        except TypeError:  # a list, a range: it draws from nothing
            self._known.pop(key, None)


def loader_state(loader: Any) -> dict[str, Any]:
    """Generators of a loader, in plain values. What else it has as `state_dict` tells where a pass stands."""
    state: dict[str, Any] = {"generators": {name: take_generator(one) for name, one in generators_of(loader)}}
    return state


def restore_loader(loader: Any, state: Mapping[str, Any]) -> None:
    """Put them back, as far as the loader still has them."""
    for name, generator in generators_of(loader):
        if name in state["generators"]:
            restore_generator(generator, state["generators"][name])
