"""Captures the batches that are shown: installs the watches before a batch, publishes a snapshot after it."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.axes import Axes
from nansense_widgets.capture.batch import BatchCapture, Fold, FoldedBatch
from nansense_widgets.capture.builder import ArchitectureBuilder
from nansense_widgets.capture.compiled import EagerRun, may_be_compiled, was_anything_compiled
from nansense_widgets.capture.forward import ForwardWatch, RootListener, Taker, input_name
from nansense_widgets.capture.listeners import CallKeeper, RunRecorder, Statistics
from nansense_widgets.capture.losses import LossWatch
from nansense_widgets.capture.modules import unwrap
from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.capture.trace import Trace
from nansense_widgets.run.item import LoaderItem
from nansense_widgets.run.position import BatchPosition

__all__ = ["CaptureEngine", "Learned"]


@dataclass(frozen=True)
class Learned:
    """What an engine has learned over a run.

    Attributes:
        ops: scope, function, ordinal and name of each op.
        axes: what the user said of the axes of layers or outputs.
    """

    ops: tuple[tuple[str, str, int, str], ...]
    axes: Mapping[str, Axes]


class CaptureEngine:
    """The batch observer of a session. `begin` and `end` run on the training thread and never raise.

    Args:
        on_snapshot: called with each new snapshot, on the training thread; must return at once.
        stats: collects running statistics of every batch, if given.
        recorder: is told of losses, if given.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizers: Sequence[Optimizer],
        on_snapshot: Callable[[BatchSnapshot], None],
        stats: Statistics | None = None,
        recorder: RunRecorder | None = None,
    ) -> None:
        self.model = unwrap(model)
        self.snapshot: BatchSnapshot | None = None
        self.error = ""
        """What went wrong in a capture, for the widgets to show; the run has gone on."""
        self._optimizers: Sequence[Optimizer] = optimizers
        self._on_snapshot = on_snapshot
        self._stats = stats
        self._recorder = recorder
        self._losses = None if recorder is None else LossWatch(recorder.loss)
        with torch._C.DisableTorchFunction():
            self._builder = ArchitectureBuilder(self.model)
        self._lock = threading.Lock()
        self._watched: dict[str, None] = {}
        self._attention: dict[str, None] = {}
        self._number = 0
        self._traced_phases: set[tuple[str, int]] = set()
        self._under_way: BatchCapture | FoldedBatch | None = None
        self._closed = False
        self._stats_error = ""
        self.keeper: CallKeeper | None = None
        self.takes_whole_model = False
        """Of the next batch: its snapshot is to hold all parameters, whatever is watched."""

    # ------------------------------------------------------------ what is watched (any thread)

    @property
    def architecture(self) -> Architecture:
        """All layers and edges known so far."""
        return self._builder.architecture

    @property
    def optimizers(self) -> Sequence[Optimizer]:
        """Those of the session; none when it is closed."""
        return self._optimizers

    @property
    def watched(self) -> tuple[str, ...]:
        """Watched layers in the order they were asked for."""
        return tuple(self._watched)

    def watch(self, layers: Sequence[str]) -> None:
        """Watch layers from the next captured batch on."""
        with self._lock:
            self._watched = {**self._watched, **dict.fromkeys(layers)}

    def unwatch(self, layers: Sequence[str]) -> None:
        """Stop to watch layers."""
        with self._lock:
            dropped = set(layers)
            self._watched = {name: None for name in self._watched if name not in dropped}
            self._attention = {name: None for name in self._attention if name not in dropped}

    @property
    def attention(self) -> tuple[str, ...]:
        """Watched layers whose attention weights are formed too."""
        return tuple(self._attention)

    def watch_attention(self, layers: Sequence[str]) -> None:
        """Watch layers, and form their attention weights, from the next captured batch on."""
        with self._lock:
            self._watched = {**self._watched, **dict.fromkeys(layers)}
            self._attention = {**self._attention, **dict.fromkeys(layers)}

    def unwatch_attention(self, layers: Sequence[str]) -> None:
        """Form no more attention weights; the layers stay watched."""
        with self._lock:
            self._attention = {name: None for name in self._attention if name not in set(layers)}

    def choose_axes(self, output: str, axes: Axes | None) -> None:
        """Let the user's axes of an output stand; None: as the layer's class says again."""
        self._builder.choose_axes(output, axes)

    # ------------------------------------------------------------ around a batch (training thread)

    def begin(
        self, position: BatchPosition, *, captures: bool = True, pauses: bool, item: LoaderItem | None = None
    ) -> None:
        """Install what one batch needs: nothing, taps for the statistics, or all that a snapshot takes.

        The whole forward is traced where somebody will look (it pauses) and in the first captured batch of
        a phase in an epoch; else only the watched layers are tapped.
        """
        if self._closed:
            return
        began = time.perf_counter()
        try:
            if self._recorder is not None and self._losses is not None:
                self._recorder.begin(position, self._optimizers)
                self._losses.begin()
            with torch._C.DisableTorchFunction():  # modes of the user's own are to see none of this
                partly = was_anything_compiled()
                fold = self._fold(position, partly, item)
                if fold is not None:
                    fold.is_captured = captures
                if captures:
                    if self.keeper is not None:
                        self.keeper.begin(position, item)
                    capture = self._begin(position, pauses, fold)
                    capture.seconds = time.perf_counter() - began
                elif fold is not None and not partly:
                    # Compiled code calls no hooks, and running every batch eagerly would take its speed.
                    self._follow_modules()
                    self._under_way = FoldedBatch(self._builder, fold)
                    self._under_way.install()
        except Exception as error:
            self._fail(error)
        except BaseException:  # an interrupt: nothing half installed may stay
            self._take_down()
            raise

    def _follow_modules(self) -> None:
        if not self._builder.index.is_current():
            self._builder.rebuild(self.model)
            self._traced_phases.clear()

    def _fold(self, position: BatchPosition, partly: bool, item: LoaderItem | None) -> Fold | None:
        self._stats_error = ""
        if self._stats is None:
            return None
        try:
            return self._stats.begin(
                position,
                self.watched,
                self.architecture,
                self._parameter,
                partly=partly,
                item=item,
                optimizers=self._optimizers,
                module=self._builder.index.modules.get,
            )
        except Exception as error:  # the batch can be shown all the same
            self._stats_error = f"no statistics of this batch: {type(error).__name__}: {error}"
            return None

    def _parameter(self, name: str) -> torch.Tensor:
        # Not `get_parameter`, which script modules do not have.
        found: Any = functools.reduce(getattr, name.split("."), self.model)
        parameter: torch.Tensor = found
        return parameter

    # ------------------------------------------------------------ forwards of no batch

    @contextmanager
    def watching(
        self,
        layers: Sequence[str],
        taker: Taker,
        root: RootListener,
        replaced: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> Iterator[ForwardWatch]:
        """Hand values of layers, and inputs and outputs of the model, to others while it runs.

        On the thread that calls it. Compiled code runs eagerly, since it calls no hooks. Raises, at the end,
        what the watch itself has run into.

        Args:
            layers: whose values are wanted.
            taker: is given them.
            root: is told of calls of the model.
            replaced: as for `ForwardWatch`.
        """
        errors: list[Exception] = []
        taps, maps = frozenset(layers), frozenset(self.attention) & frozenset(layers)
        watch = ForwardWatch(
            self._builder.index, self._builder.names, taps, taker, maps, None, errors.append, root, replaced
        )
        eager = EagerRun() if may_be_compiled() else None
        try:
            watch.install()
            if eager is not None:
                eager.enter()
            yield watch
        finally:
            watch.remove()
            if eager is not None:
                eager.exit()
        if errors:
            raise errors[0]

    def follow_modules(self) -> None:
        """Take notice of modules that were replaced (training thread)."""
        with torch._C.DisableTorchFunction():
            self._follow_modules()

    def input_values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """What a call of the model gives to each of its inputs, by the name of the input's layer."""
        index = self._builder.index
        return {input_name(index, name): value for name, value in index.bind_inputs(args, kwargs).items()}

    # ------------------------------------------------------------ a batch of another process

    def learned(self) -> Learned:
        """What cannot be learned anew from one batch: names of ops, and what the user said of axes."""
        return Learned(tuple(self._builder.names.known()), self._builder.chosen_axes)

    def adopt(self, learned: Learned) -> None:
        """Go on from what was learned in another process."""
        self._builder.names.adopt(learned.ops)
        for output, axes in learned.axes.items():
            self._builder.choose_axes(output, axes)

    def replay(
        self,
        position: BatchPosition,
        batch: Callable[[], None],
        layers: Sequence[str] | None = None,
        item: LoaderItem | None = None,
    ) -> BatchSnapshot:
        """Run a batch and learn from it; what it looked like, which is not published.

        Of the watched layers, or of those that are given. Raises what the batch raises.
        """
        try:
            with torch._C.DisableTorchFunction():
                if self.keeper is not None:
                    self.keeper.begin(position, item)
                capture = self._begin(position, True, None, layers)
            batch()
            with torch._C.DisableTorchFunction():
                if capture.trace is not None:
                    self._builder.add(capture.trace)
                snapshot = capture.finish(position, True, self._number, time.perf_counter())
                if self.keeper is not None:
                    self.keeper.end()
                return snapshot
        finally:
            self._take_down()

    def show(self, snapshot: BatchSnapshot) -> None:
        """Publish a snapshot that was put together elsewhere."""
        self._number = snapshot.number + 1
        self.snapshot = snapshot
        self._on_snapshot(snapshot)

    def restart(self) -> None:
        """Another run begins."""
        self._traced_phases.clear()
        if self._stats is not None:
            self._stats.restart()
        if self._recorder is not None:
            self._recorder.restart()

    def rewind_to_epoch(self, epoch: int) -> None:
        """The run stands at the beginning of an epoch again."""
        self._traced_phases = {key for key in self._traced_phases if key[1] < epoch}

    def _begin(
        self, position: BatchPosition, pauses: bool, fold: Fold | None, layers: Sequence[str] | None = None
    ) -> BatchCapture:
        self._follow_modules()
        new = (position.phase, position.epoch) not in self._traced_phases
        names = {id(p): name for name, p in self.model.named_parameters()}
        trace = Trace(names) if pauses or new else None
        self._traced_phases.add((position.phase, position.epoch))
        whole, self.takes_whole_model = self.takes_whole_model, False
        capture = BatchCapture(
            self.model,
            self._builder,
            self.watched if layers is None else tuple(layers),
            self.attention,
            self._optimizers,
            trace,
            fold,
            whole_model=whole,
            root=self.keeper,
        )
        self._under_way = capture
        capture.install()
        return capture

    def end(self, position: BatchPosition, *, complete: bool) -> None:
        """Take the watches down and publish what they saw."""
        began = time.perf_counter()
        if self._losses is not None:
            self._losses.end()
        if self._recorder is not None:
            self._recorder.end()
        capture, self._under_way = self._under_way, None
        if capture is None:
            return
        if isinstance(capture, FoldedBatch):
            self._end_folded(capture)
            return
        try:
            with torch._C.DisableTorchFunction():
                if capture.trace is not None:
                    self._builder.add(capture.trace)
                snapshot = capture.finish(position, complete, self._number, began)
            self._number += 1
            self.snapshot = snapshot
            self.error = self._stats_error
            if self.keeper is not None:
                self.keeper.end()
            self._on_snapshot(snapshot)
        except Exception as error:
            self._fail(error)
        finally:
            capture.remove()
            if self._closed:
                self._let_go()

    def _end_folded(self, batch: FoldedBatch) -> None:
        try:
            batch.finish(self.architecture)
            self.error = batch.error or self.error
        except Exception as error:
            self._fail(error)
        finally:
            batch.remove()
            if self._closed:
                self._let_go()

    def close(self) -> None:
        """Take down whatever is installed and let go of the model; what was learned of it stays.

        A batch that is under way on another thread does it at its end: only that thread can.
        """
        self._closed = True
        capture = self._under_way
        if capture is None or capture.is_mine:
            self._let_go()

    def _let_go(self) -> None:
        self._take_down()
        self._builder.let_go()
        self.model = nn.Module()
        self._optimizers = ()

    def release(self) -> None:
        """Let go of the last snapshot, which may be large."""
        self.snapshot = None

    def rest(self) -> None:
        """No loop goes on: nothing is heard any more."""
        if self._losses is not None:
            self._losses.remove()

    def _take_down(self) -> None:
        self.rest()
        capture, self._under_way = self._under_way, None
        if capture is not None:
            capture.remove()

    def _fail(self, error: Exception) -> None:
        self.error = f"this batch could not be captured: {type(error).__name__}: {error}"
        self._take_down()
