"""What the model says of each sample, and how wrong it is, where that can be known."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Answers"]


@dataclass(frozen=True)
class Answers:
    """Of a batch."""
