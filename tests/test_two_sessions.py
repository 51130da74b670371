"""Two models trained at the same time, each in its own thread under its own session: what one session
installs in torch's global tables is not to touch the other's training, nor to stay behind.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn

import nansense_widgets
from nansense_widgets import Session
from tests.kinds import Bare
from tests.test_unchanged import different, seeded, state_bytes

# None of them draws random numbers while it trains (dropout aside): threads share torch's generator.
PAIRS = [
    ("residual_network_in_place", "several_backward_calls"),
    ("gradient_scaler_whose_first_step_overflows", "autocast_around_the_whole_step"),
    ("compiled_before_start", "residual_network"),
    ("activation_checkpointing_reentrant", "an_optimizer_of_the_users_own"),
]


def without_dropout(name: str) -> Any:
    program = seeded(name)
    for module in program.model.modules():
        if isinstance(module, (nn.Dropout, nn.Dropout2d)):
            module.p = 0.0
    return program


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_two_trainings_at_once_are_unchanged(pair: tuple[str, str]) -> None:
    expected = []
    for name in pair:
        program = without_dropout(name)
        expected.append(state_bytes(program, program.run(Bare())))
    programs = [without_dropout(name) for name in pair]
    sessions = []
    for program in programs:
        session = nansense_widgets.start(
            program.model, optimizer=program.optimizers, scheduler=program.schedulers
        )
        session.watch("*")
        session.set_update_frequency(unit="batch")
        session.step_phase()  # which captures every batch of a phase whose length is not known
        session.launch(program.run, session)
        sessions.append(session)
    for program, session, bare in zip(programs, sessions, expected, strict=True):
        session.wait_until_paused(timeout=60)
        session.detach()
        assert session.wait(60)
        assert session.notice == ""
        found = state_bytes(program, session.result)
        assert [key for key in different(found, bare) if "random state" not in key] == []
        session.close()


def overlapping_captures(scale: bool = False) -> None:
    """Two sessions whose captured batches overlap: the one that begins first also ends first."""
    begun, first_over = threading.Barrier(2), threading.Event()

    def train(session: Session, model: nn.Module, first: bool) -> None:
        scaler = torch.amp.GradScaler("cpu", enabled=scale)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if not first:
            begun.wait(20)
        with session.batch(phase="train"):
            if first:
                begun.wait(20)
                assert not first_over.wait(0.2)  # the second one has begun its batch by then
            scaler.scale(model(torch.ones(1, 2)).sum()).backward()
            scaler.step(optimizer)
            if not first:
                assert first_over.wait(20)
        first_over.set()

    sessions = []
    for first in (True, False):
        model = nn.Linear(2, 2)
        session = nansense_widgets.start(model)
        session.step_run()
        session.request_snapshot()
        session.launch(train, session, model, first)
        sessions.append(session)
    for session in sessions:
        assert session.wait(30)
        assert session.snapshot is not None
        session.close()


def runs_compiled() -> bool:
    ran: list[int] = []

    def backend(graph: Any, _inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            ran.append(1)
            return graph.forward(*args)

        return run

    torch.compile(lambda x: x * 2, backend=backend)(torch.ones(2))
    return bool(ran)


def test_overlapping_captures_leave_the_compiler_as_it_was() -> None:
    torch.compiler.reset()
    assert runs_compiled()
    overlapping_captures()
    try:
        assert runs_compiled()
    finally:
        torch.compiler.set_stance("default")  # what follows is not to suffer


def test_overlapping_captures_leave_torch_as_it_was() -> None:
    names = ("scale", "unscale_", "step")
    before = [getattr(torch.amp.GradScaler, name) for name in names]
    try:
        overlapping_captures(scale=True)
        assert [getattr(torch.amp.GradScaler, name) for name in names] == before
    finally:
        for name, method in zip(names, before, strict=True):
            setattr(torch.amp.GradScaler, name, method)
    tables = nn.modules.module
    assert not tables._global_forward_hooks  # noqa: SLF001
    assert not tables._global_forward_pre_hooks  # noqa: SLF001
    assert torch.overrides._get_current_function_mode_stack() == []  # noqa: SLF001
