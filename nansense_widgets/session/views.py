"""The widgets of a session."""

from __future__ import annotations

from nansense_widgets.capture.selection import select_layers
from nansense_widgets.session.watching import Watching
from nansense_widgets.widgets.controls import Controls
from nansense_widgets.widgets.curves import Curves
from nansense_widgets.widgets.dashboard import Dashboard
from nansense_widgets.widgets.extremes import Extremes
from nansense_widgets.widgets.graph import Graph
from nansense_widgets.widgets.histogram import Histogram
from nansense_widgets.widgets.inputs import Inputs
from nansense_widgets.widgets.run import RunCurves
from nansense_widgets.widgets.strips import Strips
from nansense_widgets.widgets.weights import Weights

__all__ = ["Views"]


class Views(Watching):
    """Each call gives the same widget, in one more view."""

    def dashboard(self) -> Dashboard:
        """The whole debugger: controls, graph and layer cards. Every call gives the same widget."""
        return self._hub.widget("dashboard", Dashboard)

    def controls(self) -> Controls:
        """Only the run controls."""
        return self._hub.widget("controls", Controls)

    def graph(self) -> Graph:
        """Only the architecture graph."""
        return self._hub.widget("graph", Graph)

    def strips(self, *layers: str) -> Strips:
        """Cards of the given layers (which become watched), or of all watched ones if none is given.

        Args:
            layers: names, globs or classes, as for `watch`. Globs and classes mean the layers known now.

        Raises:
            TypeError, ValueError: as for `watch`.
        """
        names = select_layers(self.architecture, layers, also=(), on_trust=True) if self._enabled else []
        if names:
            self.watch(*names)
        return self._hub.widget("strips " + " ".join(names), Strips, layers=names)

    def histogram(self, layer: str) -> Histogram:
        """Statistics of one layer (which becomes watched): a table, histograms, and rows for its channels.

        Epochs are there once they are collected (`set_stats_scope`); the current batch always is.

        Args:
            layer: a name, or a glob or class that one layer matches.

        Raises:
            TypeError: if it is no string.
            ValueError: if it matches no layer, or several.
        """
        return self._hub.widget(f"histogram {layer}", Histogram, layers=[self._one_layer(layer)])

    def extremes(self, layer: str) -> Extremes:
        """Inputs that drove each channel of one layer (which becomes watched) to its extremes.

        They are there once statistics are collected (`set_stats_scope`).

        Args:
            layer: a name, or a glob or class that one layer matches.

        Raises:
            TypeError: if it is no string.
            ValueError: if it matches no layer, or several.
        """
        return self._hub.widget(f"extremes {layer}", Extremes, layers=[self._one_layer(layer)])

    def curves(self, layer: str) -> Curves:
        """Statistics of one layer (which becomes watched) against the epoch, in bqplot figures.

        They need statistics that are collected (`set_stats_scope`). `to_dict()` and `to_pandas()` of what is
        returned give the numbers; buttons in it save each figure as PNG or SVG.

        Args:
            layer: a name, or a glob or class that one layer matches.

        Raises:
            TypeError: if it is no string.
            ValueError: if it matches no layer, or several.
        """
        return self._hub.widget(f"curves {layer}", Curves, layers=[self._one_layer(layer)])

    def weights(self, layer: str) -> Weights:
        """Parameters and buffers of one layer (which becomes watched), with gradients and optimizer state.

        Those of a scope are its own and all below it. They are those of the last captured batch, at its end.

        Args:
            layer: a name, or a glob or class that one layer matches.

        Raises:
            TypeError: if it is no string.
            ValueError: if it matches no layer, or several.
        """
        return self._hub.widget(f"weights {layer}", Weights, layers=[self._one_layer(layer)])

    def inputs(self) -> Inputs:
        """What the model was given in the shown batch: samples, labels and losses, and tools to change them.

        See `pin_current_batch`, `add_perturbation` and `set_probe_mode` for the calls behind it.
        """
        return self._hub.widget("inputs", Inputs, layers=["inputs"])

    def run_curves(self) -> RunCurves:
        """Numbers of the run against the epoch: the loss, what was logged, learning rates; and settings.

        Pauses and changes of hyperparameters are marked. `to_dict()` and `to_pandas()` of what is returned
        give the numbers; buttons in it save each figure as PNG or SVG.
        """
        return self._hub.widget("run", RunCurves, layers=["run"])

    def _one_layer(self, layer: str) -> str:
        if not isinstance(layer, str):
            raise TypeError(f"layer={layer!r} must be the name of a layer (a string)")
        if not self._enabled:
            return layer
        names = select_layers(self.architecture, (layer,), also=(), on_trust=True)
        if len(names) != 1:
            some = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
            raise ValueError(f"layer={layer!r} must mean one layer; it matches {len(names)}: {some}")
        self.watch(*names)
        return names[0]
