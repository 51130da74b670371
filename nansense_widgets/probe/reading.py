"""What widgets read of a probe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch

from nansense_widgets.probe.answers import Answers
from nansense_widgets.probe.batch import InputBatch
from nansense_widgets.probe.field import MeasuredField
from nansense_widgets.probe.perturbation import Perturbation
from nansense_widgets.probe.result import ProbeMode, ProbeResult
from nansense_widgets.probe.updates import PinUpdate

__all__ = ["NoProbe", "ProbeReading"]


class ProbeReading(Protocol):
    """Every read is safe from any thread."""

    @property
    def mode(self) -> ProbeMode: ...
    @property
    def batch(self) -> InputBatch | None: ...
    @property
    def why_none(self) -> str: ...
    @property
    def answers(self) -> Answers | None: ...
    @property
    def is_pinned(self) -> bool: ...
    @property
    def updates(self) -> tuple[PinUpdate, ...]: ...
    @property
    def perturbations(self) -> tuple[Perturbation, ...]: ...
    @property
    def result(self) -> ProbeResult | None: ...
    @property
    def computing(self) -> bool: ...
    @property
    def field(self) -> MeasuredField | None: ...
    def inputs(self, *, original: bool = False) -> Mapping[str, torch.Tensor]: ...


class NoProbe:
    """That of a session which captures nothing."""

    mode: ProbeMode = "unchanged"
    batch: InputBatch | None = None
    why_none = "nothing is captured: the session was started with enabled=False"
    answers: Answers | None = None
    is_pinned = False
    updates: tuple[PinUpdate, ...] = ()
    perturbations: tuple[Perturbation, ...] = ()
    result: ProbeResult | None = None
    computing = False
    field: MeasuredField | None = None

    def inputs(self, *, original: bool = False) -> Mapping[str, torch.Tensor]:  # noqa: ARG002  as of a probe
        """There are none."""
        return {}
