"""Compile, run a step, then watch a layer: compiled code calls no hooks, so a tool that relies on them shows
nothing, or what an earlier batch left there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.reports.training import watched


class Backend:
    """Counts how often code is compiled and how often it runs."""

    def __init__(self) -> None:
        self.compiled = self.ran = 0

    def __call__(self, graph: Any, _inputs: Any) -> Callable[..., Any]:
        self.compiled += 1

        def run(*args: Any) -> Any:
            self.ran += 1
            return graph.forward(*args)

        return run


@pytest.mark.parametrize("when", ["before start", "after start"])
def test_watching_after_compile_is_never_stale(when: str) -> None:
    torch._dynamo.reset()  # noqa: SLF001  its limit of recompilations is one for the whole process
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    backend = Backend()
    fast: list[Any] = [torch.compile(plain, backend=backend)] if when == "before start" else []
    x = torch.randn(8, 3, 4)

    def body(index: int) -> None:
        if not fast:
            fast.append(torch.compile(plain, backend=backend))
        fast[0](x[index]).square().sum().backward()

    model = fast[0] if fast else plain
    with watched(model, body, batches=8, watch="") as run:
        run.session.step_until_position("train", 0, 3)
        run.paused(1)
        ran = backend.ran
        assert backend.compiled == 1
        assert ran >= 2  # batches that nobody looks at run compiled
        assert run.snapshot.activations == {}
        run.session.watch("1")
        assert run.card("1")["by_kind"]["activations"]["missing"].startswith("not captured: watched after")
        for index in (4, 5):
            run.do("step_batch")
            out = plain[1](plain[0](x[index]))
            assert torch.equal(run.snapshot.activations["1"], out)
            by_hand = torch.autograd.grad(plain[2](out).square().sum(), out)[0]
            assert torch.allclose(run.snapshot.activation_gradients["1"], by_hand)
    assert backend.compiled == 1  # nothing was compiled anew
    assert backend.ran > ran
