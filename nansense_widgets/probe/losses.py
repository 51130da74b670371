"""Which loss a batch had: found out by trying the usual ones until one gives the number that was seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from nansense_widgets.probe.terms import (
    CLASS_NAMES,
    MOST_VALUES,
    Form,
    Reduction,
    Terms,
    class_terms,
    paired,
    same_terms,
)

__all__ = ["LossKind", "find_loss", "is_near", "loss_value", "losses_of"]

Tensors = Mapping[str, torch.Tensor]

TOLERANCE = 1e-3
"""Relative, in which a loss may differ from the one that was seen."""

HALF_TOLERANCE = 1e-2
"""The same where either was computed in half precision."""

EXACT = 1e-5
"""As near as float32 gets: nothing nearer is looked for."""

DIVISORS = (2, 4, 8, 16, 32)
"""Of a loss whose gradients are added up over several batches."""

MOST_RIVALS = 400
"""Losses that are tried after one that fits, to see whether it is the only one."""

MOST_PAIRS = 64
"""Outputs with targets that are tried."""

_CLASS_FORMS: tuple[Form, ...] = ("class second", "class last", "flat classes", "next token")
_VALUE_FORMS: tuple[Form, ...] = ("same", "broadcast")


@dataclass(frozen=True)
class LossKind:
    """One loss of one output and one target.

    Attributes:
        name: e.g. `cross-entropy`.
        output: path of the output.
        target: path of the target, or name of the input that it is compared with.
        reduction: how terms become the loss.
        form: how output and target belong together.
        ignored: label that does not count (of classes).
        divisor: what `backward()` starts from is the loss divided by it.
        of_input: whether the target is an input.
    """

    name: str
    output: str
    target: str
    reduction: Reduction = "mean"
    form: Form = "same"
    ignored: int = -100
    divisor: int = 1
    of_input: bool = False

    @property
    def is_of_classes(self) -> bool:
        """Whether the target holds class indices."""
        return self.name in CLASS_NAMES

    @property
    def is_binary(self) -> bool:
        """Whether each value is the probability of one class."""
        return self.name.startswith("binary")


def find_loss(
    outputs: Tensors, targets: Tensors, inputs: Tensors, seen: Sequence[float]
) -> tuple[LossKind, float] | None:
    """The loss that comes nearest to one of the numbers seen, and that number; None if none is near.

    None as well if another target comes as near: outputs that are all alike say nothing of labels.
    """
    values = [value for value in seen if math.isfinite(value)]
    best: tuple[float, LossKind, float] | None = None
    rivals: set[str] = set()
    """Targets with which it comes out as near as it can."""
    totals: list[tuple[LossKind, float]] = []
    for kind, terms, half in _candidates(outputs, targets, inputs):
        total = terms.total(kind.reduction)
        totals.append((kind, total))
        for value in values:
            error = _error(total, value)
            if error <= EXACT and kind.is_of_classes:
                rivals.add(kind.target)
            if error <= _tolerance(value, half=half) and (best is None or error < best[0]):
                best = (error, kind, value)
        if best is not None and best[0] <= EXACT and (len(targets) < 2 or len(totals) > MOST_RIVALS):
            break
    if best is not None:
        return None if len(rivals) > 1 else (best[1], best[2])
    # Of accumulated gradients. So many more numbers would fit by chance, that one has to fit exactly.
    for kind, total in totals:
        for divisor in DIVISORS:
            for value in values:
                if abs(value) > EXACT and _error(total / divisor, value) <= EXACT:
                    return replace(kind, divisor=divisor), value
    return None


def loss_value(kind: LossKind, outputs: Tensors, targets: Tensors, inputs: Tensors) -> float | None:
    """A known loss of a batch, as `backward()` would start from it; None if it does not fit."""
    terms = _terms_of(kind, outputs, targets, inputs)
    return None if terms is None else terms.total(kind.reduction) / kind.divisor


def is_near(kind: LossKind, value: float, seen: float, outputs: Tensors) -> bool:
    """Whether a loss is the one that was seen, as near as its precision gets: others might be nearer."""
    tolerance = _tolerance(seen, half=_is_half(outputs[kind.output]))
    return _error(value, seen) <= (tolerance if tolerance > TOLERANCE else EXACT)


def losses_of(kind: LossKind, outputs: Tensors, targets: Tensors, inputs: Tensors) -> torch.Tensor | None:
    """A known loss of each sample, float64 of shape (samples,); None if it does not fit."""
    terms = _terms_of(kind, outputs, targets, inputs)
    return None if terms is None else terms.of_samples(kind.reduction)


def _terms_of(kind: LossKind, outputs: Tensors, targets: Tensors, inputs: Tensors) -> Terms | None:
    output, target = outputs.get(kind.output), (inputs if kind.of_input else targets).get(kind.target)
    if output is None or target is None or output.numel() > MOST_VALUES:
        return None
    pair = paired(kind.form, output, target)
    if pair is None:
        return None
    if kind.is_of_classes:
        # Log-probabilities are told by their values: they have no cross-entropy, but what is the same.
        names = CLASS_NAMES[:2] if kind.name == CLASS_NAMES[0] else (kind.name,)
        return next((terms for name, _, terms in class_terms(*pair, (kind.ignored,)) if name in names), None)
    return next((terms for name, terms in same_terms(*pair) if _named(name, kind.form) == kind.name), None)


def _candidates(
    outputs: Tensors, targets: Tensors, inputs: Tensors
) -> Iterator[tuple[LossKind, Terms, bool]]:
    """Every usual loss of every output with every target: classes first, and inputs as targets last."""
    pairs = [(path, name, targets[name], False) for path in outputs for name in targets]
    pairs += [(path, name, inputs[name], True) for path in outputs for name in inputs]
    pairs = [pair for pair in pairs if outputs[pair[0]].numel() <= MOST_VALUES][:MOST_PAIRS]
    for path, name, target, of_input in pairs:
        half = _is_half(outputs[path])
        for form in _CLASS_FORMS:
            pair = paired(form, outputs[path], target)
            if pair is None:
                continue
            for loss, ignored, terms in class_terms(*pair, _ignored(pair[1])):
                for reduction in _reductions(terms):
                    yield LossKind(loss, path, name, reduction, form, ignored, 1, of_input), terms, half
    for path, name, target, of_input in pairs:
        half = _is_half(outputs[path])
        for form in _VALUE_FORMS:
            pair = paired(form, outputs[path], target)
            if pair is None:
                continue
            for loss, terms in same_terms(*pair):
                for reduction in _reductions(terms):
                    kind = LossKind(_named(loss, form), path, name, reduction, form, of_input=of_input)
                    yield kind, terms, half


def _named(loss: str, form: Form) -> str:
    return f"{loss}, of each with every other" if form == "broadcast" else loss


def _ignored(labels: torch.Tensor) -> tuple[int, ...]:
    """Labels that may be left out: torch's own, and those that padding and borders usually have."""
    if labels.shape[1] == 1:
        return (-100,)
    return tuple(dict.fromkeys([-100, -1, 255, 0, int(labels[0, -1]), int(labels[-1, -1])]))


def _reductions(terms: Terms) -> tuple[Reduction, ...]:
    if terms.root:
        return ("mean",)
    return ("mean", "sum", "mean of sums") if terms.values.shape[1] > 1 else ("mean", "sum")


def _error(value: float, seen: float) -> float:
    """Relative; of nothing but rounding, none."""
    if not math.isfinite(value):
        return math.inf
    difference = abs(value - seen)
    return 0.0 if difference < 1e-12 else difference / max(abs(seen), 1e-7)


def _tolerance(seen: float, *, half: bool) -> float:
    """A number with the few digits of half precision was computed in it."""
    number = torch.tensor(seen, dtype=torch.float64)
    short = any(bool(number.to(kind).double() == number) for kind in (torch.bfloat16, torch.float16))
    return HALF_TOLERANCE if half or short else TOLERANCE


def _is_half(output: torch.Tensor) -> bool:
    return output.element_size() < 4
