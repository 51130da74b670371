"""Captures the batches that are shown: installs the watches before a batch, publishes a snapshot after it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import nn
from torch.optim import Optimizer

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.axes import Axes
from nansense_widgets.capture.builder import ArchitectureBuilder
from nansense_widgets.capture.collect import Collector
from nansense_widgets.capture.compiled import EAGERLY, may_be_compiled
from nansense_widgets.capture.forward import ForwardWatch
from nansense_widgets.capture.modules import unwrap
from nansense_widgets.capture.parameters import ParameterWatch, select_parameters
from nansense_widgets.capture.passes import BackwardPasses
from nansense_widgets.capture.snapshot import BatchSnapshot, Cost, LayerCall
from nansense_widgets.capture.trace import Trace
from nansense_widgets.capture.values import Budget
from nansense_widgets.run.position import BatchPosition

__all__ = ["CaptureEngine"]


class CaptureEngine:
    """The batch observer of a session. `begin` and `end` run on the training thread and never raise.

    Args:
        on_snapshot: called with each new snapshot, on the training thread; must return at once.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizers: Sequence[Optimizer],
        on_snapshot: Callable[[BatchSnapshot], None],
    ) -> None:
        self.model = unwrap(model)
        self.snapshot: BatchSnapshot | None = None
        self.error = ""
        """What went wrong in a capture, for the widgets to show; the run has gone on."""
        self._optimizers: Sequence[Optimizer] = optimizers
        self._on_snapshot = on_snapshot
        with torch._C.DisableTorchFunction():
            self._builder = ArchitectureBuilder(self.model)
        self._lock = threading.Lock()
        self._watched: dict[str, None] = {}
        self._attention: dict[str, None] = {}
        self._number = 0
        self._traced_phases: set[tuple[str, int]] = set()
        self._under_way: _Capture | None = None
        self._closed = False

    # ------------------------------------------------------------ what is watched (any thread)

    @property
    def architecture(self) -> Architecture:
        """All layers and edges known so far."""
        return self._builder.architecture

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

    def begin(self, position: BatchPosition, *, pauses: bool) -> None:
        """Install the watches of one batch.

        The whole forward is traced where somebody will look (it pauses) and in the first captured batch of
        a phase in an epoch; else only the watched layers are tapped.
        """
        if self._closed:
            return
        began = time.perf_counter()
        try:
            with torch._C.DisableTorchFunction():  # modes of the user's own are to see none of this
                capture = self._begin(position, pauses)
            capture.seconds = time.perf_counter() - began
        except Exception as error:
            self._fail(error)
        except BaseException:  # an interrupt: nothing half installed may stay
            self._take_down()
            raise

    def _begin(self, position: BatchPosition, pauses: bool) -> _Capture:
        if not self._builder.index.is_current():
            self._builder.rebuild(self.model)
            self._traced_phases.clear()
        new = (position.phase, position.epoch) not in self._traced_phases
        names = {id(p): name for name, p in self.model.named_parameters()}
        trace = Trace(names) if pauses or new else None
        self._traced_phases.add((position.phase, position.epoch))
        capture = _Capture(
            self.model,
            self._builder,
            self.watched,
            self.attention,
            self._optimizers,
            trace,
        )
        self._under_way = capture
        capture.install()
        return capture

    def end(self, position: BatchPosition, *, complete: bool) -> None:
        """Take the watches down and publish what they saw."""
        began = time.perf_counter()
        capture, self._under_way = self._under_way, None
        if capture is None:
            return
        try:
            with torch._C.DisableTorchFunction():
                if capture.trace is not None:
                    self._builder.add(capture.trace)
                snapshot = capture.finish(position, complete, self._number, began)
            self._number += 1
            self.snapshot = snapshot
            self.error = ""
            self._on_snapshot(snapshot)
        except Exception as error:
            self._fail(error)
        finally:
            capture.remove()
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

    def _take_down(self) -> None:
        capture, self._under_way = self._under_way, None
        if capture is not None:
            capture.remove()

    def _fail(self, error: Exception) -> None:
        self.error = f"this batch could not be captured: {type(error).__name__}: {error}"
        self._take_down()


