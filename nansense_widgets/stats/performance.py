"""How much of a layer is kept by channel: what costs memory and time beyond the plain statistics."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WatchPerformance"]


@dataclass(frozen=True)
class WatchPerformance:
    """Settings of `session.set_watch_performance`.

    Attributes:
        channel_limit: first channels of a layer that have a histogram and extreme patches of their own.
        samples_per_channel: patches kept of a channel at either end.
        average_galleries: whether samples are kept by their channel's mean response too, not only by its
            largest and smallest one.
    """

    channel_limit: int = 16
    samples_per_channel: int = 5
    average_galleries: bool = True

    def changed(
        self, channel_limit: int | None, samples_per_channel: int | None, average_galleries: bool | None
    ) -> WatchPerformance:
        """The same with what is given.

        Raises:
            TypeError: for a value of another type.
            ValueError: for a number below 1, or more than 4,096 channels or 64 samples.
        """
        return WatchPerformance(
            _whole("channel_limit", channel_limit, 4096, self.channel_limit),
            _whole("samples_per_channel", samples_per_channel, 64, self.samples_per_channel),
            _flag("average_galleries", average_galleries, self.average_galleries),
        )


def _whole(name: str, value: object, most: int, before: int) -> int:
    if value is None:
        return before
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}={value!r} must be a whole number from 1 to {most}")
    if not 1 <= value <= most:
        raise ValueError(f"{name}={value!r} must be from 1 to {most}")
    return value


def _flag(name: str, value: object, before: bool) -> bool:
    if value is None:
        return before
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be True or False")
    return value
