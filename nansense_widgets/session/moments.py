"""Moments: one batch of a run in a file, shown again later by a session in which nothing trains."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from torch import nn

from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.errors import MomentError
from nansense_widgets.history.computing import Computing
from nansense_widgets.history.freezer import MomentFreezer
from nansense_widgets.history.moment import BatchSeed, Moment, modules_of, problems, read_moment
from nansense_widgets.history.replay import Replay, ReplayFunction
from nansense_widgets.history.state import RunParts, unchanged_by_errors
from nansense_widgets.run.batches import checked_phase
from nansense_widgets.run.hyperparameters import hyperparameters
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.target import checked_target
from nansense_widgets.session.locking import nothing, unless_locked
from nansense_widgets.session.standing import Standing
from nansense_widgets.stats.frozen import located
from nansense_widgets.stats.scope import StatsScope
from nansense_widgets.widgets.state import place_text

__all__ = ["Moments"]


class Moments(Standing):
    """Freezing a batch, staying at one, and locking what is shown."""

    @unless_locked(nothing)
    def freeze_moment(self, path: Path | str, *, phase: str, epoch: int, batch_idx: int) -> None:
        """Write what the debugger shows after one batch into a file, when training gets there.

        `nansense_widgets.load_moment` shows it again in another process. Training does not pause, whatever
        the mode; the file is written on its thread, after the batch is in the statistics. It holds
        parameters and buffers before and after the batch, gradients, optimizer state, the loader's item,
        statistics, galleries and curves. Activations are not in it: they come again when the batch is
        replayed.

        One request at a time: a second one replaces the first while that waits. What goes wrong in writing is
        told by `notice` and on stderr, and so is a batch that never came, at `close()`. No-op on a locked
        session.

        Args:
            path: of the file, in a folder that exists; an old file stays until the new one is whole.
            phase: e.g. `"train"`.
            epoch: counted from 0.
            batch_idx: counted from 0 within the phase and epoch.

        Raises:
            TypeError, ValueError: for a wrong argument, a folder that cannot be written to, or a batch that
                has passed or lies outside the known schedule.
            SessionStateError: if the session is closed, or shows a moment itself.
        """
        if self._capture is None:
            _checked_file(path)
            checked_target(checked_phase(phase), epoch, batch_idx, self.schedule, None, "before")
            return
        self._check_open()
        self._run.check_loop()
        target = _checked_file(path)
        loop = self._run.loop
        self._run.ahead(checked_phase(phase), epoch, batch_idx)
        if self._freezer is None:
            self._freezer = MomentFreezer(self._capture, self._moment)
        self._freezer.arm(target, BatchPosition(phase, epoch, batch_idx))
        loop.freezer = self._freezer
        self._hub.changed()

    def park(self) -> None:
        """Stay at a pause until `close()`: for a session that has no loop, as one of `load_moment`.

        What works on the model needs a thread to do it. In a script this call is that thread, and returns
        when the session is closed. On a kernel's main thread it hands the model to a worker and returns at
        once. Step and Run lead to the same pause again. Works on a locked session too.

        Raises:
            SessionStateError: if a loop of this session has not ended.
        """
        if self._enabled:
            self._run.park()

    def lock(self) -> None:
        """Let nobody steer or change the session any more: for a demo that many look at. It cannot be undone.

        From then on commands (`step_batch`, `step_phase`, `step_epoch`, `step_until_position`, `step_run`,
        `detach`, `stop`, `cancel`), `watch`, `unwatch`, `watch_attention`, `unwatch_attention`, `set_axes`,
        `set_stats_scope`, `set_patch_layers`, `set_watch_performance`, `set_update_frequency`,
        `set_hyperparameter` and `freeze_moment` do nothing. `request_time_travel` raises `TimeTravelError`,
        registering an instrument `SessionStateError`. Statistics are collected of every layer; those of a
        moment stay as they are. In the widgets, each page chooses for itself which layers it shows. So set up
        what shall be seen, give the command to run, and lock then.

        All that can be read stays, and so do `request_snapshot` and what the loop and its script call:
        `batches`, `epochs`, `log`, `track`, `set_schedule`, `launch`, `park`, `wait`, `close`.
        """
        if not self._enabled or self._locked:
            return
        self._locked = True
        if self._replay is None:
            self._stats.scope = StatsScope.ALL
        else:  # each page may choose what it shows
            self._replay.shows_all = True
            self._show_more()
        self._hub.redraw()

    # ------------------------------------------------------------ what is frozen, and shown again

    def _moment(self, snapshot: BatchSnapshot) -> Moment:
        """Everything that is shown now (training thread)."""
        capture, loop = self._capture, self._run.loop
        assert capture is not None
        return Moment(
            modules=modules_of(capture.model),
            snapshot=snapshot,
            checksums={},
            updates=(),
            stats=self._stats.frozen(self.schedule.phase_count),
            run_log=self._log.snapshot(self.schedule.phase_count),
            events=loop.events.all(),
            events_left_out=loop.events.left_out,
            hyperparameters=tuple(hyperparameters(capture.optimizers)),
            attention=capture.attention,
            schedule=self.schedule.state(),
            frequency=loop.frequency,
            batch_s=loop.pace.batch_s,
            learned=capture.learned(),
            computing=Computing.now(),
        )

    def _show_moment(self, path: Path, model: nn.Module, function: ReplayFunction) -> None:
        """Become the session of a moment; raises `MomentError`, or `TypeError` for a wrong function."""
        capture = self._capture
        assert capture is not None
        moment, seed = read_moment(path)
        try:
            wrong = problems(moment, seed, capture.model)
        except Exception as error:
            raise MomentError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
        if wrong:
            raise MomentError(f"{path} is no moment of this model: {'; '.join(wrong)}")
        with unchanged_by_errors(RunParts(capture.model)):
            self._show_replayed(path, moment, seed, model, function)

    def _show_replayed(
        self, path: Path, moment: Moment, seed: BatchSeed, model: nn.Module, function: ReplayFunction
    ) -> None:
        capture = self._capture
        assert capture is not None
        capture.adopt(moment.learned)
        capture.watch(moment.snapshot.watched)
        capture.watch_attention(moment.attention)
        replay = Replay(path, moment, seed, model, capture, function)
        snapshot = replay.run()
        loop, position = self._run.loop, moment.snapshot.position
        self._run.no_loop = f"a frozen moment ({place_text(position)}), in which nothing trains"
        self.schedule.show(moment.schedule)
        loop.stand_after(position)
        loop.pace.show(moment.batch_s)
        loop.events.show(moment.events, moment.events_left_out)
        loop.frequency = moment.frequency
        self._stats.show(located(moment.stats, capture.architecture))
        self._log.show(moment.run_log)
        if self._keeper is not None:
            self._keeper.look_again()
        self._replay = replay
        self._settings = list(moment.hyperparameters)
        capture.show(snapshot)
        self._run.control.stand()


def _checked_file(path: object) -> Path:
    if not isinstance(path, (str, Path)):
        raise TypeError(f"path={path!r} must be a path")
    found = Path(path)
    if "\0" in str(path):
        raise ValueError(f"path={str(path)!r} must be a path without a null character")
    try:
        os.lstat(found)
    except (FileNotFoundError, NotADirectoryError):  # an ordinary new file, or a folder that is none
        pass
    except OSError as error:
        shorter = "; give a shorter name" if error.errno == errno.ENAMETOOLONG else ""
        raise ValueError(
            f"path={str(path)!r} must be a file of this system: {error.strerror}{shorter}"
        ) from None
    except ValueError as error:
        raise ValueError(f"path={str(path)!r} must be a path of this system: {error}") from None
    if found.is_dir():
        raise ValueError(f"path={str(path)!r} must be a file, and is a folder")
    if not found.absolute().parent.is_dir():
        raise ValueError(f"path={str(path)!r}: there is no folder {found.absolute().parent}")
    if not os.access(found.absolute().parent, os.W_OK):
        raise ValueError(f"path={str(path)!r}: the folder {found.absolute().parent} cannot be written to")
    return found
