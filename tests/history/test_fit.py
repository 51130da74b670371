"""Files with a right checksum that do not fit are refused, by name, before anything has changed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nansense_widgets
from nansense_widgets import TimeTravelError
from nansense_widgets.history.files import read_file, write_file


class Run:
    """Four epochs; detached, so that the loop runs here."""

    def __init__(self, folder: Path, *, reverse: bool = False) -> None:
        torch.manual_seed(0)
        self.folder = folder
        self.model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
        parameters = list(self.model.parameters())
        ordered = parameters[::-1] if reverse else parameters
        self.optimizer = torch.optim.SGD(ordered, lr=0.1, momentum=0.9)
        generator = torch.Generator().manual_seed(1)
        data = TensorDataset(torch.randn(8, 4))
        self.loader = DataLoader(data, batch_size=4, shuffle=True, generator=generator)
        self.session = nansense_widgets.start(self.model, optimizer=self.optimizer)
        self.session.detach()

    def loop(self, start: int = 0) -> None:
        for _ in self.session.epochs(4, cache_dir=self.folder, start_epoch=start):
            with self.session.restore_point():
                for (x,) in self.session.batches(self.loader, phase="train"):
                    self.optimizer.zero_grad()
                    self.model(x).square().mean().backward()
                    self.optimizer.step()

    def state(self) -> list[Any]:
        return [copy.deepcopy(self.model.state_dict()), self.model.training, torch.get_rng_state()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = Run(tmp_path)
    run.loop()
    run.session.close()
    assert run.session._restorer is not None  # noqa: SLF001
    assert run.session._restorer.cache.flush(20)  # noqa: SLF001
    return tmp_path


def refused(run: Run, file: str) -> str:
    before = run.state()
    with pytest.raises(TimeTravelError, match=file) as told:
        run.loop(2)
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(tensor, before[0][name])
    assert run.model.training == before[1]
    assert torch.equal(torch.get_rng_state(), before[2])
    assert not run.optimizer.state
    run.session.close()
    return str(told.value)


def test_parameters_of_an_optimizer_in_another_order(folder: Path) -> None:
    said = refused(Run(folder, reverse=True), r"epoch-000002\.state does not fit")
    assert "number 0 is 0.weight there, 2.bias here" in said
    path = folder / "epoch-000002.state"
    content = read_file(path)
    del content["state"]["optimizers"][0]["names"]  # as files of before have it
    write_file(path, content)
    said = refused(Run(folder, reverse=True), r"epoch-000002\.state does not fit")
    assert "momentum_buffer of 2.bias is float32 (4, 4) there, and 2.bias float32 (4,) here" in said
    Run(folder).loop(2)


def deleted(*path: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for key in path[:-1]:
            value = value[key]
        del value[path[-1]]

    return change


def replaced(new: Any, *path: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for key in path[:-1]:
            value = value[key]
        value[path[-1]] = new

    return change


MODEL = ("parameters", "gradients", "buffers", "frozen", "training", "extra")
OPTIMIZER = ("class", "parameters", "others", "sizes", "groups", "state", "devices")
BYTES = torch.zeros(3, dtype=torch.uint8)


def changes() -> list[Callable[[Any], None]]:
    paths: list[tuple[Any, ...]] = [("loaders",)]
    paths += [("state", part) for part in ("grad", "model", "optimizers", "schedulers", "tracked", "random")]
    paths += [("state", "model", part) for part in MODEL]
    paths += [("state", "optimizers", 0, part) for part in OPTIMIZER]
    paths += [("state", "random", part) for part in ("torch", "numpy", "python")]
    wrong: tuple[Any, ...] = ([1], {1: 2}, 3, "x", BYTES)
    found = [deleted(*path) for path in paths]
    found += [replaced(value, *path) for path in paths for value in wrong if not fits(path, value)]
    return [
        *found,
        replaced((3, (1, 2), None), "state", "random", "python"),
        replaced(torch.zeros(5056), "state", "random", "torch"),
        replaced({0: {"momentum_buffer": torch.zeros(3)}}, "state", "optimizers", 0, "state"),
        replaced({0: [1]}, "state", "optimizers", 0, "state"),
        replaced({99: {}}, "state", "optimizers", 0, "state"),
        replaced({"0.weight": torch.zeros(3)}, "state", "model", "gradients"),
        replaced({"0.weight": torch.zeros(4, 4).double()}, "state", "model", "gradients"),
        replaced({"x": ("nansense:array", "<f4", [9], BYTES)}, "state", "tracked"),
        replaced({"train 0": {"generators": {"generator": BYTES}}}, "loaders"),
        replaced({"train 0": {"generators": [1]}}, "loaders"),
        replaced({"0": torch.zeros(3)}, "state", "model", "parameters"),
        replaced({}, "state", "optimizers", 0, "groups", 0),
    ]


def fits(path: tuple[Any, ...], value: Any) -> bool:
    """Values that may well be in some place."""
    last = path[-1]
    return (last == "class" and value == "x") or (last == "others" and isinstance(value, dict))


def test_whatever_is_missing_or_of_a_wrong_kind(folder: Path) -> None:
    path = folder / "epoch-000002.state"
    content = read_file(path)
    run = Run(folder)
    for change in changes():
        other = copy.deepcopy(content)
        change(other)
        write_file(path, other)
        refused(run, r"epoch-000002\.state")
        run.session = nansense_widgets.start(run.model, optimizer=run.optimizer)
        run.session.detach()
    write_file(path, content)
    late = path.with_suffix(".loaders")
    for wrong in ({"run": "x"}, {"late": [1]}, {"late": {"train 0": 3}}):
        write_file(late, wrong)
        refused(run, r"epoch-000002\.loaders")
        run.session = nansense_widgets.start(run.model, optimizer=run.optimizer)
        run.session.detach()
