"""What tools/goldens/model_golden.py knows of Llama 4, Laguna, Muse Glimmer, DeepSeek V3.2, Step 3.5, Kimi Linear, Ling 3 and Gemma 3n."""
import numpy

import golden_gemma3n
from model_golden_parts import BOOL, NUMBERS


def models(experts, latent, rope):
    llama4 = {**experts, "num_hidden_layers": 4, "num_experts_per_tok": 1, "head_dim": 16, "attention_chunk_size": 16,
              "floor_scale": 8, "attn_scale": 0.3, "rms_norm_eps": 1e-5}
    llama3 = rope(500.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=64)
    laguna = {**experts, "num_experts": 4, "num_experts_per_tok": 2, "head_dim": 16, "moe_intermediate_size": 16,
              "shared_expert_intermediate_size": 16, "moe_routed_scaling_factor": 1.6, "rms_norm_eps": 1e-6}
    full, windowed = "full_attention", "sliding_attention"
    return {
        # Scout: all layers have experts, heads are normalised.
        "llama4": ("llama4", "Llama4", {
            **llama4, "num_local_experts": 4, "intermediate_size": 24, "intermediate_size_mlp": 40,
            "interleave_moe_layer_step": 1, "rope_parameters": llama3}),
        # Maverick: told by its 128 experts, which not all layers have; no norm of heads.
        "llama4-128": ("llama4", "Llama4", {
            **llama4, "num_local_experts": 128, "intermediate_size": 4, "intermediate_size_mlp": 24,
            "interleave_moe_layer_step": 4, "use_qk_norm": False, "rope_parameters": rope(1000.0)}),
        # Laguna XS: windows, other heads in them, a gate for each head.
        "laguna": ("laguna", "Laguna", {
            **laguna, "num_hidden_layers": 5, "num_attention_heads_per_layer": [4, 8, 8, 8, 4], "sliding_window": 11,
            "layer_types": [full, windowed, windowed, windowed, full],
            "rope_parameters": {
                full: rope(1000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=32,
                           partial_rotary_factor=0.5),
                windowed: rope(300.0)}}),
        # Laguna M: no windows, a gate for each element.
        "laguna-m": ("laguna", "Laguna", {
            **laguna, "gating": "per-element", "sliding_window": 0,
            "rope_parameters": {full: rope(1000.0, partial_rotary_factor=0.5)}}),
        "muse-glimmer": ("muse-glimmer", "MuseGlimmer", {
            "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 11, "final_logit_softcapping": 5.0,
            "output_multiplier": 0.6, "qk_scale_factor": 1.7, "rms_norm_eps": 1e-5, "bos_token_id": 1, "eos_token_id": 2,
            "pad_token_id": 0, "rope_parameters": rope(1000.0)}),
        # Other heads and another rotation in windows; SwiGLUs with a limit of routed experts, of shared ones, of both and
        # of a dense part.
        "step35": ("step35", "Step3p7", {
            **{key: value for key, value in experts.items() if key != "num_hidden_layers"}, "num_hidden_layers": 5,
            "allow_global_per_layer_attribute_access": True, "num_sliding_attention_heads": 8, "head_dim": 16, "sliding_window": 11, "num_local_experts": 6,
            "n_routed_experts": 6, "moe_intermediate_size": 16, "share_expert_dim": 24, "moe_router_scaling_factor": 1.6,
            "layer_types": [full, windowed, windowed, windowed, full], "mlp_layer_types": ["dense"] + ["sparse"] * 4,
            "swiglu_limits": [None, None, 0.9, None, 0.6], "swiglu_limits_shared": [0.8, None, None, 1.1, 0.7],
            "rms_norm_eps": 1e-5, "rope_parameters": {
                full: {**llama3, "partial_rotary_factor": 0.5}, windowed: rope(300.0, partial_rotary_factor=1.0)}}),
        # Two delta nets with decays of keys, and latent attention without rotation.
        "kimi-linear": ("kimi-linear", "KimiLinear", {
            **{key: value for key, value in latent.items() if key not in ("n_routed_experts", "first_k_dense_replace")},
            "num_hidden_layers": 3, "num_local_experts": 8, "n_group": 1, "topk_group": 1, "norm_topk_prob": True,
            "layer_types": ["linear_attention", full, "linear_attention"], "mlp_layer_types": ["dense", "sparse", "sparse"],
            "linear_num_heads": 4, "linear_head_dim": 12, "linear_conv_kernel_dim": 4}),
        # Decays with a floor, gates without products between, latent attention that turns and has gates of heads.
        "bailingmoe3": ("bailingmoe3", "BailingHybrid", {
            **{key: value for key, value in latent.items() if key != "n_routed_experts"}, "num_hidden_layers": 3,
            "num_local_experts": 8, "n_group": 4, "topk_group": 2, "norm_topk_prob": True, "q_lora_rank": 40, "head_dim": 12,
            "layer_group_size": 3, "kda_lower_bound": -3.0, "num_mtp_layers": 0, "rope_parameters": rope(1000.0)}),
        # The indexer chooses as many positions as there are.
        "deepseek32": ("deepseek32", "DeepseekV32", {
            **latent, "q_lora_rank": 40, "n_group": 4, "topk_group": 2, "norm_topk_prob": True, "index_topk": 64,
            "index_head_dim": 32, "index_n_heads": 2,
            "rope_parameters": rope(1000.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=16, mscale=1.0,
                                    mscale_all_dim=1.0)})}


