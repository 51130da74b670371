"""The generators that decide what loaders give are put back to where they stood first, and files are believed
only where they belong to the state.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, random_split

from nansense_widgets.errors import TimeTravelError
from nansense_widgets.history import cache as cache_module
from nansense_widgets.history.cache import EpochCache
from nansense_widgets.history.files import write_file
from nansense_widgets.history.loaders import LoaderStates
from tests.driver import TIMEOUT_S


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


LATE = {"train 0": {"generators": {"generator": torch.zeros(3)}}}


def written(folder: Path) -> EpochCache:
    cache = EpochCache(folder)
    for epoch in range(2):
        assert cache.save(epoch, {"epoch": epoch, "state": {}, "loaders": {}})
    cache.add(1, "train 0", LATE["train 0"])
    assert cache.flush(TIMEOUT_S)
    cache.release()
    return cache


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "is cut off"),
        ({"run": "x", "late": LATE}, "is of another run than epoch-000001.state"),
        ({"run": "x"}, "holds no states of loaders"),
        ({"late": {"train 0": 1}}, "holds no states of loaders"),
    ],
)
def test_a_file_of_loaders_that_is_damaged_or_of_others_is_refused(
    tmp_path: Path, content: Any, why: str
) -> None:
    written(tmp_path)
    path = tmp_path / "epoch-000001.loaders"
    write_file(path, content) if content else path.write_bytes(path.read_bytes()[:200])
    cache = EpochCache(tmp_path)
    cache.adopt()
    assert cache.load(0)["epoch"] == 0
    with pytest.raises(TimeTravelError, match=rf"epoch-000001\.loaders {why}.*if it is removed"):
        cache.load(1)
    path.unlink()
    assert cache.load(1)["epoch"] == 1
    assert cache.late(1) == {}


def test_what_another_process_adds_belongs_to_the_state_that_it_took_over(tmp_path: Path) -> None:
    cache = written(tmp_path)
    for key in ("val 0", "test 0"):
        cache = EpochCache(tmp_path)
        cache.adopt()
        cache.load(1)
        assert "train 0" in cache.late(1)
        cache.add(1, key, LATE["train 0"])
        assert cache.flush(TIMEOUT_S)
    assert list(cache.late(1)) == ["train 0", "val 0", "test 0"]


def test_states_that_were_removed_are_not_listed_and_a_full_disk_is_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = written(tmp_path / "cache")
    assert cache.epochs == [0, 1]
    (tmp_path / "cache" / "epoch-000000.state").unlink()
    assert cache.epochs == [1]
    shutil.rmtree(tmp_path / "cache")
    assert cache.epochs == []
    assert cache.nbytes == 0

    def full(*_: Any) -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        finally:
            raise RuntimeError("[enforce fail at inline_container.cc:672]")

    monkeypatch.setattr(cache_module, "write_file", full)
    cache.save(2, {"epoch": 2, "state": {}, "loaders": {}})
    assert cache.flush(TIMEOUT_S)
    assert cache.error.endswith(
        "epoch-000002.state was not written: the disk is full (No space left on device)"
    )
