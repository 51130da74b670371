"""A row of the table, and how the table is printed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """What was measured, the figure, the goal, whether it holds, and how the figure came about."""

    what: str
    value: str
    goal: str
    holds: bool
    how: str = ""

    def __str__(self) -> str:
        verdict = "ok" if self.holds else "MISSED"
        return f"{self.what:<66} {self.value:>10} {self.goal:>11}  {verdict:<6} {self.how}"
