"""Tiny configurations: the default one of an architecture with its numbers made small, field by field.

Only numbers that a configuration has by default are touched, by rules on the names of fields; what a
configuration derives from others is left to it. `exceptions.py` holds what the rules do not fit.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from tests.zoo.configs import find
from tests.zoo.exceptions import CONFIGS, THREE_AXES

__all__ = ["LEVELS", "tiny"]

VOCABULARY = 256
FIRST_FREE_TOKEN = 192
"""Token ids from here on stand for images, audio and other special tokens; text is drawn from below."""

_WIDTHS = (
    r"(.*_)?(hidden_size|d_model|n_embd|embed_dim|embedding_size|embedding_dim|hidden_dim|dim|projection_dim|width"
    r"|channels|proj_size|projection_size|units|hidden_channels|lora_rank|hidden_size_per_layer_input)"
)
_RULES: tuple[tuple[str, int], ...] = (
    (r"(.*_)?vocab_size.*|type_vocab_size|num_embeddings|codebook_size", VOCABULARY),
    (r"(.*_)?(num_key_value_heads|num_kv_heads|n_kv_heads)", 2),
    (r"(.*_)?(num_attention_heads|attention_heads|num_heads|n_heads?|num_(key|value|query)_heads)", 4),
    (r"(.*_)?(head_dim|dim_head|d_kv|kv_channels|d_head)", 16),
    (r"(.*_)?(q_lora_rank|kv_lora_rank|time_step_rank)", 16),
    (r"num_experts_per_tok(en)?|moe_topk|moe_k|top_k|moe_top_k|index_topk", 2),
    (r"(num_local|n_routed|num|moe_num|num_routed)_experts", 4),
    (r"rotary_dim", 8),
    (r"context_size", 32),
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
    (r"upsample_groups", 64),
    (_WIDTHS, 64),
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
    return _tiny(config_class(), level)


def _tiny(default: Any, level: str) -> Any:
    """A small version of a configuration, which may be one that another has inside by default."""
    config_class = type(default)
    exceptions = CONFIGS.get(default.model_type, {})
    small: dict[str, Any] = {}
    for name, value, usual in _given(default):
        if name not in exceptions and (new := _small(name, value, level)) != usual:
            small[name] = new
    if level == "tiny":
        _one_layer_of_each_kind(default, small, exceptions)
    for name in getattr(config_class, "sub_configs", {}):
        sub = getattr(default, name, None)
        if hasattr(sub, "to_dict"):
            small[name] = _same_stages(sub, _tiny(sub, level))
    for name, value in exceptions.items():
        if isinstance(value, dict) and name in small and hasattr(small[name], "to_dict"):
            small[name] = _changed(small[name], value)
        else:
            small[name] = value
    if level in ("tiny", "narrow"):
        _fit_heads(default, small, exceptions)
        _fit_rope_sections(default, small)
    return config_class(**_with_tokens(default, small))


def _changed(config: Any, changes: dict[str, Any]) -> Any:
    dropped = {"transformers_version", "model_type"}
    if {"out_features", "out_indices"} & changes.keys():
        dropped |= {"out_features", "out_indices", "_out_features", "_out_indices", "stage_names"}
    if "num_hidden_layers" in changes:
        dropped |= {"layer_types", "stage_names"}
    return type(config)(**{n: v for n, v in config.to_dict().items() if n not in dropped} | changes)


def _same_stages(default: Any, small: Any) -> Any:
    """A backbone gives as many feature maps as before; it may need more layers for it."""
    wanted = len(getattr(default, "out_features", None) or ())
    if wanted == len(getattr(small, "out_features", None) or ()):
        return small
    stages = len(small.stage_names) - 1
    changes: dict[str, Any] = {}
    if stages < wanted:
        changes["num_hidden_layers"] = stages = wanted
    return _changed(small, {**changes, "out_features": [f"stage{n + 1}" for n in range(stages)][-wanted:]})


def _one_layer_of_each_kind(default: Any, small: dict[str, Any], exceptions: dict[str, Any]) -> None:
    """Few layers, but one of each kind that the default configuration has."""
    if "num_hidden_layers" not in small or "num_hidden_layers" in exceptions:
        return
    found = {
        name: value
        for name, value in vars(default).items()
        if _KINDS_OF_LAYERS.fullmatch(name)
        and isinstance(value, (list, tuple))
        and len(value) == default.num_hidden_layers
        and name not in exceptions
    }
    kinds = {name: list(dict.fromkeys(value)) for name, value in found.items()}
    layers = max([2, *map(len, kinds.values())])
    if kinds:
        small["num_hidden_layers"] = layers
    for name, several in kinds.items():
        small[name] = type(found[name])([*several, *several[-1:] * layers][:layers])


def _fit_heads(default: Any, small: dict[str, Any], exceptions: dict[str, Any]) -> None:
    """Where keys have as many heads as queries, they keep it: some attentions have no other way."""
    heads, keys = find(default, "num_attention_heads"), find(default, "num_key_value_heads")
    if heads == keys and "num_key_value_heads" in small and "num_key_value_heads" not in exceptions:
        small["num_key_value_heads"] = small.get("num_attention_heads", heads)
    for name in ("head_dim", "num_key_value_heads"):  # what some configurations leave for the user to give
        if name in vars(default) and vars(default)[name] is None and name not in exceptions:
            small[name] = 16 if name == "head_dim" else 4


def _fit_rope_sections(default: Any, small: dict[str, Any]) -> None:
    """The parts of a head that turn with time, height and width add up to half of the smaller head."""
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


def _given(default: Any) -> Iterator[tuple[str, Any, Any]]:
    """Fields as `(name, value, value by the class)`; what was None and is derived from others is left out."""
    usual = vars(type(default)())
    for field in dataclasses.fields(default):
        if field.name in getattr(default, "sub_configs", {}) or field.name not in vars(default):
            continue
        value = vars(default)[field.name]
        if value is None or (field.default is None and value == usual.get(field.name)):
            continue
        yield field.name, value, usual.get(field.name)


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
