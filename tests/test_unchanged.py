"""Promise 1: with the debugger on, training is bit for bit what it is with the debugger off."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

import nansense_widgets
from nansense_widgets import Session
from tests.kinds import KINDS, Program

EPOCHS = 2


def state_bytes(program: Program, losses: list[torch.Tensor]) -> dict[str, bytes]:
    """Everything that training computed, as bytes, so that NaN equals NaN and -0.0 differs from 0.0."""

    def raw(tensor: torch.Tensor) -> bytes:
        dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
        return torch.view_as_real(dense).numpy().tobytes() if dense.is_complex() else bits(dense)

    def bits(tensor: torch.Tensor) -> bytes:
        plain = tensor.contiguous().clone().reshape(-1)
        return plain.view(torch.uint8).numpy().tobytes()

    found = {f"loss {i}": raw(loss) for i, loss in enumerate(losses)}
    found |= {f"state {name}": raw(tensor) for name, tensor in program.model.state_dict().items()}
    for index, optimizer in enumerate(program.optimizers):
        for key, entries in optimizer.state_dict()["state"].items():
            for name, value in entries.items():
                if isinstance(value, torch.Tensor):
                    found[f"optimizer {index} {key} {name}"] = raw(value)
    found["torch random state"] = raw(torch.get_rng_state())
    found["numpy random state"] = repr(np.random.get_state(legacy=False)).encode()
    found["python random state"] = repr(random.getstate()).encode()
    return found


def seeded(name: str) -> Program:
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    return KINDS[name]()


def bare(program: Program) -> list[torch.Tensor]:
    losses = []
    for _ in range(EPOCHS):
        losses += [program.train(item) for item in program.batches]
        if program.validate is not None:
            losses += [program.validate(item) for item in program.batches[:2]]
    return losses


def watched(program: Program, drive: Callable[[Session], None], enabled: bool = True) -> list[torch.Tensor]:
    session = nansense_widgets.start(
        program.model, optimizer=program.optimizers, scheduler=program.schedulers, enabled=enabled
    )

    def loop() -> list[torch.Tensor]:
        losses = []
        for _ in session.epochs(EPOCHS):
            for item in session.batches(program.batches, phase="train"):
                losses.append(program.train(item))
            if program.validate is not None:
                for item in session.batches(program.batches[:2], phase="val"):
                    losses.append(program.validate(item))
        return losses

    if enabled:
        session.watch("*")
    session.launch(loop)
    drive(session)
    assert session.wait(60)
    assert session.notice == "", session.notice
    result: list[torch.Tensor] = session.result
    session.close()
    return result


def step_every_batch(session: Session) -> None:
    pauses = 0
    while session.wait_until_paused(after_pauses=pauses, timeout=60):
        pauses = session.pause_count
        assert session.snapshot is not None
        assert session.snapshot.position == session.live_position
        session.watch("*")  # ops become known with the first forward
        session.step_batch()


def publish_every_batch(session: Session) -> None:
    assert session.wait_until_paused(timeout=60)
    session.watch("*")
    session.set_update_frequency(unit="batch")
    session.step_run()
    session.wait_until_paused(after_pauses=1, timeout=60)
    session.detach()


def detached(session: Session) -> None:
    session.detach()


DRIVES = [step_every_batch, publish_every_batch, detached]


@pytest.mark.parametrize("drive", DRIVES, ids=lambda drive: drive.__name__)
@pytest.mark.parametrize("name", KINDS)
def test_training_is_bit_for_bit_unchanged(name: str, drive: Callable[[Session], None]) -> None:
    program = seeded(name)
    expected = state_bytes(program, bare(program))
    program = seeded(name)
    found = state_bytes(program, watched(program, drive))
    assert found.keys() == expected.keys()
    different = [key for key in expected if found[key] != expected[key]]
    assert different == []


def test_disabled_session_changes_nothing_and_knows_nothing() -> None:
    program = seeded("residual_network")
    expected = state_bytes(program, bare(program))
    program = seeded("residual_network")
    found = state_bytes(program, watched(program, lambda session: None, enabled=False))
    assert found == expected
