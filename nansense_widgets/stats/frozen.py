"""All statistics of a session at one moment, to be kept and shown elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.receptive import ReceptiveField, ReceptiveFields
from nansense_widgets.stats.cut import field_at
from nansense_widgets.stats.gallery import ChannelExtremes, Gallery, Patch
from nansense_widgets.stats.instruments.registry import Kind
from nansense_widgets.stats.instruments.store import MetricsSnapshot
from nansense_widgets.stats.performance import WatchPerformance
from nansense_widgets.stats.snapshot import WatchSnapshot

__all__ = ["FrozenStats", "located", "patch_of", "plain_patch"]


@dataclass(frozen=True)
class FrozenStats:
    """What a session has collected.

    Attributes:
        watch: of layers and parameters.
        metrics: series of the user's own metrics.
        instruments: name to kind of the instruments.
        errors: name to what went wrong, of instruments that are off.
        performance: how much is kept by channel.
    """

    watch: WatchSnapshot
    metrics: MetricsSnapshot
    instruments: Mapping[str, Kind]
    errors: Mapping[str, str]
    performance: WatchPerformance


def plain_patch(patch: Patch) -> tuple[object, ...]:
    """A patch without the way to its receptive field, which hangs on a whole architecture."""
    return patch.value, patch.position, patch.call, patch.sample, patch.heat, patch.crop, patch.crop_pool


def patch_of(plain: tuple[object, ...]) -> Patch:
    """From `plain_patch`; `located` gives it the way to its receptive field again."""
    value, position, call, sample, *rest = plain
    return Patch(value, position, call, sample, _unknown, *rest)  # type: ignore[arg-type]


def _unknown() -> ReceptiveField:
    raise LookupError("this patch has not been located")


def located(stats: FrozenStats, architecture: Architecture) -> FrozenStats:
    """The same with receptive fields of all patches, which are worked out when they are asked for."""

    def layer_stats(layer: str, gallery: Gallery) -> Gallery:
        locate = _Locator(architecture, layer, gallery)
        return replace(
            gallery,
            pixel=tuple(locate.channel(channel, whole=False) for channel in gallery.pixel),
            average=tuple(locate.channel(channel, whole=True) for channel in gallery.average),
        )

    found = {
        key: one if one.gallery is None else replace(one, gallery=layer_stats(one.layer, one.gallery))
        for key, one in stats.watch.stats.items()
    }
    return replace(stats, watch=replace(stats.watch, stats=found))


class _Locator:
    """Finds the receptive fields of one layer's patches."""

    def __init__(self, architecture: Architecture, layer: str, gallery: Gallery) -> None:
        self._gallery = gallery
        # One a call, since each remembers what it has worked out.
        self._fields: Callable[[int], ReceptiveFields] = functools.cache(
            lambda call: ReceptiveFields(architecture, layer, call)
        )

    def channel(self, channel: ChannelExtremes, *, whole: bool) -> ChannelExtremes:
        ends = (channel.largest, channel.smallest)
        return ChannelExtremes(
            *(
                tuple(replace(p, locate=functools.partial(self._locate, p, whole=whole)) for p in end)
                for end in ends
            )
        )

    def _locate(self, patch: Patch, *, whole: bool) -> ReceptiveField:
        places = () if patch.heat is None else tuple(patch.heat.shape)
        fields = None if whole else self._fields(patch.call)
        return field_at(patch.position, patch.sample, places, fields, self._gallery.input, self._gallery.kind)
