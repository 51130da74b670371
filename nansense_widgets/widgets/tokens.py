"""Token ids as such: the view model of an input that goes into an embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nansense_widgets.capture.axes import Axes
from nansense_widgets.media.inputs import InputTransform
from nansense_widgets.widgets.protocol_strips import Tokens

__all__ = ["are_tokens", "tokens_of"]

MOST = 2048
"""Ids of one sample that are sent."""


def are_tokens(tensor: torch.Tensor, axes: Axes | None, *, named: bool) -> bool:
    """Whether a tensor holds token ids: whole numbers that an embedding reads, which have no channels.

    An input that is `named` in the user's `input_transform` holds them too: nothing else of whole numbers has
    a text.
    """
    whole = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool)
    read = named or (axes is not None and axes.channel is None)
    return whole and read and tensor.ndim in (1, 2) and tensor.numel() > 0


def tokens_of(tensor: torch.Tensor, axes: Axes, sample: int, text: InputTransform | None) -> Tokens:
    """Ids of one sample, and their text if the user's `input_transform` gives text for them.

    Raises:
        IndexError: if there is no such sample.
        Exception: whatever the user's function raises.
    """
    batch = axes.batch if tensor.ndim == 2 else None
    ids = tensor if batch is None else tensor.select(batch, sample)
    flat = ids.reshape(-1)
    texts: list[str] = []
    whole = ""
    if text is not None:
        given: Any = text(flat[:MOST].clone())  # it may replace ids in place, and these are the snapshot's
        if isinstance(given, str):
            whole = given
        elif isinstance(given, Sequence):
            texts = [str(item) for item in given]
            if len(texts) != len(flat[:MOST]):
                raise ValueError(f"input_transform gave {len(texts)} texts for {len(flat[:MOST])} token ids")
        else:
            raise TypeError(
                f"input_transform gave a {type(given).__name__} for token ids, not a text or a list of texts"
            )
    return {"ids": flat[:MOST].tolist(), "texts": texts, "text": whole, "total": flat.numel()}
