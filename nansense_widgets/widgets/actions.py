"""Buttons are calls: each action of a widget is one public method of the session."""

from __future__ import annotations

from typing import Any

from nansense_widgets.probe.perturbation import Perturbation

__all__ = ["ACTIONS", "UnknownActionError", "call_text", "perform"]

ACTIONS = frozenset(
    {
        "ablate",
        "add_perturbation",
        "cancel",
        "clear_perturbations",
        "clear_receptive_field",
        "measure_receptive_field",
        "pin_current_batch",
        "request_snapshot",
        "request_time_travel",
        "rewind",
        "set_axes",
        "set_hyperparameter",
        "set_probe_mode",
        "set_stats_scope",
        "set_update_frequency",
        "step_back",
        "step_batch",
        "step_epoch",
        "step_phase",
        "step_run",
        "step_until_position",
        "stop",
        "undo_perturbation",
        "unpin_batch",
        "unwatch",
        "unwatch_attention",
        "watch",
        "watch_attention",
    }
)
"""What a browser may call; anything else a message asks for is refused."""

_FIRST = {
    "request_time_travel": ("epoch",),
    "set_stats_scope": ("scope",),
    "set_probe_mode": ("mode",),
    "add_perturbation": ("input_name",),
    "ablate": ("layer",),
    "measure_receptive_field": ("layer",),
    "set_hyperparameter": ("name", "value"),
}
"""Actions whose first arguments are written without their names."""

_POSITIONAL = dict.fromkeys(("watch", "unwatch", "watch_attention", "unwatch_attention"), "layers")
"""Actions whose list argument is spread over positional parameters."""


_NONE_MEANS = frozenset({"channel", "batch"})
"""Arguments for which None is a value to be shown, not the default."""


class UnknownActionError(ValueError):
    """A message asked for something that is no action."""


def perform(source: object, name: str, args: dict[str, Any]) -> str:
    """Call the method and return the call in Python; raises what the method raises."""
    if name not in ACTIONS:
        raise UnknownActionError(f"action {name!r} is not one of {', '.join(sorted(ACTIONS))}")
    positional, keywords = _split(name, args)
    done = getattr(source, name)(*positional, **keywords)
    # A stroke comes in pieces, and is one call. Undo returns a perturbation too: that which is gone.
    is_stroke = name == "add_perturbation" and isinstance(done, Perturbation)
    return done.text if is_stroke else call_text(name, args)


def call_text(name: str, args: dict[str, Any]) -> str:
    """The call as a user would type it, e.g. `session.watch('conv1', 'fc')`."""
    positional, keywords = _split(name, args)
    shown = [repr(value) for value in positional[:6]]
    if len(positional) > 6:
        shown.append(f"…{len(positional) - 6} more")
    shown += [
        f"{key}={value!r}" for key, value in keywords.items() if value is not None or key in _NONE_MEANS
    ]
    return f"session.{name}({', '.join(shown)})"


def _split(name: str, args: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    rest = dict(args)
    if name in _FIRST:
        return [rest.pop(key) for key in _FIRST[name]], rest
    spread = _POSITIONAL.get(name)
    return ([], rest) if spread is None else (list(rest.pop(spread, [])), rest)
