"""What a run is doing, in one word and a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["RunStatus"]


@dataclass(frozen=True)
class RunStatus:
    """`word` is what the status pill shows; `detail` a sentence, where there is more to say."""

    word: Literal["waiting", "paused", "running", "finished", "failed", "closed", "disabled"]
    detail: str = ""
