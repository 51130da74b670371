"""Which pass of autograd is under way: a `backward()`, or a `torch.autograd.grad` that the user looks at."""

from __future__ import annotations

import sys
from types import FrameType

import torch

__all__ = ["BackwardPasses", "in_backward"]

_GRAD = torch.autograd.grad.__code__
_BACKWARD = torch.autograd.backward.__code__


def in_backward() -> bool:
    """Whether autograd runs on this thread: a forward now is a recomputation (activation checkpointing)."""
    return bool(torch._C._current_graph_task_id() != -1)


class BackwardPasses:
    """Tells the passes of one batch apart. Asked inside gradient hooks, on whichever thread runs them.

    Args:
        thread: identity of the training thread, which waits in `backward` or `grad` while they run.
    """

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._asides: dict[int, bool] = {}

    def current(self) -> tuple[int, bool]:
        """Number of the pass under way, and whether it is an aside: `torch.autograd.grad`, which leaves
        `.grad` alone (a gradient penalty, an inner loop)."""
        number = torch._C._current_graph_task_id()
        aside = self._asides.get(number)
        if aside is None:
            aside = self._asides[number] = self._is_aside()
        return number, aside

    def _is_aside(self) -> bool:
        # Torch tells hooks nothing of the call they run in; the frames of the call do. On CUDA hooks run on
        # a thread of the engine, so the training thread's frames are asked.
        frame: FrameType | None = sys._current_frames().get(self._thread)
        while frame is not None:
            if frame.f_code is _GRAD:
                return True
            if frame.f_code is _BACKWARD:
                return False
            frame = frame.f_back
        return False
