"""The usual losses, term by term: what each of them makes of one output and one target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn import functional

__all__ = ["CLASS_NAMES", "MOST_VALUES", "Form", "Reduction", "Terms", "class_terms", "paired", "same_terms"]

Form = Literal["class second", "class last", "flat classes", "next token", "same", "broadcast"]
"""How an output and a target belong together: classes along the second or the last axis; samples and places
in one axis; each place's classes with the target one further; as many values; each with every other."""

Reduction = Literal["mean", "sum", "mean of sums"]

MOST_VALUES = 2**26
"""Of an output that losses are looked for in."""

MOST_SAME = 2**24
"""Of an output whose terms are as many as its values."""

CHUNK = 2**22
"""Values of logits looked at together."""

MOST_BROADCAST = 2048

SMOOTHING = (0.1, 0.05, 0.2)

CLASS_NAMES = (
    "cross-entropy",
    "negative log-likelihood",
    "log loss of probabilities",
    *(f"cross-entropy, label smoothing {one:g}" for one in SMOOTHING),
)

_ROUNDING = 1e-3


@dataclass(frozen=True)
class Terms:
    """What a loss is the sum or mean of.

    Attributes:
        values: float of shape (samples, terms).
        counted: which of them count, bool of the same shape; None: all.
        root: whether the square root is taken of the mean.
    """

    values: torch.Tensor
    counted: torch.Tensor | None = None
    root: bool = False

    def total(self, reduction: Reduction) -> float:
        """The loss of the batch."""
        values, samples = self.values.double(), len(self.values)
        if self.counted is not None:
            values = values[self.counted]
        value = float(values.sum())
        if reduction == "mean":
            value = value / values.numel() if values.numel() else float("nan")
        elif reduction == "mean of sums":
            value /= samples
        return value**0.5 if self.root else value

    def of_samples(self, reduction: Reduction) -> torch.Tensor:
        """The loss of each sample: means or sums of its own terms, float64 of shape (samples,)."""
        values = self.values.double()
        if self.counted is not None:
            values = values.masked_fill(~self.counted, 0.0)
        found = values.sum(1)
        if reduction == "mean":
            found = found / (values.shape[1] if self.counted is None else self.counted.sum(1))
        return found.sqrt() if self.root else found


