"""What is said of a tensor in a line: its norm, zeros, extremes, and what is no finite number."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nansense_widgets.media.values import NonFinite, readable

__all__ = ["TensorFacts", "tensor_facts"]

_TINY, _HUGE = 1e-12, 1e15
"""Largest magnitudes between these have squares whose sum float32 can hold."""


@dataclass(frozen=True)
class TensorFacts:
    """Of a whole tensor; norm, scale and low are over its finite values (magnitudes of complex numbers)."""

    numel: int
    zeros: int
    norm: float
    """Root of the sum of squares."""
    scale: float
    """Largest magnitude; 0 if nothing is finite."""
    low: float
    """Smallest value; 0 if nothing is finite."""
    nonfinite: NonFinite


def tensor_facts(tensor: torch.Tensor) -> TensorFacts:
    """Measured in few passes: 16 million float32 values take some 20 ms. The tensor must be drawable."""
    values = readable(tensor)
    zeros = values.numel() - int(torch.count_nonzero(values))
    low, high = (float(end) for end in torch.aminmax(values))
    nonfinite = NonFinite()
    if not (abs(low) < float("inf") and abs(high) < float("inf")):
        nonfinite = NonFinite(
            int(values.isnan().sum()),
            int((values == float("inf")).sum()),
            int((values == float("-inf")).sum()),
        )
        values = values[values.isfinite()]
        if values.numel() == 0:
            return TensorFacts(tensor.numel(), zeros, 0.0, 0.0, 0.0, nonfinite)
        low, high = (float(end) for end in torch.aminmax(values))
    scale = max(abs(low), abs(high))
    return TensorFacts(tensor.numel(), zeros, _norm(values, scale), scale, low, nonfinite)


def _norm(values: torch.Tensor, scale: float) -> float:
    if scale == 0:
        return 0.0
    if _TINY < scale < _HUGE:
        return float(torch.linalg.vector_norm(values))
    return float(torch.linalg.vector_norm(values.double() / scale)) * scale
