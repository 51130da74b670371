"""Tiny configurations: the default one of an architecture with its numbers made small, field by field.

Only numbers that a configuration has by default are touched, by rules on the names of fields; what a
configuration derives from others is left to it. `exceptions.py` holds what the rules do not fit.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

from tests.zoo.exceptions import CONFIGS, THREE_AXES

__all__ = ["LEVELS", "tiny"]

VOCABULARY = 256
FIRST_FREE_TOKEN = 192
"""Token ids from here on stand for images, audio and other special tokens; text is drawn from below."""

_RULES: tuple[tuple[str, int], ...] = (
    (r"(.*_)?vocab_size.*|type_vocab_size|num_embeddings|codebook_size", VOCABULARY),
    (r"(.*_)?(num_key_value_heads|num_kv_heads|n_kv_heads)", 2),
    (r"(.*_)?(num_attention_heads|attention_heads|num_heads|n_heads?|num_(key|value|query)_heads)", 4),
    (r"(.*_)?(head_dim|dim_head|d_kv|kv_channels|d_head)", 16),
    (r"(.*_)?(q_lora_rank|kv_lora_rank|time_step_rank)", 16),
    (r"num_experts_per_tok(en)?|moe_topk|moe_k|top_k|moe_top_k|index_topk", 2),
    (r"(num_local|n_routed|num|moe_num|num_routed)_experts", 4),
    (r"n_group|topk_group|num_expert_group", 1),
    (r"first_k_dense_replace|num_dense_layers", 1),
    (r"(.*_)?(num_hidden_layers|num_layers|n_layers?|layers|num_blocks|num_hidden_groups)", 2),
    (r"(.*_)?(intermediate_size|ffn_dim|d_ff|mlp_dim|n_inner|dim_feedforward|ffn_hidden_size|d_inner)", 64),
    (r"(max|n)_positions?(_embeddings)?|(.*_)?max_position_embeddings|max_seq_len|n_ctx", 96),
    (r"(.*_)?max_(source|target)_positions|context_length", 96),
    (r"(.*_)?sliding_window|attention_window|window_size_global|attention_chunk_size", 8),
    (r"(.*_)?image_size|pretrain_image_size", 64),
    (r"(.*_)?(state_size|d_state|n_groups)", 8),
    (r"(.*_)?chunk_size", 8),
    (
        r"(.*_)?(hidden_size|d_model|n_embd|embed_dim|embedding_size|hidden_dim|dim|projection_dim|channels|width"
        r"|embedding_dim|proj_size|units|projection_size|hidden_channels|lora_rank|hidden_size_per_layer_input)",
        64,
    ),
)
_COMPILED = tuple((re.compile(pattern), value) for pattern, value in _RULES)

_WIDTH_LISTS = re.compile(r"(.*_)?(hidden_sizes|embed_dims?|channels|dims?|out_channels|encoder_in_channels)")
_HEAD_LISTS = re.compile(r"(.*_)?(num_attention_heads|num_heads)")
_DEPTH_LISTS = re.compile(r"(.*_)?(depths?|layers|num_blocks|num_block_repeats)")
_KINDS_OF_LAYERS = re.compile(r"(.*_)?(layer_types|layers_block_type|mlp_layer_types|block_types)")
_LAYERS_ONLY = re.compile(
    r"(.*_)?(num_hidden_layers|num_layers|n_layers?|encoder_layers|decoder_layers|vocab_size|image_size)"
)

LEVELS = ("tiny", "narrow", "shallow")
"""How much is made small. Where the smaller one cannot be built or run, the next one is tried: `narrow`
leaves lists alone, `shallow` makes only layers few and vocabularies small."""


def tiny(config_class: type[Any], level: str = "tiny") -> Any:
    """A small configuration of this class, sub-configurations included."""
    model_type = getattr(config_class, "model_type", "")
    exceptions = CONFIGS.get(model_type, {})
    default = _default(config_class)
    small: dict[str, Any] = {}
    for name, value in _given_by_default(config_class, default):
        if name in exceptions:
            continue
        new = _small(name, value, level)
        if new != value:
            small[name] = new
    for name, spec in getattr(config_class, "sub_configs", {}).items():
        sub = getattr(default, name, None)
        sub_class = type(sub) if sub is not None and not isinstance(sub, dict) else spec
        if sub is None and name not in exceptions:
            continue  # off by default
        if isinstance(sub_class, type) and hasattr(sub_class, "to_dict"):
            small[name] = tiny(sub_class, level)
    for name, value in exceptions.items():
        if isinstance(value, dict) and name in small and hasattr(small[name], "to_dict"):
            small[name] = type(small[name])(**{**_arguments(small[name]), **value})
        else:
            small[name] = value
    if level in ("tiny", "narrow"):
        _fit_heads(default, small, exceptions)
        _fit_rope_sections(default, small)
    return config_class(**_with_tokens(default, small))


def _fit_heads(default: Any, small: dict[str, Any], exceptions: dict[str, Any]) -> None:
    """Where keys have as many heads as queries, they keep it: some attentions have no other way."""
    heads, keys = getattr(default, "num_attention_heads", None), getattr(default, "num_key_value_heads", None)
    if heads == keys and "num_key_value_heads" in small and "num_key_value_heads" not in exceptions:
        small["num_key_value_heads"] = small.get("num_attention_heads", heads)


def _fit_rope_sections(default: Any, small: dict[str, Any]) -> None:
    """The parts of a head that turn with time, height and width have to add up to half of the smaller head."""
    rope = getattr(default, "rope_parameters", None)
    if not isinstance(rope, dict) or "rope_parameters" in small:
        return
    sections = rope.get("mrope_section") or ([1, 1, 1] if default.model_type in THREE_AXES else None)
    if sections is None:
        return
    head = small.get("head_dim") or small.get("hidden_size", 64) // small.get("num_attention_heads", 4)
    half = int(head * rope.get("partial_rotary_factor", 1.0)) // 2
    least = half // len(sections)
    small["rope_parameters"] = {
        **rope,
        "mrope_section": [half - least * (len(sections) - 1), *[least] * (len(sections) - 1)],
    }


def _default(config_class: type[Any]) -> Any:
    return config_class()


def _arguments(config: Any) -> dict[str, Any]:
    return {k: v for k, v in config.to_dict().items() if k not in ("transformers_version", "model_type")}


def _given_by_default(config_class: type[Any], default: Any) -> Iterator[tuple[str, Any]]:
    """Fields with a default of their own; those that are None and then derived from others are left out."""
    if dataclasses.is_dataclass(config_class):
        given: dict[str, Any] = {}
        for field in dataclasses.fields(config_class):
            if field.default is not dataclasses.MISSING:
                given[field.name] = field.default
            elif field.default_factory is not dataclasses.MISSING:
                given[field.name] = field.default_factory()
    else:
        given = {
            name: parameter.default
            for name, parameter in inspect.signature(config_class.__init__).parameters.items()
            if parameter.default is not inspect.Parameter.empty
        }
    for name, value in given.items():
        if value is not None and name not in getattr(config_class, "sub_configs", {}):
            yield name, value


def _small(name: str, value: Any, level: str) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if level == "shallow" and not _LAYERS_ONLY.fullmatch(name):
            return value
        for pattern, most in _COMPILED:
            if pattern.fullmatch(name):
                return min(value, most)
        return value
    if isinstance(value, (list, tuple)) and value:
        return _small_list(name, value, level)
    return value


def _small_list(name: str, value: Any, level: str) -> Any:
    kind = type(value)
    if _KINDS_OF_LAYERS.fullmatch(name):
        return kind(dict.fromkeys(value)) if len(set(value)) > 1 else kind(value[:2])
    if not all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        return value
    if _DEPTH_LISTS.fullmatch(name) and level != "narrow":
        return kind(min(item, 1) for item in value)
    if level != "tiny":
        return value
    if name.endswith("image_size"):
        return kind(min(item, 64) for item in value)
    if _HEAD_LISTS.fullmatch(name) and value[0] and all(item % value[0] == 0 for item in value):
        return kind(item // value[0] for item in value)
    if _WIDTH_LISTS.fullmatch(name) and min(value) > 16:
        return kind(max(16, item * 16 // min(value) // 8 * 8) for item in value)
    return value


def _with_tokens(default: Any, small: dict[str, Any]) -> dict[str, Any]:
    """Token ids that lie outside the small vocabulary get free ones inside it."""
    free = FIRST_FREE_TOKEN
    fields = vars(default)
    for name, value in fields.items():
        if not re.fullmatch(r".*(token_id|token_index|_index|token|_token_ids?|_idx)", name) or name in small:
            continue
        if isinstance(value, int) and not isinstance(value, bool) and value >= FIRST_FREE_TOKEN:
            small[name] = free
            free += 1
    return small
