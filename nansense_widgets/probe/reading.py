"""What widgets read of a probe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch

from nansense_widgets.probe.answers import Answers, LossKind
from nansense_widgets.probe.batch import InputBatch
from nansense_widgets.probe.field import MeasuredField
from nansense_widgets.probe.perturbation import Perturbation
from nansense_widgets.probe.result import ProbeMode, ProbeResult
from nansense_widgets.probe.updates import PinUpdate

__all__ = ["NoProbe", "ProbeReading"]


class ProbeReading(Protocol):
    """`session.probe`: what is pinned and perturbed, and what came of it; safe from any thread."""

    @property
    def mode(self) -> ProbeMode:
        """Forward mode."""
        ...

    @property
    def batch(self) -> InputBatch | None:
        """The pinned batch; without one, that which was captured last; None: there is none."""
        ...

    @property
    def why_none(self) -> str:
        """Why there is no batch; empty if there is."""
        ...

    @property
    def answers(self) -> Answers | None:
        """What the model said in `batch` itself, as it ran; None: it has not run (a batch of your own)."""
        ...

    @property
    def known_loss(self) -> LossKind | None:
        """Which loss the run uses, as far as that has been found out."""
        ...

    @property
    def is_pinned(self) -> bool:
        """Whether a batch is pinned."""
        ...

    @property
    def updates(self) -> tuple[PinUpdate, ...]:
        """What the model said of the pinned batch, update by update, since it was pinned."""
        ...

    @property
    def perturbations(self) -> tuple[Perturbation, ...]:
        """The perturbations, in the order in which they are applied."""
        ...

    @property
    def result(self) -> ProbeResult | None:
        """Of the last probe; None: nothing is pinned or perturbed."""
        ...

    @property
    def computing(self) -> bool:
        """Whether a probe was asked for that has not run yet."""
        ...

    @property
    def field(self) -> MeasuredField | None:
        """The receptive field that was asked for last."""
        ...

    def inputs(self, *, original: bool = False) -> Mapping[str, torch.Tensor]:
        """Inputs of `batch` by name, on the CPU, with their perturbations; `original`: without them."""
        ...


class NoProbe:
    """That of a session which captures nothing."""

    mode: ProbeMode = "unchanged"
    batch: InputBatch | None = None
    why_none = "nothing is captured: the session was started with enabled=False"
    answers: Answers | None = None
    known_loss: LossKind | None = None
    is_pinned = False
    updates: tuple[PinUpdate, ...] = ()
    perturbations: tuple[Perturbation, ...] = ()
    result: ProbeResult | None = None
    computing = False
    field: MeasuredField | None = None

    def inputs(self, *, original: bool = False) -> Mapping[str, torch.Tensor]:  # noqa: ARG002  as of a probe
        """There are none."""
        return {}
