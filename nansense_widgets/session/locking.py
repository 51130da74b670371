"""The lock of a session that many visitors share: what it leaves undone, and how."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, cast

from nansense_widgets.errors import SessionStateError, TimeTravelError
from nansense_widgets.widgets.state import LOCKED

__all__ = ["no", "no_names", "nothing", "refuse_instrument", "refuse_jump", "unless_locked"]

Method = TypeVar("Method", bound=Callable[..., Any])


def unless_locked(instead: Callable[[], Any]) -> Callable[[Method], Method]:
    """On a locked session, have `instead` called in place of the method."""

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            return instead() if self.locked else method(self, *args, **kwargs)

        return cast("Method", call)

    return decorate


def nothing() -> None:
    """Most commands do nothing then."""


def no() -> bool:
    """Those that say whether they did something have not."""
    return False


def no_names() -> list[str]:
    """Those that give the layers that they changed have changed none."""
    return []


def refuse_jump() -> NoReturn:
    """A jump says why it is not made."""
    raise TimeTravelError(f"the session is {LOCKED}")


def refuse_instrument() -> NoReturn:
    """An instrument that were dropped without a word would be missed later."""
    raise SessionStateError(f"the session is {LOCKED}: register instruments before session.lock()")
