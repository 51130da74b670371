"""One call of the model, kept: what it was given, what it gave, and how it computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from nansense_widgets.run.position import BatchPosition

__all__ = ["InputBatch", "InputPlace"]


@dataclass(frozen=True)
class InputPlace:
    """Where an input is found: the layer of that name (a parameter of the forward), and the path in it."""

    layer: str
    path: str

    @property
    def name(self) -> str:
        return self.layer + self.path


@dataclass(frozen=True, eq=False)
class InputBatch:
    """The inputs of one call of the model, and what came with them. Nobody writes to its tensors.

    Attributes:
        position: of the batch; None: the user's own.
        inputs: name of each tensor that the model was given, nested ones with their path (`batch.image`), to
            its values, on the CPU.
        places: the same names to where each is found.
        targets: tensors that may be labels: those of the loader's item and of the model's keywords, by path,
            on the CPU; small ones only.
        output: tensors that the model gave, by path (`""` for a plain one), on the CPU.
        losses: values that `backward()` started from in this batch; empty where there was none.
        calls: how often the model was called in the batch; this is the first call.
        training: `train`, `eval` or `mixed`: flags of its modules in that call.
    """

    position: BatchPosition | None
    inputs: Mapping[str, torch.Tensor]
    places: Mapping[str, InputPlace]
    targets: Mapping[str, torch.Tensor] = field(default_factory=dict)
    output: Mapping[str, torch.Tensor] = field(default_factory=dict)
    losses: tuple[float, ...] = ()
    calls: int = 1
    training: str = "train"

    @property
    def text(self) -> str:
        """Where it comes from."""
        return "your own batch" if self.position is None else str(self.position)

    def __repr__(self) -> str:  # the default one would print every tensor
        shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in self.inputs.items())
        return f"<InputBatch of {self.text}: {shapes}>"
