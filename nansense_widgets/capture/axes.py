"""Which axis of a layer's output is the channel and which is the batch, known from its class or op."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

from nansense_widgets.capture.attention import MAPS

__all__ = ["Axes", "AxesRule", "input_rule", "keeps_axes", "module_rule", "op_rule"]


@dataclass(frozen=True)
class Axes:
    """Axis numbers of a tensor; None: there is no such axis, or it is not known.

    Attributes:
        channel: may count from the end (-1: the last axis).
        batch: None where the tensor is a single sample.
        chosen: whether the user said so (`session.set_axes`).
        names: of all axes, where the layer knows more than channel and batch (`B heads T S`); else empty.
    """

    channel: int | None = None
    batch: int | None = 0
    names: str = ""
    chosen: bool = False


@dataclass(frozen=True)
class AxesRule:
    """The axes of a layer's outputs, by which output it is and how many axes it has.

    Attributes:
        outputs: path of the output (as in `LeafValue.path`; "*" for any), number of axes, and what they mean.
        otherwise: axes of outputs that are not listed and have two axes or more.
        batch_known: False where the batch axis is only presumed: a layer before or after it may know better.
    """

    outputs: tuple[tuple[str, int, Axes], ...] = ()
    otherwise: Axes | None = None
    batch_known: bool = True

    def axes(self, path: str, ndim: int) -> Axes | None:
        """The axes of one output, or None if they are not known."""
        for where, rank, axes in self.outputs:
            if rank == ndim and where in (path, "*"):
                return axes
        return self.otherwise if ndim >= 2 else None


def _channel_first(spatial: int, *, unbatched: bool = True) -> AxesRule:
    single = (("*", spatial + 1, Axes(0, None)),) if unbatched else ()
    return AxesRule((("*", spatial + 2, Axes(1, 0)), *single))


_FEATURES_LAST = AxesRule((("*", 1, Axes(0, None)),), Axes(-1, 0), batch_known=False)
_CHANNEL_SECOND = AxesRule(otherwise=Axes(1, 0))


def module_rule(module: nn.Module) -> AxesRule | None:
    """The rule of the module's class, or None for a class that keeps its input's axes or is not known."""
    if isinstance(module, (nn.modules.conv._ConvNd, *_POOLS)):
        return _channel_first(_spatial(module))
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        return _CHANNEL_SECOND
    if isinstance(module, nn.modules.instancenorm._InstanceNorm):
        return _channel_first(_spatial(module))
    if isinstance(module, (nn.GroupNorm, nn.Upsample)):
        return _CHANNEL_SECOND
    if isinstance(module, (nn.PixelShuffle, nn.PixelUnshuffle)):
        return _channel_first(2)
    if isinstance(module, (nn.LayerNorm, *_RMS_NORM)) and len(tuple(module.normalized_shape)) > 1:  # type: ignore[arg-type]
        return None  # over (C, H, W) or (T, C): the layers around it know
    if isinstance(module, (nn.LayerNorm, *_RMS_NORM)):
        single = ("*", len(tuple(module.normalized_shape)), Axes(-1, None))  # type: ignore[arg-type]
        return AxesRule((single,), Axes(-1, 0), batch_known=False)
    if isinstance(module, (nn.Linear, nn.Bilinear, nn.Embedding, nn.EmbeddingBag)):
        return _FEATURES_LAST
    if isinstance(module, nn.RNNBase):
        return _recurrent(0 if module.batch_first else 1)
    if isinstance(module, (nn.LSTMCell, nn.RNNCellBase)):
        return _FEATURES_LAST
    if isinstance(module, nn.MultiheadAttention):
        return _attention(0 if module.batch_first else 1)
    if isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
        return _sequence(0 if module.self_attn.batch_first else 1)
    if isinstance(module, nn.Transformer):
        return _sequence(0 if module.batch_first else 1)
    return None


def _sequence(batch: int) -> AxesRule:
    return AxesRule((("*", 3, Axes(-1, batch)), ("*", 2, Axes(-1, None))))


def _recurrent(batch: int) -> AxesRule:
    # (output, h) or (output, (h, c)); h and c are (layers, batch, features) whatever `batch_first` says.
    state = Axes(-1, 1, names="layers B C")
    return AxesRule(
        (
            ("[0]", 3, Axes(-1, batch)),
            ("[0]", 2, Axes(-1, None)),
            ("[0].data", 2, Axes(-1, None, names="steps C")),  # a PackedSequence
            *((path, 3, state) for path in ("[1]", "[1][0]", "[1][1]")),
            *((path, 2, Axes(-1, None, names="layers C")) for path in ("[1]", "[1][0]", "[1][1]")),
        )
    )


def _attention(batch: int) -> AxesRule:
    return AxesRule(
        (
            ("[0]", 3, Axes(-1, batch)),
            ("[0]", 2, Axes(-1, None)),
            ("[1]", 4, ATTENTION),
            (MAPS, 4, ATTENTION),
            ("[1]", 3, Axes(-1, 0, names="B T S")),
        )
    )


ATTENTION = Axes(1, 0, names="B heads T S")
"""Attention weights: one map of queries (T) by keys (S) a head."""


def op_rule(op: str) -> AxesRule | None:
    """The rule of a functional op, by its name."""
    if (spatial := _CONVOLUTIONS.fullmatch(op)) is not None:
        return _channel_first(int(spatial[1]))
    if op in ("batch_norm", "instance_norm", "group_norm", "interpolate", "upsample"):
        return _CHANNEL_SECOND
    if op in ("pixel_shuffle", "pixel_unshuffle"):
        return _channel_first(2)
    if op in ("linear", "bilinear", "layer_norm", "rms_norm", "embedding", "embedding_bag"):
        return _FEATURES_LAST
    if op == "scaled_dot_product_attention":
        return AxesRule(
            ((MAPS, 4, ATTENTION), ("*", 4, Axes(1, 0, names="B heads T C")), ("*", 3, Axes(-1, 0)))
        )
    return None


_CONVOLUTIONS = re.compile(
    r"(?:conv|conv_transpose|lp_pool|(?:adaptive_)?(?:max|avg)_pool|max_unpool|fractional_max_pool)([123])d"
    r"(?:_with_indices)?"
)

_MOVE_AXES = frozenset(
    {
        "T", "mT", "H", "mH", "transpose", "transpose_", "permute", "swapaxes", "swapdims", "movedim",
        "moveaxis", "t", "t_", "adjoint", "rot90", "matmul", "mm", "bmm", "addmm", "addbmm", "baddbmm",
        "einsum", "tensordot", "inner", "outer", "kron", "cdist", "cov", "corrcoef", "sort", "argsort",
        "transpose_copy", "permute_copy", "as_strided", "gather",
    }
)  # fmt: skip
"""Ops whose output may have the shape of their input with the axes in other places."""

_KEEP_AXES = frozenset(
    {
        "cat", "concat", "concatenate", "pad", "chunk", "split", "narrow", "repeat", "expand", "expand_as",
        "tile", "interpolate", "upsample", "add", "sub", "mul", "div", "where", "maximum", "minimum",
    }
)  # fmt: skip
"""Ops whose output may have another shape than their input, with the axes where they were."""


def keeps_axes(op: str, *, same_shape: bool) -> bool:
    """Whether an op's output has the axes of its input, where it has as many."""
    if op in _MOVE_AXES or op.startswith("linalg_"):
        return False
    return same_shape or op in _KEEP_AXES


