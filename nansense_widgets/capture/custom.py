"""What the user's own tensor instruments gave for one captured batch."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

__all__ = ["CustomTensors"]


@dataclass
class CustomTensors:
    """Copies on the CPU; see `BatchSnapshot`."""

    activations: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)
    """Layer to instrument to tensor."""
    activation_reasons: dict[str, dict[str, str]] = field(default_factory=dict)
    """The same, to why there is none, or not all of it."""
    weights: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)
    """Parameter to instrument to tensor."""
    weight_reasons: dict[str, dict[str, str]] = field(default_factory=dict)
