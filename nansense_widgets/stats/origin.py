"""What is known of a batch's samples from the item that the loader gave."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler, default_collate

from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.values import unreadable
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
        self._tensors: list[_Loaded] = []
        self._labelled: _Loaded | None = None
        self._held: list[torch.Tensor] = []
        self._labels: torch.Tensor | None = None
        self._name = ""
        self._first: int | None = None
        if item is None:
            return
        found = list(leaves(item.value))
        keep = torch.cuda.is_available() and torch.cuda.is_initialized()
        self._held = [tensor for _, tensor in found if keep and not tensor.is_cuda]
        self._tensors = [_Loaded(tensor) for _, tensor in found]
        self._find_labels(item.value, found)
        self._first = _first_index(item)

    def label(self, tensor: torch.Tensor, axis: int, index: int) -> tuple[int | None, str]:
        """The label of a sample, and its name; None unless it is certain, as `dataset_index`."""
        if self._labels is None or self._labelled is None or not self._labelled.has(tensor, axis, index):
            return None, ""
        return int(self._labels[index]), self._name

    def dataset_index(self, tensor: torch.Tensor, axis: int, index: int) -> int | None:
        """Where a sample lies in the dataset; None unless it is certain.

        The input has to be the loader's tensor as it came, or have the same values in this sample.
        """
        if self._first is None or not any(own.has(tensor, axis, index) for own in self._tensors):
            return None
        return self._first + index

    def _find_labels(self, value: Any, found: list[tuple[str, torch.Tensor]]) -> None:
        """Of two tensors the one that has one whole number a sample, and whose partner has more."""
        if len(found) != 2 or not isinstance(value, (tuple, list, Mapping)):
            return
        for (path, tensor), (_, other) in (found, found[::-1]):
            more = other.ndim > 0 and len(other) == len(tensor) and other.numel() > tensor.numel()
            if _is_label(tensor) and more and not _is_label(other):
                self._labels = tensor.detach().reshape(-1).clone()
                self._labelled = _Loaded(other)
                key = path.strip(".[]'\"")
                self._name = key if key.isidentifier() else "target"
                return


class _Loaded:
    """A tensor of the item, as long as it lives and nothing changes it in place."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = weakref.ref(tensor)
        self._version = None if tensor.is_inference() else tensor._version

    def has(self, tensor: torch.Tensor, axis: int, index: int) -> bool:
        """Whether a sample of an input is the one at the same place of this tensor.

        A loop may permute, flip or mix the samples, or give the model other ones.
        """
        own = self._tensor()
        if own is None or axis != 0 or own.layout is not torch.strided or own.ndim == 0:
            return False
        if self._version is not None and own._version != self._version:
            return False
        if own is tensor:
            return True
        if len(own) != len(tensor) or own.numel() != tensor.numel() or unreadable(own) or own.is_quantized:
            return False
        theirs = tensor.select(0, index).reshape(-1).to(own.device, own.dtype)
        return torch.equal(own.select(0, index).reshape(-1), theirs)


def _is_label(tensor: torch.Tensor) -> bool:
    whole = not (tensor.is_floating_point() or tensor.is_complex())
    one_each = tensor.ndim == 1 or (tensor.ndim == 2 and tensor.shape[1] == 1)
    plain = tensor.layout is torch.strided and not unreadable(tensor)
    return whole and one_each and plain and 0 < tensor.numel() <= LABELS


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
