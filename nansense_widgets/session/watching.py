"""Which layers are watched, and how their tensors are to be read."""

from __future__ import annotations

from collections.abc import Iterable

from nansense_widgets.capture.selection import chosen_axes, select_layers
from nansense_widgets.session.locking import no_names, nothing, unless_locked
from nansense_widgets.session.standing import Standing
from nansense_widgets.stats.scope import StatsScope

__all__ = ["Watching"]


class Watching(Standing):
    """Layers by name, glob or class."""

    @unless_locked(no_names)
    def watch(self, *layers: str) -> list[str]:
        """Watch layers: their values are captured and shown. Returns the names newly watched.

        Those of a frozen moment come from another replay of its batch. No-op on a locked session.

        Args:
            layers: names, globs over names (`"layer1.*"`) or classes (`"Conv2d"`). Before the first
                forward, ops are not known yet and any name is taken on trust.

        Raises:
            TypeError: if one is no string.
            ValueError: if one matches no layer; nothing is watched then.
        """
        if self._capture is None:
            return []
        before = self._capture.watched
        names = select_layers(self.architecture, layers, also=before, on_trust=True)
        self._capture.watch(names)
        self._hub.changed()
        new = [name for name in names if name not in before]
        if new:
            self._show_more()
        return new

    @unless_locked(no_names)
    def unwatch(self, *layers: str) -> list[str]:
        """Stop watching layers (names, globs or classes); with none given, all. Returns those dropped.

        No-op on a locked session.

        Raises:
            TypeError: if one is no string.
            ValueError: if one matches no layer; nothing changes then.
        """
        if self._capture is None:
            return []
        before = self._capture.watched
        names = select_layers(self.architecture, layers, also=before, on_trust=False) if layers else before
        self._capture.unwatch(names)
        self._hub.changed()
        return [name for name in before if name in names]

    @unless_locked(no_names)
    def watch_attention(self, *layers: str) -> list[str]:
        """Watch layers and form their attention weights too, one map a head; returns the names.

        Torch's fused attention never forms them. They are computed beside the forward, from the same queries,
        keys and masks, before dropout, and appear as the output `.attention_weights` of the layer, of shape
        (batch, heads, queries, keys), from the next captured batch on. No-op on a locked session.

        Args:
            layers: as for `watch`; those that cannot give attention weights are left out. Modules of class
                `MultiheadAttention` and ops `scaled_dot_product_attention` can. A model that computes its
                weights itself has them in one of its own layers (`softmax`, most often).

        Raises:
            TypeError: if one is no string.
            ValueError: if no layer is given or one matches none that can give attention weights.
        """
        if self._capture is None:
            return []
        nodes = self.architecture.nodes
        found = select_layers(self.architecture, layers, also=(), on_trust=False)
        names = [name for name in found if nodes[name].gives_attention]
        if not names:
            able = ", ".join(name for name in nodes if nodes[name].gives_attention) or "none known yet"
            raise ValueError(f"layers={layers!r} can give no attention weights; those that can: {able}")
        self._capture.watch_attention(names)
        self._hub.redraw()
        self._show_more()
        return names

    @unless_locked(no_names)
    def unwatch_attention(self, *layers: str) -> list[str]:
        """Form no more attention weights of these layers (none given: of all); they stay watched.

        No-op on a locked session.

        Raises `TypeError` and `ValueError` as `unwatch`.
        """
        if self._capture is None:
            return []
        before = self._capture.attention
        names = select_layers(self.architecture, layers, also=before, on_trust=False) if layers else before
        self._capture.unwatch_attention(names)
        self._hub.redraw()
        return [name for name in before if name in names]

    @unless_locked(nothing)
    def set_stats_scope(self, scope: StatsScope | str) -> None:
        """Which layers' batches go into the running statistics, from the next batch on.

        Every batch is folded in, shown or not, in every mode, `detach` too. Once something has been compiled
        in the process only captured batches are: compiled code cannot be looked into. No-op on a locked
        session.

        Args:
            scope: `"watched"` (the default): the watched layers; `"all"`: every layer known; `"none"`:
                nothing more, and what was collected stays.

        Raises:
            ValueError: for anything else.
        """
        self._stats.scope = StatsScope.checked(scope)
        self._hub.redraw()

    @unless_locked(nothing)
    def set_watch_performance(
        self,
        *,
        channel_limit: int | None = None,
        samples_per_channel: int | None = None,
        average_galleries: bool | None = None,
    ) -> None:
        """How much the running statistics keep by channel. What is not given stays as it is.

        It holds for statistics that begin from now on, that is from the next phase or epoch of a layer.
        No-op on a locked session.

        Args:
            channel_limit: first channels of a layer that have a histogram and extreme patches of their own
                (16 at first, at most 4,096). Dead channels are counted over all channels in any case.
            samples_per_channel: patches kept of a channel at either end (5 at first, at most 64).
            average_galleries: whether samples are kept by their channel's mean response too (True at first).

        Raises:
            TypeError, ValueError: for a wrong argument, naming it.
        """
        self._stats.performance = self._stats.performance.changed(
            channel_limit, samples_per_channel, average_galleries
        )
        self._hub.changed()

    @unless_locked(nothing)
    def set_patch_layers(self, layers: Iterable[str] | None) -> None:
        """Restrict the extreme patches to some of the layers that have statistics, from the next batch on.

        Patches are by far the largest part of what is collected. Layers that hold some already keep them.
        No-op on a locked session.

        Args:
            layers: names, globs or classes, as for `watch` (globs and classes mean the layers known now);
                None: every layer that has statistics.

        Raises:
            TypeError: if it is a string or holds anything but strings.
            ValueError: if one matches no layer; nothing changes then.
        """
        if self._capture is None:
            return
        if isinstance(layers, str) or not (layers is None or isinstance(layers, Iterable)):
            raise TypeError(f"layers={layers!r} must be a list of layer names, or None")
        names = None
        if layers is not None:
            before = self._capture.watched
            names = frozenset(select_layers(self.architecture, layers, also=before, on_trust=True))
        self._stats.restrict_patches(names)
        self._hub.changed()

    @unless_locked(nothing)
    def set_axes(
        self, layer: str, *, channel: int | str | None = "auto", batch: int | str | None = "auto"
    ) -> None:
        """Say which axes of a layer's output are channel and batch, where its class does not tell (or errs).

        Layers after it that keep its axes follow. Nothing is captured anew: what is shown is drawn again.
        No-op on a locked session.

        Args:
            layer: name of a layer, or of one of its outputs (`"lstm[1][0]"`).
            channel: number of an axis (negative: from the end), None for no channel axis, `"auto"` as the
                layer's class says.
            batch: the same; None: the tensor is one sample.

        Raises:
            TypeError, ValueError: for an unknown layer, an axis that its output does not have, or one axis
                for both.
        """
        if self._capture is None:
            return
        self._check_open()
        axes = chosen_axes(self.architecture, layer, channel, batch)
        self._capture.choose_axes(layer, axes)
        self._hub.redraw()
