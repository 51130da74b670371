"""From an item as the loader gives it to what the model is given of it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch

from nansense_widgets.capture.leaves import leaves
from nansense_widgets.probe.keeper import KeptCall

__all__ = ["as_arguments"]


def as_arguments(
    like: KeptCall, inputs: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, torch.Tensor]]:
    """Arguments of the model, and tensors that may be labels.

    One tuple, list or dict that has the same tensors as the items of the loop's loader is taken for such an
    item, unless the model itself was given something of that form. Otherwise the inputs are the arguments.

    Raises:
        ValueError: if it is an item, and what the model takes of it cannot be told.
    """
    if len(inputs) != 1 or keywords or isinstance(inputs[0], torch.Tensor):
        return inputs, keywords, {}
    item = inputs[0]
    found = dict(leaves(item))
    if tuple(found) != like.item.all or not isinstance(item, (tuple, list, Mapping)):
        return inputs, keywords, {}
    if like.item.given is None:
        form = [path for path, _ in leaves(like.args)]
        if len(like.args) == 1 and form == [f"[0]{path}" for path in found]:
            return inputs, keywords, {}  # the model takes the whole item
        raise ValueError(
            "inputs is an item of the loader, but the model is given tensors that the loop makes of it: "
            "pin what the model is called with"
        )
    new = {
        id(tensor): found[like.item.given[path]] for path, tensor in leaves((like.args, dict(like.kwargs)))
    }
    # Everything else that the model is given stays as it was in the shown batch.
    args, kwargs = copy.deepcopy((like.args, dict(like.kwargs)), dict(new))
    return args, kwargs, {path: tensor.detach().cpu().clone() for path, tensor in found.items()}
