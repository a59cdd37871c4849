"""What tools/goldens/model_golden.py knows of Gemma 4: configurations, names, and what its converter does."""
import math

import numpy

from model_golden_parts import BOOLS, COUNTS, F32, U32

FULL, LOCAL = "full_attention", "sliding_attention"


def models(small):
    base = {
        **small, "num_key_value_heads": 2, "head_dim": 16, "global_head_dim": 32, "rms_norm_eps": 1e-6, "sliding_window": 11,
        "hidden_size_per_layer_input": 0, "final_logit_softcapping": 5.0, "allow_global_per_layer_attribute_access": True,
        "rope_parameters": {
            LOCAL: {"rope_theta": 1000.0, "rope_type": "default"},
            FULL: {"rope_theta": 5000.0, "rope_type": "proportional", "partial_rotary_factor": 0.25}}}
    equal = {"attention_k_eq_v": True, "num_global_key_value_heads": 1}
    return {
        "gemma4": ("gemma4", "Gemma4", {**base, **equal, "num_hidden_layers": 4, "layer_types": [LOCAL, FULL, LOCAL, FULL]}),
        "gemma4-moe": ("gemma4", "Gemma4", {
            **base, **equal, "num_hidden_layers": 3, "layer_types": [LOCAL, LOCAL, FULL], "enable_moe_block": True,
            "num_experts": 6, "top_k_experts": 2, "moe_intermediate_size": 24}),
        # Layers 3 and 4 read the K and V of layers 1 and 2.
        "gemma4-e": ("gemma4", "Gemma4", {
            **base, "num_hidden_layers": 5, "layer_types": [LOCAL, LOCAL, FULL, LOCAL, FULL], "num_kv_shared_layers": 2,
            "use_double_wide_mlp": True, "hidden_size_per_layer_input": 12, "vocab_size_per_layer_input": 112}),
    }


NAMES = {
    "post_feedforward_layernorm_1": "post_ffw_norm_1", "post_feedforward_layernorm_2": "post_ffw_norm_2",
    "pre_feedforward_layernorm_2": "pre_ffw_norm_2", "router.proj": "ffn_gate_inp",
    "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm",
    "model.embed_tokens_per_layer": "per_layer_token_embd", "model.per_layer_model_projection": "per_layer_model_proj",
    "model.per_layer_projection_norm": "per_layer_proj_norm"}

# Tensors that are not weights of a linear layer or a norm.
OTHERS = {
    "layer_scalar": "layer_output_scale.weight", "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale", "experts.gate_up_proj": "ffn_gate_up_exps.weight",
    "experts.down_proj": "ffn_down_exps.weight"}


FACTORS = ("layer_scalar", "per_expert_scale", "router.scale")


def factor_of(name, weight):
    """The router's scale is divided by the root of its length."""
    return math.sqrt(weight.shape[0]) if name.endswith("router.scale") else 1.0


def converted(name, values):
    """One parameter as the converter stores it, or nothing for what it keeps."""
    for own, tensor in OTHERS.items():
        if name.endswith("." + own):
            return f"blk.{name.split('.')[2]}.{tensor}", values
    return None


def pair_factors(config):
    """Of the pairs of a full layer's head only the first quarter turns."""
    pairs = head_dim(config, FULL) // 2
    turning = int(config.rope_parameters[FULL]["partial_rotary_factor"] * pairs)
    return numpy.array([1.0] * turning + [1e30] * (pairs - turning), dtype=numpy.float32)


def head_dim(config, kind):
    return config.per_layer_config[config.layer_types.index(kind)].head_dim


def described(common, config):
    """The keys of a file: Gemma 4's own in place of the common ones."""
    own = list(keys(config))
    names = {name for name, _, _ in own}
    return [key for key in common if key[0] not in names] + own


def keys(config):
    layers = range(config.num_hidden_layers)
    shared = config.num_hidden_layers - getattr(config, "num_kv_shared_layers", 0)
    width = config.intermediate_size
    widths = [width * (2 if getattr(config, "use_double_wide_mlp", False) and layer >= shared else 1) for layer in layers]
    yield "feed_forward_length", COUNTS if getattr(config, "use_double_wide_mlp", False) else U32, widths if getattr(config, "use_double_wide_mlp", False) else width
    yield "attention.head_count_kv", COUNTS, [config.per_layer_config[layer].num_key_value_heads for layer in layers]
    for suffix, kind in (("", FULL), ("_swa", LOCAL)):
        for key in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
            yield key + suffix, U32, head_dim(config, kind)
    yield "rope.freq_base_swa", F32, config.rope_parameters[LOCAL]["rope_theta"]
    yield "attention.sliding_window_pattern", BOOLS, [kind == LOCAL for kind in config.layer_types]
    yield "attention.shared_kv_layers", U32, getattr(config, "num_kv_shared_layers", 0)
    yield "embedding_length_per_layer_input", U32, getattr(config, "hidden_size_per_layer_input", 0)
    yield "final_logit_softcapping", F32, config.final_logit_softcapping
    if getattr(config, "enable_moe_block", False):
        yield "expert_count", U32, config.num_experts
        yield "expert_used_count", U32, config.top_k_experts
        yield "expert_feed_forward_length", U32, config.moe_intermediate_size
