"""What the rules of `shrink.py` and `feed.py` do not fit, by model type."""

from __future__ import annotations

from typing import Any

__all__ = ["CONFIGS", "INPUTS", "NOT_RUN", "THREE_AXES"]

CONFIGS: dict[str, dict[str, Any]] = {}
"""Fields of a configuration, by model type; a dictionary for a sub-configuration changes fields of it."""

INPUTS: dict[str, dict[str, Any]] = {}
"""Arguments of the forward: a tuple is the shape of random floats, anything else is given as it is."""

NOT_RUN: dict[str, str] = {}
"""Model types that are not tried, with the reason."""

THREE_AXES = frozenset(
    {
        "qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text", "glm4v_text", "glm4v_moe_text",
        "glm_image_text", "glm_ocr_text", "paddleocr_vl_text", "ernie4_5_vl_moe_text", "qwen2_5_omni_text",
        "qwen2_5_omni_talker", "qwen3_omni_moe_text", "qwen3_omni_moe_talker_text", "qwen3_5_text",
        "qwen3_5_moe_text", "hy_v4_vl_text", "cosmos3_edge_text",
    }
)  # fmt: skip
"""Their heads turn with time, height and width, in parts that the code has a default for."""
