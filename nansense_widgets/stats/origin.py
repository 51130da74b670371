"""What is known of a batch's samples from the item that the loader gave."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler, default_collate

from nansense_widgets.capture.leaves import leaves
from nansense_widgets.run.item import LoaderItem

__all__ = ["Origin"]

LABELS = 2**16
"""Labels of one batch that are kept at most."""


class Origin:
    """Looks at a batch's item as the batch begins, and answers for its samples later.

    Labels are copied. Of the tensors it keeps weak references, so that a batch lives no longer than it would;
    only with a GPU in use, where the loop's `.to(device)` replaces the loader's tensors, it keeps those on
    the CPU until the batch is over, to tell whether a sample is still the loader's.
    """

    def __init__(self, item: LoaderItem | None) -> None:
        self._tensors: list[weakref.ref[torch.Tensor]] = []
        self._held: list[torch.Tensor] = []
        self._labels: torch.Tensor | None = None
        self._name = ""
        self._first: int | None = None
        if item is None:
            return
        found = list(leaves(item.value))
        keep = torch.cuda.is_available() and torch.cuda.is_initialized()
        self._held = [tensor for _, tensor in found if keep and not tensor.is_cuda]
        self._tensors = [weakref.ref(tensor) for _, tensor in found]
        self._find_labels(item.value, found)
        self._first = _first_index(item)

    def label(self, index: int, samples: int) -> tuple[int | None, str]:
        """The label at a sample's place in a batch of so many, and its name."""
        if self._labels is None or len(self._labels) != samples:
            return None, ""
        return int(self._labels[index]), self._name

    def dataset_index(self, tensor: torch.Tensor, axis: int, index: int) -> int | None:
        """Where a sample lies in the dataset; None unless it is certain.

        The input has to be the loader's tensor itself, or a copy that has the same values in this sample.
        """
        if self._first is None:
            return None
        for reference in self._tensors:
            own = reference()
            if own is None:
                continue
            if own is tensor or (
                own.shape == tensor.shape
                and own.layout is torch.strided
                and torch.equal(own.select(axis, index), tensor.select(axis, index).to(own.device, own.dtype))
            ):
                return self._first + index
        return None

    def _find_labels(self, value: Any, found: list[tuple[str, torch.Tensor]]) -> None:
        """Of two tensors the one that has one whole number a sample, and whose partner has more."""
        if len(found) != 2 or not isinstance(value, (tuple, list, Mapping)):
            return
        for (path, tensor), (_, other) in (found, found[::-1]):
            if _is_label(tensor) and other.ndim > 0 and len(other) == len(tensor) and not _is_label(other):
                self._labels = tensor.detach().reshape(-1).clone()
                key = path.strip(".[]'\"")
                self._name = "target" if not key or key.isdigit() else key
                return


def _is_label(tensor: torch.Tensor) -> bool:
    whole = not (tensor.is_floating_point() or tensor.is_complex())
    one_each = tensor.ndim == 1 or (tensor.ndim == 2 and tensor.shape[1] == 1)
    return whole and one_each and 0 < tensor.numel() <= LABELS and tensor.layout is torch.strided


def _first_index(item: LoaderItem) -> int | None:
    """The dataset index of a batch's first sample, where torch's own parts go through a dataset in order."""
    loader = item.loader
    if type(loader) is not DataLoader or item.number is None or loader.batch_size is None:
        return None
    in_order = (
        not isinstance(loader.dataset, IterableDataset)
        and type(loader.sampler) is SequentialSampler
        and type(loader.batch_sampler) is BatchSampler
        and loader.batch_sampler.sampler is loader.sampler
        and loader.batch_sampler.batch_size == loader.batch_size
        and loader.collate_fn is default_collate
        and getattr(loader, "in_order", True)
    )
    return item.number * loader.batch_size if in_order else None
