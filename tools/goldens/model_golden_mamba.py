"""What tools/goldens/model_golden.py knows of models with layers of Mamba and Mamba-2: configurations, names, and what their converter does."""
import numpy

EXPERTS = {
    "hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts_per_tok": 3,
    "moe_intermediate_size": 24, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GRANITE_HYBRID = {
    **EXPERTS, "num_hidden_layers": 3, "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 12, "mamba_chunk_size": 16, "rms_norm_eps": 1e-5,
    "embedding_multiplier": 6.0, "attention_multiplier": 0.6, "residual_multiplier": 0.7, "logits_scaling": 3.0,
    "shared_intermediate_size": 40, "rope_parameters": {"rope_theta": 1000.0, "rope_type": "default"}}
# Time steps have no lower bound, because a file has no key for one.
NEMOTRON_H = {
    **EXPERTS, "head_dim": 16, "intermediate_size": 40, "mamba_num_heads": 4, "mamba_head_dim": 16, "ssm_state_size": 12,
    "n_groups": 2, "chunk_size": 16, "time_step_min": 1e-9}

# Layers of Mamba: a state size that is no multiple of a vector's width, and taps and ranks of their own.
MAMBA = {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 12, "time_step_rank": 6, "conv_kernel": 3}
JAMBA = {
    **EXPERTS, "num_hidden_layers": 4, "attn_layer_period": 3, "attn_layer_offset": 1, "expert_layer_period": 2,
    "expert_layer_offset": 1, "mamba_d_state": 8, "mamba_dt_rank": 5, "rms_norm_eps": 1e-5}

# Attention and Mamba-2 beside each other, with a factor everywhere.
FALCON_H1 = {
    **EXPERTS, "num_hidden_layers": 2, "head_dim": 16, "mamba_d_ssm": 48, "mamba_n_heads": 4, "mamba_d_head": 12,
    "mamba_d_state": 12, "mamba_n_groups": 2, "mamba_d_conv": 3, "mamba_chunk_size": 16, "rms_norm_eps": 1e-5,
    "mamba_norm_before_gate": False, "lm_head_multiplier": 0.4, "embedding_multiplier": 3.0, "mlp_multipliers": [0.8, 1.3],
    "key_multiplier": 0.7, "attention_out_multiplier": 1.2, "attention_in_multiplier": 0.9,
    "ssm_multipliers": [0.9, 1.1, 1.2, 0.8, 1.3], "ssm_in_multiplier": 1.1, "ssm_out_multiplier": 0.8,
    "rope_parameters": {"rope_theta": 1000.0, "rope_type": "default"}}

MODELS = {
    "mamba": ("mamba", "Mamba", {**MAMBA, "pad_token_id": 0}),
    "mamba-falcon": ("mamba", "FalconMamba", {**MAMBA, "tie_word_embeddings": False}),
    "jamba": ("jamba", "Jamba", {**JAMBA, "num_experts": 4, "num_experts_per_tok": 2}),
    "mamba2": ("mamba2", "Mamba2", {
        "hidden_size": 32, "num_hidden_layers": 3, "num_heads": 4, "head_dim": 16, "state_size": 20, "n_groups": 2,
        "conv_kernel": 5, "chunk_size": 16}),
    "falcon-h1": ("falcon-h1", "FalconH1", FALCON_H1),
    "falcon-h1-norm": ("falcon-h1", "FalconH1", {**FALCON_H1, "mamba_rms_norm": True}),
    "granitehybrid": ("granitehybrid", "GraniteMoeHybrid", {**GRANITE_HYBRID, "num_local_experts": 6}),
    "granitehybrid-dense": ("granitehybrid", "GraniteMoeHybrid", {
        **GRANITE_HYBRID, "num_local_experts": 0, "position_embedding_type": "rope", "mamba_n_groups": 2,
        "mamba_d_conv": 3, "mamba_proj_bias": True, "mamba_conv_bias": False}),
    # A layer is one part. The last layer is a feed-forward part here, and Mamba-2 in the next model.
    "nemotron_h": ("nemotron_h", "NemotronH", {
        **NEMOTRON_H, "layers_block_type": ["linear_attention", "mlp", "full_attention", "linear_attention", "mlp"]}),
    "nemotron_h_moe": ("nemotron_h_moe", "NemotronH", {
        **NEMOTRON_H, "layers_block_type": ["linear_attention", "moe", "full_attention", "moe", "linear_attention"],
        "n_routed_experts": 6, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "routed_scaling_factor": 1.6,
        "moe_shared_expert_intermediate_size": 40}),
    # Nemotron 3 Super: experts work on latents. The shared one is as wide as they are.
    "nemotron_h_moe-latent": ("nemotron_h_moe", "NemotronH", {
        **NEMOTRON_H, "layers_block_type": ["linear_attention", "moe", "full_attention", "moe"],
        "n_routed_experts": 6, "num_experts_per_tok": 3, "routed_scaling_factor": 1.6, "moe_latent_size": 20,
        "moe_shared_expert_intermediate_size": 24}),
}
FIRST = ("mamba", "jamba")  # of Mamba, not Mamba-2
ARCHITECTURES = (*FIRST, "mamba2", "falcon-h1", "granitehybrid", "nemotron_h", "nemotron_h_moe")

EXPERT_KEYS = {
    "jamba": {"count": "num_experts", "feed_forward_length": None},
    "granitehybrid": {
        "count": "num_local_experts", "feed_forward_length": None, "shared_feed_forward_length": "shared_intermediate_size"},
    "nemotron_h_moe": {
        "count": "n_routed_experts", "shared_count": "n_shared_experts", "weights_scale": "routed_scaling_factor",
        "weights_norm": "norm_topk_prob", "group_count": "n_group", "group_used_count": "topk_group",
        "shared_feed_forward_length": "moe_shared_expert_intermediate_size"},
}
GRANITE_FACTORS = {
    "embedding_multiplier": "embedding_scale", "attention_multiplier": "attention.scale",
    "residual_multiplier": "residual_scale", "logits_scaling": "logit_scale"}

NAMES = {
    "model.embeddings": "token_embd", "model.norm_f": "output_norm", "norm": "attn_norm", "mixer.gate": "ffn_gate_inp",
    "mixer.o_proj": "attn_output"}
for mixer in ("mixer", "mamba"):
    NAMES.update({
        f"{mixer}.in_proj": "ssm_in", f"{mixer}.conv1d": "ssm_conv1d", f"{mixer}.norm": "ssm_norm", f"{mixer}.out_proj": "ssm_out",
        f"{mixer}.x_proj": "ssm_x", f"{mixer}.dt_proj": "ssm_dt", f"{mixer}.dt_layernorm": "ssm_dt_norm",
        f"{mixer}.b_layernorm": "ssm_b_norm", f"{mixer}.c_layernorm": "ssm_c_norm"})
NAMES.update({f"feed_forward.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")})
NAMES.update({"feed_forward.router": "ffn_gate_inp", "pre_ff_layernorm": "ffn_norm", "model.final_layernorm": "output_norm"})
NAMES.update({"mixer.fc1_latent_proj": "ffn_latent_down", "mixer.fc2_latent_proj": "ffn_latent_up"})
NAMES.update({f"mixer.{part}_proj": f"attn_{part}" for part in "qkv"})
NAMES.update({f"mixer.{part}_proj": f"ffn_{part}" for part in ("up", "down")})
NAMES.update({f"mixer.shared_experts.{part}_proj": f"ffn_{part}_shexp" for part in ("up", "down")})


