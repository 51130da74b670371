"""Who is told of batches, besides the snapshots: protocols that other rooms fill."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.batch import Fold
from nansense_widgets.capture.forward import RootListener
from nansense_widgets.run.item import LoaderItem
from nansense_widgets.run.position import BatchPosition

__all__ = ["CallKeeper", "RunRecorder", "Statistics"]


class Statistics(Protocol):
    """Who wants the values of every batch, captured or not."""

    def begin(
        self,
        position: BatchPosition,
        watched: Sequence[str],
        architecture: Architecture,
        parameter: Callable[[str], torch.Tensor],
        *,
        partly: bool,
        item: LoaderItem | None,
        optimizers: Sequence[Optimizer],
        module: Callable[[str], nn.Module | None],
    ) -> Fold | None:
        """What this batch's values go into; None: nothing is wanted. `partly`: only captured batches come."""

    def restart(self) -> None:
        """Another run begins."""


class RunRecorder(Protocol):
    """Keeps numbers of the whole run, batch by batch."""

    def begin(self, position: BatchPosition, optimizers: Sequence[Optimizer]) -> None:
        """A batch begins."""

    def loss(self, number: int, loss: float | torch.Tensor) -> None:
        """A backward pass of the open batch begins from this value; `number` counts them, from 0."""

    def end(self) -> None:
        """The batch is over."""

    def restart(self) -> None:
        """Another run begins."""


class CallKeeper(RootListener, Protocol):
    """Keeps what the model is given in the batches that are shown. Never raises."""

    def begin(self, position: BatchPosition, item: LoaderItem | None) -> None:
        """A captured batch begins."""

    def end(self) -> None:
        """It is over, and its snapshot is there."""
