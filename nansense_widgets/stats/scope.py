"""Which layers' batches go into the running statistics."""

from __future__ import annotations

from enum import Enum

__all__ = ["StatsScope"]


class StatsScope(str, Enum):
    """NONE: nothing more is collected, what was stays. WATCHED: the watched layers. ALL: every layer."""

    NONE = "none"
    WATCHED = "watched"
    ALL = "all"

    def __str__(self) -> str:
        return self.value

    @staticmethod
    def checked(scope: object) -> StatsScope:
        """The scope of a name or a member.

        Raises:
            ValueError: for anything else.
        """
        try:
            return StatsScope(scope)
        except ValueError:
            names = ", ".join(repr(str(known)) for known in StatsScope)
            raise ValueError(f"scope={scope!r} must be one of {names}") from None
