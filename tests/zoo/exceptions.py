"""What the rules of `shrink.py` and `feed.py` do not fit, by model type."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["CLASSES", "CONFIGS", "INPUTS", "NOT_RUN", "THREE_AXES"]

_TIMM = {"backbone": "resnet18", "out_indices": (1, 2, 3, 4)}
_EXPERTS = {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1}
_DETECTOR = {"encoder_in_channels": (32, 32, 32), "num_queries": 10, "num_denoising": 4}
_PAST = {"prediction_length": 4, "context_length": 8, "num_time_features": 1, "lags_sequence": [1, 2]}
_ROPE = {"rope_type": "default", "rope_theta": 10000.0}

CONFIGS: dict[str, dict[str, Any]] = {
    "autoformer": _PAST,
    "bamba": {"attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 16},
    "blip-2": {"image_token_index": 255, "num_query_tokens": 4},
    "blt": {"encoder_hash_byte_group_vocab": 64},
    "blt_local_decoder": {"hidden_size_global": 64},
    "blt_local_encoder": {"hidden_size_global": 64},
    "chameleon": {"vocabulary_map": {"<image>": 250}},
    "chmv2": {"backbone_config": {"return_class_token": True, "reshape_hidden_states": True},
              "post_process_channels": [16, 32, 64, 64]},
    "cohere_compass_text": {"rope_parameters": {"full_attention": {**_ROPE, "mrope_section": [4, 2, 2]}}},
    "conditional_detr": {"backbone_config": _TIMM},
    "d_fine": _DETECTOR,
    "dab-detr": {"backbone_config": _TIMM},
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8.0}},
    "deepseek_ocr2_text": {**_EXPERTS, "mlp_layer_types": ["dense", "sparse"]},
    "deepseek_v2": _EXPERTS,
    "deformable_detr": {"backbone_config": _TIMM},
    "deimv2": _DETECTOR,
    "depth_pro": {"patch_size": 64, "intermediate_hook_ids": (1, 0)},
    "detr": {"backbone_config": _TIMM},
    "diffusion_gemma_text": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32},
    "donut-swin": {"image_size": 224},
    "dory": {"n_input_layers": 1, "n_recurrent_layers": 1, "n_output_layers": 1, "num_hidden_layers": 3,
             "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]},
    "dots1": {**_EXPERTS, "moe_intermediate_size": 32},
    "edgetam_vision_model": {
        "backbone_config": {"architecture": "resnet18",
                            "model_args": {"features_only": True, "out_indices": [1, 2, 3, 4]}},
        "backbone_channel_list": [512, 256, 128, 64], "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
    },
    "efficientloftr": {"hidden_size": 64, "out_features": [16, 16, 32, 64], "stage_num_blocks": [1, 1, 1, 1]},
    "emu3": {"vocabulary_map": {"<image>": 250}},
    "ernie4_5_vl_moe_text": {"rope_parameters": {**_ROPE, "mrope_section": [3, 3, 2]}},
    "esm": {"vocab_size": 64, "mask_token_id": 32, "pad_token_id": 1},
    "fast_vlm": {"vision_config": {"architecture": "resnet18", "hidden_size": 512, "model_args": {}}},
    "fun_asr_nano": {"adaptor_config": {"intermediate_size": 16}},
    "gemma3n_text": {"num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2,
                     "num_kv_shared_layers": 2, "intermediate_size": [64] * 4,
                     "activation_sparsity_pattern": [0.0] * 4},
    "gemma4_text": {"hidden_size_per_layer_input": 0},
    "glm5_next_text": {"index_topk": 16},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"], "mamba_n_heads": 8, "mamba_d_head": 16},
    "grounding-dino": {"num_queries": 10},
    "hgnet_v2": {
        "embedding_size": 16, "hidden_sizes": [16, 32, 32, 32], "depths": (1, 1, 1, 1),
        "stem_channels": (3, 16, 16), "stage_in_channels": (16, 16, 32, 32),
        "stage_mid_channels": (8, 8, 16, 16),
        "stage_out_channels": (16, 32, 32, 32), "stage_num_blocks": (1, 1, 1, 1),
        "stage_numb_of_layers": (2, 2, 2, 2),
    },
    "informer": _PAST,
    "instructblip": {"image_token_index": 255, "num_query_tokens": 4},
    "instructblipvideo": {"video_token_index": 255, "num_query_tokens": 4},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "mamba_dt_rank": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2},
    "llama4_vision_model": {"vision_output_dim": 64, "intermediate_size": 256},
    "lw_detr": {"projector_scale_factors": (1.0,), "group_detr": 2, "num_queries": 10},
    "mamba2": {"num_heads": 8, "head_dim": 16},
    "mgp-str": {"image_size": (32, 64)},
    "mm-grounding-dino": {"num_queries": 10},
    "molmo2_adapter": {"vision_feature_layer": [1, 0]},
    "moonshine_streaming": {"num_key_value_heads": 4},
    "muse_spark_audio": {"num_hidden_layers": 4},
    "nemotron_h": {"n_groups": 2, "mamba_num_heads": 8, "mamba_head_dim": 16},
    "omdet-turbo": {"backbone_config": {"backbone": "resnet18", "out_indices": (2, 3, 4)},
                    "encoder_in_channels": (128, 256, 512), "num_queries": 10},
    "pp_doclayout_v2": _DETECTOR,
    "pp_doclayout_v3": _DETECTOR,
    "pp_doclayout_v4": _DETECTOR,
    "qwen2_5_omni_thinker": {"vision_start_token_id": 253, "audio_start_token_id": 254},
    "qwen3_omni_moe_thinker": {"vision_start_token_id": 253, "audio_start_token_id": 254},
    "reformer": {"is_decoder": True, "axial_pos_shape": (3, 4), "axial_pos_embds_dim": (16, 48),
                 "num_buckets": 2, "attn_layers": ("local", "lsh"), "lsh_attn_chunk_length": 4,
                 "local_attn_chunk_length": 4},
    "rf_detr": {"num_queries": 10, "group_detr": 2},
    "rt_detr": {**_DETECTOR, "encoder_in_channels": (32, 64, 128)},
    "rt_detr_v2": {**_DETECTOR, "encoder_in_channels": (32, 64, 128)},
    "sam3_vision_model": {"backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]},
    "sam2_hiera_det_model": {
        "hidden_size": 32, "embed_dim_per_stage": [32, 64, 128, 256], "blocks_per_stage": [1, 2, 2, 1],
        "global_attention_blocks": [4], "image_size": [128, 128],
    },
    "sam2_vision_model": {"backbone_channel_list": [256, 128, 64, 32],
                          "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]]},
    "step3p5": {"sliding_window": 8},
    "table-transformer": {"backbone_config": _TIMM},
    "time_series_transformer": _PAST,
    "timm_backbone": {"backbone": "resnet18"},
    "tvp": {"max_img_size": 64, "visual_prompt_size": 8},
    "vitmatte": {"convstream_hidden_sizes": [16, 32, 64], "fusion_hidden_sizes": [64, 32, 16, 16]},
    "vits": {"spectrogram_bins": 33},
    "xmod": {"default_language": "en_XX"},
    "zamba": {"num_hidden_layers": 4, "layers_block_type": ["linear_attention", "hybrid"] * 2},
    "zoedepth": {"bottleneck_features": 64},
}  # fmt: skip
"""Fields of a configuration, by model type; a dictionary for a sub-configuration changes fields of it."""

CLASSES: dict[str, str] = {
    "musicgen": "MusicgenForConditionalGeneration",
    "musicgen_melody": "MusicgenMelodyForConditionalGeneration",
}
"""The model class of a type, where the first of its tasks is not the one to train."""


def _ids(*shape: int, below: int = 100) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel()).reshape(shape) % below


_TIMES = {
    "past_values": (2, 10),
    "past_time_features": (2, 10, 1),
    "past_observed_mask": torch.ones(2, 10),
    "future_values": (2, 4),
    "future_time_features": (2, 4, 1),
}

INPUTS: dict[str, dict[str, Any]] = {
    "autoformer": _TIMES,
    "blt": {"use_cache": False},
    "decision_transformer": {
        "states": (2, 6, 17), "actions": (2, 6, 4), "rewards": (2, 6, 1), "returns_to_go": (2, 6, 1),
        "timesteps": _ids(2, 6), "attention_mask": torch.ones(2, 6),
    },
    "depth_pro": {"pixel_values": (2, 3, 256, 256)},
    "dia": {"decoder_input_ids": _ids(2, 12, 9)},
    "dory": {"use_cache": False},
    "efficientloftr": {"pixel_values": (2, 2, 1, 64, 64)},
    "fun_asr_nano_encoder": {
        "only": True, "input_features": (2, 40, 560),
        "input_features_mask": torch.ones(2, 40, dtype=torch.long),
    },
    "gemma3n_audio": {"audio_mel": (2, 32, 128), "audio_mel_mask": torch.zeros(2, 32, dtype=torch.bool)},
    "gemma4_vision": {"pixel_values": (2, 16, 768), "pixel_position_ids": _ids(2, 16, 2, below=4)},
    "idefics": {"pixel_values": (2, 1, 3, 64, 64),
                "image_attention_mask": torch.ones(2, 12, 1, dtype=torch.long)},
    "informer": _TIMES,
    "instructblip": {"qformer_input_ids": _ids(2, 6)},
    "instructblipvideo": {"qformer_input_ids": _ids(2, 6)},
    "kosmos-2": {
        "image_embeds_position_mask": torch.cat([torch.ones(2, 64), torch.zeros(2, 4)], 1).bool(),
        "input_ids": _ids(2, 68), "attention_mask": torch.ones(2, 68),
    },
    "kyutai_speech_to_text": {"input_ids": _ids(2, 12, 33)},
    "lightglue": {"pixel_values": (2, 2, 3, 64, 64)},
    "lxmert": {"visual_feats": (2, 5, 64), "visual_pos": (2, 5, 4)},
    "mgp-str": {"pixel_values": (2, 3, 32, 64)},
    "musicgen": {"decoder_input_ids": _ids(8, 12)},
    "musicgen_melody": {"decoder_input_ids": _ids(8, 12)},
    "mimi_decoder": {"latents": (2, 64, 12)},
    "muse_glimmer_assistant": {"noise_embeds": (2, 12, 64), "context_hidden_states": (2, 12, 320)},
    "muse_spark_audio": {"input_values": (2, 3840)},
    "oneformer": {"task_inputs": _ids(2, 77)},
    "patchtsmixer": {"past_values": (2, 32, 1)},
    "patchtst": {"past_values": (2, 32, 1)},
    "pix2struct": {"flattened_patches": (2, 16, 770), "decoder_input_ids": _ids(2, 12)},
    "pocket_tts_audio_tokenizer_decoder": {"latents": (2, 64, 12)},
    "seggpt": {"prompt_pixel_values": (2, 3, 64, 64), "prompt_masks": (2, 3, 64, 64)},
    "superglue": {"pixel_values": (2, 2, 3, 64, 64)},
    "time_series_transformer": _TIMES,
    "timesfm": {
        "only": True, "past_values": (2, 64), "past_values_padding": torch.zeros(2, 64),
        "freq": torch.zeros(2, 1, dtype=torch.long),
    },
    "vibevoice_acoustic_tokenizer_decoder": {"hidden_states": (2, 64, 12)},
    "vibevoice_acoustic_tokenizer_encoder": {"hidden_states": (2, 1, 6400)},
    "video_llama_3_vision": {"merge_sizes": torch.tensor([2, 2])},
}  # fmt: skip
"""Arguments of the forward: a tuple is the shape of random floats, anything else is given as it is."""

NOT_RUN: dict[str, str] = {
    "bark": "has no forward of its own: its three parts are run one by one",
    "edgetam_video": "its forward takes a session of video inference",
    "glm_image_vqmodel": "has no forward of its own",
    "qwen2_5_omni": "has no forward of its own: its parts are run one by one",
    "sam2_video": "its forward takes a session of video inference",
    "sam3_tracker_video": "its forward takes a session of video inference",
    "sam3_video": "its forward takes a session of video inference",
    "voxtral_realtime_text": "transformers has no class of the name that its list gives",
}
"""Model types that are not tried, with the reason."""

THREE_AXES = frozenset(
    {
        "qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text", "glm4v_text",
        "glm4v_moe_text", "glm_image_text", "glm_ocr_text", "paddleocr_vl_text", "qwen2_5_omni_text",
        "qwen2_5_omni_talker", "qwen3_omni_moe_text", "qwen3_omni_moe_talker_text", "qwen3_5_text",
        "qwen3_5_moe_text", "hy_v4_vl_text", "cosmos3_edge_text", "hunyuan_vl_text",
    }
)  # fmt: skip
"""Their heads turn with time, height and width, in parts that the code has a default for."""
