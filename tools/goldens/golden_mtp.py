"""Blocks of multi-token prediction (MTP) for model_golden.py: transformers leaves them out.

The last layer of a model becomes such a block. With h the hidden states behind the final norm of the layers before it and e the
embeddings of the tokens behind each (behind the last one the first):
    x = eh_proj [enorm(e); hnorm(h)];  logits = shared_head_head(shared_head_norm(layer(x)))
"""
import copy

import torch

FOLDER = "mtp/"
PARTS = ("eh_proj", "enorm", "hnorm", "shared_head_norm", "embed_tokens", "shared_head_head")
NAMES = {f"nextn.{part}": f"nextn.{part}" for part in PARTS}

# Models whose block has an embedding and a head of its own.
OWN = ("mtp/glm4moe",)


def models(experts, latent, rope):
    """Entries of MODELS, with one layer more than the model has."""
    return {
        "mtp/deepseek-v3": ("deepseek2", "DeepseekV3", {
            **latent, "num_hidden_layers": 3, "q_lora_rank": 40, "n_group": 4, "topk_group": 2, "norm_topk_prob": True,
            "rope_parameters": rope(1000.0)}),
        "mtp/glm4moe": ("glm4moe", "Glm4Moe", {
            **experts, "num_hidden_layers": 3, "head_dim": 16, "n_routed_experts": 6, "n_shared_experts": 1,
            "first_k_dense_replace": 1, "routed_scaling_factor": 1.3, "attention_bias": True, "rms_norm_eps": 1e-5,
            "rope_parameters": rope(1000.0, partial_rotary_factor=0.5)}),
        # By full_attention_interval the MTP block would be a delta net.
        "mtp/qwen35moe": ("qwen35moe", "Qwen3_5Moe", {
            **experts, "num_hidden_layers": 3, "head_dim": 16, "rms_norm_eps": 1e-6, "full_attention_interval": 2,
            "layer_types": ["linear_attention", "full_attention", "full_attention"], "linear_num_key_heads": 2,
            "linear_num_value_heads": 6, "linear_key_head_dim": 8, "linear_value_head_dim": 12, "num_experts": 6,
            "shared_expert_intermediate_size": 20,
            "rope_parameters": rope(1000.0, partial_rotary_factor=0.5, mrope_section=[2, 1, 1])}),
    }


def attach(name, model):
    """Gives the last layer what an MTP block has beside a layer."""
    core, hidden = model.model, model.lm_head.in_features
    nextn = torch.nn.Module()
    nextn.eh_proj = torch.nn.Linear(2 * hidden, hidden, bias=False)
    for norm in ("enorm", "hnorm", "shared_head_norm"):
        setattr(nextn, norm, copy.deepcopy(core.norm))
    if name in OWN:
        nextn.embed_tokens = copy.deepcopy(core.embed_tokens)
        nextn.shared_head_head = copy.deepcopy(model.lm_head)
    core.layers[-1].nextn = nextn


def logits(model, ids):
    core, kept = model.model, []
    nextn = core.layers[-1].nextn
    embed, head = getattr(nextn, "embed_tokens", core.embed_tokens), getattr(nextn, "shared_head_head", model.lm_head)

    def before(_, args, kwargs):
        hidden = core.norm(args[0])
        embedding = embed(ids.roll(-1, 1))
        return (nextn.eh_proj(torch.cat([nextn.enorm(embedding), nextn.hnorm(hidden)], -1)), *args[1:]), kwargs

    def after(_, args, kwargs, output):
        kept.append(output[0] if isinstance(output, tuple) else output)

    core.layers[-1].register_forward_pre_hook(before, with_kwargs=True)
    core.layers[-1].register_forward_hook(after, with_kwargs=True)
    model(ids, use_cache=False)
    return head(nextn.shared_head_norm(kept[0]))
