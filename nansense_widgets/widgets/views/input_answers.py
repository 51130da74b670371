"""What the model says of the samples of a batch, in words and numbers, for the view Inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from nansense_widgets.probe.answers import Answers
from nansense_widgets.probe.updates import PinUpdate
from nansense_widgets.widgets.protocol_inputs import Answer, AnswerClass, PinnedLoss
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.views.statistics import finite
from nansense_widgets.widgets.views.timeline import Axis

__all__ = ["Spoken", "no_answer", "pinned_losses"]

MOST_CLASSES = 10

MOST_NUMBERS = 6
"""Of an output that are written out."""

MOST_LOSSES = 500


@dataclass(frozen=True)
class Spoken:
    """What the model says of a batch now, and without the perturbations.

    Attributes:
        now: of the batch as it is shown.
        before: without the perturbations; None: there are none.
        note: how far `now` is what is shown, else empty.
        samples: of the shown input; 0: it has no batch axis.
    """

    now: Answers
    before: Answers | None
    note: str
    samples: int

    def losses(self, *, before: bool = False) -> torch.Tensor | None:
        """One for each sample of the input; None: not known."""
        answers = self.before if before and self.before is not None else self.now
        found = answers.losses
        return found if found is not None and len(found) == max(1, self.samples) else None

    def order(self) -> tuple[list[int], str]:
        """Samples with the largest loss first, those without a finite one before them; or why not."""
        losses = self.losses(before=True)
        if losses is None:
            if self.now.losses is not None:
                given = len(self.now.losses)
                return [], f"the model gives {given:,} losses for {self.samples:,} samples"
            return [], self.now.loss_note or self.now.reason or "losses of single samples are not known"
        values = losses.nan_to_num(nan=math.inf)
        return torch.argsort(values, descending=True, stable=True).tolist(), ""

    def loss(self, sample: int) -> float | None:
        """Of one sample, if it is finite."""
        return _finite_at(self.losses(), sample)

    def label(self, sample: int) -> int | None:
        """Index of the class that was wanted."""
        targets = self.now.targets
        if self.now.kind == "values" or targets is None or len(targets) != max(1, self.samples):
            return None
        return int(targets[sample])

    def label_text(self, sample: int) -> str:
        """What was wanted of a sample, if it is one number."""
        label = self.label(sample)
        if label is not None:
            return str(label)
        targets = self.now.targets
        if targets is None or len(targets) != max(1, self.samples) or targets[0].numel() != 1:
            return ""
        return f"{float(targets[sample]):.4g}"

    def right(self, sample: int) -> bool | None:
        """Whether the likeliest class is the label."""
        label, shares = self.label(sample), self.now.probabilities
        if label is None or shares is None or len(shares) != max(1, self.samples):
            return None
        return int(shares[sample].argmax()) == label if bool(shares[sample].isfinite().all()) else None

    def answer(self, sample: int) -> Answer:
        """All that is said of one sample."""
        now = self.now
        notes = [self.note, now.loss_note]
        losses = self.losses()
        if now.losses is not None and losses is None:
            notes.append(f"the model gives {len(now.losses):,} losses for {self.samples:,} samples")
        loss = _at(losses, sample)
        if loss is not None and not math.isfinite(loss):
            notes.append(f"of this sample it is {loss:g}")
        answer = no_answer("")
        answer["loss"] = None if loss is None else finite(loss)
        if self.before is not None:
            answer["loss_before"] = _finite_at(self.losses(before=True), sample)
        answer["loss_name"] = "" if now.loss is None else now.loss.name
        answer["loss_note"] = "; ".join(filter(None, notes))
        answer["label"] = self.label(sample)
        given = now.probabilities if now.kind == "classes" else now.values
        if now.kind == "none" or given is None:
            answer["text"] = now.reason or "the model gave no answer"
        elif len(given) != max(1, self.samples):
            answer["text"] = f"the model gives {len(given):,} answers for {self.samples:,} samples"
        elif now.kind == "values":
            answer["kind"] = "values"
            answer["text"] = _words(now, self.before, sample)
        elif not bool(given[sample].isfinite().all()):
            answer["text"] = "the model's output is not finite: no probabilities"
        else:
            self._classes(answer, given[sample], sample)
        return answer

    def _classes(self, answer: Answer, shares: torch.Tensor, sample: int) -> None:
        before = None if self.before is None else self.before.probabilities
        other = before[sample] if before is not None and len(before) > sample else None
        best = torch.argsort(shares, descending=True, stable=True)[:MOST_CLASSES].tolist()
        label = answer["label"]
        if label is not None and not 0 <= label < len(shares):
            label = answer["label"] = None
        chosen = sorted({*best, *(() if label is None else (label,))})
        answer["kind"] = "classes"
        answer["total"] = len(shares)
        answer["predicted"] = best[0]
        answer["classes"] = [
            AnswerClass(
                index=index,
                name=str(index),
                share=float(shares[index]),
                before=None if other is None else finite(float(other[index])),
            )
            for index in chosen
        ]


def no_answer(why: str) -> Answer:
    """Nothing is known."""
    return {
        "kind": "none",
        "classes": [],
        "total": 0,
        "predicted": None,
        "label": None,
        "text": why,
        "loss": None,
        "loss_before": None,
        "loss_name": "",
        "loss_note": "",
    }


def pinned_losses(source: Source, updates: Sequence[PinUpdate], sample: int) -> tuple[list[PinnedLoss], str]:
    """The losses of one sample since its batch was pinned, against the epoch; and why some are missing."""
    if not updates:
        return [], "no update since it was pinned"
    axis = Axis(source)
    points: list[PinnedLoss] = []
    bad = 0
    for one in updates:
        if one.losses is None or sample >= len(one.losses):
            continue
        loss = float(one.losses[sample])
        if not math.isfinite(loss):
            bad += 1
            continue
        at = 0.0 if one.at is None else axis.at(one.at.phase, one.at.epoch, one.at.batch_idx + 1)
        points.append({"at": at, "loss": loss})
    if not points and not bad:
        return [], "losses of single samples are not known"
    if len(points) > MOST_LOSSES:
        kept = np.linspace(0, len(points) - 1, MOST_LOSSES).round().astype(int)
        points = [points[at] for at in kept]
    return points, f"{bad:,} of them are not finite" if bad else ""


def _words(answers: Answers, before: Answers | None, sample: int) -> str:
    assert answers.values is not None
    said = f"output {_numbers(answers.values[sample])}"
    if before is not None and before.values is not None and len(before.values) > sample:
        said += f" (without the perturbations {_numbers(before.values[sample])})"
    targets = answers.targets
    if targets is not None and len(targets) == len(answers.values):
        said += f" · target {_numbers(targets[sample])}"
    return said


def _numbers(tensor: torch.Tensor) -> str:
    """A few numbers as they are, of many how far they go."""
    if tensor.numel() <= MOST_NUMBERS:
        return ", ".join(f"{one:.4g}" for one in tensor.double().reshape(-1).tolist())
    shape = "×".join(map(str, tensor.shape))
    known = tensor.double()[tensor.isfinite()]
    if not known.numel():
        return f"of {shape} values, none finite"
    return f"of {shape} values from {float(known.min()):.4g} to {float(known.max()):.4g}"


def _at(losses: torch.Tensor | None, sample: int) -> float | None:
    return None if losses is None else float(losses[sample])


def _finite_at(losses: torch.Tensor | None, sample: int) -> float | None:
    return None if losses is None else finite(float(losses[sample]))
