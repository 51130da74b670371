"""Tensors of a batch, held until its end without a copy, and seen through if they are rewritten meanwhile."""

from __future__ import annotations

import weakref

import torch

from nansense_widgets.capture.values import size_of

__all__ = ["Held", "NotHeld", "Rewritten", "Seen", "gradient_of", "is_freed"]

ROOM = 256 * 2**20
"""Bytes of copies in a batch of values of which it is not known yet whether they stay as they are."""

Key = tuple[str, str]
"""What kind of tensor, and its layer or parameter."""


class NotHeld(BaseException):
    """A value that an instrument reads is not there: no error of its own, and none that it should handle."""


class Rewritten:
    """Which values the program rewrites before a batch is over, learned from its batches.

    `nn.ReLU(inplace=True)` rewrites what the layer before it gave, `zero_grad(set_to_none=False)` gradients.
    """

    def __init__(self) -> None:
        self._phases: dict[str, dict[Key, bool]] = {}
        self._known: dict[Key, bool] = {}
        self._room = ROOM

    def begin(self, phase: str) -> None:
        """Another batch. A layer may hand on its input in one phase and not in another, as dropout does."""
        self._known = self._phases.setdefault(phase, {})
        self._room = ROOM

    def needs_copy(self, key: Key, tensor: torch.Tensor) -> bool:
        """Whether a value has to be copied now, since it may not be there later."""
        known = self._known.get(key)
        if known is not None:
            return known
        size = size_of(tensor)
        if size > self._room:  # it may well stay as it is
            return False
        self._room -= size
        return True

    def learn(self, key: Key, changed: bool) -> None:
        """What became of a value. One that was rewritten once is copied from then on."""
        if changed or key not in self._known:
            self._known[key] = changed


class Held:
    """One tensor as it was when it was taken. Without a graph: only its memory lives on."""

    __slots__ = ("_alias", "_copy", "_version")

    def __init__(self, tensor: torch.Tensor, key: Key, rewritten: Rewritten) -> None:
        self._alias = tensor.detach()  # shares memory and version counter
        # A tensor of inference mode counts no versions: nothing would tell that it was rewritten.
        inference = tensor.is_inference()
        self._version = 0 if inference else tensor._version
        self._copy = self._alias.clone() if inference or rewritten.needs_copy(key, tensor) else None

    def value(self, key: Key, rewritten: Rewritten) -> torch.Tensor | None:
        """It, or None if it was rewritten or its memory is gone."""
        alias = self._alias
        changed = not alias.is_inference() and (alias._version != self._version or is_freed(alias))
        rewritten.learn(key, changed)
        if self._copy is not None:
            return self._copy
        return None if changed else alias


def is_freed(tensor: torch.Tensor) -> bool:
    """Whether its memory was given back, as sharding and offloading do: reading it would end the process."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return False
    try:
        return tensor.untyped_storage().nbytes() == 0
    except (RuntimeError, NotImplementedError):  # a subclass without a storage
        return False


class Seen:
    """Which gradient a parameter had, and in which version, without keeping it alive."""

    __slots__ = ("_gradient", "_version")

    def __init__(self, gradient: torch.Tensor) -> None:
        self._gradient = weakref.ref(gradient)
        self._version = 0 if gradient.is_inference() else gradient._version

    def is_same(self, gradient: torch.Tensor) -> bool:
        """Whether this is that gradient, unchanged."""
        version = 0 if gradient.is_inference() else gradient._version
        return self._gradient() is gradient and version == self._version


def gradient_of(parameter: torch.Tensor) -> torch.Tensor | None:
    """`.grad`, of leaves only: of other tensors torch warns."""
    return parameter.grad if parameter.is_leaf else None
