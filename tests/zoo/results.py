"""Outcomes in a file, one a line, so that a run of an hour can go on where it was ended."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tests.zoo.check import Outcome

__all__ = ["add", "read"]


def read(path: Path) -> dict[str, Outcome]:
    """Outcomes by the name of the model; later lines replace earlier ones."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        fields = json.loads(line)
        fields["no_value"], fields["no_gradient"] = (
            Counter(fields["no_value"]),
            Counter(fields["no_gradient"]),
        )
        found[fields["name"]] = Outcome(**fields)
    return found


def add(path: Path, outcome: Outcome) -> None:
    """Append one outcome."""
    with path.open("a") as file:
        file.write(json.dumps(vars(outcome)) + "\n")
