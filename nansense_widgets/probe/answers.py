"""What the model says of each sample, and how wrong it is, where that can be known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch

from nansense_widgets.probe.batch import InputBatch
from nansense_widgets.probe.losses import LossKind, find_loss, is_near, loss_value, losses_of
from nansense_widgets.probe.terms import paired

__all__ = ["Answers", "LossKind", "answers_of"]

Tensors = Mapping[str, torch.Tensor]

MOST_PROBABILITIES = 4_000_000
"""Values of all samples; of more there is no answer, only why."""

_ROUNDING = 1e-3


@dataclass(frozen=True)
class Answers:
    """Of a batch.

    Attributes:
        kind: `classes`: one class of several for each sample; `values`: numbers; `none`: `reason` says why.
        probabilities: of classes, float32 of shape (samples, classes).
        values: of numbers, the output: (samples, …).
        targets: labels, int64 of shape (samples,), or the numbers that were wanted; None: not known.
        losses: of each sample, float64 of shape (samples,); None: `loss_note` says why.
        loss: which loss it is; None: not known.
        loss_note: how it is known, or why it is not.
        reason: why there is no answer.
    """

    kind: Literal["classes", "values", "none"] = "none"
    probabilities: torch.Tensor | None = None
    values: torch.Tensor | None = None
    targets: torch.Tensor | None = None
    losses: torch.Tensor | None = None
    loss: LossKind | None = None
    loss_note: str = ""
    reason: str = ""


def answers_of(
    batch: InputBatch,
    output: Tensors | None = None,
    known: LossKind | None = None,
    *,
    ran: Answers | None = None,
) -> Answers:
    """What the model says of a batch. Never raises.

    Args:
        batch: with what the model gave as it ran; from this it is found out which loss it is.
        output: what the model gives in another forward of the batch; None: as it ran.
        known: the loss that an earlier batch had. It is tried first, and taken where nothing was seen.
        ran: what was said of this batch as it ran: its loss is taken without being looked for again.
    """
    try:
        targets, inputs = _usable(batch.targets), _usable(batch.inputs)
        given = _usable(batch.output if output is None else output)
        if ran is not None:
            loss, note = ran.loss, ran.loss_note
        else:
            loss, note = _loss_of(batch, _usable(batch.output), targets, inputs, known)
        losses = None if loss is None else losses_of(loss, given, targets, inputs)
        if loss is not None and losses is None:
            note = f"{loss.name}, the loss of earlier batches, does not fit this one"
            loss = None
        answers = _answers(given, targets, inputs, loss)
        more = "" if answers.loss_note in note else answers.loss_note
        notes = "; ".join(filter(None, (note, more)))
        return replace(answers, losses=losses, loss=loss, loss_note=notes)
    except Exception as error:
        return Answers(reason=f"no answer could be made out: {type(error).__name__}: {error}")


def _loss_of(
    batch: InputBatch, ran: Tensors, targets: Tensors, inputs: Tensors, known: LossKind | None
) -> tuple[LossKind | None, str]:
    """Which loss it is, and how that is known or why it is not."""
    outputs = {path: one for path, one in ran.items() if one.ndim and one.is_floating_point()}
    seen, whose = batch.losses, "the batch's loss"
    if not seen:  # a model that computes its loss itself gives it where nothing trains, too
        seen = tuple(float(one) for one in ran.values() if not one.ndim and one.is_floating_point())
        whose = "the loss that the model gives"
    finite = [value for value in seen if math.isfinite(value)]
    if not seen:
        if known is None:
            return None, "not known which loss it is: no backward() was seen"
        return known, "as in the last training batch"
    if not finite:
        why = f"{whose} is {seen[0]:g}"
        return known, f"as in an earlier batch: {why}" if known is not None else f"not found out: {why}"
    if known is not None and known.output in outputs:
        value = loss_value(known, outputs, targets, inputs)
        for one in finite:
            if value is not None and is_near(known, value, one, outputs):
                return known, _found(known, whose, one)
    if not outputs:
        return None, "the model gave no tensor of real numbers"
    found = find_loss(outputs, targets, inputs, finite)
    if found is not None:
        return found[0], _found(found[0], whose, found[1])
    if not targets:
        return None, "no tensor that may be a target came with the batch"
    numbers = " or ".join(f"{value:.4g}" for value in finite)
    return None, f"{whose} {numbers} is none of the usual ones of output and target"


def _found(kind: LossKind, whose: str, value: float) -> str:
    of = {"mean": "", "sum": "; summed", "mean of sums": "; summed over each sample"}[kind.reduction]
    part = f", divided by {kind.divisor}" if kind.divisor > 1 else ""
    return f"it gives {whose}, {value:.4g}{part}{of}"


def _usable(tensors: Tensors) -> dict[str, torch.Tensor]:
    """Plain tensors of real numbers on the CPU that have values."""
    return {
        path: one.detach()
        for path, one in tensors.items()
        if one.layout is torch.strided
        and not one.is_nested
        and not one.is_quantized
        and not one.is_complex()
        and one.device.type == "cpu"
        and one.numel()
    }


def _answers(given: Tensors, targets: Tensors, inputs: Tensors, loss: LossKind | None) -> Answers:
    """Without its losses."""
    outputs = {path: one for path, one in given.items() if one.ndim and one.is_floating_point()}
    if loss is not None:
        target = (inputs if loss.of_input else targets)[loss.target]
        return _of_known(loss, outputs[loss.output], target)
    if not outputs:
        return Answers(reason="the model gave no tensor of real numbers")
    for output in outputs.values():
        found = _by_labels(output, targets, inputs)
        if found is not None:
            return found
    output = next(iter(outputs.values()))
    same = [one for one in targets.values() if _is_same(output, one) and not _is_among(one, inputs.values())]
    return _values(output, same[0] if len(same) == 1 else None)


def _of_known(loss: LossKind, output: torch.Tensor, target: torch.Tensor) -> Answers:
    pair = paired(loss.form, output, target)
    if pair is None or not (loss.is_of_classes or loss.is_binary or loss.name == "cross-entropy of shares"):
        return _values(output, target)
    if loss.is_of_classes:
        logits, labels = pair
        if logits.shape[2] > 1:
            each = "token" if loss.form == "next token" else "place"
            why = f"the model gives {logits.shape[1]:,} classes at each of {logits.shape[2]:,} {each}s"
            return Answers(reason=f"{why} of a sample, not one answer")
        return _classes(logits[:, :, 0], labels[:, 0].long(), loss)
    if loss.is_binary:
        if loss.form == "broadcast" or pair[0].shape[1] > 1:
            return _values(output, target)
        p = pair[0].float() if loss.name == "binary cross-entropy" else pair[0].float().sigmoid()
        whole = bool(((pair[1] == 0) | (pair[1] == 1)).all())
        return Answers("classes", torch.cat([1 - p, p], 1), targets=pair[1][:, 0].long() if whole else None)
    whole = bool((pair[1].amax(1) > 1 - _ROUNDING).all())
    answers = _classes(pair[0], pair[1].argmax(1) if whole else None, loss)
    return answers if whole else replace(answers, loss_note="labels are mixtures of classes")


def _by_labels(output: torch.Tensor, targets: Tensors, inputs: Tensors) -> Answers | None:
    """Classes, if the batch has labels for them and nothing says that they are other numbers."""
    if output.ndim != 2 or output.shape[1] < 2:
        return None
    others = [one for one in targets.values() if not _is_among(one, inputs.values())]
    if any(one.is_floating_point() and one.shape == output.shape for one in others):
        return None
    fitting = [labels for one in others if (labels := _labels(one, output)) is not None]
    if not fitting:
        return None
    if any(not bool((one == fitting[0]).all()) for one in fitting[1:]):
        answers = _classes(output, None, None)
        return replace(answers, loss_note=f"which of {len(fitting)} targets is the label is not known")
    return _classes(output, fitting[0], None)


def _labels(target: torch.Tensor, output: torch.Tensor) -> torch.Tensor | None:
    """Class indices for each sample of an output, or None."""
    if target.is_floating_point() or target.dtype is torch.bool:
        return None
    if target.shape not in ((len(output),), (len(output), 1)):
        return None
    labels = target.reshape(-1).long()
    return labels if bool(((labels >= 0) & (labels < output.shape[1])).all()) else None


def _classes(logits: torch.Tensor, labels: torch.Tensor | None, loss: LossKind | None) -> Answers:
    if logits.numel() > MOST_PROBABILITIES:
        shape = f"{len(logits):,} samples with {logits.shape[1]:,} classes"
        return Answers(targets=labels, reason=f"{shape} are more than {MOST_PROBABILITIES:,} probabilities")
    wide = logits.float()
    note = ""
    if bool((wide >= 0).all()) and bool(((wide.sum(1) - 1).abs() < _ROUNDING).all()):
        if loss is not None and loss.name.startswith("cross-entropy"):
            note = "the outputs are probabilities already, which it takes for logits"
        return Answers("classes", wide, targets=labels, loss_note=note)
    return Answers("classes", wide.softmax(1), targets=labels)  # of log-probabilities the same as `exp`


def _values(output: torch.Tensor, target: torch.Tensor | None) -> Answers:
    return Answers("values", values=output, targets=target)


def _is_same(output: torch.Tensor, target: torch.Tensor) -> bool:
    return bool(target.ndim) and len(output) == len(target) and output.numel() == target.numel()


def _is_among(tensor: torch.Tensor, others: Iterable[torch.Tensor]) -> bool:
    """Whether a tensor of the loader's item is an input."""
    return any(
        one is tensor
        or (one.shape == tensor.shape and one.dtype == tensor.dtype and torch.equal(one, tensor))
        for one in others
    )
