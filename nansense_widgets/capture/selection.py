"""From what a user types to layer names and axes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.axes import Axes
from nansense_widgets.capture.flow import split_output

__all__ = ["chosen_axes", "select_layers"]


def select_layers(
    architecture: Architecture,
    patterns: Iterable[object],
    *,
    also: Iterable[str],
    on_trust: bool,
    argument: str = "layers",
) -> list[str]:
    """Names that the patterns (names, globs, classes) mean, without repeats.

    Args:
        architecture: the layers known so far.
        patterns: what the user gave.
        also: names that are good although the architecture does not have them (watched beforehand).
        on_trust: take names that match nothing as ops to come, while no forward has been traced.
        argument: what the user gave them as.

    Raises:
        TypeError, ValueError: for a pattern that is no string or matches nothing.
    """
    known = set(also)
    chosen: dict[str, None] = {}
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise TypeError(f"{argument}={pattern!r} must be layer names (strings)")
        found = architecture.select(pattern)
        if not found and (pattern in known or (on_trust and not architecture.traced)):
            found = [pattern]
        if not found:
            layer, path = split_output(pattern, architecture.nodes)
            if path and layer in architecture.nodes:
                raise ValueError(
                    f"{argument}={pattern!r} is an output of the layer {layer!r}: watch the layer, and "
                    "choose its output on the card"
                )
            close = difflib.get_close_matches(pattern, architecture.nodes, n=3)
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise ValueError(
                f"{argument}={pattern!r} matches no layer{hint} (session.layer_names lists them all)"
            )
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def chosen_axes(architecture: Architecture, output: object, channel: object, batch: object) -> Axes | None:
    """Axes that a user gave for a layer or one of its outputs; None if both are left to the layer's class.

    Raises:
        TypeError, ValueError: naming the argument that is wrong.
    """
    if not isinstance(output, str):
        raise TypeError(f"layer={output!r} must be the name of a layer or of one of its outputs (a string)")
    layer, path = split_output(output, architecture.nodes)
    node = architecture.nodes.get(layer)
    if node is None:
        select_layers(architecture, [output], also=(), on_trust=False)  # says what is close
        raise ValueError(f"layer={output!r} must be one layer, not a pattern")
    shapes = dict(zip(node.output_paths, node.output_shapes, strict=True))
    path = node.output_paths[0] if not path and node.output_paths else path
    if shapes and path not in shapes:
        known = ", ".join(layer + known for known in shapes)
        raise ValueError(f"layer={output!r} is no output of {layer}; it has {known}")
    ndim = len(shapes[path]) if shapes else None
    if channel == "auto" and batch == "auto":
        return None
    known_axes = None if ndim is None else architecture.axes(layer, path, ndim)
    axes = Axes(
        _axis("channel", channel, ndim, None if known_axes is None else known_axes.channel),
        _axis("batch", batch, ndim, 0 if known_axes is None else known_axes.batch),
        chosen=True,
    )
    both = axes.channel is not None and axes.batch is not None
    if both and ndim is not None and axes.channel % ndim == axes.batch % ndim:  # type: ignore[operator]
        raise ValueError(f"channel={channel!r} and batch={batch!r} must be different axes")
    return axes


def _axis(name: str, value: object, ndim: int | None, auto: int | None) -> int | None:
    if value == "auto":
        return auto
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}={value!r} must be the number of an axis, None or 'auto'")
    if ndim is not None and not -ndim <= value < ndim:
        raise ValueError(
            f"{name}={value!r} must be an axis of a tensor with {ndim} axes, from {-ndim} to {ndim - 1}"
        )
    return value
