"""Runs the batch of a frozen moment once more, and makes of it the snapshot that was shown then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nansense_widgets.capture.engine import CaptureEngine
from nansense_widgets.capture.snapshot import BatchSnapshot, LayerCall
from nansense_widgets.errors import MomentError
from nansense_widgets.history.item import unpack_item
from nansense_widgets.history.moment import BatchSeed, Moment, checksum
from nansense_widgets.history.random_state import restore_random, take_random
from nansense_widgets.history.state import RunParts, restore_state
from nansense_widgets.run.item import LoaderItem

__all__ = ["Replay", "ReplayFunction"]

ReplayFunction = Callable[[nn.Module, Any], Any]
"""From the model and the loader's item to the loss."""


class Replay:
    """Of one moment, as often as other layers are to be shown.

    Args:
        path: names the file in what is said.
        moment: what is shown.
        seed: what the batch began from.
        model: as the user gave it.
        engine: captures it.
        function: the batch in miniature.
    """

    def __init__(
        self,
        path: Path,
        moment: Moment,
        seed: BatchSeed,
        model: nn.Module,
        engine: CaptureEngine,
        function: ReplayFunction,
    ) -> None:
        self.moment = moment
        self._path = path
        self._seed = seed
        self._model = model
        self._engine = engine
        self._function = function
        self._number = moment.snapshot.number
        self.shows_all = False
        """Whether layers are shown that are not watched."""

    def run(self) -> BatchSnapshot:
        """The snapshot with the layers that are watched now, or with all.

        The model has the state after the batch then; random generators and settings of torch are as before.

        Raises:
            TypeError: if the function gives no loss.
            MomentError: if it fails, or does not run what was frozen.
        """
        parts = RunParts(self._engine.model)
        before = {"random": take_random(), "grad": torch.is_grad_enabled()}
        try:
            restore_state(parts, self._seed.start)
            layers = self._engine.architecture.nodes if self.shows_all else self._engine.watched
            device = next((p.device for p in self._engine.model.parameters()), torch.device("cpu"))
            item = unpack_item(self._seed.item, device)
            found = self._engine.replay(
                self.moment.snapshot.position, lambda: self._batch(item), tuple(layers), LoaderItem(item)
            )
        except (MomentError, _NoLossError):
            raise
        except Exception as error:
            raise MomentError(
                f"{self._path}: the replay failed with {type(error).__name__}: {error}"
            ) from error
        finally:
            self._put_back(parts, before)
        shown = self._put_together(found)
        self._number += 1
        return shown

    def _put_back(self, parts: RunParts, before: Mapping[str, Any]) -> None:
        try:
            restore_state(parts, {**self._seed.end, **before})
        except Exception as error:
            restore_random(before["random"])
            torch.set_grad_enabled(before["grad"])
            raise MomentError(f"{self._path}: the replay changed the model itself: {error}") from error

    @property
    def nbytes(self) -> Mapping[str, int]:
        """Memory of the states that it keeps."""
        parts = {"start": self._seed.start, "end": self._seed.end, "item": self._seed.item}
        return {name: _size(part) for name, part in parts.items()}

    def _batch(self, item: Any) -> None:
        learns = self._learns
        with self.moment.computing.applied(), torch.set_grad_enabled(learns):
            loss: Any = self._function(self._model, item)
            if not learns:
                return
            if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
                shape = getattr(loss, "shape", None)
                what = f"a {type(loss).__name__}" + (f" of shape {tuple(shape)}" if shape else "")
                raise _NoLossError(f"replay must return the loss, a tensor of one element, not {what}")
            if not loss.requires_grad:
                raise MomentError(
                    f"{self._path}: the replay's loss has no gradient; the frozen batch had one"
                )
            loss.backward()

    @property
    def _learns(self) -> bool:
        """Whether the frozen batch had a backward."""
        shown = self.moment
        of_layers = any(
            gradient for calls in shown.checksums.values() for leaves in calls for _, gradient in leaves
        )
        return of_layers or bool(shown.snapshot.weight_gradients)

    def _put_together(self, found: BatchSnapshot) -> BatchSnapshot:
        frozen = self.moment.snapshot
        layers: dict[str, tuple[LayerCall, ...]] = {}
        differ: list[str] = []
        added = [name for name in found.watched if name not in frozen.watched]
        missing = {**frozen.missing, **{name: why for name, why in found.missing.items() if name in added}}
        for name in self._engine.watched:
            if name in frozen.layers and name not in found.layers:
                why = found.missing.get(name, "")
                raise MomentError(
                    f"{self._path}: layer {name!r} ran in the frozen batch, and not in its replay"
                    + (f" ({why})" if why else "")
                )
        for name, calls in frozen.layers.items():
            if name in found.layers:  # else it is not watched any more
                layers[name], same = _with_values(calls, found.layers[name], self.moment.checksums[name])
                if not same:
                    differ.append(name)
        layers.update((name, found.layers[name]) for name in added if name in found.layers)
        notes = frozen.notes
        if differ:
            some = ", ".join(differ[:3]) + (", …" if len(differ) > 3 else "")
            how_many = f"in {len(differ)} of {len(frozen.layers)} layers ({some})"
            why = "it differs from the training step, or another device or version computes it"
            notes = (*notes, f"the replay gave other values than were frozen {how_many}: {why}")
        return replace(
            frozen,
            number=self._number,
            layers=layers,
            missing=missing,
            watched=self._engine.watched,
            notes=notes,
        )


class _NoLossError(TypeError):
    """The user's function is wrong, not the file."""


Checksums = tuple[tuple[tuple[str, str], ...], ...]


def _with_values(
    frozen: tuple[LayerCall, ...], found: tuple[LayerCall, ...], checksums: Checksums
) -> tuple[tuple[LayerCall, ...], bool]:
    """The replay's calls, and whether all came out the same; such outputs are described as they were."""
    calls, same = [], len(found) == len(frozen)
    for at, call in enumerate(found):
        leaves = list(call.leaves)
        before = frozen[at].leaves if at < len(frozen) else ()
        same = same and len(before) == len(leaves)
        for i, (leaf, known) in enumerate(zip(leaves, before, strict=False)):
            if (checksum(leaf.activation), checksum(leaf.gradient)) == checksums[at][i]:
                leaves[i] = replace(known, activation=leaf.activation, gradient=leaf.gradient)
            else:
                same = False
        calls.append(LayerCall(call.call, tuple(leaves)))
    return tuple(calls), same


def _size(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, (list, tuple)) else 0
