"""What a capture installs for a batch is gone after it; a test that leaves something behind fails itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.amp.grad_scaler import GradScaler
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

STEP = GradScaler.step


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    yield
    hooks = {
        name: len(table)
        for owner in (torch_module, torch_optimizer)
        for name, table in vars(owner).items()
        if name.startswith("_global_") and hasattr(table, "__len__") and len(table)
    }
    assert hooks == {}
    assert torch.overrides._get_current_function_mode_stack() == []  # noqa: SLF001
    assert GradScaler.step is STEP