def factor_of(name, config):
    """The factor of the model by which Falcon-H1's converter multiplies a parameter's rows, a number or one for each."""
    part = name.split(".")[-2]
    if part == "in_proj":
        widths = [config.mamba_d_ssm] * 2 + [config.mamba_n_groups * config.mamba_d_state] * 2 + [config.mamba_n_heads]
        return config.ssm_in_multiplier * numpy.repeat(config.ssm_multipliers, widths)[:, None]
    into = config.attention_in_multiplier
    return {
        "lm_head": config.lm_head_multiplier, "embed_tokens": config.embedding_multiplier, "q_proj": into, "v_proj": into,
        "k_proj": into * config.key_multiplier, "o_proj": config.attention_out_multiplier,
        "gate_proj": config.mlp_multipliers[0], "down_proj": config.mlp_multipliers[1],
        "out_proj": config.ssm_out_multiplier}.get(part, 1.0)


def converted(name, values, config):
    """One parameter of a Mamba-2 mixer as the converter stores it, or nothing for what it keeps."""
    stem, suffix = name.rsplit(".", 1)
    layer = f"blk.{stem.split('.')[2]}" if stem.startswith("model.layers.") else ""
    if suffix == "dt_bias":
        return f"{layer}.ssm_dt.bias", values
    if suffix == "A_log":
        return f"{layer}.ssm_a", -numpy.exp(values if values.ndim == 2 else values[:, None])
    if suffix == "D":
        return f"{layer}.ssm_d", values if is_first(config) else values[:, None]
    if name.endswith("conv1d.weight"):
        return f"{layer}.ssm_conv1d.weight", values[:, 0]
    if config.model_type == "falcon_h1" and name.endswith(".pre_ff_layernorm.weight"):
        return f"{layer}.ffn_norm", values
    if name.endswith((".mixer.norm.weight", ".mamba.norm.weight")):
        return f"{layer}.ssm_norm.weight", values.reshape(keys(config)["group_count"], -1)
    return None


