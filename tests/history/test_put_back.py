"""A state is put back under the hands of a loop that holds losses, buffers and gradients of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import nansense_widgets
from nansense_widgets import MomentError, Session
from nansense_widgets.history.files import read_file, write_file
from nansense_widgets.history.state import RunParts, restore_state, take_state
from tests.driver import Driver
from tests.history.programs import AT, Program, Training


class Scaled(nn.Module):
    """Multiplies by a buffer, so that the backward of a loss needs it as it was."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).tanh() * self.scale


class Perturbed(nn.Module):
    """Its buffer learns, by hand."""

    delta: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("delta", torch.zeros(4, requires_grad=True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + self.delta


def run(model: nn.Module, body: Any) -> tuple[Session, Driver]:
    torch.manual_seed(0)
    data = [torch.randn(3, 4) for _ in range(8)]
    session = nansense_widgets.start(model)

    def loop() -> None:
        for _ in session.epochs(1):
            for x in session.batches(data, phase="train"):
                body(x)

    return session, Driver(session, loop)


@pytest.mark.parametrize("extra", [False, True], ids=["a buffer", "a parameter of the optimizer alone"])
def test_a_loss_over_several_batches_survives_a_step_back(extra: bool) -> None:
    model: nn.Module = nn.Linear(4, 4) if extra else Scaled()
    temperature = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([*model.parameters(), *([temperature] if extra else [])], lr=0.1)
    held: list[torch.Tensor] = []
    steps = []

    torch.manual_seed(0)
    data = [torch.randn(3, 4) for _ in range(8)]
    session = nansense_widgets.start(model, optimizer=optimizer)

    def loop() -> None:
        for _ in session.epochs(1):
            for x in session.batches(data, phase="train"):
                held.append((model(x) * temperature).square().mean())
                if len(held) == 4:
                    optimizer.zero_grad()
                    torch.stack(held).sum().backward()
                    held.clear()
                    optimizer.step()
                    steps.append(0)

    driver = Driver(session, loop)
    driver.do("step_until_position", "train", 0, 2)
    driver.do("step_back", 1)
    driver.finish()
    assert len(steps) == 2
    session.close()


def test_a_buffer_that_learns_goes_on_learning() -> None:
    model = Perturbed()
    delta, seen = model.delta, []

    def body(x: torch.Tensor) -> None:
        model(x).square().mean().backward()
        with torch.no_grad():
            assert model.delta.grad is not None
            model.delta.sub_(0.1 * model.delta.grad)
        seen.append(model.delta.detach().clone())

    session, driver = run(model, body)
    driver.do("step_until_position", "train", 0, 3)
    driver.do("step_back", 2)
    assert torch.equal(model.delta, seen[1])
    assert model.delta is delta
    assert model.delta.requires_grad
    driver.do("step_batch")
    driver.do("step_batch")
    assert torch.equal(seen[-1], seen[3])  # its gradient, which adds up, has come back as well
    driver.finish()
    session.close()


def test_what_learns_is_part_of_the_state_of_a_buffer() -> None:
    model = Perturbed()
    model(torch.ones(1, 4)).sum().backward()
    parts = RunParts(model)
    state = take_state(parts)
    model.delta = torch.full((5,), 3.0)  # of another shape, so that it cannot be filled in place
    restore_state(parts, state)
    assert model.delta.requires_grad
    assert model.delta.grad is not None
    assert torch.equal(model.delta.grad, torch.ones(4))
    graph = model.delta * 2
    model.delta = graph  # a result, which hangs on a graph
    restore_state(parts, state)
    assert model.delta.is_leaf
    assert torch.equal(model.delta, torch.zeros(4))


def test_gradients_of_parameters_that_only_the_optimizer_has_come_back() -> None:
    model, temperature = nn.Linear(2, 2), nn.Parameter(torch.ones(1))
    parts = RunParts(model, [torch.optim.SGD([*model.parameters(), temperature], lr=0.1)])
    temperature.square().sum().backward()
    state = take_state(parts)
    temperature.square().sum().backward()
    restore_state(parts, state)
    assert temperature.grad is not None
    assert temperature.grad.item() == 2.0


def test_a_replay_that_fails_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    path, training = tmp_path / "a.moment", Training(Program())
    training.session.watch("*")
    training.session.detach()
    training.session.freeze_moment(path, **AT)
    training.loop()
    training.session.close()

    def raises(model: nn.Module, batch: Any) -> torch.Tensor:
        training.program.loss(model, batch).backward()
        raise KeyError("image")

    def interrupted(model: nn.Module, batch: Any) -> torch.Tensor:
        raise KeyboardInterrupt

    failing: tuple[tuple[Any, type[BaseException]], ...] = (
        (raises, MomentError),
        (interrupted, KeyboardInterrupt),
        (lambda model, batch: model(batch[0]), TypeError),
        (lambda model, batch: model[0](batch[0]).sum(), MomentError),
    )
    model: Any = Program().model().eval()
    model[0].requires_grad_(False)
    model[9].bias.grad = torch.ones(5)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for replay, error in failing:
        with pytest.raises(error):
            nansense_widgets.load_moment(model, path, replay=replay)
        assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
        assert not any(module.training for module in model.modules())
        assert [name for name, p in model.named_parameters() if p.grad is not None] == ["9.bias"]
        assert torch.equal(model[9].bias.grad, torch.ones(5))
        assert not model[0].weight.requires_grad

    content = read_file(path)
    content["end"]["model"]["gradients"] = {"0.weight": torch.zeros(1)}
    write_file(path, content)
    with pytest.raises(MomentError, match=r"a\.moment is damaged: the gradient of 0\.weight"):
        nansense_widgets.load_moment(model, path, replay=Program().loss)
    del content["end"]["model"]["training"]
    write_file(path, content)
    with pytest.raises(MomentError, match=r"a\.moment is damaged: its part 'training' is missing"):
        nansense_widgets.load_moment(model, path, replay=Program().loss)


@pytest.mark.parametrize("enabled", [True, False])
def test_names_that_no_file_can_have(tmp_path: Path, enabled: bool) -> None:
    session = nansense_widgets.start(nn.Linear(2, 2), enabled=enabled)
    with pytest.raises(ValueError, match=r"path=.*nnn' must be a file of this system: .*give a shorter name"):
        session.freeze_moment(tmp_path / ("n" * 300), **AT)
    with pytest.raises(ValueError, match=r"path='.*a\\x00b' must be a path without a null character"):
        session.freeze_moment(f"{tmp_path}/a\0b", **AT)
    wrong: tuple[dict[str, Any], ...] = ({"phase": 3}, {"epoch": "x"}, {"batch_idx": -1})
    for one in wrong:
        with pytest.raises((TypeError, ValueError), match=f"{next(iter(one))}="):
            session.freeze_moment(tmp_path / "a.moment", **{**AT, **one})
    with pytest.raises(TypeError, match="path=3"):
        session.freeze_moment(3, **AT)  # type: ignore[arg-type]
    session.close()


def test_the_longest_name_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_file(path, [1])
    assert read_file(path) == [1]
