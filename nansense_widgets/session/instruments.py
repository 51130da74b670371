"""The user's own metrics and tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar

from nansense_widgets.session.locking import refuse_instrument, unless_locked
from nansense_widgets.session.standing import Standing, several_layers
from nansense_widgets.stats.instruments.registry import Instrument, Kind, Reduce, checked_metric, checked_name
from nansense_widgets.stats.instruments.store import MetricsSnapshot

__all__ = ["Instrumenting"]

Function = TypeVar("Function", bound=Callable[[Any], Any])


class Instrumenting(Standing):
    """Functions that the session evaluates for each layer that statistics are collected of."""

    @unless_locked(refuse_instrument)
    def watch_metric(
        self, name: str, *, on: Literal["batch", "epoch"] = "batch", reduce: Reduce | None = None
    ) -> Callable[[Function], Function]:
        """Register a scalar metric. A decorator; or call what it returns with anything that can be called:

        ```python
        @session.watch_metric("sparsity")
        def sparsity(ctx: nansense_widgets.LayerContext) -> float:
            return float((ctx.activation > 0).float().mean())
        ```

        It is called at the end of every batch that statistics are collected of, shown or not, once for each
        layer of `set_stats_scope`: on the training thread, under `torch.no_grad`, without autocast, with live
        tensors that it must not write to. Random numbers that it draws from the global generators are put
        back. It returns a number (or a tensor of one element; on an accelerator nothing waits for that), a
        mapping of names to numbers, each a series of its own, or None to skip this layer. Once something has
        been compiled in the process only captured batches are evaluated: compiled code cannot be looked into.

        A metric that raises or returns anything else is off from then on; one line is printed, the view
        Curves and `instrument_errors` say so, and training goes on. Registering the same name again
        replaces it and switches it on; the series of before end there. If it has a method
        `on_rewind(epoch)`, that is called when epochs are to come again.

        Args:
            name: of its plot; unique among all instruments.
            on: `"batch"`: every value is a point. `"epoch"`: one point an epoch.
            reduce: how the values of an epoch become one: `"mean"` (the default), `"sum"`, `"min"`, `"max"`,
                `"last"`, or a function of a list of floats (of the last 131,072, if there are more). It is
                called on the training thread: at captured batches and when the epoch is over.

        Raises:
            TypeError, ValueError: for a wrong argument, naming it; for the name of an instrument of another
                kind.
            SessionStateError: if the session is closed or locked.
        """
        return self._registrar(name, "metric", checked_metric(on, reduce))

    @unless_locked(refuse_instrument)
    def watch_layer_tensor(self, name: str) -> Callable[[Function], Function]:
        """Register a tensor of each layer, of the shape of its activation: one more strip on its card.

        As `watch_metric`, but it is called for captured batches only. What it gives is in
        `BatchSnapshot.custom_activations`.

        Raises `TypeError`, `ValueError` and `SessionStateError` as `watch_metric`.
        """
        return self._registrar(name, "layer tensor", None)

    @unless_locked(refuse_instrument)
    def watch_weight_tensor(self, name: str) -> Callable[[Function], Function]:
        """Register a tensor of each parameter, of its shape; it is called with a `WeightContext`.

        As `watch_metric`, but it is called for captured batches only, once for each parameter of the layers
        that statistics are collected of. What it gives is in `BatchSnapshot.custom_weight_tensors`.

        Raises `TypeError`, `ValueError` and `SessionStateError` as `watch_metric`.
        """
        return self._registrar(name, "weight tensor", None)

    def watch_metrics_snapshot(self, *, layers: Iterable[str] | None = None) -> MetricsSnapshot:
        """The series of all metrics as they are now. Immutable; from any thread.

        Args:
            layers: names of layers, to copy theirs only; None: all.

        Raises:
            TypeError: if `layers` is a string, or one of them is none.
        """
        return self._stats.instruments.snapshot(several_layers(layers), self.schedule.phase_count)

    @property
    def instruments(self) -> dict[str, Kind]:
        """Name to kind of what is registered: `metric`, `layer tensor`, `weight tensor`."""
        return self._stats.instruments.registry.kinds

    @property
    def instrument_errors(self) -> dict[str, str]:
        """Name to what went wrong, of instruments that a failure has switched off."""
        return self._stats.instruments.registry.errors

    def _registrar(self, name: str, kind: Kind, reduce: Reduce | None) -> Callable[[Function], Function]:
        checked_name(name)
        if not self._enabled:
            return lambda function: function
        self._check_open()
        registry = self._stats.instruments.registry
        registry.check_free(name, kind)

        def register(function: Function) -> Function:
            registry.add(Instrument(name, kind, function, reduce))
            self._hub.redraw()
            return function

        return register
