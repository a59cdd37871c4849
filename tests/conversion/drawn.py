"""Configurations drawn from a seed, for each model of tools/goldens/model_golden.py, and what released config.json files have beside them."""
import json
import random
import re

# Golden models that are not drawn, and why.
LEFT_OUT = {
    "bailingmoe2": "transformers has no class of its own",
    "qwen3next-joined": "older files", "deepseek-v2": "as deepseek-v2-lite", "qwen2moe-equal": "as qwen2moe",
    "llama4-128": "as llama4", "muse-glimmer": "its converter asks transformers for a real tokenizer",
}


# The quantiser knows this model by its 27 layers.
NOT_QUANTISED = ("deepseek-v2-lite",)


def names(models):
    return [name for name in models if name not in LEFT_OUT and not name.startswith("mtp/")]


def draw(name, own, seed, index):
    """A configuration like `own` with other sizes. The first of each model is wide enough for blocks of 256."""
    rng = random.Random(f"{seed} {name} {index}")
    own, wide = dict(own), index == 0
    unit = 256 if wide else 32
    draw_heads(name, own, rng, wide)
    for key in ("intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size", "share_expert_dim"):
        if key in own:
            own[key] = unit * (1 if wide else rng.choice([1, 2, 3]))
    own["vocab_size"] = rng.choice([96, 111, 130])
    if name in MAY_BE_TIED and rng.random() < 0.5:
        own["tie_word_embeddings"] = True
    if own.get("sliding_window"):
        own["sliding_window"] = rng.choice([5, 11, 17])
    rope = own.get("rope_parameters", {})
    if "rope_theta" in rope:
        own["rope_parameters"] = {**rope, "rope_theta": rng.choice([500.0, 10000.0, 1000000.0])}
    for key in ("rms_norm_eps", "layer_norm_eps", "norm_eps"):
        if key in own:
            own[key] = rng.choice([1e-6, 1e-5, 1e-3])
    keep_to_files(name, own)
    return own


def draw_heads(name, own, rng, wide):
    """Heads of even sizes that are no multiple of a vector, and groups that are no power of two."""
    rope = str(own.get("rope_parameters"))
    if "num_attention_heads" not in own or any(key in own for key in ("kv_lora_rank", "mamba_n_heads", "global_head_dim")):
        if "kv_lora_rank" in own and wide:
            own["hidden_size"] = 256
        return
    if "mrope_section" in rope or "longrope" in rope:  # these have numbers for each pair of a head
        return
    kv_heads = 1 if name == "falcon" else rng.choice([1, 2, 3])
    heads, head_dim = kv_heads * rng.choice([1, 2, 3]), rng.choice([8, 12, 16, 20, 24, 32])
    if "partial_rotary_factor" not in rope:
        head_dim = rng.choice([6, 8, 10, 16, 18, 24, 32])
    if wide:
        kv_heads, heads, head_dim = 1 if name == "falcon" else 2, 8, 32
    own["num_attention_heads"], own["num_key_value_heads"] = heads, kv_heads
    own["hidden_size"] = heads * head_dim
    if "num_kv_heads" in own:
        own["num_kv_heads"] = kv_heads
    if "head_dim" in own:
        own["head_dim"] = head_dim
        if name not in HEADS_FILL_THE_WIDTH and not wide:
            own["hidden_size"] = 32 * heads


MAY_BE_TIED = ("llama-gqa4", "qwen3", "smollm3", "granite", "exaone4", "olmo2")
# Their rotated part is written as a share of the width over the number of heads.
HEADS_FILL_THE_WIDTH = ("nemotron", "cohere2", "nemotron_h", "nemotron_h_moe", "nemotron_h_moe-latent")


