"""A kept call without and with perturbations, and what they have moved."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from nansense_widgets.capture.engine import CaptureEngine
from nansense_widgets.capture.snapshot import LayerCall
from nansense_widgets.probe.forward import Forward, check_inputs, run_forward
from nansense_widgets.probe.keeper import KeptCall
from nansense_widgets.probe.perturbation import Perturbation, split_axes
from nansense_widgets.probe.result import Moved, ProbeMode, ProbeResult
from nansense_widgets.probe.stamp import stamp_of
from nansense_widgets.probe.values import Baseline, LayerValues

__all__ = ["Comparison", "tensors_of"]

Layers = Mapping[str, tuple[LayerCall, ...]]


@dataclass(frozen=True)
class _Base:
    """The forward without perturbations, as long as nothing that decides it has changed."""

    key: tuple[object, ...]
    forward: Forward
    layers: Layers
    dropped: Mapping[str, str]
    baseline: Baseline | None


class Comparison:
    """Runs on the training thread. The run without perturbations is kept as long as nothing changes it."""

    def __init__(self, engine: CaptureEngine) -> None:
        self._engine = engine
        self._base: _Base | None = None
        self._repeated: _Base | None = None
        """The one that was run a second time."""
        self.note = ""
        """What is wrong with the forward; known after `repeat`."""

    @property
    def nbytes(self) -> int:
        """Memory of what is kept."""
        base = self._base
        return 0 if base is None or base.baseline is None else base.baseline.nbytes

    def forget(self) -> None:
        """Nothing is to be compared any more."""
        self._base = self._repeated = None
        self.note = ""

    def run(
        self,
        kept: KeptCall,
        mode: ProbeMode,
        perturbations: Sequence[Perturbation],
        result: ProbeResult,
    ) -> ProbeResult:
        """The result, filled in. Raises what the model raises, and `ValueError` for what does not fit."""
        engine = self._engine
        engine.follow_modules()
        architecture = engine.architecture
        wanted = tuple(engine.watched)
        check_inputs(kept, perturbations, architecture)
        samples = {one.sample for one in perturbations}
        chosen = None if None in samples or not samples else tuple(s for s in samples if s is not None)
        base = self._base_for(kept, mode, wanted, chosen, compares=bool(perturbations))
        notes = [self.note] if self.note else []
        missing = {name: _why_missing(architecture.nodes.get(name)) for name in wanted}
        missing = {name: why for name, why in missing.items() if name not in base.layers}
        missing |= base.dropped
        result = replace(
            result,
            training=base.forward.training,
            layers=base.layers,
            output=base.forward.output,
            missing=missing,
        )
        if not perturbations or base.baseline is None:
            return replace(result, notes=tuple(notes))
        values = LayerValues(wanted, against=base.baseline)
        found = run_forward(engine, kept, mode, values, tuple(architecture.nodes), perturbations)
        if base.baseline.left_out:
            notes.append(f"not compared, for want of memory: {len(base.baseline.left_out)} layers")
        moved, perturbed = values.moved, values.layers
        others = set() if chosen is None else self._moved_elsewhere(base.layers, perturbed, chosen)
        size = _batch_size(kept, engine)
        if chosen is not None and (others or _outputs_moved(base.forward, found, chosen, size)):
            notes.append(
                "other samples changed as well: the model mixes samples "
                + ("(BatchNorm does in train mode)" if found.training != "eval" else "")
            )
            moved = {
                name: Moved(one.share, one.largest, elsewhere=name in others) for name, one in moved.items()
            }
        return replace(
            result, perturbed=perturbed, perturbed_output=found.output, moved=moved, notes=tuple(notes)
        )

    def _base_for(
        self,
        kept: KeptCall,
        mode: ProbeMode,
        wanted: tuple[str, ...],
        samples: tuple[int, ...] | None,
        *,
        compares: bool,
    ) -> _Base:
        engine = self._engine
        key = (kept, mode, wanted, samples, compares, stamp_of(engine))
        known = self._base
        if known is not None and known.key == key:
            return known
        baseline = Baseline(engine.architecture, samples, _batch_size(kept, engine)) if compares else None
        values = LayerValues(wanted, baseline=baseline)
        layers = tuple(engine.architecture.nodes) if compares else wanted
        forward = run_forward(engine, kept, mode, values, layers)
        self._base = _Base(key, forward, values.layers, values.dropped, baseline)
        self.note = ""
        return self._base

    def _moved_elsewhere(self, before: Layers, after: Layers, samples: Sequence[int]) -> set[str]:
        """Watched layers in which other samples changed too."""
        found = set()
        architecture = self._engine.architecture
        for name, calls in after.items():
            known = {
                (call.call, leaf.path): leaf.activation
                for call in before.get(name, ())
                for leaf in call.leaves
            }
            for call in calls:
                for leaf in call.leaves:
                    one, other = known.get((call.call, leaf.path)), leaf.activation
                    if one is None or other is None or one.shape != other.shape:
                        continue
                    if one.layout is not torch.strided or one.is_quantized:
                        continue
                    axis = split_axes(one.ndim, architecture.axes(name, leaf.path, one.ndim)).batch
                    if axis is None or one.shape[axis] <= max(samples):
                        continue
                    if _moved_outside(one, other, axis, samples):
                        found.add(name)
        return found

    @property
    def is_unchecked(self) -> bool:
        """Whether something was compared of which it is not known that it repeats itself."""
        base = self._base
        return base is not None and base.baseline is not None and base is not self._repeated

    def repeat(self, kept: KeptCall, mode: ProbeMode) -> str:
        """Run it without perturbations once more; the `note`, if it gives something else then.

        A difference to something that does not repeat itself says nothing of the perturbation. That is looked
        at after the result is shown, so that nobody waits for it.
        """
        base = self._base
        if base is None or base.baseline is None:
            return ""
        self._repeated = base
        again = LayerValues((), against=base.baseline)
        run_forward(self._engine, kept, mode, again, tuple(self._engine.architecture.nodes))
        differs = [name for name, moved in again.moved.items() if moved.share]
        if not differs:
            return ""
        some = ", ".join(differs[:3]) + (", …" if len(differs) > 3 else "")
        self.note = (
            f"this forward is not repeatable: run twice, it gives other values in {len(differs)} layers "
            f"({some}), so differences there are not all of the perturbation"
        )
        return self.note


def _batch_size(kept: KeptCall, engine: CaptureEngine) -> int | None:
    for name, tensor in kept.batch.inputs.items():
        place = kept.batch.places[name]
        batch = split_axes(tensor.ndim, engine.architecture.axes(place.layer, place.path, tensor.ndim)).batch
        if batch is not None:
            return tensor.shape[batch]
    return None


def _why_missing(node: object) -> str:
    note = getattr(node, "note", "")
    return note or "did not run in this probe"


def _outputs_moved(before: Forward, after: Forward, samples: Sequence[int], size: int | None) -> bool:
    """Whether the model says another thing of other samples; those that have them first."""
    for path, one in before.output.items():
        other = after.output.get(path)
        if other is None or one.shape != other.shape or not one.ndim or one.shape[0] != size:
            continue
        plain = one.layout is torch.strided and not one.is_quantized
        if plain and _moved_outside(one, other, 0, samples):
            return True
    return False


def _moved_outside(one: torch.Tensor, other: torch.Tensor, axis: int, samples: Sequence[int]) -> bool:
    """Whether values differ in other samples than these; NaN is equal to itself."""
    ends = [-1, *sorted(samples), one.shape[axis]]
    for before, after in itertools.pairwise(ends):
        length = after - before - 1
        if length <= 0:
            continue
        a, b = one.narrow(axis, before + 1, length), other.narrow(axis, before + 1, length)
        # The first is by far the faster, but NaN is unequal to itself there.
        if not torch.equal(a, b) and bool(((a != b) & ~(a.isnan() & b.isnan())).any()):
            return True
    return False


def tensors_of(calls: Sequence[LayerCall]) -> list[torch.Tensor]:
    """All activations of some calls."""
    return [leaf.activation for call in calls for leaf in call.leaves if leaf.activation is not None]
