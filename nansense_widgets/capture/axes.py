"""Which axis of a layer's output is the channel and which is the batch, known from the module's class."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

__all__ = ["Axes", "axes_of"]


@dataclass(frozen=True)
class Axes:
    """Axis numbers of an output; None: not known from the class."""

    channel: int | None = None
    batch: int | None = 0


_CHANNEL_FIRST = (
    nn.modules.conv._ConvNd,
    nn.modules.batchnorm._NormBase,
    nn.GroupNorm,
    nn.modules.pooling._MaxPoolNd,
    nn.modules.pooling._AvgPoolNd,
    nn.modules.pooling._AdaptiveAvgPoolNd,
    nn.modules.pooling._AdaptiveMaxPoolNd,
    nn.Upsample,
)
_FEATURES_LAST = (nn.Linear, nn.Bilinear, nn.LayerNorm, nn.Embedding, nn.EmbeddingBag) + (
    (nn.RMSNorm,) if hasattr(nn, "RMSNorm") else ()
)
_SEQUENCE = (nn.RNNBase, nn.MultiheadAttention)
_TRANSFORMER = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)


def axes_of(module: nn.Module) -> Axes | None:
    """Axes of the module's output, or None for a class that keeps its input's axes or is not known."""
    if isinstance(module, _CHANNEL_FIRST):
        return Axes(channel=1)
    if isinstance(module, _FEATURES_LAST):
        return Axes(channel=-1)
    if isinstance(module, _SEQUENCE):
        return Axes(channel=-1, batch=0 if module.batch_first else 1)
    if isinstance(module, _TRANSFORMER):
        return Axes(channel=-1, batch=0 if module.self_attn.batch_first else 1)
    return None
