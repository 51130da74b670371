"""`start` and `load_moment`: check arguments, end an earlier session in the same place, make the new one."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from nansense_widgets.capture.modules import input_names
from nansense_widgets.media.inputs import InputConfig, InputTransform, MeanStd
from nansense_widgets.run.kernel import running_cell
from nansense_widgets.run.schedule import Schedule
from nansense_widgets.session import Session

__all__ = ["load_moment", "start"]

_open: weakref.WeakValueDictionary[object, Session] = weakref.WeakValueDictionary()
"""Sessions that may still be open, by what a new one replaces them for: their model, their cell."""


def start(
    model: nn.Module,
    *,
    epochs: int | None = None,
    phases: Mapping[str, int] | None = None,
    enabled: bool = True,
    optimizer: Optimizer | Sequence[Optimizer] | None = None,
    scheduler: LRScheduler | Sequence[LRScheduler] | None = None,
    input_mean: MeanStd | Mapping[str, MeanStd] | None = None,
    input_std: MeanStd | Mapping[str, MeanStd] | None = None,
    input_transform: InputTransform | Mapping[str, InputTransform] | None = None,
) -> Session:
    """Put `model`'s training under the debugger.

    The schedule is learned as the loop runs; `epochs` and `phases` (name to batches an epoch) declare it
    up front, so that progress and the last batch are exact from the first epoch on. A session that was
    started earlier for the same model, or in the same notebook cell, is closed first.

    Args:
        model: any module, compiled or not; its own forward always runs, nothing in it is changed.
        epochs: how many there will be, if `session.epochs(n)` does not say.
        phases: phase name to batches an epoch (at least 1), in the order in which they run. A loop that
            then asks for another phase, or for more batches, gets a `ValueError`.
        enabled: False makes the session inert, to leave the wiring in place: nothing is captured or
            paused, and `session.launch` only runs the loop.
        optimizer: one or several; snapshots then hold their state and hyperparameters, and weight
            gradients as `optimizer.step()` used them.
        scheduler: one or several: their state is kept with that of the run, to go back to (`epochs`).
        input_mean: the mean that the loader took from the inputs, so that `x * std + mean` is the picture:
            a number, one a channel, or a dict of these by input name. Extreme patches are shown with it
            undone; strips show inputs as the model gets them.
        input_std: likewise; positive.
        input_transform: maps a sample of shape (C, H, W) to 1 or 3 channels that can be drawn, or a dict
            of these by input name; or token ids to their text. For extreme patches, as `input_mean`.

    Returns:
        The session. Its loop has not begun; the first batch will pause.

    Raises:
        TypeError, ValueError: for a wrong argument, naming it.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"model must be a torch.nn.Module, not {type(model).__name__}; several go into one, e.g. "
            "torch.nn.ModuleDict({'generator': g, 'critic': d})"
        )
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled={enabled!r} must be True or False")
    session = Session(
        model,
        schedule=Schedule(epochs=epochs, phases=phases),
        enabled=enabled,
        optimizers=_as_list("optimizer", optimizer, (Optimizer,)),
        schedulers=_as_list("scheduler", scheduler, (LRScheduler, ReduceLROnPlateau)),
        inputs=InputConfig(input_mean, input_std, input_transform).checked_names(input_names(model)),
    )
    if enabled:
        _replace_earlier(session, model)
    return session


def load_moment(
    model: nn.Module,
    path: Path | str,
    *,
    replay: Callable[[nn.Module, Any], torch.Tensor],
    input_mean: MeanStd | Mapping[str, MeanStd] | None = None,
    input_std: MeanStd | Mapping[str, MeanStd] | None = None,
    input_transform: InputTransform | Mapping[str, InputTransform] | None = None,
) -> Session:
    """Show a moment that `Session.freeze_moment` wrote, to look around in it; nothing trains.

    The session stands at a pause after the frozen batch and shows what was shown then, bit for bit:
    statistics, galleries, curves, weights and optimizer state are in the file, activations and their
    gradients come from one replay of the batch, from the parameters, buffers, modes and random state that it
    began with. Where the replay gives other values, a note beside the cards says so. Step and Run do nothing.
    `park()` keeps a script alive, `lock()` makes it a demo.

    Args:
        model: a fresh instance of the model that was frozen. It gets the parameters, buffers, gradients and
            modes after the batch, and stays on its device. Random generators stay as they are.
        path: of the file.
        replay: the training step in miniature: given the model and the loader's item, on the model's device,
            it returns the loss, e.g. `lambda m, batch: criterion(m(batch[0]), batch[1])`. Of a batch without
            a backward, what it returns is not looked at. It is called here, and again when other layers are
            watched.
        input_mean: as for `start`.
        input_std: as for `start`.
        input_transform: as for `start`.

    Returns:
        The session. Any earlier one of the same model or cell is closed.

    Raises:
        TypeError, ValueError: for a wrong argument, naming it, or if `replay` gives no loss.
        MomentError: if the file is not there, damaged, of another version or of another model, or the replay
            fails. It names the file.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    if not isinstance(path, (str, Path)):
        raise TypeError(f"path={path!r} must be a path")
    if not callable(replay):
        raise TypeError(
            f"replay={replay!r} must be a function of the model and a batch that returns the loss"
        )
    session = Session(
        model,
        schedule=Schedule(),
        enabled=True,
        optimizers=[],
        schedulers=[],
        inputs=InputConfig(input_mean, input_std, input_transform).checked_names(input_names(model)),
    )
    session._show_moment(Path(path), model, replay)  # noqa: SLF001  one entry point
    _replace_earlier(session, model)
    return session


REPLACED = "replaced by a newer session: run session.dashboard() again to see that one"

_last_run: tuple[str | None, weakref.WeakSet[Session]] = (None, weakref.WeakSet())


def _of_this_run(run: str | None) -> weakref.WeakSet[Session]:
    """Sessions that were started in this run of a cell."""
    global _last_run  # noqa: PLW0603  cells run one after the other; only the current one matters
    if run is None or _last_run[0] != run:
        _last_run = (run, weakref.WeakSet())
    return _last_run[1]


def _replace_earlier(session: Session, model: nn.Module) -> None:
    keys: list[object] = [id(model)]
    cell, run = running_cell()
    if cell is not None:
        keys.append(cell)
    for key in keys:
        earlier = _open.get(key)
        # Several sessions may start in one run of a cell, for several models.
        if earlier is not None and (key == id(model) or earlier not in _of_this_run(run)):
            earlier._close(REPLACED, keep_state=False)  # noqa: SLF001  one entry point
        _open[key] = session
    _of_this_run(run).add(session)


def _as_list(name: str, value: Any, kinds: tuple[type, ...]) -> list[Any]:
    if value is None:
        return []
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    for item in items:
        if not isinstance(item, kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{name}={item!r} must be a torch {expected}, or a list of them")
    return items
