"""The input side: a pinned batch, forward modes, perturbations, and what they lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import torch

from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.selection import select_layers
from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.errors import SessionStateError
from nansense_widgets.history.random_state import RandomState
from nansense_widgets.probe.batch import InputBatch
from nansense_widgets.probe.checked import check_whole, checked_perturbation
from nansense_widgets.probe.copies import CopyError, copied_arguments
from nansense_widgets.probe.keeper import Keeper, KeptCall, flags_of, named_inputs
from nansense_widgets.probe.loader_items import as_arguments
from nansense_widgets.probe.perturbation import Perturbation
from nansense_widgets.probe.probe import Probe
from nansense_widgets.probe.reading import NoProbe, ProbeReading
from nansense_widgets.probe.result import ProbeMode, ProbeResult
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.target import checked_timeout
from nansense_widgets.session.locking import no, nothing, unless_locked
from nansense_widgets.session.memory import MemoryEntry
from nansense_widgets.session.standing import Standing

__all__ = ["Probing"]

_JOB = "probe"

MODES: tuple[ProbeMode, ...] = get_args(ProbeMode)


class Probing(Standing):
    """What would the layers say to another input? Nothing of the run changes for it."""

    _keeper: Keeper | None

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
        like = self._kept_call("pin")
        args, kwargs, found = as_arguments(like, inputs, keywords)
        if next(leaves((args, kwargs)), None) is None:
            raise TypeError(f"inputs={inputs!r:.80} must hold at least one tensor")
        named = (
            {} if targets is None else dict(targets) if isinstance(targets, Mapping) else {"targets": targets}
        )
        for name, target in named.items():
            if not isinstance(target, torch.Tensor):
                raise TypeError(
                    f"targets={targets!r:.80} must be a tensor or a dict of tensors, {name!r} is none"
                )
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

    # ------------------------------------------------------------ perturbing

    @unless_locked(nothing)
    def add_perturbation(
        self,
        input_name: str | None = None,
        *,
        sample: int | None = None,
        index: Any = None,
        channel: int | Sequence[int] | None = None,
        values: Any = None,
        scale: float | None = None,
        noise: float | None = None,
        seed: int = 0,
        original: bool = False,
        join: bool = False,
    ) -> Perturbation | None:
        """Change an input of the shown batch (or the pinned one) in a probe, and show what comes of it.

        The batch is run as it was and with all perturbations, one after the other; cards show the difference
        (perturbed minus original), the graph how far it has got. Exactly one of `values`, `scale`, `noise`
        and `original` says what happens. No-op on a locked session.

        ```python
        session.add_perturbation("image", sample=0, index=(12, 7), values=1.0)  # one pixel, all channels
        session.add_perturbation("tokens", sample=0, index=(3,), values=101)  # another token
        session.add_perturbation("image", channel=2, scale=0)  # without a channel, in all samples
        session.add_perturbation("x", index=(4,), values=0.0)  # one feature of (samples, features)
        ```

        Args:
            input_name: of the input, as in `layer_names`, with a path if it is nested (`batch.image`); may be
                left out where there is one.
            sample: index in the batch; None: all samples.
            index: where in a sample: an int for each axis that is neither batch nor channel, or a sequence of
                ints for many places at once (as many along each axis). None: everywhere.
            channel: an index or several; None: all channels.
            values: put there: one number, or one for each channel.
            scale: factor.
            noise: standard deviation of Gaussian noise to add.
            seed: of the noise.
            original: put back what was there (an eraser).
            join: add the places to the last perturbation, if it is the same but for them: one stroke.

        Returns:
            The perturbation.

        Raises:
            TypeError, ValueError: for a wrong argument, naming it and what would be right.
            SessionStateError: if there is no batch, or the session is closed.
        """
        if self._probe is None:
            return None
        self._check_open()
        kept = self._kept_call("add_perturbation")
        name = self._input_of(kept, input_name)
        tensor, place = kept.batch.inputs[name], kept.batch.places[name]
        one = checked_perturbation(
            name,
            sample=sample,
            index=index,
            channel=channel,
            values=values,
            scale=scale,
            noise=noise,
            seed=seed,
            original=original,
        )
        if not (tensor.is_floating_point() or tensor.is_complex()):
            check_whole(name, tensor.dtype, one)
        one.check(tuple(tensor.shape), self.architecture.axes(place.layer, place.path, tensor.ndim))
        return self._probe.add(one, join=bool(join))

    @unless_locked(nothing)
    def ablate(
        self,
        layer: str,
        channel: int | Sequence[int] | None = None,
        *,
        sample: int | None = None,
        scale: float | None = None,
        value: float | None = None,
    ) -> Perturbation | None:
        """Silence, scale or replace a channel of a layer's output in a probe, and see what comes of it.

        Of the layer's first output, at each of its calls. It is one of the `perturbations`. No-op on a locked
        session.

        Args:
            layer: a name, or a glob or class that one layer matches.
            channel: an index or several; None: all channels.
            sample: index in the batch; None: all samples.
            scale: factor; 0 if neither it nor `value` is given.
            value: put in place of every value.

        Returns:
            The perturbation.

        Raises:
            TypeError, ValueError: for a wrong argument, naming it and what would be right.
            SessionStateError: if there is no batch, or the session is closed.
        """
        if self._probe is None:
            return None
        self._check_open()
        self._kept_call("ablate")
        if not isinstance(layer, str):
            raise TypeError(f"layer={layer!r} must be the name of a layer (a string)")
        nodes = self.architecture.nodes
        found = select_layers(self.architecture, (layer,), also=(), on_trust=False)
        if len(found) != 1:
            some = ", ".join(found[:6]) + (", …" if len(found) > 6 else "")
            raise ValueError(f"layer={layer!r} must mean one layer; it matches {len(found)}: {some}")
        name = found[0]
        node = nodes[name]
        if node.kind == "input":
            raise ValueError(f"layer={layer!r} is an input of the model: use add_perturbation")
        if not node.ran:
            raise ValueError(f"layer={layer!r} has not run: {node.note or 'never ran'}")
        if scale is not None and value is not None:
            raise ValueError(f"scale={scale!r} and value={value!r}: give one of them")
        if scale is None and value is None:
            scale = 0.0
        one = checked_perturbation(
            name, is_layer=True, sample=sample, channel=channel, values=value, scale=scale
        )
        shape = tuple(node.output_shapes[0]) if node.output_shapes else ()
        if shape and all(type(size) is int for size in shape):  # nested tensors have symbols
            one.check(shape, self.architecture.axes(name, "", len(shape)))
        return self._probe.add(one, join=False)

    @unless_locked(nothing)
    def undo_perturbation(self) -> Perturbation | None:
        """Take the last perturbation back and return it; None if there is none. No-op on a locked session."""
        return None if self._probe is None else self._probe.undo()

    @unless_locked(nothing)
    def clear_perturbations(self, target: str | None = None) -> None:
        """Take all perturbations back, or only those of one input or layer. No-op on a locked session.

        Args:
            target: name of an input or layer; None: all.

        Raises:
            TypeError: if it is no string.
        """
        if target is not None and not isinstance(target, str):
            raise TypeError(f"target={target!r} must be the name of an input or layer, or None")
        if self._probe is not None:
            self._probe.clear(target)

    @property
    def perturbations(self) -> tuple[Perturbation, ...]:
        """The perturbations, in the order in which they are applied."""
        return () if self._probe is None else self._probe.perturbations

    # ------------------------------------------------------------ parts

    def _begin_probing(self) -> None:
        capture, loop = self._capture, self._run.loop
        assert capture is not None
        keeper = Keeper(lambda: capture.model, capture.input_values, self._losses_of)
        probe = Probe(
            capture, keeper, lambda: (loop.last, loop.trail.count), self._ask_for_probe, self._hub.redraw
        )
        capture.keeper, self._keeper, self._probe = keeper, keeper, probe

    def _losses_of(self, position: BatchPosition) -> tuple[float, ...]:
        return tuple(self._log.losses_of(position).values())

    def _ask_for_probe(self) -> None:
        jobs, probe = self._run.loop.jobs, self._probe
        if probe is not None and _JOB not in jobs.waiting:
            jobs.submit(_JOB, probe.compute)

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

    def _input_of(self, kept: KeptCall, name: object) -> str:
        known = list(kept.batch.inputs)
        if name is None and len(known) == 1:
            return known[0]
        if name is not None and not isinstance(name, str):
            raise TypeError(f"input_name={name!r} must be a string")
        if name not in known:
            raise ValueError(f"input_name={name!r} must be one of the model's inputs: {', '.join(known)}")
        return str(name)

    def _memory(self) -> Any:
        yield from super()._memory()
        if self._probe is not None:
            yield from (MemoryEntry("probe", name, size) for name, size in self._probe.nbytes.items())
