"""Which pass of autograd is under way: a `backward()`, or a `torch.autograd.grad` that the user looks at."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

import torch

from nansense_widgets.capture.values import unobserved

__all__ = ["BackwardPasses", "grad_fn_of", "gradient_edge", "in_backward", "is_traced"]

_GRAD = torch.autograd.grad.__code__
_BACKWARD = torch.autograd.backward.__code__


def in_backward() -> bool:
    """Whether autograd runs on this thread: a forward now is a recomputation (activation checkpointing)."""
    return bool(torch._C._current_graph_task_id() != -1)


def grad_fn_of(tensor: torch.Tensor) -> Any:
    """The node that made a tensor, or None. Of a view whose base was changed in a way that autograd forbids,
    asking raises; the user's program may go on all the same."""
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def gradient_edge(tensor: torch.Tensor) -> tuple[Any, int]:
    """The node of autograd's graph through which the gradient of a tensor flows, and which output it is.

    That of a leaf lives only while somebody holds it or a graph uses it.
    """
    if (node := grad_fn_of(tensor)) is not None:
        return node, tensor.output_nr
    with unobserved(), torch.enable_grad():  # torch finds a leaf's by making a view of it
        edge = torch.autograd.graph.get_gradient_edge(tensor)
    return edge.node, edge.output_nr


def is_traced() -> bool:
    """Whether what runs now is recorded by Dynamo or `torch.jit.trace`: they would record us as well."""
    return torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None


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
        # a thread of the engine, so the training thread's frames are asked after this one's.
        innermost = _innermost_pass(sys._getframe())
        return (innermost or _innermost_pass(sys._current_frames().get(self._thread))) is _GRAD


def _innermost_pass(frame: FrameType | None) -> CodeType | None:
    """The `grad` or `backward` that a frame is inside of."""
    while frame is not None:
        if frame.f_code is _GRAD or frame.f_code is _BACKWARD:
            return frame.f_code
        frame = frame.f_back
    return None
