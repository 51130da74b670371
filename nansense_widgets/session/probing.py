"""What would the layers say to another input, or without one of their channels?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.receptive import ReceptiveFields
from nansense_widgets.capture.selection import select_layers
from nansense_widgets.probe.checked import check_whole, checked_perturbation, checked_unit
from nansense_widgets.probe.field import MeasuredField
from nansense_widgets.probe.keeper import KeptCall
from nansense_widgets.probe.perturbation import Perturbation, samples_places_channels, split_axes
from nansense_widgets.run.target import checked_timeout
from nansense_widgets.session.locking import nothing, unless_locked
from nansense_widgets.session.pinning import Pinning

__all__ = ["Probing"]


class Probing(Pinning):
    """Perturbations of inputs and layers, and receptive fields, in probes of the batch that is shown."""

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
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise ValueError(
                f"input_name={name!r} is no plain tensor ({tensor.layout}): it cannot be changed"
            )
        if not isinstance(join, bool):
            raise TypeError(f"join={join!r} must be True or False")
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
            check_whole(name, tensor, one)
            self._check_ids(kept, name, one)
        axes = self.architecture.axes(place.layer, place.path, tensor.ndim)
        one.check(tuple(tensor.shape), axes)
        if one.sample is not None and one.sample < 0:
            samples = samples_places_channels(tensor, axes).shape[0]
            one = replace(one, sample=one.sample % samples)
        return self._probe.add(one, join=join)

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
        name = self._layer_that_ran(layer)
        node = self.architecture.nodes[name]
        if node.kind == "input":
            raise ValueError(f"layer={layer!r} is an input of the model: use add_perturbation")
        if scale is not None and value is not None:
            raise ValueError(f"scale={scale!r} and value={value!r}: give one of them")
        if scale is None and value is None:
            scale = 0.0
        one = checked_perturbation(
            name, is_layer=True, sample=sample, channel=channel, values=value, scale=scale
        )
        shape = tuple(node.output_shapes[0]) if node.output_shapes else ()
        if shape and all(type(size) is int for size in shape):  # nested tensors have symbols
            axes = self.architecture.axes(name, "", len(shape))
            one.check(shape, axes)
            batch = split_axes(len(shape), axes).batch
            if one.sample is not None and one.sample < 0 and batch is not None:
                one = replace(one, sample=one.sample % shape[batch])
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
            ValueError: if there is no such input or layer.
        """
        if target is not None and not isinstance(target, str):
            raise TypeError(f"target={target!r} must be the name of an input or layer, or None")
        batch = self.probe.batch
        known = {*self.architecture.nodes, *(() if batch is None else batch.inputs)}
        if target is not None and target not in known:
            raise ValueError(f"target={target!r} is no input or layer of this model")
        if self._probe is not None:
            self._probe.clear(target)

    @property
    def perturbations(self) -> tuple[Perturbation, ...]:
        """The perturbations, in the order in which they are applied."""
        return () if self._probe is None else self._probe.perturbations

    # ------------------------------------------------------------ receptive fields

    @unless_locked(nothing)
    def measure_receptive_field(
        self,
        layer: str,
        *,
        channel: int | None = None,
        index: Any = None,
        sample: int = 0,
        input_name: str | None = None,
    ) -> None:
        """Measure on which part of an input a unit of a layer depends; theory's answer is shown beside it.

        Parts of the sample are replaced by noise, one after the other, in eval mode, on the training thread
        between batches: 10 seconds at most. `wait_for_receptive_field` gives the result, `cancel` stops it.
        No-op on a locked session.

        Args:
            layer: a name, or a glob or class that one layer matches; of its first output, at its first call.
            channel: index; may be left out where there is none, else 0.
            index: of the unit along each axis that is neither batch nor channel; None: in the middle.
            sample: in the batch.
            input_name: of the input that is changed; None: the first that the layer depends on.

        Raises:
            TypeError, ValueError: for a wrong argument, naming it and what would be right.
            SessionStateError: if there is no batch, or the session is closed.
        """
        if self._probe is None:
            return
        self._check_open()
        kept = self._kept_call("measure_receptive_field")
        name = self._layer_that_ran(layer)
        fields = ReceptiveFields(self.architecture, name)
        into = input_name if input_name is not None else next(iter(fields.inputs), None)
        into = into if into in kept.batch.inputs or input_name is not None else next(iter(kept.batch.inputs))
        unit = checked_unit(self.architecture, name, channel, index, sample, self._input_of(kept, into))
        given, place = kept.batch.inputs[unit.input], kept.batch.places[unit.input]
        axes = self.architecture.axes(place.layer, place.path, given.ndim)
        samples = samples_places_channels(given, axes).shape[0]
        if not 0 <= unit.sample < samples:
            raise ValueError(f"sample={sample!r} must be 0 … {samples - 1}")
        self._probe.ask_field(unit)

    @unless_locked(nothing)
    def clear_receptive_field(self) -> None:
        """Show no receptive field any more, and stop measuring. No-op on a locked session."""
        if self._probe is not None:
            self._probe.drop_field()

    @property
    def receptive_field(self) -> MeasuredField | None:
        """Of the unit that was asked for last, as far as it is known."""
        return self.probe.field

    def wait_for_receptive_field(self, timeout: float | None = None) -> MeasuredField | None:
        """Wait until the receptive field that was asked for is measured; None after `timeout` seconds.

        Raises:
            TypeError, ValueError: for a wrong timeout.
        """
        seconds = checked_timeout(timeout)
        return None if self._probe is None else self._probe.wait_field(seconds)

    # ------------------------------------------------------------ parts

    def _layer_that_ran(self, layer: object) -> str:
        """The one layer of a name, glob or class; raises if it has not run."""
        if not isinstance(layer, str):
            raise TypeError(f"layer={layer!r} must be the name of a layer (a string)")
        found = select_layers(self.architecture, (layer,), also=(), on_trust=False, argument="layer")
        if len(found) != 1:
            some = ", ".join(found[:6]) + (", …" if len(found) > 6 else "")
            raise ValueError(f"layer={layer!r} must mean one layer; it matches {len(found)}: {some}")
        node = self.architecture.nodes[found[0]]
        if not node.ran:
            raise ValueError(f"layer={layer!r} has not run: {node.note or 'never ran'}")
        return found[0]

    def _check_ids(self, kept: KeptCall, name: str, one: Perturbation) -> None:
        """On an accelerator an id that an embedding lacks ends all work there, training with it."""
        assert self._capture is not None
        on_cpu = all(tensor.device.type == "cpu" for _, tensor in leaves((kept.args, dict(kept.kwargs))))
        modules = () if on_cpu else tuple(self._capture.model.modules())
        sizes = [module.num_embeddings for module in modules if isinstance(module, nn.Embedding)]
        if sizes and any(not 0 <= value < max(sizes) for value in one.values or ()):
            raise ValueError(
                f"values={one.values!r} for {name!r} must be 0 … {max(sizes) - 1}: ids of an embedding"
            )

    def _input_of(self, kept: KeptCall, name: object) -> str:
        known = list(kept.batch.inputs)
        if name is None and len(known) == 1:
            return known[0]
        if name is not None and not isinstance(name, str):
            raise TypeError(f"input_name={name!r} must be a string")
        if name not in known:
            raise ValueError(f"input_name={name!r} must be one of the model's inputs: {', '.join(known)}")
        return str(name)
