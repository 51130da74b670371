"""How torch computes around a batch: what decides last digits beside model, input and random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import torch

__all__ = ["Computing"]

_KINDS = ("cpu", "cuda")


@dataclass(frozen=True)
class Computing:
    """What holds on one thread.

    Attributes:
        threads: of one operation on the processor.
        inference: whether inference mode is on.
        autocast: kind of device to dtype, where autocast is on around the whole batch.
    """

    threads: int = 1
    inference: bool = False
    autocast: Mapping[str, torch.dtype] = field(default_factory=dict)

    @staticmethod
    def now() -> Computing:
        """As it is on this thread."""
        kinds = [kind for kind in _KINDS if torch.is_autocast_enabled(kind)]
        return Computing(
            torch.get_num_threads(),
            torch.is_inference_mode_enabled(),
            {kind: torch.get_autocast_dtype(kind) for kind in kinds},
        )

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Compute so, and as before afterwards."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            with ExitStack() as entered:
                for kind in _KINDS:
                    dtype = self.autocast.get(kind)
                    if dtype is not None:
                        entered.enter_context(torch.autocast(kind, dtype))
                    elif torch.is_autocast_enabled(kind):
                        entered.enter_context(torch.autocast(kind, enabled=False))
                if self.inference != torch.is_inference_mode_enabled():
                    entered.enter_context(torch.inference_mode(self.inference))
                yield
        finally:
            torch.set_num_threads(before)