# The image encoder of a model of which the text part alone is used.
BLIND = {"MuseGlimmer": {
    "num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2,
    "layer_types": ["full_attention"]},
    "Step3p7": {"num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}}
BLIND_PARTS = ("model.vision_adapter.", "model.vision_projection.")

NAMES = {
    "feed_forward.router": "ffn_gate_inp", "feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up",
    "feed_forward.down_proj": "ffn_down", "self_attn.g_proj": "attn_gate", "self_attn.gate_proj": "attn_gate"}
NAMES.update(golden_gemma3n.NAMES)
NAMES.update({
    "self_attn.forget_gate.f_proj": "ssm_f_a", "self_attn.forget_gate.f_a_proj": "ssm_f_a", "self_attn.forget_gate.f_b_proj": "ssm_f_b", "self_attn.b_proj": "ssm_beta",
    "self_attn.g_a_proj": "ssm_g_a", "self_attn.g_b_proj": "ssm_g_b", "self_attn.o_norm": "ssm_norm"})
NAMES.update({f"feed_forward.shared_expert.{part}_proj": f"ffn_{part}_shexp" for part in ("gate", "up", "down")})

EXPERT_KEYS = {
    "llama4": {"count": "num_local_experts", "feed_forward_length": "intermediate_size"},
    "laguna": {
        "count": "num_experts", "shared_feed_forward_length": "shared_expert_intermediate_size", "weights_norm": lambda _: True,
        "weights_scale": "moe_routed_scaling_factor", "gating_func": 2},
    "step35": {
        "count": "num_local_experts", "shared_feed_forward_length": "share_expert_dim", "weights_norm": lambda _: True,
        "weights_scale": "moe_router_scaling_factor"},
    "kimi-linear": {
        "count": "num_local_experts", "shared_count": "n_shared_experts", "group_used_count": "topk_group",
        "weights_scale": "routed_scaling_factor", "gating_func": 2},
    "bailingmoe3": {
        "count": "num_local_experts", "shared_count": "n_shared_experts", "group_count": "n_group", "group_used_count": "topk_group",
        "shared_feed_forward_length": "moe_intermediate_size", "weights_scale": "routed_scaling_factor",
        "weights_norm": "norm_topk_prob", "gating_func": 2},
    "deepseek32": {
        "count": "n_routed_experts", "shared_count": "n_shared_experts", "group_count": "n_group",
        "group_used_count": "topk_group", "weights_scale": "routed_scaling_factor", "weights_norm": "norm_topk_prob",
        "gating_func": 2}}


def adjusted(architecture, name, values):
    """A parameter as the converter turns it."""
    if architecture == "llama4" and ".experts." in name:
        return values.swapaxes(1, 2)
    return values + 1.0 if architecture == "muse-glimmer" and name.endswith("layernorm.weight") else values


def parts(architecture, name, values, config):
    """A parameter that has no name of its own in the file as the tensors that the converter makes of it, or nothing."""
    if architecture == "gemma3n":
        return golden_gemma3n.parts(name, values)
    if architecture not in ("kimi-linear", "bailingmoe3"):
        return []
    layer, part = ".".join(["blk", *name.split(".")[2:3]]), name.split(".")[-2:]
    if part[1] == "A_log":
        return [(f"{layer}.ssm_a", -numpy.exp(values) if architecture == "kimi-linear" else numpy.exp(values).reshape(-1, 1))]
    if part[1] == "dt_bias":
        return [(f"{layer}.ssm_dt.bias", values)]
    if part[0] == "g_proj" and values.shape[0] > config.num_attention_heads:
        return [(f"{layer}.ssm_g_a.weight", values)]
    if part[0] == "conv1d":
        return [(f"{layer}.ssm_conv1d_{of}.weight", own.reshape(1, -1, 1, own.shape[-1])) for of, own in zip("qkv", numpy.split(values, 3))]
    return []


def extra(architecture, config):
    """Tensors that the converter makes of the configuration: the factor of scores as weights of norms. It leaves K's at 1;
    here both have a part, so that a missing norm shows."""
    if architecture == "muse-glimmer":
        for layer in range(config.num_hidden_layers):
            for head, factor in (("q", config.qk_scale_factor / 2), ("k", 2.0)):
                yield f"blk.{layer}.attn_{head}_norm.weight", numpy.full(config.head_dim, factor, dtype=numpy.float32)


def keys(architecture, config, u32, f32, counts, bools):
    if architecture == "llama4":
        yield "interleave_moe_layer_step", u32, config.interleave_moe_layer_step
        yield "attention.sliding_window", u32, config.attention_chunk_size
        yield "attention.temperature_scale", f32, config.attn_scale
        yield "attention.temperature_length", u32, config.floor_scale
    if architecture == "laguna":
        yield "attention.head_count", counts, config.num_attention_heads_per_layer
        yield "leading_dense_block_count", u32, 1
        if windowed := config.rope_parameters.get("sliding_attention"):
            yield "rope.freq_base_swa", f32, windowed["rope_theta"]
            yield "rope.dimension_count_swa", u32, config.head_dim
    if architecture == "step35":
        windowed = [kind == "sliding_attention" for kind in config.layer_types]
        yield "attention.head_count", counts, [config.per_layer_config[layer].num_attention_heads for layer in range(len(windowed))]
        yield "attention.head_count_kv", counts, [config.num_key_value_heads] * len(windowed)
        yield "attention.sliding_window_pattern", bools, windowed
        yield "rope.freq_base_swa", f32, config.rope_parameters["sliding_attention"]["rope_theta"]
        yield "rope.dimension_count", u32, None  # readers halve the head's length in layers without a window
        yield "leading_dense_block_count", u32, config.mlp_layer_types.index("sparse")
        yield "moe_every_n_layers", u32, 1
        for key, limits in (("exp", config.swiglu_limits), ("shexp", config.swiglu_limits_shared)):
            yield f"swiglu_clamp_{key}", NUMBERS, [limit or 0.0 for limit in limits]
    if architecture == "bailingmoe3":
        yield "attention.value_length", u32, config.linear_head_dim
        yield "kda.safe_gate", BOOL, True
        yield "kda.gate_lower_bound", f32, config.kda_lower_bound
    if architecture == "kimi-linear":
        yield "rope.freq_base", f32, 10000.0  # released configurations name one, although nothing turns
        yield "attention.value_length", u32, config.head_dim
    if architecture in ("kimi-linear", "bailingmoe3"):
        yield "attention.head_count_kv", counts, [int(kind == "full_attention") for kind in config.layer_types]
        yield "kda.head_dim", u32, config.linear_head_dim
        yield "ssm.conv_kernel", u32, config.linear_conv_kernel_dim
        yield "leading_dense_block_count", u32, config.mlp_layer_types.index("sparse")
    if architecture == "gemma3n":
        yield from golden_gemma3n.keys(config, u32, f32, counts, bools, NUMBERS)
    if architecture == "muse-glimmer":
        yield "attention.sliding_window_pattern", bools, [kind == "sliding_attention" for kind in config.layer_types]
        yield "logit_scale", f32, config.output_multiplier
        yield "final_logit_softcapping", f32, config.final_logit_softcapping