_INPUT_LIKE_OUTPUT = (
    nn.modules.conv._ConvNd,
    nn.modules.batchnorm._NormBase,
    nn.GroupNorm,
    nn.Upsample,
    nn.LayerNorm,
    nn.Linear,
)
_SEQUENCE_INPUT = (
    nn.RNNBase,
    nn.MultiheadAttention,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer,
    nn.Transformer,
)


def input_rule(consumers: Iterable[nn.Module]) -> AxesRule | None:
    """The rule of a value of unknown axes, from the modules that read it."""
    for module in consumers:
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
            return AxesRule((("*", 1, Axes(None, 0)), ("*", 2, Axes(None, 0))), batch_known=False)
        if isinstance(module, (*_INPUT_LIKE_OUTPUT, *_POOLS)):
            return module_rule(module)
        if isinstance(module, _SEQUENCE_INPUT):
            attention: Any = module.self_attn if hasattr(module, "self_attn") else module
            return _sequence(0 if attention.batch_first else 1)
    return None


_POOLS = (
    nn.modules.pooling._MaxPoolNd,
    nn.modules.pooling._AvgPoolNd,
    nn.modules.pooling._AdaptiveAvgPoolNd,
    nn.modules.pooling._AdaptiveMaxPoolNd,
    nn.modules.pooling._LPPoolNd,
    nn.modules.pooling._MaxUnpoolNd,
)
_RMS_NORM = (nn.RMSNorm,) if hasattr(nn, "RMSNorm") else ()


def _spatial(module: nn.Module) -> int:
    """1, 2 or 3, from the name of torch's own class."""
    for cls in type(module).__mro__:
        found = re.search(r"([123])d$", cls.__name__)
        if found and cls.__module__.startswith("torch.nn"):
            return int(found[1])
    return 2
