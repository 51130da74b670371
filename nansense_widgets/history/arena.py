"""Many small tensors as one: a file holds a record of each tensor, and thousands of them take seconds."""

from __future__ import annotations

import torch

__all__ = ["LARGE", "Arena", "Place", "bytes_of"]

LARGE = 2**16
"""Bytes from which a tensor is kept by itself, and so is never copied."""

_ALIGNED = 16

Place = list[object]
"""Where a tensor is: `[index]` of a large one, or `[offset, dtype, shape]` in the block."""


class Arena:
    """Tensors on the CPU. Each comes out with the values, shape and dtype that it had, its strides aside."""

    def __init__(self) -> None:
        self._known: dict[int, Place] = {}
        self._held: list[torch.Tensor] = []
        self._large: list[torch.Tensor] = []
        self._small: list[torch.Tensor] = []
        self._end = 0

    def put(self, tensor: torch.Tensor) -> Place:
        """Its place; the same for the same tensor."""
        known = self._known.get(id(tensor))
        if known is None:
            known = self._known[id(tensor)] = self._put(tensor)
            self._held.append(tensor)  # so that no other gets its `id`
        return known

    def _put(self, tensor: torch.Tensor) -> Place:
        raw = bytes_of(tensor) if tensor.numel() * tensor.element_size() < LARGE else None
        if raw is None:
            self._large.append(tensor.detach())
            return [len(self._large) - 1]
        size = len(raw)
        place: Place = [self._end, str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]
        if size:
            rest = -size % _ALIGNED
            self._small += [raw, torch.zeros(rest, dtype=torch.uint8)] if rest else [raw]
            self._end += size + rest
        return place

    def packed(self) -> dict[str, object]:
        """All of it, for a file."""
        block = torch.cat(self._small) if self._small else torch.zeros(0, dtype=torch.uint8)
        return {"block": block, "large": self._large}

    @staticmethod
    def get(packed: dict[str, object], place: Place) -> torch.Tensor:
        """The tensor at a place: part of the file's own memory, not to be written to."""
        block, large = packed["block"], packed["large"]
        assert isinstance(block, torch.Tensor)
        assert isinstance(large, list)
        if len(place) == 1:
            found: torch.Tensor = large[_whole(place[0])]
            return found
        start, name, shape = place
        dtype = getattr(torch, str(name))
        assert isinstance(dtype, torch.dtype)
        assert isinstance(shape, list)
        sizes = [_whole(size) for size in shape]
        count = 1
        for size in sizes:
            count *= size
        first, length = _whole(start), count * dtype.itemsize
        if first + length > len(block):
            raise ValueError("a tensor ends behind the block")
        return block[first : first + length].view(dtype).reshape(sizes)


def bytes_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The values in the order of their indices, as uint8 of shape (bytes,); None without plain memory."""
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        return None
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    if flat.stride() != (1,):  # of a single value it may be anything
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8)


def _whole(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise TypeError(f"{value!r} is no place")
    return value
