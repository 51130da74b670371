"""The structure of inputs and outputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

from tests.kinds.program import Program, classify, images, kind


class Output(NamedTuple):
    logits: torch.Tensor
    features: dict[str, torch.Tensor]


@kind
def nested_outputs_and_keyword_inputs() -> Program:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(64, 5)

        def forward(self, *, hidden: torch.Tensor, scale: float, mask: torch.Tensor | None = None) -> Output:
            y = self.fc(hidden) * scale
            return Output(y if mask is None else y * mask, {"hidden": hidden})

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, batch: dict[str, Any]) -> torch.Tensor:
            return self.inner(hidden=batch["image"][0].flatten(1), scale=2.0, mask=None).logits

    model = Outer()
    program = classify(model)
    program.batches = [({"image": [x], "id": 3}, y) for x, y in images()]
    return program
