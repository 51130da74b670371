"""Attention weights, computed beside the model's own forward for layers that keep them to themselves.

Torch's fused attention never forms the map of weights. On request it is formed here from the same queries,
keys and masks, one map a head, before dropout: `softmax(Q K^T / sqrt(d) + mask)` (Vaswani et al. 2017,
"Attention Is All You Need", equation 1). The layer's own result is not touched.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize

from nansense_widgets.capture.values import TENSOR_BYTES, Kept, unobserved

__all__ = ["MAPS", "gives_attention", "maps_of_call"]

MAPS = ".attention_weights"
"""Path of the maps among a layer's outputs."""


def gives_attention(module: nn.Module | None, op: str) -> bool:
    """Whether maps can be formed for a module of this class, or an op of this name."""
    if module is None:
        return op == "scaled_dot_product_attention"
    # A subclass may do anything to queries and keys before torch's own forward sees them.
    return isinstance(module, nn.MultiheadAttention) and (
        type(module).forward is nn.MultiheadAttention.forward
    )


def maps_of_call(module: nn.Module | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kept:
    """Maps (batch, heads, queries, keys) of a call of an attention module or, with None, of the op.

    In float32, or float64 for such queries; of the first samples, if all would take more than 64 MiB.
    """
    try:
        with unobserved():
            if isinstance(module, nn.MultiheadAttention):
                return _of_module(module, _bound(module.forward, args, kwargs))
            return _of_op(**_bound(_op_signature, args, kwargs))
    except Exception as error:  # the card says so; the forward goes on
        return Kept(None, f"attention weights could not be formed: {type(error).__name__}: {error}")


def _bound(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _op_signature(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> None:
    """The parameters of `F.scaled_dot_product_attention`, which is built in and tells no signature."""


def _of_op(
    query: torch.Tensor,
    key: torch.Tensor,
    attn_mask: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
    **_: Any,
) -> Kept:
    samples, part = _samples(query, math.prod(query.shape[1:-2]) * query.shape[-2] * key.shape[-2])
    if samples == 0:
        return Kept(None, part)
    if attn_mask is not None and attn_mask.ndim == query.ndim and attn_mask.shape[0] == query.shape[0]:
        attn_mask = attn_mask[:samples]
    query, key = _wide(query[:samples]), _wide(key[:samples])
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)
    with torch.autocast(query.device.type, enabled=False):
        scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~allowed, -math.inf)
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    # A query that may attend to nothing gets zeros from torch, not 0 / 0.
    nothing = (scores == -math.inf).all(-1, keepdim=True)
    return Kept(scores.softmax(-1).masked_fill(nothing, 0.0), part=part)


def _of_module(module: nn.MultiheadAttention, call: dict[str, Any]) -> Kept:
    if parametrize.is_parametrized(module) or parametrize.is_parametrized(module.out_proj):
        # Reading such a weight computes it anew, and spectral norm moves its vectors when it does.
        return Kept(None, "attention weights are not formed: the projections are parametrized")
    query, key, value = call["query"], call["key"], call["value"]
    batched = query.ndim == 3
    if batched and module.batch_first:
        query, key, value = (tensor.transpose(0, 1) for tensor in (query, key, value))
    if not batched:
        query, key, value = (tensor.unsqueeze(1) for tensor in (query, key, value))
    queries, batch, _ = query.shape
    samples, part = _samples(query.transpose(0, 1), module.num_heads * queries * key.shape[0])
    if samples == 0:
        return Kept(None, part)
    mask, padding = call["attn_mask"], call["key_padding_mask"]
    if mask is not None and mask.ndim == 3 and mask.shape[0] == batch * module.num_heads:
        mask = mask[: samples * module.num_heads]
    if padding is not None:
        padding = (padding if batched else padding.unsqueeze(0))[:samples]
    dtype = torch.float64 if query.dtype is torch.float64 else torch.float32

    def wide(tensor: torch.Tensor | None) -> torch.Tensor | None:
        return None if tensor is None else tensor.detach().to(dtype)

    with torch.autocast(query.device.type, enabled=False):
        _, maps = functional.multi_head_attention_forward(
            _wide(query[:, :samples]),
            _wide(key[:, :samples]),
            _wide(value[:, :samples]),
            module.embed_dim,
            module.num_heads,
            wide(module.in_proj_weight),
            wide(module.in_proj_bias),
            wide(module.bias_k),
            wide(module.bias_v),
            module.add_zero_attn,
            0.0,
            _wide(module.out_proj.weight),
            wide(module.out_proj.bias),
            training=False,
            key_padding_mask=padding if padding is None or padding.dtype is torch.bool else padding.to(dtype),
            need_weights=True,
            attn_mask=mask if mask is None or mask.dtype is torch.bool else mask.to(dtype),
            use_separate_proj_weight=not module._qkv_same_embed_dim,
            q_proj_weight=wide(module.q_proj_weight),
            k_proj_weight=wide(module.k_proj_weight),
            v_proj_weight=wide(module.v_proj_weight),
            average_attn_weights=False,
            is_causal=call["is_causal"] and mask is not None,
        )
    if (
        maps is not None
        and not call["need_weights"]
        and bool(query.isfinite().all())
        and bool(key.isfinite().all())
    ):
        maps = maps.nan_to_num(0.0)  # torch's fast attention gives zeros where every key is masked
    return Kept(maps, part=part)


def _samples(query: torch.Tensor, elements: int) -> tuple[int, str]:
    """How many samples' maps are kept, and what to say if not all; `elements` is the size of one's."""
    one = elements * (8 if query.dtype is torch.float64 else 4)
    fitting = TENSOR_BYTES // max(1, one)
    if fitting >= query.shape[0]:
        return query.shape[0], ""
    if fitting == 0:
        return 0, f"attention weights of one sample take {one / 2**20:,.0f} MiB, above the limit of 64 MiB"
    return fitting, f"first {fitting} of {query.shape[0]} samples"


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach() if tensor.dtype is torch.float64 else tensor.detach().float()