def is_first(config):
    return config.model_type in ("mamba", "falcon_mamba", "jamba")


def first_keys(config):
    """Keys of Mamba."""
    of_jamba = config.model_type == "jamba"
    return {
        "conv_kernel": config.mamba_d_conv if of_jamba else config.conv_kernel,
        "inner_size": config.mamba_expand * config.hidden_size if of_jamba else config.intermediate_size,
        "state_size": config.mamba_d_state if of_jamba else config.state_size,
        "time_step_rank": config.mamba_dt_rank if of_jamba else config.time_step_rank}


def keys(config):
    if is_first(config):
        return first_keys(config)
    of_granite = config.model_type in ("granitemoehybrid", "falcon_h1")
    heads = config.mamba_n_heads if of_granite else getattr(config, "mamba_num_heads", None) or config.num_heads
    head_dim = config.mamba_d_head if of_granite else getattr(config, "mamba_head_dim", None) or config.head_dim
    return {
        "conv_kernel": config.mamba_d_conv if of_granite else config.conv_kernel, "inner_size": heads * head_dim,
        "state_size": config.mamba_d_state if of_granite else getattr(config, "ssm_state_size", None) or config.state_size,
        "time_step_rank": heads, "group_count": config.mamba_n_groups if of_granite else config.n_groups}


def dense_name(name, config):
    """Without experts a shared one is the whole feed-forward part."""
    return name.replace("_shexp", "") if getattr(config, "num_local_experts", None) == 0 else name


def feed_forward_widths(config):
    """For each layer, or of all. None in layers that are another part."""
    if config.model_type == "nemotron_h":
        return [config.intermediate_size if kind in ("mlp", "moe") else 0 for kind in config.layer_types]
    if config.model_type in ("mamba", "falcon_mamba", "mamba2"):
        return 0
    if hasattr(config, "intermediate_size_mlp"):  # Llama 4, where the other one is that of experts
        return config.intermediate_size_mlp
    is_shared = getattr(config, "num_local_experts", None) == 0
    return config.shared_intermediate_size if is_shared else config.intermediate_size
