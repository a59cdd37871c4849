"""Gated delta nets (Qwen3-Next, Qwen3.5) as converters write them, for model_golden.py."""
import numpy

NAMES = {
    "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate", "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.in_proj_ba": "ssm_ba", "linear_attn.in_proj_qkvz": "ssm_in",
    "linear_attn.conv1d": "ssm_conv1d", "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out"}

# Older files of Qwen3-Next, in which the gates of the output have no tensor of their own.
JOINED = ("qwen3next-joined",)


def models(experts, rope):
    """Entries of MODELS."""
    own = {
        **experts, "num_hidden_layers": 3, "head_dim": 16, "rms_norm_eps": 1e-6, "full_attention_interval": 2,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"], "linear_num_key_heads": 2,
        "linear_num_value_heads": 6, "linear_key_head_dim": 8, "linear_value_head_dim": 12}
    return {
        "qwen3next": ("qwen3next", "Qwen3Next", {
            **own, "num_experts": 6, "shared_expert_intermediate_size": 20,
            "rope_parameters": rope(1000.0, partial_rotary_factor=0.5)}),
        "qwen3next-joined": ("qwen3next", "Qwen3Next", {
            **own, "num_experts": 6, "shared_expert_intermediate_size": 20, "linear_conv_kernel_dim": 3,
            "rope_parameters": rope(1000.0, partial_rotary_factor=0.5)}),
        "qwen35": ("qwen35", "Qwen3_5", {
            **own, "linear_conv_kernel_dim": 5,
            "rope_parameters": rope(1000.0, partial_rotary_factor=0.5, mrope_section=[2, 1, 1])}),
        "qwen35moe": ("qwen35moe", "Qwen3_5Moe", {
            **own, "num_experts": 6, "shared_expert_intermediate_size": 20,
            "rope_parameters": rope(1000.0, partial_rotary_factor=0.5, mrope_section=[2, 1, 1])}),
    }


def tiled(values, config, row):
    """Value heads from those of a key head side by side to those of different key heads; each has `row` rows."""
    keys = config.linear_num_key_heads
    return values.reshape(keys, -1, row, *values.shape[1:]).swapaxes(0, 1).reshape(values.shape)


def parts(architecture, joined, source, values, config):
    """A parameter of a gated delta net as the tensors that the converter makes of it; `joined` as older ones did."""
    layer, part = f"blk.{source.split('.')[2]}", source.split("linear_attn.")[1]
    keys, key_dim, value_dim = config.linear_num_key_heads, config.linear_key_head_dim, config.linear_value_head_dim
    qk_rows = 2 * keys * key_dim
    reorder = (lambda rows, row: tiled(rows, config, row)) if architecture != "qwen3next" else (lambda rows, row: rows)
    if part == "A_log":
        return [(f"{layer}.ssm_a", reorder(-numpy.exp(values), 1))]
    if part == "dt_bias":
        return [(f"{layer}.ssm_dt.bias", reorder(values, 1))]
    if part == "in_proj_qkvz.weight" and not joined:
        groups = values.reshape(keys, -1, values.shape[-1])
        own = (groups.shape[1] - 2 * key_dim) // 2
        bounds = [0, key_dim, 2 * key_dim, 2 * key_dim + own, 2 * key_dim + 2 * own]
        q, k, v, z = (groups[:, a:b].reshape(-1, values.shape[-1]) for a, b in zip(bounds, bounds[1:]))
        return [(f"{layer}.attn_qkv.weight", numpy.concatenate([q, k, v])), (f"{layer}.attn_gate.weight", z)]
    if part == "conv1d.weight":
        values = values[:, 0]
    if part in ("conv1d.weight", "in_proj_qkv.weight"):
        values = numpy.concatenate([values[:qk_rows], reorder(values[qk_rows:], value_dim)])
    if part == "in_proj_z.weight":
        values = reorder(values, value_dim)
    if part in ("in_proj_a.weight", "in_proj_b.weight"):
        values = reorder(values, 1)
    if part == "out_proj.weight":
        values = reorder(values.T, value_dim).T
    return [(f"{layer}.{NAMES['linear_attn.' + part.split('.')[0]]}.weight", values)]


def keys(config, count):
    yield "ssm.conv_kernel", count, config.linear_conv_kernel_dim
    yield "ssm.state_size", count, config.linear_key_head_dim
    yield "ssm.group_count", count, config.linear_num_key_heads
    yield "ssm.time_step_rank", count, config.linear_num_value_heads
    yield "ssm.inner_size", count, config.linear_num_value_heads * config.linear_value_head_dim
    yield "full_attention_interval", count, 2
