"""What the axes of a parameter mean, as the module says that owns it: outputs, inputs, heads, gates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

__all__ = ["ParameterRole", "roles_of_module"]


@dataclass(frozen=True)
class ParameterRole:
    """How a parameter (or buffer) is used.

    Attributes:
        axes: a name for each axis, e.g. `("out", "in", "row", "column")`; empty if nothing tells them.
        split: the axis that is several equal parts one after the other; None if there is none.
        parts: names of these parts, e.g. gates `("i", "f", "g", "o")` or `("q head 0", …)`.
        presumed: what the parts are read off where the class does not say it; else empty.
    """

    axes: tuple[str, ...] = ()
    split: int | None = None
    parts: tuple[str, ...] = ()
    presumed: str = ""


_SPATIAL = {1: ("column",), 2: ("row", "column"), 3: ("depth", "row", "column")}

_GATES = {"LSTM": ("i", "f", "g", "o"), "GRU": ("r", "z", "n")}

_HEADS = ("num_heads", "n_heads", "n_head", "num_attention_heads", "nhead", "heads", "nheads")
_SIZES = ("head_dim", "attention_head_size", "dim_head", "d_head")
_ONE = {
    letter: frozenset(form.format(letter) for form in ("{}", "{}_proj", "to_{}", "w{}", "w_{}", "{}_lin"))
    | {word}
    for letter, word in (("q", "query"), ("k", "key"), ("v", "value"))
}
_FUSED = frozenset({"qkv", "qkv_proj", "wqkv", "to_qkv", "c_attn", "in_proj", "query_key_value"})
_BY_HEAD = frozenset({"query_key_value"})
"""Fused projections that hold q, k and v head by head."""


def roles_of_module(module: nn.Module, name: str, parent: nn.Module | None) -> dict[str, ParameterRole]:
    """Roles of a module's own parameters, by their name in it; those that nothing is known of are left out.

    Args:
        module: the owner.
        name: its last part, by which the projections of an attention are known.
        parent: the module around it, which knows the number of heads.
    """
    roles: dict[str, ParameterRole] = {}
    for key, _ in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
        try:
            role = _role(module, key, name, parent)
        except Exception:  # noqa: S112  attributes of the user's own module may do anything
            continue
        if role is not None:
            roles[key] = role
    return roles


def _role(module: nn.Module, key: str, name: str, parent: nn.Module | None) -> ParameterRole | None:
    if isinstance(module, _ConvNd):
        # `ConvTranspose` has its inputs first.
        sides = ("in", "out") if isinstance(module, _ConvTransposeNd) else ("out", "in")
        axes = (*sides, *_SPATIAL.get(len(module.kernel_size), ()))
        return ParameterRole(axes if key == "weight" else ("out",))
    if isinstance(module, nn.MultiheadAttention):
        return _of_attention(module, key)
    if isinstance(module, nn.RNNBase):
        return _of_recurrent(key, _GATES.get(module.mode, ()))
    if isinstance(module, nn.RNNCellBase):
        return _of_recurrent(key, _GATES.get(type(module).__name__.removesuffix("Cell"), ()))
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return ParameterRole(("token", "feature"))
    if isinstance(module, nn.Bilinear):
        return ParameterRole(("out", "in 1", "in 2") if key == "weight" else ("out",))
    # `Conv1D` of transformers is a linear layer whose weight is transposed.
    transposed = type(module).__name__ == "Conv1D" and hasattr(module, "nf")
    if isinstance(module, nn.Linear) or transposed:
        return _of_linear(module, key, name, parent, transposed)
    return None


def _of_attention(module: nn.MultiheadAttention, key: str) -> ParameterRole | None:
    heads = _heads_named("", module.num_heads)
    fused = tuple(f"{letter} {head}" for letter in "qkv" for head in heads)
    if key == "in_proj_weight":
        return ParameterRole(("out", "in"), 0, fused)
    if key == "in_proj_bias":
        return ParameterRole(("out",), 0, fused)
    if key in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
        return ParameterRole(("out", "in"), 0, _heads_named(key[0], module.num_heads))
    return None


def _of_recurrent(key: str, gates: tuple[str, ...]) -> ParameterRole:
    split = None if not gates or key.startswith("weight_hr") else 0
    parts = () if split is None else gates
    if key.startswith("bias"):
        return ParameterRole(("unit",), split, parts)
    return ParameterRole(("unit", "in" if key.startswith("weight_ih") else "hidden"), split, parts)


def _of_linear(
    module: nn.Module, key: str, name: str, parent: nn.Module | None, transposed: bool
) -> ParameterRole:
    if key == "bias":
        axes: tuple[str, ...] = ("out",)
    else:
        axes = ("in", "out") if transposed else ("out", "in")
    if isinstance(parent, nn.MultiheadAttention):  # its `out_proj` reads the heads side by side
        if key != "weight":
            return ParameterRole(axes)
        return ParameterRole(axes, 1, _heads_named("", parent.num_heads))
    width: Any = getattr(module, "nf" if transposed else "out_features", None)
    parts = _projection(name.lower(), parent, width) if isinstance(width, int) else None
    if parts is None or parent is None:
        return ParameterRole(axes)
    why = f"heads presumed from the names of `{name}` and of what {type(parent).__name__} says of them"
    return ParameterRole(axes, axes.index("out"), parts, why)


def _projection(name: str, parent: nn.Module | None, width: int) -> tuple[str, ...] | None:
    letter = next((letter for letter, names in _ONE.items() if name in names), "")
    if parent is None or not (letter or name in _FUSED):
        return None
    heads, size = _number(parent, _HEADS), _number(parent, _SIZES)
    if letter:
        # Fewer heads of k and v than of q (grouped queries) have the same size.
        count = width // size if size and width % size == 0 else heads
        return _heads_named(letter, count) if count and count > 1 and width % count == 0 else None
    if not heads or heads < 2 or width % (3 * heads) or (size and 3 * heads * size != width):
        return None
    named = _heads_named("", heads)
    if name in _BY_HEAD:
        return tuple(f"{head} {which}" for head in named for which in "qkv")
    return tuple(f"{which} {head}" for which in "qkv" for head in named)


def _number(module: nn.Module, names: tuple[str, ...]) -> int | None:
    for owner in (module, getattr(module, "config", None)):
        for name in names:
            value = getattr(owner, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def _heads_named(before: str, heads: int) -> tuple[str, ...]:
    return tuple(f"{before} head {number}".strip() for number in range(heads))
