"""Sets of indices along one axis, as fast as whole numbers are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["Places"]


@dataclass(frozen=True)
class Places:
    """Indices along one axis, possibly with holes between them and beyond the axis's ends; never none.

    Attributes:
        first: the least of them.
        bits: bit i stands for index `first + i`; bit 0 is set.
    """

    first: int
    bits: int

    @staticmethod
    def run(first: int, last: int) -> Places:
        """All from `first` to `last`, both included."""
        return Places(first, (1 << (last - first + 1)) - 1)

    @staticmethod
    def of(first: int, bits: int) -> Places | None:
        """The same set with its first bit in place; None if it is empty."""
        if not bits:
            return None
        low = (bits & -bits).bit_length() - 1
        return Places(first + low, bits >> low)

    @property
    def last(self) -> int:
        """The largest of them."""
        return self.first + self.bits.bit_length() - 1

    def __iter__(self) -> Iterator[int]:
        return (self.first + i for i, bit in enumerate(bin(self.bits)[:1:-1]) if bit == "1")

    def __or__(self, other: Places) -> Places:
        low = min(self.first, other.first)
        return Places(low, self.bits << (self.first - low) | other.bits << (other.first - low))

    def shifted(self, by: int) -> Places:
        """Each of them plus `by`."""
        return Places(self.first + by, self.bits)

    def inside(self, size: int) -> Places | None:
        """Those from 0 to `size - 1`."""
        bits = self.bits >> -self.first if self.first < 0 else self.bits
        first = max(self.first, 0)
        return Places.of(first, bits & ((1 << max(0, size - first)) - 1))

    def times(self, step: int) -> Places:
        """Each of them times `step`."""
        if step == 1:
            return self
        return Places(self.first * step, int(("0" * (step - 1)).join(f"{self.bits:b}"), 2))

    def divided(self, by: int) -> Places | None:
        """Those that `by` divides, divided by it."""
        if by == 1:
            return self
        skipped = -self.first % by
        digits = bin(self.bits)[:1:-1][skipped::by][::-1]
        return Places.of((self.first + skipped) // by, int(digits, 2)) if digits else None

    def plus_taps(self, taps: int, step: int) -> Places:
        """Each of them plus 0, step, …, (taps - 1) * step."""
        bits, done = self.bits, 1
        while done < taps:  # doubled as long as that fits
            more = min(done, taps - done)
            bits |= bits << more * step
            done += more
        return Places(self.first, bits)

    def mapped(self, spans: Callable[[int], tuple[int, int]]) -> Places:
        """All that lies in the span (first and last) of one of them."""
        result: Places | None = None
        for at in self:
            run = Places.run(*spans(at))
            result = run if result is None else result | run
        assert result is not None
        return result
