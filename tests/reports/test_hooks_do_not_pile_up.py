"""Running the start cell again and again, or breaking off between forward and backward, leaves hooks behind
in tools that put them on the model. Here their number stays what the user made it.
"""

from __future__ import annotations

import contextlib

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import _global_optimizer_pre_hooks

import nansense_widgets
from nansense_widgets import Session
from tests.driver import Driver

HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)


def count(model: nn.Module, optimizer: Optimizer) -> dict[str, int]:
    """Hooks by where they are, those of torch's global tables included."""
    found = {name: sum(len(getattr(m, name)) for m in model.modules()) for name in HOOKS}
    tables = nn.modules.module
    found |= {f"global{name}": len(getattr(tables, f"_global{name}")) for name in HOOKS}
    found["parameter"] = sum(len(p._post_accumulate_grad_hooks or {}) for p in model.parameters())  # noqa: SLF001
    found["tensor"] = sum(len(p._backward_hooks or {}) for p in model.parameters())  # noqa: SLF001
    found["step"] = len(optimizer._optimizer_step_pre_hooks)  # noqa: SLF001
    found["any step"] = len(_global_optimizer_pre_hooks)
    found["modes"] = len(torch.overrides._get_current_function_mode_stack())  # noqa: SLF001
    return found


def trainable() -> tuple[nn.Module, Optimizer]:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    model[0].register_forward_hook(lambda module, args, out: out * 1)  # one of the user's own
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def test_starting_five_times_leaves_the_model_as_it_was() -> None:
    model, optimizer = trainable()
    before = count(model, optimizer)
    assert before["_forward_hooks"] == 1
    session: Session | None = None
    for _ in range(5):
        session = nansense_widgets.start(model, optimizer=optimizer)
        session.watch("*")

        def loop(session: Session = session) -> None:
            for _ in session.batches(range(3), phase="train"):
                model(torch.ones(2, 4)).sum().backward()
                optimizer.step()

        Driver(session, loop)  # stands after the first batch; the next start closes it
        assert count(model, optimizer) == before
    assert session is not None
    session.close()
    assert count(model, optimizer) == before


def test_breaking_off_between_forward_and_backward_leaves_nothing() -> None:
    model, optimizer = trainable()
    before = count(model, optimizer)
    session = nansense_widgets.start(model, optimizer=optimizer)
    session.watch("*")
    seen: list[dict[str, int]] = []

    def loop() -> None:
        for attempt in range(3):
            with contextlib.suppress(KeyboardInterrupt):
                for _ in session.batches(range(3), phase="train"):
                    loss = model(torch.ones(2, 4)).sum()
                    if attempt < 2:
                        raise KeyboardInterrupt
                    session.close()  # from inside the batch, before its backward
                    loss.backward()
            seen.append(count(model, optimizer))

    session.step_batch()
    session.launch(loop)
    pauses = 0
    while session.wait_until_paused(after_pauses=pauses, timeout=20):
        pauses = session.pause_count
        session.step_batch()
    assert session.wait(20)
    assert seen == [before, before]  # the third attempt ended with the session
    assert count(model, optimizer) == before
    assert model[0].weight.grad is not None