class _Capture:
    """Everything installed for one batch."""

    def __init__(
        self,
        model: nn.Module,
        builder: ArchitectureBuilder,
        watched: tuple[str, ...],
        attention: tuple[str, ...],
        optimizers: Sequence[Optimizer],
        trace: Trace | None,
    ) -> None:
        self.trace = trace
        self.seconds = 0.0
        self._thread = threading.current_thread()
        self._watched = watched
        self._builder = builder
        selected, self._weights_part = select_parameters(model, watched, builder.architecture)
        budget = Budget()
        self._parameters = ParameterWatch(selected, optimizers, budget)
        self._collector = Collector(self._parameters.scaling, BackwardPasses(threading.get_ident()), budget)
        self._forward = ForwardWatch(
            builder.index,
            builder.names,
            frozenset(watched),
            self._collector,
            frozenset(attention),
            trace,
            self._forward_failed,
        )
        self._forward_error = ""
        self._eager = False

    @property
    def is_mine(self) -> bool:
        """Whether this thread may take it down: it is the one that installed it, or that one is gone."""
        return self._thread is threading.current_thread() or not self._thread.is_alive()

    def install(self) -> None:
        self._forward.install()
        self._parameters.install()
        if may_be_compiled():
            EAGERLY.need()
            self._eager = True

    def remove(self) -> None:
        self._forward.remove()
        self._parameters.remove()
        if self._eager:
            self._eager = False
            EAGERLY.release()

    def finish(self, position: BatchPosition, complete: bool, number: int, began: float) -> BatchSnapshot:
        self._forward.remove()
        layers, notes = self._collector.finish()
        parameters = self._parameters.finish()
        in_hooks = self._collector.seconds + self._parameters.seconds
        layers = {name: calls for name, calls in layers.items() if name in self._watched}
        for name in self._watched:
            if name not in layers and name not in notes:
                notes[name] = self._forward_error or self._why_missing(name)
        return BatchSnapshot(
            position=position,
            number=number,
            layers=layers,
            weights=parameters.weights,
            weight_gradients=parameters.gradients,
            weight_reasons=parameters.reasons,
            weight_gradient_reasons=parameters.gradient_reasons,
            optimizer_state=parameters.state,
            optimizer_hyperparams=parameters.settings,
            weights_part=self._weights_part,
            complete=complete,
            watched=self._watched,
            missing=notes,
            notes=tuple(self._parameters.notes()),
            cost=Cost(
                layers=len(layers),
                bytes=_bytes(
                    _tensors(layers),
                    parameters.weights.values(),
                    parameters.gradients.values(),
                    *map(dict.values, parameters.state.values()),
                ),
                seconds=in_hooks + self.seconds + time.perf_counter() - began,
            ),
        )

    def _why_missing(self, name: str) -> str:
        node = self._builder.architecture.nodes.get(name)
        is_input = name in self._builder.index.inputs if node is None else node.kind == "input"
        if is_input and not self._forward.root_called:
            return "not captured: the model itself was not called, only parts of it or its forward()"
        if node is None and is_input:
            return "not captured: this input was not given as a tensor"
        if node is None:
            return "not captured: no layer of this name has run yet"
        if node.note not in ("", "never ran") and not node.calls:
            return node.note
        if name in self._forward.elsewhere:
            return "not captured: it ran on another thread than the training loop's"
        if self._forward.saw_replica:
            return "not captured: DataParallel ran copies of it, on several devices at once"
        for scope in self._forward.fused:
            if name.startswith(f"{scope}."):
                return f"not executed (fused): {scope} computed it in one go with what is around it"
        if not self._parameters.reached.isdisjoint(node.parameters):
            return "not captured: its parameters got gradients, but it was not called as a module"
        if not self._forward.saw_call:
            return "did not run in this batch: no module of the model was called"
        return "did not run in this batch" if node.ran else "never ran"

    def _forward_failed(self, error: Exception) -> None:
        self._forward_error = f"not captured: {type(error).__name__}: {error}"


def _tensors(layers: dict[str, tuple[LayerCall, ...]]) -> Iterator[torch.Tensor]:
    for calls in layers.values():
        for call in calls:
            for leaf in call.leaves:
                yield from (t for t in (leaf.activation, leaf.gradient) if t is not None)


def _bytes(*groups: Iterable[torch.Tensor]) -> int:
    """Bytes of all tensors; of a sparse one those of its values and indices."""
    total = 0
    for tensor in itertools.chain(*groups):
        parts = (tensor._values(), tensor._indices()) if tensor.is_sparse else (tensor,)
        total += sum(part.numel() * part.element_size() for part in parts)
    return total