def paired(
    form: Form, output: torch.Tensor, target: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """An output and a target in one form, or None if they do not fit it.

    Returns:
        Of classes: logits (samples, classes, places) and labels (samples, places). Else two tensors
        (samples, values).
    """
    if form in ("same", "broadcast"):
        return _paired_values(form, output, target)
    if target.is_floating_point() or target.dtype is torch.bool:
        return None
    if output.ndim == 1 and target.numel() == 1:  # one sample, without a batch axis
        output, target = output[None], target.reshape(1)
    if output.ndim < 2:
        return None
    if output.ndim == 2 and target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if form == "flat classes":
        if output.ndim != 2 or target.ndim < 2 or len(output) != target.numel():
            return None
        output = output.reshape(*target.shape, -1)
    elif form == "next token":
        if output.ndim != 3 or target.ndim != 2 or len(output) != len(target):
            return None
        ahead = target.shape[1] - output.shape[1]
        if ahead not in (0, 1) or target.shape[1] < 2:
            return None
        output, target = (output if ahead else output[:, :-1]), target[:, 1:]
    elif form == "class last":
        if output.ndim < 3:
            return None
        if target.ndim == 1 and target.numel() == output.shape[:-1].numel():
            target = target.reshape(output.shape[:-1])
    logits = output if form == "class second" else output.movedim(-1, 1)
    if logits.shape[:1] + logits.shape[2:] != target.shape or logits.shape[1] < 2 or not target.numel():
        return None
    return logits.flatten(2) if logits.ndim > 2 else logits[:, :, None], target.reshape(len(target), -1)


def _paired_values(
    form: Form, output: torch.Tensor, target: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor] | None:
    if output.ndim < 1 or target.ndim < 1 or len(output) != len(target) or not output.numel():
        return None
    if output.numel() > MOST_SAME or output.numel() != target.numel():
        return None
    samples = len(output)
    if form == "same":
        return output.reshape(samples, -1), target.reshape(samples, -1)
    if {output.shape, target.shape} != {torch.Size((samples,)), torch.Size((samples, 1))}:
        return None
    if not 2 <= samples <= MOST_BROADCAST:
        return None
    # What torch makes of the two shapes; rows are of the one with two axes, which need not be the output.
    outputs, targets = torch.broadcast_tensors(output, target)
    return (outputs, targets) if output.ndim == 2 else (outputs.mT, targets.mT)


def class_terms(
    logits: torch.Tensor, labels: torch.Tensor, ignored: tuple[int, ...]
) -> Iterator[tuple[str, int, Terms]]:
    """Losses of class indices, for each label that may be left out: name, that label, terms.

    Args:
        logits: (samples, classes, places).
        labels: (samples, places), whole numbers.
        ignored: labels that do not count; the first one is tried even if it does not occur.
    """
    classes = logits.shape[1]
    labels = labels.long()
    inside = (labels >= 0) & (labels < classes)
    outside = labels[~inside]
    if outside.numel() and bool((outside != outside[0]).any()):  # at most one value can be left out
        return
    lse, own, mean = _picked(logits, labels.clamp(0, classes - 1))
    logs = bool(lse.abs().max() < _ROUNDING)  # log-probabilities already
    shares = bool(((mean * classes - 1).abs() < _ROUNDING).all()) and bool((own >= 0).all())
    for at, label in enumerate(ignored):
        if outside.numel() and label != int(outside[0]):
            continue
        counted = labels != label
        if at and bool(counted.all()):
            continue
        mask = None if bool(counted.all()) else counted
        entropy = lse - own
        if not logs:
            yield CLASS_NAMES[0], label, Terms(entropy, mask)
        yield CLASS_NAMES[1], label, Terms(-own, mask)
        if shares:
            yield CLASS_NAMES[2], label, Terms(-own.log(), mask)
        for share, name in zip(SMOOTHING, CLASS_NAMES[3:], strict=True):
            yield name, label, Terms((1 - share) * entropy + share * (lse - mean), mask)


def _picked(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logarithm of the sum of exponentials, logit of the label, mean logit: each (samples, places)."""
    samples, classes, places = logits.shape
    found = torch.empty(3, samples, places, dtype=torch.promote_types(logits.dtype, torch.float32))
    rows = max(1, CHUNK // (classes * places))
    width = max(1, CHUNK // classes)
    for first in range(0, samples, rows):
        for left in range(0, places, width):
            here = (slice(first, first + rows), slice(left, left + width))
            part = logits[here[0], :, here[1]].to(found.dtype)
            found[0][here] = part.logsumexp(1)
            found[1][here] = part.gather(1, labels[here][:, None])[:, 0]
            found[2][here] = part.mean(1)
    return found[0], found[1], found[2]


def same_terms(output: torch.Tensor, target: torch.Tensor) -> Iterator[tuple[str, Terms]]:
    """Losses of as many numbers, both (samples, values): name and terms."""
    wide = torch.promote_types(output.dtype, torch.float32)
    output, target = output.to(wide), target.to(wide)
    least, most = (float(end) for end in torch.aminmax(target))
    low, high = (float(end) for end in torch.aminmax(output))
    if least >= 0 and most <= 1:
        yield "binary cross-entropy with logits", Terms(_pointwise("bce_logits", output, target))
        if low >= 0 and high <= 1:
            yield "binary cross-entropy", Terms(_pointwise("bce", output, target))
        if output.shape[1] > 1 and bool(((target.sum(1) - 1).abs() < _ROUNDING).all()):
            logs = output.log_softmax(1)
            yield "cross-entropy of shares", Terms(-(target * logs).sum(1, keepdim=True))
            if high <= _ROUNDING:
                yield "Kullback-Leibler divergence", Terms(target.xlogy(target) - target * output)
    squares = (output - target).square()
    yield "mean squared error", Terms(squares)
    yield "mean absolute error", Terms((output - target).abs())
    yield "smooth L1 (Huber)", Terms(_pointwise("smooth", output, target))
    yield "root mean squared error", Terms(squares, root=True)
    if least >= 0:
        yield "Poisson negative log-likelihood", Terms(output.exp() - target * output)


def _pointwise(which: str, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    if which == "bce_logits":
        return functional.binary_cross_entropy_with_logits(output, target, reduction="none")
    if which == "bce":
        return functional.binary_cross_entropy(output, target, reduction="none")
    return functional.smooth_l1_loss(output, target, reduction="none")
