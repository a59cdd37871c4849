"""What tools/goldens/model_golden.py knows of Gemma 3n: the configuration, names, and what its converter does."""
import numpy
import torch

FULL, LOCAL = "full_attention", "sliding_attention"


def models(small, rope):
    """Layers 4 and 5 read the K and V of layers 2 and 3. Gates are cut in layers 0 and 2."""
    return {"gemma3n": ("gemma3n", "Gemma3n", {
        **small, "num_hidden_layers": 6, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-6, "sliding_window": 11,
        "layer_types": [LOCAL, LOCAL, LOCAL, FULL, LOCAL, FULL], "num_kv_shared_layers": 2, "intermediate_size": [32] * 5 + [40],
        "hidden_size_per_layer_input": 12, "vocab_size": 104, "vocab_size_per_layer_input": 104, "laurel_rank": 10, "final_logit_softcapping": 9.0,
        "activation_sparsity_pattern": [0.8, 0.0, 0.4, 0.0, 0.0, 0.0],
        "rope_parameters": {LOCAL: rope(1000.0), FULL: rope(5000.0)}})}


NAMES = {
    "altup.correction_coefs": "altup_correct_coef", "altup.prediction_coefs": "altup_predict_coef",
    "altup.modality_router": "altup_router", "altup.router_norm": "altup_router_norm", "laurel.linear_left": "laurel_l",
    "laurel.linear_right": "laurel_r", "laurel.post_laurel_norm": "laurel_post_norm"}

STACKED = {"altup_projections": "altup_proj", "altup_unembed_projections": "altup_unembd_proj"}


def parts(name, values, waiting={}):
    """A factor without a suffix, and matrices of streams, which are stacked with the last of them; nothing for the others."""
    if name.endswith("correct_output_scale"):
        return [(f"blk.{name.split('.')[2]}.altup_correct_scale.weight", values)]
    stack = STACKED.get(name.split(".")[1])
    if stack is None:
        return []
    waiting.setdefault(stack, []).append(values)
    return iter([(f"{stack}.weight", numpy.stack(waiting.pop(stack)))] if len(waiting[stack]) == 3 else [])


def keys(config, u32, f32, counts, bools, numbers):
    yield "feed_forward_length", counts, config.intermediate_size
    yield "attention.sliding_window_pattern", bools, [kind == LOCAL for kind in config.layer_types]
    yield "attention.shared_kv_layers", u32, config.num_kv_shared_layers
    yield "rope.freq_base_swa", f32, config.rope_parameters[LOCAL]["rope_theta"]
    yield "embedding_length_per_layer_input", u32, config.hidden_size_per_layer_input
    yield "altup.active_idx", u32, config.altup_active_idx
    yield "altup.num_inputs", u32, config.altup_num_inputs
    normal = torch.distributions.normal.Normal(0, 1)
    yield "activation_sparsity_scale", numbers, [normal.icdf(torch.tensor(share)).item() for share in config.activation_sparsity_pattern]
    yield "final_logit_softcapping", f32, config.final_logit_softcapping