def keep_to_files(name, own):
    """What the converter does not write, or as one number for all models, has the value that readers assume."""
    if name in ("mistral-window", "starcoder2"):
        own["sliding_window"] = None
    if name in ("gemma", "gemma2", "falcon", "falcon-groups"):
        own["rope_parameters"]["rope_theta"] = 10000.0
    if name in ("falcon", "falcon-groups", "gpt2"):
        own["intermediate_size"] = own["n_inner" if name == "gpt2" else "ffn_hidden_size"] = 4 * own["hidden_size"]
    if "query_pre_attn_scalar" in own:
        own["query_pre_attn_scalar"] = own["head_dim"]
    if "kv_lora_rank" in own:
        own["rms_norm_eps"] = 1e-6  # latents are normalised with this one
    if name == "olmoe":
        own["rms_norm_eps"] = 1e-5
    if name == "lfm2moe":
        own["routed_scaling_factor"] = 1.0
    if name == "ernie4_5-moe":
        own["intermediate_size"] = own["num_key_value_heads"] * own["moe_num_shared_experts"] * own["moe_intermediate_size"]
    if name == "mistral4":
        own["rope_parameters"]["llama_4_scaling_beta"] = 0.0
    if name == "granitehybrid-dense":
        own["position_embedding_type"] = "nope"
        own["shared_intermediate_size"] = own["intermediate_size"]
    if name == "llama4":
        own.update(attention_chunk_size=8192, floor_scale=8192, attn_scale=0.1)
    if "num_attention_heads_per_layer" in own:
        heads = own["num_attention_heads"]
        own["num_attention_heads_per_layer"] = [heads if kind == "full_attention" else 2 * heads for kind in own["layer_types"]]
    if name == "step35":
        own["num_sliding_attention_heads"] = 2 * own["num_attention_heads"]
    if name in ("gemma4-e", "gemma3n"):
        own["vocab_size_per_layer_input"] = own["vocab_size"]


def released(config, name):
    """The keys of released config.json files that transformers' classes do not write. Returns changes."""
    layers, family = config["num_hidden_layers"] if "num_hidden_layers" in config else 0, config["model_type"]
    if family == "cohere2":
        return {"rotary_pct": 1.0}
    if family == "minimax_m2":
        partial = config["rope_parameters"]["partial_rotary_factor"]
        return {"rotary_dim": int(config["head_dim"] * partial), "scoring_func": "sigmoid"}
    if family == "gpt2":
        return {"n_ctx": config["n_positions"]}
    if family == "hunyuan_v1_moe":
        return {"moe_topk": [config["moe_topk"]] * layers, "num_shared_expert": [1] * layers,
                "moe_intermediate_size": [config["intermediate_size"]] * layers}
    if family in ("deepseek_v3", "dots1", "deepseek_v32", "glm4_moe_lite", "glm4_moe", "glm_moe_dsa"):
        return {"scoring_func": "sigmoid", "num_nextn_predict_layers": 0}
    if family == "hy_v3":
        return {"first_k_dense_replace": 1, "num_nextn_predict_layers": 0}
    if family == "qwen3_5_text" and name == "qwen35":
        return {"num_experts_per_tok": None, "moe_intermediate_size": None}
    if family == "granitemoehybrid":
        no_experts = {} if config["num_local_experts"] else {"num_experts_per_tok": None}
        return no_experts | {"layer_types": ["mamba" if kind == "linear_attention" else "attention" for kind in config["layer_types"]]}
    if family == "nemotron_h":
        letters = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}
        kinds = config["layers_block_type"]
        changes = {"hybrid_override_pattern": "".join(letters[kind] for kind in kinds), "layers_block_type": None,
                   "rms_norm_eps": config["layer_norm_epsilon"], "num_hidden_layers": len(kinds)}
        experts = ("num_experts_per_tok", "n_routed_experts", "n_group", "topk_group", "n_shared_experts", "moe_intermediate_size",
                   "moe_shared_expert_intermediate_size", "norm_topk_prob", "routed_scaling_factor")
        return changes if "moe" in kinds else {**changes, **dict.fromkeys(experts)}
    if family == "kimi_linear":
        return released_kimi(config)
    if family == "bailing_hybrid":
        return {"architectures": ["BailingMoeV3ForCausalLM"], "norm_topk_prob": config["moe_renormalize"], "n_group": config["num_expert_group"], "head_dim": config["linear_head_dim"], "no_kda_lora": True, "gated_attention_proj_granularity_type": "head_wise",
                "score_function": "sigmoid", "num_nextn_predict_layers": 0, "rope_theta": config["rope_parameters"]["rope_theta"],
                "moe_shared_expert_intermediate_size": config["moe_intermediate_size"]}
    if family in ("mistral4", "ministral3"):
        return {"architectures": ["Mistral3ForConditionalGeneration"]}
    if family == "step3p7":
        return {"text_config": released_step(config["text_config"])}
    if family == "falcon" and not config["new_decoder_architecture"]:
        return {"num_kv_heads": None, "num_key_value_heads": None}
    return {}


