"""Euclidean norms of tensors and of their differences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from nansense_widgets.stats import native
from nansense_widgets.stats.summary import as_numbers

__all__ = ["Number", "Pair", "norm", "norms"]

Number = float | torch.Tensor
"""A number, or on an accelerator a tensor of it, which is fetched later."""

Pair = tuple[torch.Tensor, torch.Tensor | None]
"""A tensor, or two whose difference is meant."""

ROW = 256

_TINY, _HUGE = 1e-12, 1e15
"""Norms between these have squares that float32 can hold."""


def norms(pairs: Sequence[Pair]) -> list[Number | Exception]:
    """The norm of each, or what went wrong with it. The second tensor of a pair may be written to."""
    plain = [at for at, pair in enumerate(pairs) if native.is_built() and _is_plain(*pair)]
    found: dict[int, Number | Exception] = {}
    if plain:  # mostly all: a model has hundreds of parameters, and a call costs as much as a small one
        found.update(zip(plain, native.norms([pairs[at] for at in plain]), strict=True))
    return [found[at] if at in found else _one(*pair) for at, pair in enumerate(pairs)]


def _is_plain(tensor: torch.Tensor, other: torch.Tensor | None) -> bool:
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)  # others may have no memory of their own
        and tensor.dtype is torch.float32
        and tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and not tensor._is_zerotensor()
        and (other is None or (other.shape == tensor.shape and _is_plain(other, None)))
    )


def _one(tensor: torch.Tensor, other: torch.Tensor | None) -> Number | Exception:
    try:
        return norm(tensor if other is None else torch.sub(tensor.detach(), other, out=other))
    except Exception as error:  # an instrument must not end the run
        return error


def norm(tensor: torch.Tensor) -> Number:
    """Euclidean norm of all values: a number, or on an accelerator a tensor, for which nothing waits."""
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:  # gradients of sparse embeddings
        tensor = tensor.coalesce().values() if tensor.layout is torch.sparse_coo else tensor.to_dense()
    if tensor.device.type != "cpu":
        exact = tensor.dtype in (torch.float64, torch.complex128)
        wide = torch.complex64 if tensor.is_complex() else torch.float32
        found: torch.Tensor = torch.linalg.vector_norm(tensor, dtype=None if exact else wide)
        return found
    values = as_numbers(tensor).view(-1)
    whole = values.numel() // ROW * ROW
    # In float32 along short rows, in float64 over them.
    rows = torch.linalg.vector_norm(values[:whole].view(-1, ROW), dim=1).numpy().astype(np.float64)
    rest = values[whole:].numpy().astype(np.float64)
    size = float(np.sqrt(rows @ rows + rest @ rest))
    if _TINY < size < _HUGE:
        return size
    return float(torch.linalg.vector_norm(values, dtype=torch.float64))
