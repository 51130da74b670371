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
    comes first later is added to it: until then nothing has drawn from it, but for other loaders that share
    a generator with it. So each generator is put back once, to the earliest state that is known of it.
    """

    def __init__(self) -> None:
        self._known: dict[str, weakref.ref[Any]] = {}
        self._first: dict[str, Any] = {}
        """How each was when it first came."""
        self._again: dict[str, Any] = {}
        """States that a jump is to put back in loaders that have not come yet."""
        self._late: dict[str, Any] = {}
        """Of these, the ones of loaders that came first in the epoch that comes again."""
        self._done: dict[int, Any] = {}
        """Generators that were put back since the last jump, by `id`; held so that no other one gets that."""

    def take(self) -> dict[str, Any]:
        """States of all that are known and still there."""
        self._late = {}  # another epoch begins
        found = {}
        for key, reference in self._known.items():
            loader = reference()
            if loader is not None:
                found[key] = loader_state(loader)
        return found

    def restore(self, states: Mapping[str, Any], late: Mapping[str, Any]) -> None:
        """Put back those that are there; the others when they come.

        Args:
            states: of the beginning of the epoch.
            late: of loaders that came first in it, in their order.
        """
        self._again, self._late, self._done = dict(states), dict(late), {}
        # One that came first after the epoch that comes again was until then as it was at first.
        for source in (states, late, self._first):
            for key, state in source.items():
                reference = self._known.get(key)
                loader = None if reference is None else reference()
                if loader is not None:
                    self._put_back(loader, state)

    def begins(self, key: str, loader: Any, add: Callable[[str, Any], None]) -> None:
        """A loader is about to be iterated; `add` is given the state of one that was not known."""
        early, late = self._again.pop(key, None), self._late.pop(key, None)
        known = {id(reference()) for reference in self._known.values()}
        if id(loader) in known:
            self._remember(key, loader)
            return
        state = early if late is None else late
        if state is not None:
            self._put_back(loader, state)
        found = loader_state(loader)
        self._remember(key, loader)
        if found["generators"]:
            self._first.setdefault(key, found)
            add(key, found)

    def _put_back(self, loader: Any, state: Mapping[str, Any]) -> None:
        """Generators of a loader, as far as it still has them and no earlier state was put back in them."""
        for name, generator in generators_of(loader):
            if name in state["generators"] and id(generator) not in self._done:
                restore_generator(generator, state["generators"][name])
                self._done[id(generator)] = generator

    def _remember(self, key: str, loader: Any) -> None:
        try:
            self._known[key] = weakref.ref(loader)
        except TypeError:  # a list, a range: it draws from nothing
            self._known.pop(key, None)


def loader_state(loader: Any) -> dict[str, Any]:
    """Generators of a loader, in plain values. What else it has as `state_dict` tells where a pass stands."""
    state: dict[str, Any] = {"generators": {name: take_generator(one) for name, one in generators_of(loader)}}
    return state