def released_step(text):
    """Step's own names, and lists with a value for each layer in place of rope_parameters."""
    kinds, ropes, heads = text["layer_types"], text["rope_parameters"], text["num_key_value_heads"]
    full = ropes["full_attention"]
    scaling = {key: value for key, value in full.items() if key not in ("rope_theta", "partial_rotary_factor")}
    own = {key: value for key, value in text.items() if value is not None and key not in ("rope_parameters", "per_layer_config")}
    return {**own, "num_attention_groups": heads, "moe_num_experts": text["n_routed_experts"], "moe_top_k": text["num_experts_per_tok"],
            "attention_other_setting": {"num_attention_heads": text["num_sliding_attention_heads"], "num_attention_groups": heads},
            "moe_layers_enum": ",".join(str(i) for i, kind in enumerate(text["mlp_layer_types"]) if kind == "sparse"),
            "moe_every_n_layer": 1, "norm_expert_weight": True, "rope_scaling": scaling,
            "rope_theta": [ropes[kind]["rope_theta"] for kind in kinds],
            "partial_rotary_factors": [ropes[kind]["partial_rotary_factor"] for kind in kinds]}


def released_kimi(config):
    """Layers are counted from 1."""
    kinds = config["layer_types"]
    layers = {key: [i + 1 for i, kind in enumerate(kinds) if kind == of]
              for key, of in (("full_attn_layers", "full_attention"), ("kda_layers", "linear_attention"))}
    return {"moe_router_activation_func": "sigmoid", "rope_theta": 10000.0,
            "first_k_dense_replace": config["mlp_layer_types"].index("sparse"), "linear_attn_config": {
                **layers, "head_dim": config["linear_head_dim"], "num_heads": config["linear_num_heads"],
                "short_conv_kernel_size": config["linear_conv_kernel_dim"]}}


def rewrite_tensors(path, change):
    from safetensors.torch import load_file, save_file

    save_file(dict(change(name, values) for name, values in load_file(path).items()), path, {"format": "pt"})


def transpose_experts(name, values):
    """Released files of Qwen3-VL's experts have their matrices transposed."""
    return name, values.transpose(-1, -2).contiguous() if ".experts." in name else values


def name_dense_parts(name, values):
    """Transformers saves Kimi's dense parts with the name of those that have experts."""
    return re.sub(r"block_sparse_moe\.(gate|up|down)_proj", r"mlp.\1_proj", name), values


def complete(folder, name):
    """Changes a saved config.json to what released ones have, and adds a vocabulary of that size for converters that count it."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for key, value in released(config, name).items():
        config[key] = value
        if value is None:
            config.pop(key, None)
    path.write_text(json.dumps(config))
    if config["model_type"] == "qwen3_vl_moe":
        rewrite_tensors(folder / "model.safetensors", transpose_experts)
    if config["model_type"] == "kimi_linear":
        rewrite_tensors(folder / "model.safetensors", name_dense_parts)
    size = config.get("vocab_size") or config.get("text_config", {}).get("vocab_size", 0)
    vocabulary = {f"t{i}": i for i in range(size)}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "t0"}, "added_tokens": []}))
