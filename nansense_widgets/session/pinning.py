"""A batch that is run once more at every update, and in which mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

import torch

from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.errors import SessionStateError
from nansense_widgets.history.random_state import RandomState
from nansense_widgets.probe.batch import InputBatch
from nansense_widgets.probe.copies import CopyError, copied_arguments
from nansense_widgets.probe.keeper import Keeper, KeptCall, flags_of, named_inputs
from nansense_widgets.probe.loader_items import as_arguments
from nansense_widgets.probe.probe import Probe
from nansense_widgets.probe.reading import NoProbe, ProbeReading
from nansense_widgets.probe.result import ProbeMode, ProbeResult
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.target import checked_timeout
from nansense_widgets.session.locking import no, nothing, unless_locked
from nansense_widgets.session.memory import MemoryEntry
from nansense_widgets.session.standing import Standing

__all__ = ["Pinning"]

_PROBE, _FIELD = "probe", "measure_receptive_field"

MODES: tuple[ProbeMode, ...] = get_args(ProbeMode)


class Pinning(Standing):
    """Which batch is shown to the model again, and what the layers say to it. The run does not change."""

    # ------------------------------------------------------------ pinning

    @unless_locked(no)
    def pin_current_batch(self) -> bool:
        """Pin the batch that is shown: from now on it is run once more at every update, with all its inputs.

        Cards then show what the layers say to it, so that one input can be followed as training goes on, and
        across going back. A probe is a forward of its own, between batches: it changes nothing of the run.
        If another batch is pinned, this one takes its place. No-op on a locked session.

        Returns:
            Whether there was one to pin.
        """
        keeper, probe = self._keeper, self._probe
        if keeper is None or probe is None or keeper.kept is None:
            return False
        self._check_open()
        probe.pin(keeper.kept)
        return True

    @unless_locked(no)
    def pin(self, *inputs: Any, targets: Any = None, **keywords: Any) -> bool:
        """Pin a batch of your own, as `pin_current_batch` pins that of the loop. No-op on a locked session.

        Args:
            inputs: what the model is called with, as in `model(*inputs, **keywords)`: a batch, with its batch
                axis. Or one item as the loop's loader gives them, such as `(images, labels)`: then the model
                is given the same parts of it as in the shown batch. Tensors go to the device of the model.
            targets: labels, if any: a tensor, or several in a dict. Of a loader's item they are found.
            keywords: as in the model's call.

        Returns:
            True; False on a disabled or locked session.

        Raises:
            TypeError: if there is no tensor among the inputs.
            ValueError: if an item of a loader is given and it is not known what the model takes of it.
            SessionStateError: if no batch has been captured yet: how the model is called is seen there.
        """
        keeper, probe, capture = self._keeper, self._probe, self._capture
        if keeper is None or probe is None or capture is None:
            return False
        self._check_open()
        like = keeper.kept
        if like is None:
            raise SessionStateError(f"pin: there is no batch yet: {keeper.why_none}")
        args, kwargs, found = as_arguments(like, inputs, keywords)
        if next(leaves((args, kwargs)), None) is None:
            raise TypeError(f"inputs={inputs!r:.80} must hold at least one tensor")
        named = dict(targets) if isinstance(targets, Mapping) else {}
        if targets is not None and not isinstance(targets, Mapping):
            # Under the name that labels have in the run, by which its loss is computed.
            named = {probe.target_name: targets}
        for name, target in named.items():
            if not isinstance(target, torch.Tensor):
                which = f": {name!r} is none" if isinstance(targets, Mapping) else ""
                raise TypeError(f"targets={targets!r:.80} must be a tensor or a dict of tensors{which}")
        device = next(
            (tensor.device for _, tensor in leaves((like.args, dict(like.kwargs)))), torch.device("cpu")
        )
        try:
            args, kwargs = copied_arguments(args, kwargs, device)
        except CopyError as error:
            raise ValueError(f"inputs={inputs!r:.80}: {error}") from error
        values, places = named_inputs(capture.input_values(args, kwargs))
        batch = InputBatch(
            None,
            values,
            places,
            {**found, **{name: target.detach().cpu().clone() for name, target in named.items()}},
            training=flags_of(capture.model),
        )
        probe.pin(KeptCall(batch, args, kwargs, RandomState(), like.computing, like.grad, like.item))
        return True

    @unless_locked(nothing)
    def unpin_batch(self) -> None:
        """Let go of the pinned batch: cards follow training again. No-op on a locked session."""
        if self._probe is not None:
            self._probe.pin(None)

    @property
    def is_pinned(self) -> bool:
        """Whether a batch is pinned."""
        return self._probe is not None and self._probe.is_pinned

    @property
    def pinned_position(self) -> BatchPosition | None:
        """The batch that is pinned; None: there is none, or it is one of your own."""
        batch = self._probe.batch if self._probe is not None and self._probe.is_pinned else None
        return None if batch is None else batch.position

    # ------------------------------------------------------------ how it is run

    @unless_locked(nothing)
    def set_probe_mode(self, mode: ProbeMode) -> None:
        """In which mode the modules are in probes, which decides what BatchNorm and dropout do.

        Flags, statistics of BatchNorm and random numbers of the run are as before after each probe. Dropout
        draws in every probe of a batch what it drew when that batch ran. No-op on a locked session.

        Args:
            mode: `"unchanged"` (at first): as the loop has left them; `"eval"`: as after `model.eval()`;
                `"train"`: as after `model.train()`.

        Raises:
            ValueError: for anything else.
        """
        if mode not in MODES:
            raise ValueError(f"mode={mode!r} must be one of {', '.join(map(repr, MODES))}")
        if self._probe is not None:
            self._probe.set_mode(mode)

    @property
    def probe_mode(self) -> ProbeMode:
        """The mode of modules in probes."""
        return "unchanged" if self._probe is None else self._probe.mode

    @property
    def probe(self) -> ProbeReading:
        """What is pinned and perturbed, as widgets read it; `probe_result` is what came of it."""
        return self._probe or NoProbe()

    @property
    def probe_result(self) -> ProbeResult | None:
        """What the last probe found; None while nothing is pinned or perturbed, and until it has run."""
        return None if self._probe is None else self._probe.result

    def wait_for_probe(self, timeout: float | None = None) -> ProbeResult | None:
        """Wait until the probe that was asked for has run, and return what it found.

        Probes run on the training thread between batches, so from a cell there is something to wait for.

        Args:
            timeout: seconds to wait at most; None: no limit.

        Returns:
            The result; None if nothing is pinned or perturbed, or the time is over.

        Raises:
            TypeError, ValueError: for a wrong timeout.
        """
        seconds = checked_timeout(timeout)
        return None if self._probe is None else self._probe.wait(seconds)

    # ------------------------------------------------------------ parts

    def _begin_probing(self) -> None:
        capture, loop = self._capture, self._run.loop
        assert capture is not None
        keeper = Keeper(lambda: capture.model, capture.input_values, self._losses_of)
        probe = Probe(
            capture,
            keeper,
            lambda: (loop.last, loop.trail.count),
            lambda: self._ask(_PROBE, probe.compute),
            lambda: self._ask(_FIELD, probe.measure_field),
            self._hub.redraw_probed,
            self._hub.redraw_asked,
        )
        capture.keeper, self._keeper, self._probe = keeper, keeper, probe

    def _losses_of(self, position: BatchPosition) -> tuple[float, ...]:
        return tuple(self._log.losses_of(position).values())

    def _ask(self, name: str, job: Callable[[], None]) -> None:
        """Have something done between batches, once however often it is asked meanwhile."""
        jobs = self._run.loop.jobs
        if name not in jobs.waiting:
            jobs.submit(name, job)

    def _new_snapshot(self, snapshot: BatchSnapshot) -> None:
        self._hub.new_snapshot(snapshot)
        if self._probe is not None:
            self._probe.new_batch()

    def _kept_call(self, what: str) -> KeptCall:
        assert self._probe is not None
        kept = self._probe.kept
        if kept is None:
            raise SessionStateError(f"{what}: there is no batch yet: {self._probe.why_none}")
        return kept

    def _memory(self) -> Iterator[MemoryEntry]:
        yield from super()._memory()
        if self._probe is not None:
            yield from (MemoryEntry("probe", name, size) for name, size in self._probe.nbytes.items())
