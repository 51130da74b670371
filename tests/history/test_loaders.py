"""The generators that decide what loaders give are put back to where they stood first, and files are believed
only where they belong to the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, random_split

from nansense_widgets.history.loaders import LoaderStates


class Noisy(Dataset[float]):
    """Draws from a generator of its own, which all parts of it share."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> float:
        return index + float(self.rng.normal())


def shared_generator() -> Iterator[list[Any]]:
    generator = torch.Generator().manual_seed(5)
    data: Any = torch.arange(12.0)
    made = [DataLoader(data, 4, shuffle=True, generator=generator), DataLoader(data, 6, generator=generator)]
    while True:
        yield made


def parts_of_one() -> Iterator[list[Any]]:
    made = [DataLoader(part, 2) for part in random_split(Noisy(), [8, 4], torch.Generator().manual_seed(0))]
    while True:
        yield made


def one_made_anew() -> Iterator[list[Any]]:
    generator = torch.Generator().manual_seed(5)
    data: Any = torch.arange(12.0)
    train = DataLoader(data, 4, shuffle=True, generator=generator)
    while True:
        yield [train, DataLoader(data, 4, shuffle=True, generator=generator)]


@pytest.mark.parametrize("program", [shared_generator, parts_of_one, one_made_anew])
@pytest.mark.parametrize("anew", [False, True])
def test_a_generator_that_two_loaders_share_is_put_back_once_to_where_it_stood_first(
    program: Any, anew: bool
) -> None:
    """`anew`: in another process, where no loader has come yet."""
    states, loaders = LoaderStates(), program()

    def epoch(late: dict[str, Any]) -> list[Any]:
        pair = next(loaders)
        seen = []
        for phase, loader in zip(("train", "val"), pair, strict=True):
            states.begins(f"{phase} 0", loader, late.setdefault)
            seen.append([x.tolist() for x in loader])
        return seen

    torch.manual_seed(0)
    kept = []
    for _ in range(3):
        known, late = states.take(), dict[str, Any]()
        kept.append((known, late, epoch(late)))
    for target in (0, 2, 1):
        known, late, seen = kept[target]
        if anew:
            states, loaders = LoaderStates(), program()
            next(loaders)
        states.restore(known, late)
        assert epoch({}) == seen, target
