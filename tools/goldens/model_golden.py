#!/usr/bin/env python3
"""Makes the tiny models of tests/golden/models and the logits they must give.

Each is the real architecture of Hugging Face transformers with random weights, run in f32 on one fixed sequence and written
as an F32 GGUF file together with the logits of every position. Weights are spread far wider than an initialiser's, so that a
wrong norm, a missing bias or a wrong angle moves the logits by much more than the tests allow.

    python -m venv golden && golden/bin/pip install torch transformers numpy
    golden/bin/python tools/goldens/model_golden.py tests/golden/models [NAME...]
"""
import math
import pathlib
import struct
import sys

import numpy
import torch
import transformers

import golden_delta_net
import golden_gemma4
import golden_hy_glm
import golden_mtp
import golden_newest
import model_golden_mamba as mamba
from model_golden_parts import (
    BOOL, BOOLS, CHOICE_BIAS, COUNTS, F32, STRING, U32, expert_parts, falcon_rows, kv_heads, latent_keys, latent_parts, llama3_factors,
    neighbours, norm_epsilon, seed_of, windows, write_gguf)

TOKENS = 44
SIZES = {
    "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 112, "max_position_embeddings": 128}
SMALL = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4}
EXPERTS = {
    **SMALL, "num_hidden_layers": 2, "num_key_value_heads": 2, "num_experts_per_tok": 3, "moe_intermediate_size": 24,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
LATENT = {
    **EXPERTS, "num_key_value_heads": 4, "kv_lora_rank": 48, "qk_nope_head_dim": 24, "qk_rope_head_dim": 16,
    "v_head_dim": 20, "n_routed_experts": 8, "n_shared_experts": 1, "first_k_dense_replace": 1,
    "routed_scaling_factor": 1.7, "rms_norm_eps": 1e-6}


def rope(theta, **scaling):
    return {"rope_theta": theta, "rope_type": "default", **scaling}


# name: (GGUF architecture, transformers class, configuration)
MODELS = {
    "llama-gqa4": ("llama", "Llama", {
        "num_attention_heads": 8, "num_key_value_heads": 2, "rms_norm_eps": 1e-2, "rope_parameters": rope(10000.0)}),
    "llama-mqa": ("llama", "Llama", {
        "num_attention_heads": 4, "num_key_value_heads": 1, "rms_norm_eps": 1e-5, "rope_parameters": rope(50.0)}),
    "llama-tied": ("llama", "Llama", {
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 32, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True, "rope_parameters": rope(10000.0)}),
    "llama3": ("llama", "Llama", {
        "num_attention_heads": 4, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
        "rope_parameters": rope(500.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                original_max_position_embeddings=64)}),
    "llama-linear": ("llama", "Llama", {
        "num_attention_heads": 4, "num_key_value_heads": 4, "rms_norm_eps": 1e-5,
        "rope_parameters": rope(10000.0, rope_type="linear", factor=4.0)}),
    "llama-yarn": ("llama", "Llama", {
        "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
        "rope_parameters": rope(1000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=32)}),
    "mistral-window": ("llama", "Mistral", {
        "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "sliding_window": 12,
        "rope_parameters": rope(10000.0)}),
    "qwen2": ("qwen2", "Qwen2", {
        "num_attention_heads": 8, "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
        "rope_parameters": rope(1000000.0)}),
    "qwen3": ("qwen3", "Qwen3", {
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 32, "rms_norm_eps": 1e-6,
        "rope_parameters": rope(1000000.0)}),
    # Small sizes with many layers, because windows and rotations repeat every four or six layers.
    "olmo2": ("olmo2", "Olmo2", {
        **SMALL, "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_parameters": rope(500.0)}),
    "olmo3": ("olmo2", "Olmo3", {
        **SMALL, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "sliding_window": 11,
        "rope_parameters": {
            "sliding_attention": rope(300.0),
            "full_attention": rope(1000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=32,
                                   attention_factor=1.2)}}),
    "phi3": ("phi3", "Phi3", {
        **SMALL, "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "sliding_window": 12,
        "pad_token_id": 0, "rope_parameters": rope(10000.0)}),
    "phi3-long": ("phi3", "Phi3", {
        **SMALL, "hidden_size": 64, "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
        "pad_token_id": 0, "original_max_position_embeddings": 32, "sliding_window": None,
        "rope_parameters": rope(10000.0, rope_type="longrope", partial_rotary_factor=0.5,
                                short_factor=[1.0, 1.0, 1.1, 1.3], long_factor=[1.1, 2.0, 5.0, 9.0])}),
    "smollm3": ("smollm3", "SmolLM3", {
        **SMALL, "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "pad_token_id": 0, "rope_parameters": rope(5000.0)}),
    "granite": ("granite", "Granite", {
        **SMALL, "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "embedding_multiplier": 6.0,
        "attention_multiplier": 0.6, "residual_multiplier": 0.7, "logits_scaling": 3.0, "rope_parameters": rope(10000.0)}),
    "glm4": ("glm4", "Glm4", {
        **SMALL, "num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-5,
        "attention_bias": True, "pad_token_id": 0, "rope_parameters": rope(1000.0, partial_rotary_factor=0.5)}),
    "exaone4": ("exaone4", "Exaone4", {
        **SMALL, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "sliding_window": 11, "rope_parameters": rope(1000.0)}),
    "exaone4-full": ("exaone4", "Exaone4", {
        **SMALL, "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "sliding_window": None,
        "layer_types": ["full_attention"] * 2, "rope_parameters": rope(1000.0)}),
    "seed-oss": ("seed_oss", "SeedOss", {
        **SMALL, "num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-6,
        "attention_bias": True, "attention_out_bias": True, "rope_parameters": rope(1000.0)}),
    "ernie4_5": ("ernie4_5", "Ernie4_5", {
        **SMALL, "num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-5, "use_bias": True,
        "rope_parameters": rope(5000.0)}),
    "gemma": ("gemma", "Gemma", {
        **SMALL, "num_hidden_layers": 2, "num_key_value_heads": 1, "head_dim": 16, "rms_norm_eps": 1e-6,
        "rope_parameters": rope(10000.0)}),
    "gemma2": ("gemma2", "Gemma2", {
        **SMALL, "num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-6,
        "query_pre_attn_scalar": 16, "sliding_window": 11, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 5.0,
        "rope_parameters": rope(10000.0)}),
    "gemma3": ("gemma3", "Gemma3", {
        **SMALL, "num_hidden_layers": 7, "num_key_value_heads": 1, "head_dim": 16, "rms_norm_eps": 1e-6,
        "query_pre_attn_scalar": 16, "sliding_window": 11,
        "rope_parameters": {
            "sliding_attention": rope(10000.0), "full_attention": rope(100000.0, rope_type="linear", factor=8.0)}}),
    "command-r": ("command-r", "Cohere", {
        **SMALL, "num_hidden_layers": 2, "num_key_value_heads": 2, "layer_norm_eps": 1e-5, "logit_scale": 0.25,
        "bos_token_id": 1, "eos_token_id": 2, "rope_parameters": rope(10000.0)}),
    # Command R+.
    "command-r-plus": ("command-r", "Cohere", {
        **SMALL, "num_hidden_layers": 2, "num_key_value_heads": 2, "layer_norm_eps": 1e-3, "logit_scale": 0.25,
        "use_qk_norm": True, "bos_token_id": 1, "eos_token_id": 2, "rope_parameters": rope(10000.0)}),
    "cohere2": ("cohere2", "Cohere2", {
        **SMALL, "num_hidden_layers": 5, "num_key_value_heads": 2, "head_dim": 16, "layer_norm_eps": 1e-5,
        "logit_scale": 0.25, "sliding_window": 11, "bos_token_id": 1, "eos_token_id": 2, "rope_parameters": rope(10000.0)}),
    "starcoder2": ("starcoder2", "Starcoder2", {
        **SMALL, "num_hidden_layers": 2, "num_key_value_heads": 2, "norm_epsilon": 1e-5, "use_bias": True,
        "sliding_window": 13, "bos_token_id": 1, "eos_token_id": 2, "rope_parameters": rope(10000.0)}),
    "nemotron": ("nemotron", "Nemotron", {
        **SMALL, "num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 16, "norm_eps": 1e-4, "bos_token_id": 1,
        "eos_token_id": 2, "rope_parameters": rope(1000.0, partial_rotary_factor=0.5)}),
    "hunyuan-dense": ("hunyuan-dense", "HunYuanDenseV1", {
        **SMALL, "num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-5,
        "rope_parameters": rope(1000.0)}),
    "qwen3moe": ("qwen3moe", "Qwen3Moe", {
        **EXPERTS, "head_dim": 16, "num_local_experts": 8, "norm_topk_prob": True, "rms_norm_eps": 1e-6,
        "rope_parameters": rope(1000.0)}),
    "qwen2moe": ("qwen2moe", "Qwen2Moe", {
        **EXPERTS, "num_experts": 6, "shared_expert_intermediate_size": 40, "rms_norm_eps": 1e-6,
        "rope_parameters": rope(1000.0)}),
    "qwen2moe-equal": ("qwen2moe", "Qwen2Moe", {
        **EXPERTS, "num_experts": 6, "shared_expert_intermediate_size": 24, "rms_norm_eps": 1e-6,
        "rope_parameters": rope(1000.0)}),
    "mixtral": ("llama", "Mixtral", {
        **EXPERTS, "num_local_experts": 4, "num_experts_per_tok": 2, "rms_norm_eps": 1e-5, "sliding_window": None,
        "rope_parameters": rope(1000.0)}),
    "olmoe": ("olmoe", "Olmoe", {
        **EXPERTS, "num_experts": 6, "rms_norm_eps": 1e-5, "rope_parameters": rope(1000.0)}),
    "granitemoe": ("granitemoe", "GraniteMoeShared", {
        **EXPERTS, "num_local_experts": 6, "shared_intermediate_size": 24, "rms_norm_eps": 1e-5, "embedding_multiplier": 6.0,
        "attention_multiplier": 0.6, "residual_multiplier": 0.7, "logits_scaling": 3.0, "rope_parameters": rope(1000.0)}),
    "ernie4_5-moe": ("ernie4_5-moe", "Ernie4_5_Moe", {
        **EXPERTS, "num_hidden_layers": 4, "head_dim": 16, "moe_num_experts": 6, "moe_k": 2, "moe_num_shared_experts": 2,
        "moe_layer_start_index": 1, "moe_layer_end_index": 3, "moe_layer_interval": 2, "rms_norm_eps": 1e-5,
        "rope_parameters": rope(1000.0)}),
    "hunyuan-moe": ("hunyuan-moe", "HunYuanMoEV1", {
        **EXPERTS, "head_dim": 16, "num_experts": 6, "moe_topk": 2, "rms_norm_eps": 1e-5, "rope_parameters": rope(1000.0)}),
    "dots1": ("dots1", "Dots1", {
        **EXPERTS, "head_dim": 16, "n_routed_experts": 8, "n_shared_experts": 2, "n_group": 4, "topk_group": 2,
        "first_k_dense_replace": 1, "norm_topk_prob": True, "routed_scaling_factor": 1.7, "rms_norm_eps": 1e-5,
        "rope_parameters": rope(1000.0)}),
    "glm4moe": ("glm4moe", "Glm4Moe", {
        **EXPERTS, "head_dim": 16, "n_routed_experts": 6, "n_shared_experts": 1, "first_k_dense_replace": 1,
        "routed_scaling_factor": 1.3, "attention_bias": True, "rms_norm_eps": 1e-5,
        "rope_parameters": rope(1000.0, partial_rotary_factor=0.5)}),
    "glm4moe-norms": ("glm4moe", "Glm4Moe", {
        **EXPERTS, "head_dim": 16, "n_routed_experts": 6, "n_shared_experts": 1, "first_k_dense_replace": 1,
        "attention_bias": True, "use_qk_norm": True, "rms_norm_eps": 1e-5,
        "rope_parameters": rope(1000.0, partial_rotary_factor=0.5)}),
    "minimax-m2": ("minimax-m2", "MiniMaxM2", {
        **EXPERTS, "head_dim": 16, "intermediate_size": 24, "num_local_experts": 6, "rms_norm_eps": 1e-6,
        "rope_parameters": rope(1000.0, partial_rotary_factor=0.5)}),
    "gpt-oss": ("gpt-oss", "GptOss", {
        **EXPERTS, "num_hidden_layers": 3, "head_dim": 16, "intermediate_size": 24, "num_local_experts": 6,
        "rms_norm_eps": 1e-5, "sliding_window": 11,
        "rope_parameters": rope(1000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=32, truncate=False)}),
    "qwen2vl": ("qwen2vl", "Qwen2VL", {
        **SMALL, "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
        "rope_parameters": rope(1000.0, mrope_section=[2, 1, 1])}),
    "qwen3vl": ("qwen3vl", "Qwen3VL", {
        **SMALL, "num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-6,
        "rope_parameters": rope(2000.0, mrope_section=[3, 3, 2])}),
    "qwen3vlmoe": ("qwen3vlmoe", "Qwen3VLMoe", {
        **EXPERTS, "head_dim": 16, "num_experts": 6, "rms_norm_eps": 1e-6,
        "rope_parameters": rope(1000.0, mrope_section=[3, 3, 2])}),
    "mistral3": ("mistral3", "Ministral3", {
        **SMALL, "num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-5,
        "rope_parameters": rope(1000.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=16, mscale=1.0,
                                mscale_all_dim=1.0, llama_4_scaling_beta=0.4)}),
    "lfm2": ("lfm2", "Lfm2", {
        **SMALL, "num_hidden_layers": 4, "num_key_value_heads": 2, "norm_eps": 1e-5, "block_auto_adjust_ff_dim": False,
        "layer_types": ["conv", "full_attention", "conv", "conv"], "rope_parameters": rope(1000.0)}),
    # No attention at all.
    "lfm2-conv": ("lfm2", "Lfm2", {
        **SMALL, "num_hidden_layers": 3, "num_key_value_heads": 2, "norm_eps": 1e-5, "block_auto_adjust_ff_dim": False,
        "conv_L_cache": 6, "layer_types": ["conv"] * 3, "tie_word_embeddings": False, "rope_parameters": rope(1000.0)}),
    "lfm2moe": ("lfm2moe", "Lfm2Moe", {
        **EXPERTS, "num_hidden_layers": 3, "num_experts": 6, "num_dense_layers": 1, "norm_eps": 1e-5,
        "routed_scaling_factor": 1.6, "layer_types": ["conv", "conv", "full_attention"], "rope_parameters": rope(1000.0)}),
    "deepseek-v3": ("deepseek2", "DeepseekV3", {
        **LATENT, "q_lora_rank": 40, "n_group": 4, "topk_group": 2, "norm_topk_prob": True,
        "rope_parameters": rope(1000.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=16, mscale=1.0,
                                mscale_all_dim=1.0)}),
    "deepseek-v2": ("deepseek2", "DeepseekV2", {
        **LATENT, "q_lora_rank": None, "topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2,
        "norm_topk_prob": False,
        "rope_parameters": rope(1000.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=16, mscale=0.707,
                                mscale_all_dim=0.707)}),
    "deepseek-v2-lite": ("deepseek2", "DeepseekV2", {
        **LATENT, "q_lora_rank": None, "topk_method": "greedy", "n_group": 1, "topk_group": 1, "norm_topk_prob": False,
        "n_shared_experts": 2, "attention_bias": True, "rope_parameters": rope(1000.0)}),
    "glm4-moe-lite": ("deepseek2", "Glm4MoeLite", {
        **LATENT, "q_lora_rank": 40, "n_group": 1, "topk_group": 1, "norm_topk_prob": True,
        "rope_parameters": rope(1000.0)}),
    # transformers does not contain Ling's own code. GLM-4.5 with head norms and without biases is the same graph.
    "bailingmoe2": ("bailingmoe2", "Glm4Moe", {
        **EXPERTS, "head_dim": 16, "n_routed_experts": 8, "n_shared_experts": 1, "n_group": 4, "topk_group": 2,
        "first_k_dense_replace": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5, "use_qk_norm": True,
        "rms_norm_eps": 1e-6, "rope_parameters": rope(1000.0, partial_rotary_factor=0.5)}),
    "mistral4": ("mistral4", "Mistral4", {
        **LATENT, "q_lora_rank": 40, "n_group": 1, "topk_group": 1, "norm_topk_prob": True,
        "rope_parameters": rope(1000.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=16, mscale=1.0,
                                mscale_all_dim=1.0, llama_4_scaling_beta=0.4)}),
    "falcon": ("falcon", "Falcon", {
        **SMALL, "num_hidden_layers": 2, "intermediate_size": 64, "ffn_hidden_size": 64, "num_key_value_heads": 1,
        "rope_parameters": rope(1000.0)}),
    # Falcon 40B: several KV heads, and a norm of its own for attention.
    "falcon-groups": ("falcon", "Falcon", {
        **SMALL, "num_hidden_layers": 2, "intermediate_size": 64, "ffn_hidden_size": 64, "num_key_value_heads": 2,
        "num_kv_heads": 2, "new_decoder_architecture": True, "tie_word_embeddings": False,
        "rope_parameters": rope(1000.0)}),
    "gpt2": ("gpt2", "GPT2", {**SMALL, "num_hidden_layers": 2, "intermediate_size": 64, "n_inner": 64}),
}
MODELS.update(golden_delta_net.models(EXPERTS, rope))
MODELS.update(golden_hy_glm.models(EXPERTS, LATENT, rope) | golden_newest.models(EXPERTS, LATENT, rope) | golden_newest.golden_gemma3n.models(SMALL, rope))
MODELS.update(mamba.MODELS | golden_gemma4.models(SMALL))
MODELS.update(golden_mtp.models(EXPERTS, LATENT, rope))

# Models with vision: their text part, whose parameters are under model.language_model.
SEEING = ("Qwen2VL", "Qwen3VL", "Qwen3VLMoe", "MuseGlimmer", "Step3p7")

# Older files of DeepSeek, in which K and V of a head have no tensors of their own.
JOINED_LATENT = ("deepseek-v2",)
LATENT_ARCHITECTURES = ("deepseek2", "mistral4", "glm-dsa", "deepseek32", "kimi-linear", "bailingmoe3")

# Architectures of which converters write these keys although readers could work them out.
NAMES_ROTATED = ("llama", "smollm3", "granite", "granitemoe", "granitehybrid", "mistral3", "cohere2", "llama4")
NAMES_VOCABULARY = (*NAMES_ROTATED, "exaone4", "nemotron", "lfm2", "lfm2moe", "deepseek2", "mistral4", "nemotron_h", "nemotron_h_moe", "deepseek32", "laguna", "kimi-linear", "bailingmoe3")

# Architectures whose converter joins Q, K and V.
JOINED_QKV = ("bailingmoe2",)

# Keys of experts: attribute of the configuration, or the value itself.
EXPERT_KEYS = {
    "qwen3moe": {"count": "num_local_experts"},
    "qwen2moe": {"count": "num_experts", "shared_feed_forward_length": "shared_expert_intermediate_size"},
    "llama": {"count": "num_local_experts", "feed_forward_length": None},
    "olmoe": {"count": "num_experts", "feed_forward_length": None},
    "granitemoe": {
        "count": "num_local_experts", "feed_forward_length": None, "shared_feed_forward_length": "shared_intermediate_size"},
    "ernie4_5-moe": {"count": "moe_num_experts", "used_count": "moe_k", "shared_count": "moe_num_shared_experts"},
    "hunyuan-moe": {
        "count": "num_experts", "used_count": "moe_topk", "shared_count": lambda _: 1, "feed_forward_length": "intermediate_size",
        "shared_feed_forward_length": "intermediate_size"},
    "dots1": {
        "count": "n_routed_experts", "shared_count": "n_shared_experts", "group_count": "n_group",
        "group_used_count": "topk_group", "weights_scale": "routed_scaling_factor", "weights_norm": "norm_topk_prob",
        "gating_func": 2},
    "glm4moe": {
        "count": "n_routed_experts", "shared_count": "n_shared_experts", "weights_scale": "routed_scaling_factor",
        "weights_norm": "norm_topk_prob", "gating_func": 2},
    "deepseek2": {
        "count": "n_routed_experts", "shared_count": "n_shared_experts", "group_count": "n_group",
        "group_used_count": "topk_group", "weights_scale": "routed_scaling_factor", "weights_norm": "norm_topk_prob",
        "gating_func": lambda config: None if config.model_type == "deepseek_v2" else 2},
    "mistral4": {
        "count": "n_routed_experts", "shared_count": "n_shared_experts", "weights_scale": "routed_scaling_factor",
        "weights_norm": "norm_topk_prob"},
    "bailingmoe2": {
        "count": "n_routed_experts", "shared_count": "n_shared_experts", "group_count": "n_group",
        "shared_feed_forward_length": "moe_intermediate_size", "group_used_count": "topk_group",
        "weights_scale": "routed_scaling_factor", "weights_norm": "norm_topk_prob", "gating_func": 2},
    "minimax-m2": {"count": "num_local_experts", "feed_forward_length": "intermediate_size", "gating_func": 2},
    "gpt-oss": {"count": "num_local_experts", "feed_forward_length": "intermediate_size"},
    "qwen3vlmoe": {"count": "num_experts"},
    "qwen3next": {"count": "num_experts", "shared_feed_forward_length": "shared_expert_intermediate_size"},
    "qwen35moe": {"count": "num_experts", "shared_feed_forward_length": "shared_expert_intermediate_size"},
    "lfm2moe": {
        "count": "num_experts", "weights_scale": "routed_scaling_factor", "weights_norm": "norm_topk_prob",
        "gating_func": 2},
}
EXPERT_KEYS.update(mamba.EXPERT_KEYS | golden_hy_glm.EXPERT_KEYS | golden_newest.EXPERT_KEYS)
LAYER_KEYS = {
    "first_k_dense_replace": "leading_dense_block_count", "moe_layer_start_index": "leading_dense_block_count",
    "moe_layer_interval": "interleave_moe_layer_step", "num_dense_layers": "leading_dense_block_count"}

# Architectures whose rows of Q and K the converter permutes, and architectures whose norms it stores with the formula's + 1.
PERMUTED = ("llama", "smollm3", "granite", "granitemoe", "granitehybrid", "mistral3", "muse-glimmer")
NORMS_FROM_ZERO = ("gemma", "gemma2", "gemma3", "qwen3next", "qwen35", "qwen35moe", "nemotron", "step35")

NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
    "self_attn.query_layernorm": "attn_q_norm", "self_attn.key_layernorm": "attn_k_norm",
    "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
    "post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm",
    "mlp.gate": "ffn_gate_inp", "mlp.gate.wg": "ffn_gate_inp", "block_sparse_moe.router": "ffn_gate_inp",
    "mlp.router": "ffn_gate_inp",
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "shared_mlp.output_linear": "ffn_down_shexp",
}
NAMES.update({
    "model.embedding_norm": "token_embd_norm", "operator_norm": "attn_norm", "ffn_norm": "ffn_norm",
    "self_attn.out_proj": "attn_output", "self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm",
    "conv.conv": "shortconv.conv", "conv.in_proj": "shortconv.in_proj", "conv.out_proj": "shortconv.out_proj",
    "feed_forward.w1": "ffn_gate", "feed_forward.w2": "ffn_down", "feed_forward.w3": "ffn_up",
    "feed_forward.gate": "ffn_gate_inp"})
# Falcon and GPT-2, under the names that named_weights gives them.
NAMES.update({
    "model.embed_positions": "position_embd", "ln_attn": "attn_norm_2", "ln_mlp": "attn_norm",
    "ln_1": "attn_norm", "ln_2": "ffn_norm", "self_attention.query_key_value": "attn_qkv",
    "self_attention.dense": "attn_output", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down",
    "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output"})
OLD_NAMES = {
    "transformer.h.": "model.layers.", "transformer.ln_f.": "model.norm.", "transformer.word_embeddings.": "model.embed_tokens.",
    "transformer.wte.": "model.embed_tokens.", "transformer.wpe.": "model.embed_positions.", "model.text_model.": "model."}
NAMES.update(golden_delta_net.NAMES | golden_gemma4.NAMES | golden_mtp.NAMES | mamba.NAMES | golden_newest.NAMES)
for shared in ("shared_expert", "shared_experts", "shared_mlp"):
    NAMES.update({f"mlp.{shared}.{part}_proj": f"ffn_{part}_shexp" for part in ("gate", "up", "down")})
# Architectures with a tensor post_attention_norm, which in Seed-OSS is not the norm after attention.
POST_ATTENTION = ("olmo2", "exaone4", "seed_oss", "gemma2", "gemma3", "glm4moe", "gpt-oss", "qwen3next", "qwen35",
                  "qwen35moe", "gemma4", "gemma3n", "muse-glimmer")
SEEING_PARTS = (*(f"model.{part}." for part in (
    "visual", "vision_tower", "vision_model", "multi_modal_projector", "connector", "embed_vision", "embed_audio")), *golden_newest.BLIND_PARTS)


def named_weights(model):
    for name, parameter in model.named_parameters():
        for old, new in OLD_NAMES.items():
            name = name.replace(old, new)
        if not name.startswith(SEEING_PARTS) and ".indexer." not in name:
            yield name.replace("model.language_model.", "model.").replace("backbone.", "model."), parameter
    yield from ((name.replace("model.language_model.", "model."), buffer) for name, buffer in model.named_buffers() if name.endswith((*CHOICE_BIAS, "layer_scalar")))


def spread(model, generator, norm_offset):
    """Random weights with which every part of the model matters."""
    for name, weight in named_weights(model):
        if name.endswith(CHOICE_BIAS):
            values = 0.3 * torch.randn(weight.shape, generator=generator)
        elif name.endswith(golden_gemma4.FACTORS):
            values = golden_gemma4.factor_of(name, weight) * (0.5 + torch.rand(weight.shape, generator=generator))
        elif (weight.dim() == 1 or ".self_attn." in name) and (name.endswith(("norm.weight", "norm_f.weight")) or ".ln_" in name and name.endswith(".weight")):
            offset = 0.0 if name.endswith("linear_attn.norm.weight") else norm_offset
            values = 0.5 + torch.rand(weight.shape, generator=generator) - offset
        elif weight.dim() == 1:
            values = 0.5 * torch.randn(weight.shape, generator=generator)
        elif any(part in name for part in ("embed_tokens", "embed_positions", "embeddings")):
            values = 0.5 * torch.randn(weight.shape, generator=generator)
        elif name.endswith("down_proj_bias"):
            values = 1.2 * torch.randn(weight.shape, generator=generator)
        elif hasattr(model.config, "swiglu_limit") and name.endswith("experts.gate_up_proj"):  # so that the limit is passed
            values = 5.0 / math.sqrt(weight.shape[1]) * torch.randn(weight.shape, generator=generator)
        else:
            gain = 2.5 if "lm_head" in name else 20.0 if "modality_router" in name else 1.5
            values = gain / math.sqrt(weight.shape[-1]) * torch.randn(weight.shape, generator=generator)
        weight.data.copy_(values)


def gguf_name(architecture, name):
    stem, suffix = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, layer, part = stem.split(".", 3)
        if part == "post_attention_layernorm" and architecture in POST_ATTENTION:
            return f"blk.{layer}.post_attention_norm.{suffix}"
        return f"blk.{layer}.{NAMES[part]}.{suffix}"
    return f"{NAMES[stem]}.{suffix}"


def tensors(architecture, name, config, model):
    """Those that the converter writes, Q, K and V joined where it joins them."""
    waiting = {}
    for target, values in single_tensors(architecture, name, config, model):
        part = target.split(".")[-2]
        if architecture in JOINED_QKV and part in ("attn_q", "attn_k", "attn_v"):
            waiting[part] = values
            if len(waiting) == 3:
                yield target.replace(part, "attn_qkv"), numpy.concatenate([waiting.pop(f"attn_{part}") for part in "qkv"])
            continue
        yield target, values


def single_tensors(architecture, name, config, model):
    joined = name in JOINED_LATENT
    for source, parameter in named_weights(model):
        values = golden_newest.adjusted(architecture, source, parameter.detach().numpy())
        if architecture == "falcon-h1":
            values = (values * mamba.factor_of(source, config)).astype(numpy.float32)
        if architecture in mamba.ARCHITECTURES and (part := mamba.converted(source, values, config)) or \
                architecture == "gemma4" and (part := golden_gemma4.converted(source, values)):
            yield part
            continue
        if "linear_attn." in source:
            yield from golden_delta_net.parts(architecture, name in golden_delta_net.JOINED, source, values, config)
            continue
        if parts := golden_newest.parts(architecture, source, values, config) or expert_parts(architecture, source, values):
            yield from ((mamba.dense_name(name, config), own) for name, own in parts)
            continue
        target = mamba.dense_name(gguf_name(architecture, source), config)
        if "attn_kv_b" in target and not joined:
            yield from latent_parts(target, values, config)
            continue
        if architecture == "falcon" and ".attn_qkv." in target:
            values = falcon_rows(values, config)
        if architecture == "gpt2" and source.startswith("model.layers.") and values.ndim == 2:
            values = values.swapaxes(0, 1)
        if architecture in PERMUTED and ".attn_q." in target:
            values = neighbours(values, config.num_attention_heads)
        if architecture in PERMUTED and ".attn_k." in target:
            values = neighbours(values, config.num_key_value_heads)
        if architecture in NORMS_FROM_ZERO and target.endswith("norm.weight"):
            values = values + 1.0
        if target.endswith("shortconv.conv.weight"):
            values = values[:, 0]
        yield target, values
    yield from golden_newest.extra(architecture, config)
    parameters = main_rope(config)
    if parameters["rope_type"] == "llama3":
        yield "rope_freqs.weight", llama3_factors(config)
    if parameters["rope_type"] == "proportional":
        yield "rope_freqs.weight", golden_gemma4.pair_factors(config)
    if parameters["rope_type"] == "longrope":
        for length in ("long", "short"):
            yield f"rope_factors_{length}.weight", numpy.array(parameters[f"{length}_factor"], dtype=numpy.float32)


def main_rope(config):
    """Of the layers that see everything, where layers differ."""
    parameters = getattr(config, "rope_parameters", None) or {"rope_type": "none"}
    return parameters.get("full_attention", parameters)


def metadata(architecture, name, config):
    heads = getattr(config, "num_attention_heads", 0)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // max(heads, 1)
    widths = mamba.feed_forward_widths(config)
    yield "general.architecture", STRING, architecture
    yield "general.name", STRING, name
    parameters = main_rope(config)
    latent = architecture in LATENT_ARCHITECTURES
    own = [
        ("block_count", U32, config.num_hidden_layers), ("context_length", U32, config.max_position_embeddings),
        ("embedding_length", U32, config.hidden_size),
        # Files of Qwen3.5 have no feed_forward_length if all layers have experts.
        *([("feed_forward_length", COUNTS if isinstance(widths, list) else U32, widths)] if architecture != "qwen35moe" else []),
        ("attention.head_count", U32, heads),
        ("attention.head_count_kv", U32, 1) if latent and name not in JOINED_LATENT else kv_heads(config),
        norm_epsilon(config),
    ]
    if "rope_theta" in parameters and architecture not in ("gemma", "gemma2"):
        own.append(("rope.freq_base", F32, parameters["rope_theta"]))
    if architecture in mamba.ARCHITECTURES:
        own += [(f"ssm.{key}", U32, value) for key, value in mamba.keys(config).items()]
    if architecture == "mamba":
        own.append(("ssm.dt_b_c_rms", BOOL, config.model_type == "falcon_mamba"))
    if architecture == "granitehybrid":
        own.append(("rope.scaling.finetuned", BOOL, config.position_embedding_type == "rope"))
    if hasattr(config, "linear_num_key_heads"):
        own += golden_delta_net.keys(config, U32)
    if latent:
        own += latent_keys(name in JOINED_LATENT, config)
    elif heads > 0 and (getattr(config, "head_dim", None) or head_dim * heads != config.hidden_size):
        own += [("attention.key_length", U32, head_dim), ("attention.value_length", U32, head_dim)]
    if architecture in NAMES_VOCABULARY:
        own.append(("vocab_size", U32, config.vocab_size))
    if architecture in NAMES_ROTATED:
        own.append(("rope.dimension_count", U32, head_dim))
    if architecture in ("command-r", "cohere2", "nemotron"):
        own.append(("rope.scaling.type", STRING, "none"))
    if "partial_rotary_factor" in parameters and not latent:
        own.append(("rope.dimension_count", U32, int(head_dim * parameters["partial_rotary_factor"])))
    own += [*windows(architecture, config), *golden_newest.keys(architecture, config, U32, F32, COUNTS, BOOLS)]
    for attribute, key in FACTORS.get(architecture, {}).items():
        own.append((key, F32, getattr(config, attribute)))
    if hasattr(config, "conv_L_cache"):
        own.append(("shortconv.l_cache", U32, config.conv_L_cache))
    own += expert_keys(architecture, config)
    own += golden_hy_glm.indexer_keys(config, U32)
    own.append(("moe_latent_size", U32, getattr(config, "moe_latent_size", None)))
    own.append(("nextn_predict_layers", U32, 1 if name.startswith(golden_mtp.FOLDER) else None))
    if architecture == "gemma4":
        own = golden_gemma4.described(own, config)
    kind = parameters["rope_type"]
    if kind in ("linear", "yarn"):
        own += [("rope.scaling.type", STRING, kind), ("rope.scaling.factor", F32, parameters["factor"])]
    if kind in ("yarn", "longrope"):
        original = parameters["original_max_position_embeddings"]
        own.append(("rope.scaling.original_context_length", U32, original))
    if "mrope_section" in parameters:
        own.append(("rope.dimension_sections", COUNTS, [*parameters["mrope_section"], 0]))
    if parameters.get("mscale_all_dim") and not latent:
        own.append(("rope.scaling.yarn_log_multiplier", F32, parameters["mscale_all_dim"]))
    if "llama_4_scaling_beta" in parameters:
        own.append(("attention.temperature_scale", F32, parameters["llama_4_scaling_beta"]))
    if kind == "yarn" and "attention_factor" in parameters:
        own.append(("rope.scaling.yarn_attn_factor", F32, parameters["attention_factor"]))
    if kind == "longrope":
        stretch = config.max_position_embeddings / original
        own.append(("rope.scaling.attn_factor", F32, math.sqrt(1.0 + math.log(stretch) / math.log(original))))
    for key, kind, value in {entry[0]: entry for entry in own}.values():
        if value is not None:
            yield f"{architecture}.{key}", kind, value


def expert_keys(architecture, config):
    may_be_dense = architecture in ("llama", "granitehybrid")
    if architecture not in EXPERT_KEYS or may_be_dense and not getattr(config, "num_local_experts", 0):
        return
    keys = {"used_count": "num_experts_per_tok", "feed_forward_length": "moe_intermediate_size", **EXPERT_KEYS[architecture]}
    for key, source in keys.items():
        value = getattr(config, source) if isinstance(source, str) else source
        value = value(config) if callable(value) else value
        if value is not None:
            yield f"expert_{key}", {bool: BOOL, float: F32, int: U32}[type(value)], value
    for attribute, key in LAYER_KEYS.items():
        if hasattr(config, attribute):
            yield key, U32, getattr(config, attribute)


FACTORS = {
    "granitehybrid": mamba.GRANITE_FACTORS, "granite": mamba.GRANITE_FACTORS, "granitemoe": mamba.GRANITE_FACTORS,
    "command-r": {"logit_scale": "logit_scale"},
    "cohere2": {"logit_scale": "logit_scale"},
    "gemma2": {
        "attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping": "final_logit_softcapping"},
}


def make_config(family, config_class, own):
    if family not in SEEING:
        return getattr(transformers, config_class)(**own)
    blind = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "embed_dim": 16,
             "out_hidden_size": own["hidden_size"]}
    return getattr(transformers, config_class)(text_config=own, vision_config=golden_newest.BLIND.get(family, blind))


def build(name, architecture, family, own):
    """The model with random weights, and the configuration of its text part."""
    config_class = family + ("TextConfig" if family in ("Gemma3", "Gemma3n", "Gemma4", "Llama4", "Qwen3_5", "Qwen3_5Moe") else "Config")
    config = make_config(family, config_class, {**SIZES, **own})
    config._attn_implementation = "eager"
    model_class = family + ("ForConditionalGeneration" if family in SEEING else "LMHeadModel" if family == "GPT2" else "ForCausalLM")
    model = getattr(transformers, model_class)(config).float().eval()
    if name.startswith(golden_mtp.FOLDER):
        golden_mtp.attach(name, model)
    generator = torch.Generator().manual_seed(seed_of(name))
    spread(model, generator, 1.0 if architecture in NORMS_FROM_ZERO else 0.0)
    return model, config.text_config if family in SEEING else config, generator


def make(folder, name):
    architecture, family, own = MODELS[name]
    model, config, generator = build(name, architecture, family, own)
    ids = torch.randint(0, config.vocab_size, (1, TOKENS), generator=generator)
    with torch.no_grad():
        of_mtp = name.startswith(golden_mtp.FOLDER)
        logits = (golden_mtp.logits(model, ids) if of_mtp else model(ids, use_cache=False).logits)[0].numpy()
    pairs, weights = list(metadata(architecture, name, config)), list(tensors(architecture, name, config, model))
    write_gguf(folder / f"{name}.gguf", pairs, weights)
    golden = struct.pack("<II", TOKENS, config.vocab_size) + ids[0].numpy().astype("<i4").tobytes()
    (folder / f"{name}.logits").write_bytes(golden + logits.astype("<f4").tobytes())
    top = numpy.sort(logits, axis=1)
    print(f"{name:15} logits spread {logits.std():.2f}, closest first and second {(top[:, -1] - top[:, -2]).min():.4f}")


def main():
    folder = pathlib.Path(sys.argv[1])
    (folder / golden_mtp.FOLDER).mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        if name in sys.argv[2:] or len(sys.argv) == 2:
            make(folder, name)


if __name__ == "__main__":
    main()
