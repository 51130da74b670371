"""The probe of a session: which batch, in which mode, with what perturbed, and what came of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

import torch

from nansense_widgets.capture.engine import CaptureEngine
from nansense_widgets.capture.values import size_of
from nansense_widgets.probe.answers import Answers, LossKind, answers_of
from nansense_widgets.probe.batch import InputBatch
from nansense_widgets.probe.compare import Comparison, tensors_of
from nansense_widgets.probe.field import MeasuredField, Unit, measure, theory
from nansense_widgets.probe.forward import change_inputs
from nansense_widgets.probe.keeper import Keeper, KeptCall
from nansense_widgets.probe.perturbation import Perturbation
from nansense_widgets.probe.result import ProbeMode, ProbeResult
from nansense_widgets.probe.updates import PinUpdate, PinUpdates
from nansense_widgets.run.position import BatchPosition

__all__ = ["PinUpdate", "Probe"]


class Probe:
    """Everything that can be read is safe to read from any thread; `compute` runs on the training thread.

    Args:
        engine: of the session.
        keeper: has the batch that was captured last.
        last: the last batch that was run.
        count: how many batches had been run then: a place in the run that going back lowers.
        request: asks the training thread for `compute`, between batches.
        request_field: asks it for `measure_field`.
        on_change: told when something is to be shown anew.
        on_asked: told when something else was asked for, of which `on_change` will tell when it is there.
    """

    def __init__(
        self,
        engine: CaptureEngine,
        keeper: Keeper,
        last: Callable[[], tuple[BatchPosition | None, int]],
        request: Callable[[], None],
        request_field: Callable[[], None],
        on_change: Callable[[], None],
        on_asked: Callable[[], None],
    ) -> None:
        self.mode: ProbeMode = "unchanged"
        self.perturbations: tuple[Perturbation, ...] = ()
        self.result: ProbeResult | None = None
        """Of the last probe; None: nothing is pinned or perturbed."""
        self.computing = False
        self.field: MeasuredField | None = None
        """Of the unit that was asked for last."""
        self._engine = engine
        self._keeper = keeper
        self._last = last
        self._request = request
        self._request_field = request_field
        self._on_change = on_change
        self._on_asked = on_asked
        self._lock = threading.RLock()
        self._computed = threading.Condition(self._lock)
        self._pinned: KeptCall | None = None
        self._updates = PinUpdates()
        self._comparison = Comparison(engine)
        self._numbers = 0
        self._asked = self._computed_for = 0
        """Counts what was asked, and how much of it has been computed."""
        self._results = 0
        self._answered: tuple[InputBatch, Answers] | None = None
        self._known_loss: LossKind | None = None
        self._edited: tuple[tuple[object, ...], Mapping[str, torch.Tensor]] | None = None

    # ------------------------------------------------------------ what is shown (any thread)

    @property
    def batch(self) -> InputBatch | None:
        """The pinned batch; without one, that which was captured last."""
        kept = self.kept
        return None if kept is None else kept.batch

    @property
    def kept(self) -> KeptCall | None:
        """The call that a probe would run."""
        return self._pinned or self._keeper.kept

    @property
    def why_none(self) -> str:
        """Why there is no batch; empty if there is."""
        return "" if self.kept is not None else self._keeper.why_none

    @property
    def is_pinned(self) -> bool:
        """Whether a batch is pinned."""
        return self._pinned is not None

    @property
    def answers(self) -> Answers | None:
        """What the model said in `batch` itself, as it ran; None: there is none, or it has not run."""
        batch = self.batch
        if batch is None or not batch.output:
            return None
        known = self._answered
        if known is None or known[0] is not batch:
            found = answers_of(batch, known=self._known_loss)
            self._known_loss = found.loss or self._known_loss
            known = self._answered = (batch, found)
        return known[1]

    @property
    def updates(self) -> tuple[PinUpdate, ...]:
        """What the model said of the pinned batch, update by update, since it was pinned."""
        return self._updates.all

    @property
    def known_loss(self) -> LossKind | None:
        """Which loss the run uses, as far as that has been found out."""
        return self._known_loss

    @property
    def target_name(self) -> str:
        """Name of the labels that the run's loss is computed from, as far as that has been found out."""
        _ = self.answers
        return "targets" if self._known_loss is None else self._known_loss.target

    def inputs(self, *, original: bool = False) -> Mapping[str, torch.Tensor]:
        """Inputs of `batch`, on the CPU, with the perturbations that are of inputs; `original`: without them.

        A perturbation that does not fit leaves its input as it is; the result says so.
        """
        kept = self.kept
        if kept is None:
            return {}
        changes = tuple(one for one in self.perturbations if not one.is_layer)
        if original or not changes:
            return kept.batch.inputs
        key = (id(kept), changes)
        known = self._edited
        if known is None or known[0] != key:
            touched = {one.target for one in changes}
            edited = {
                name: tensor.clone() if name in touched else tensor
                for name, tensor in kept.batch.inputs.items()
            }
            for one in changes:
                with suppress(ValueError, RuntimeError):
                    change_inputs(edited, kept, [one], self._engine.architecture)
            known = self._edited = (key, edited)
        return known[1]

    @property
    def nbytes(self) -> Mapping[str, int]:
        """Memory that it takes, by what for."""
        kept, pinned, result = self._keeper.kept, self._pinned, self.result
        tensors: list[torch.Tensor] = []
        for layers in () if result is None else (result.layers, result.perturbed):
            tensors += [t for calls in layers.values() for t in tensors_of(calls)]
        return {
            "last batch": 0 if kept is None else kept.nbytes,
            "pinned batch": 0 if pinned is None else pinned.nbytes + self._updates.nbytes,
            "result": sum(map(size_of, tensors)) + self._comparison.nbytes,
        }

    # ------------------------------------------------------------ what is asked (any thread)

    def pin(self, kept: KeptCall | None) -> None:
        """Pin a call, or none."""
        _ = self.answers  # the loss of the run is found out from a batch of its own
        with self._lock:
            self._pinned = kept
            self._updates.clear()
        self._changed()

    def set_mode(self, mode: ProbeMode) -> None:
        """Of all probes from now on; losses in another mode would be no part of the same curve."""
        with self._lock:
            if mode != self.mode:
                self._updates.clear()
            self.mode = mode
        self._changed()

    def add(self, one: Perturbation, *, join: bool) -> Perturbation:
        """Add a perturbation; with `join`, to the last one, if that is the same but for its places."""
        with self._lock:
            last = self.perturbations[-1] if self.perturbations else None
            if join and last is not None and (joined := _joined(last, one)) is not None:
                self.perturbations = (*self.perturbations[:-1], joined)
                one = joined
            else:
                one = replace(one, number=self._numbers)
                self._numbers += 1
                self.perturbations = (*self.perturbations, one)
        self._changed()
        return one

    def undo(self) -> Perturbation | None:
        """Take the last perturbation back."""
        with self._lock:
            last = self.perturbations[-1] if self.perturbations else None
            self.perturbations = self.perturbations[:-1]
        if last is not None:
            self._changed()
        return last

    def clear(self, target: str | None = None) -> None:
        """Take all perturbations back, or those of one input or layer."""
        with self._lock:
            self.perturbations = tuple(
                one for one in self.perturbations if one.target != (target or one.target)
            )
        self._changed()

    def ask_field(self, unit: Unit) -> None:
        """Measure the receptive field of a unit, when the training thread has time."""
        batch = self.batch
        if batch is None:
            return
        with self._lock:
            self.field = theory(self._engine.architecture, unit, batch)
        self._request_field()
        self._on_change()

    @property
    def is_measuring(self) -> bool:
        """Whether a receptive field is being measured, or will be."""
        return self.field is not None and not self.field.is_over

    def drop_field(self) -> None:
        """Stop measuring, and show none."""
        with self._computed:
            self.field = None
            self._computed.notify_all()
        self._on_change()

    def new_batch(self) -> None:
        """Another batch has been captured, or the model is another."""
        if self._pinned is not None or self.perturbations:
            self._changed()

    def wait(self, timeout: float | None) -> ProbeResult | None:
        """Wait until nothing is being computed; None if the time is over."""
        with self._computed:
            if not self._computed.wait_for(lambda: not self.computing, timeout):
                return None
        return self.result

    def wait_field(self, timeout: float | None) -> MeasuredField | None:
        """Wait until the field is measured; None if the time is over."""
        with self._computed:
            if not self._computed.wait_for(lambda: self.field is None or self.field.is_over, timeout):
                return None
        return self.field

    def close(self) -> None:
        """The model is gone: nothing is computed any more."""
        self._set_computing(False)
        if self.is_measuring:
            self.drop_field()

    def release(self) -> None:
        """Let go of everything: the session is closed."""
        with self._lock:
            self._keeper.release()
            self._pinned, self.result, self._answered = None, None, None
            self._comparison.forget()
            self.perturbations, self._edited, self.field = (), None, None
            self._updates.clear()

    def _changed(self) -> None:
        if self._pinned is None and not self.perturbations:
            with self._lock:
                self.result = None
                self._comparison.forget()
            self._set_computing(False)
            self._on_change()
        else:
            with self._lock:
                self._asked += 1
                self._set_computing(True)
            self._request()
            self._on_asked()

    def _set_computing(self, computing: bool) -> None:
        with self._computed:
            self.computing = computing
            self._computed.notify_all()

    # ------------------------------------------------------------ on the training thread

    def measure_field(self) -> None:
        """Measure what was asked for; what goes wrong is in the result."""
        asked, kept = self.field, self.kept
        if asked is None or asked.is_over:
            return
        unit = asked.unit

        def is_wanted() -> bool:
            return self.field is not None and self.field.unit is unit

        def tell(found: MeasuredField) -> None:
            with self._computed:
                if is_wanted():
                    self.field = found
                    self._computed.notify_all()
            self._on_change()

        if kept is None:
            tell(replace(asked, error=f"not measured: {self.why_none}"))
            return
        try:
            self._engine.follow_modules()
            found = measure(self._engine, kept, unit, tell, lambda: not is_wanted())
        except BaseException as error:  # SystemExit of the user's model is one, and ends no training
            said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            found = replace(asked, error=said)
            if isinstance(error, KeyboardInterrupt):
                tell(found)
                raise
        tell(found)

    def compute(self) -> None:
        """Run what is asked; what goes wrong is in the result."""
        with self._lock:
            kept, pinned = self.kept, self._pinned is not None
            mode, perturbations = self.mode, self.perturbations
            if self._computed_for == self._asked:
                return  # asked twice, and done already
            self._computed_for = self._asked
        if kept is None or not (pinned or perturbations):
            self._set_computing(False)
            return
        began = time.perf_counter()
        at, count = self._last()
        result = ProbeResult(self._results, kept.batch, pinned, at, mode, perturbations=perturbations)
        self._results += 1
        try:
            found = self._comparison.run(kept, mode, perturbations, result)
        except BaseException as error:  # SystemExit of the user's model is one, and ends no training
            found = replace(result, error=f"{type(error).__name__}: {error}")
            if isinstance(error, KeyboardInterrupt):
                with self._lock:
                    self.result = found
                    self._set_computing(False)
                raise
        found = replace(found, seconds=time.perf_counter() - began)
        update = None
        if pinned and not found.error:
            told = answers_of(kept.batch, found.output, self._known_loss, ran=self.answers)
            update = PinUpdate(at, told.losses)
        with self._lock:
            if self.kept is not kept:
                return  # another batch has come meanwhile, and asked for a probe of its own
            if update is not None:
                self._updates.add(update, count)
            self.result = found
            asked_again = self._computed_for != self._asked
            unchecked = not found.error and not asked_again and self._comparison.is_unchecked
            self._set_computing(unchecked or asked_again)
        self._on_change()
        if unchecked:
            self._check_repeats(kept, found)

    def _check_repeats(self, kept: KeptCall, found: ProbeResult) -> None:
        """What was found is shown already; say so if it means little."""
        note = ""
        with suppress(Exception):  # it did run a moment ago
            note = self._comparison.repeat(kept, found.mode)
        with self._lock:
            if note and self.result is found:
                self.result = replace(found, notes=(note, *found.notes))
            self._set_computing(self._computed_for != self._asked)
        self._on_change()


def _joined(last: Perturbation, one: Perturbation) -> Perturbation | None:
    """The last perturbation with another one's places among its own; None if they do not go together."""
    if last.index is None or one.index is None or len(last.index) != len(one.index):
        return None
    if replace(one, number=last.number, index=last.index) != last:
        return None
    lengths = [max(len(_several(entry)) for entry in index) for index in (last.index, one.index)]
    index = tuple(
        _stretched(a, lengths[0]) + _stretched(b, lengths[1])
        for a, b in zip(last.index, one.index, strict=True)
    )
    return replace(last, index=index)


def _several(entry: int | tuple[int, ...]) -> tuple[int, ...]:
    return (entry,) if isinstance(entry, int) else entry


def _stretched(entry: int | tuple[int, ...], length: int) -> tuple[int, ...]:
    places = _several(entry)
    return places * length if len(places) == 1 else places
