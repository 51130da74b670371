"""What a run is doing, in one word and a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["RunStatus"]


@dataclass(frozen=True)
class RunStatus:
    """What a run is doing.

    Attributes:
        word: `waiting` until the first batch, then `paused` or `running`, and in the end `finished`, `failed`
            (the loop raised) or `closed`; `disabled` throughout with `enabled=False`.
        detail: a sentence, where there is more to say, else empty.
    """

    word: Literal["waiting", "paused", "running", "finished", "failed", "closed", "disabled"]
    detail: str = ""
