"""What tools/goldens/model_golden.py needs besides the models themselves: seeds, what converters do to tensors, and the file."""
import math
import struct
import zlib

import numpy

U32, F32, BOOL, STRING, COUNTS, BOOLS, NUMBERS = 4, 6, 7, 8, 9, 10, 11
F32_TENSOR, I64_TENSOR = 0, 27

# A model's seed follows from its name, so that a new model does not change the seeds of others. These older models have the
# seed 1000 plus their index in the list at the time.
SEEDS = dict(zip("""
llama-gqa4 llama-mqa llama-tied llama3 llama-linear llama-yarn mistral-window qwen2 qwen3 olmo2 olmo3 phi3 phi3-long
smollm3 granite glm4 exaone4 exaone4-full seed-oss ernie4_5 gemma gemma2 gemma3 command-r cohere2 starcoder2
hunyuan-dense qwen3moe qwen2moe mixtral olmoe granitemoe ernie4_5-moe hunyuan-moe dots1 glm4moe glm4moe-norms
minimax-m2 gpt-oss qwen2vl qwen3vl qwen3vlmoe mistral3
""".split(), range(1000, 1100)))
SEEDS.update({
    "lfm2": 1038, "lfm2-conv": 1039, "lfm2moe": 1040, "deepseek-v3": 1038, "deepseek-v2": 1039, "deepseek-v2-lite": 1040,
    "glm4-moe-lite": 1041, "mamba2": 1050, "granitehybrid": 1051, "granitehybrid-dense": 1052, "nemotron_h": 1053,
    "nemotron_h_moe": 1054, "qwen3next": 1050, "qwen3next-joined": 1051, "qwen35": 1052, "qwen35moe": 1053})


def seed_of(name):
    return SEEDS.get(name, zlib.crc32(name.encode()))


def gpt_oss_experts(layer, suffix, values):
    """Weights are transposed; gate and up are every other column."""
    kind = "bias" if suffix.endswith("bias") else "weight"
    values = values if kind == "bias" else values.swapaxes(1, 2)
    if suffix.startswith("down"):
        return [(f"{layer}.ffn_down_exps.{kind}", values)]
    return [(f"{layer}.ffn_gate_exps.{kind}", values[:, 0::2]), (f"{layer}.ffn_up_exps.{kind}", values[:, 1::2])]


def latent_parts(target, values, config):
    """K and V of a head as the converter stores them: K's part transposed, so that queries are multiplied by it."""
    heads = values.reshape(config.num_attention_heads, -1, values.shape[-1])
    keys, own = heads[:, :config.qk_nope_head_dim], heads[:, config.qk_nope_head_dim:]
    yield target.replace("attn_kv_b", "attn_k_b"), keys.swapaxes(1, 2)
    yield target.replace("attn_kv_b", "attn_v_b"), own


def falcon_rows(values, config):
    """Rows of Q of all heads, then of K, then of V; the model has them group by group."""
    head_dim, kv_heads = config.hidden_size // config.num_attention_heads, config.num_key_value_heads
    groups = values.reshape(kv_heads, -1, head_dim, values.shape[-1])
    return numpy.concatenate([part.reshape(-1, values.shape[-1]) for part in (groups[:, :-2], groups[:, -2], groups[:, -1])])


def neighbours(weight, heads):
    """Rows of Q or K so that elements p and p + n/2 of a head, which turn together, become neighbours."""
    rows = weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1)
    return rows.swapaxes(1, 2).reshape(weight.shape)


def llama3_factors(config):
    """What each pair's angle is divided by: fast pairs stay, slow ones are stretched in full, those between in part."""
    scaling = config.rope_parameters.get("full_attention", config.rope_parameters)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    turned = int(head_dim * scaling.get("partial_rotary_factor", 1.0))
    factors = []
    for pair in range(turned // 2):
        turns = scaling["original_max_position_embeddings"] / (2 * math.pi * scaling["rope_theta"] ** (2 * pair / turned))
        share = (turns - scaling["low_freq_factor"]) / (scaling["high_freq_factor"] - scaling["low_freq_factor"])
        share = min(1.0, max(0.0, share))
        factors.append(1.0 / (share + (1.0 - share) / scaling["factor"]))
    return numpy.array(factors + [1.0] * (head_dim // 2 - turned // 2), dtype=numpy.float32)


def string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


LISTS = {COUNTS: (U32, "I"), BOOLS: (BOOL, "?"), NUMBERS: (F32, "f")}


def write_gguf(path, pairs, weights):
    align = 32
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(weights), len(pairs))
    for key, kind, value in pairs:
        head += string(key) + struct.pack("<I", COUNTS if kind in LISTS else kind)
        if kind in LISTS:
            of, letter = LISTS[kind]
            head += struct.pack(f"<IQ{len(value)}{letter}", of, len(value), *value)
        else:
            head += string(value) if kind == STRING else struct.pack({U32: "<I", F32: "<f", BOOL: "<?"}[kind], value)
    data = b""
    for name, values in weights:
        head += string(name) + struct.pack("<I", values.ndim) + struct.pack(f"<{values.ndim}Q", *reversed(values.shape))
        ids = values.dtype == numpy.int64
        head += struct.pack("<IQ", I64_TENSOR if ids else F32_TENSOR, len(data))
        data += numpy.ascontiguousarray(values, dtype="<i8" if ids else "<f4").tobytes()
        data += bytes(-len(data) % align)
    path.write_bytes(head + bytes(-len(head) % align) + data)


def norm_epsilon(config):
    if config.model_type in ("mamba", "falcon_mamba", "mamba2", "nemotron_h"):
        return "attention.layer_norm_rms_epsilon", F32, config.layer_norm_epsilon
    for attribute in ("rms_norm_eps", "norm_eps"):
        if hasattr(config, attribute) and config.model_type != "nemotron":
            return "attention.layer_norm_rms_epsilon", F32, getattr(config, attribute)
    epsilon = next(getattr(config, name) for name in ("norm_eps", "norm_epsilon", "layer_norm_epsilon", "layer_norm_eps")
                   if hasattr(config, name))
    return "attention.layer_norm_epsilon", F32, epsilon


def latent_keys(joined, config):
    key_length, value_length = config.qk_nope_head_dim + config.qk_rope_head_dim, config.v_head_dim
    yield "attention.kv_lora_rank", U32, config.kv_lora_rank
    yield "rope.dimension_count", U32, config.qk_rope_head_dim
    if config.q_lora_rank is not None:
        yield "attention.q_lora_rank", U32, config.q_lora_rank
    if joined:
        yield from (("attention.key_length", U32, key_length), ("attention.value_length", U32, value_length))
    else:
        yield "attention.key_length", U32, config.kv_lora_rank + config.qk_rope_head_dim
        yield "attention.value_length", U32, config.kv_lora_rank
        yield from (("attention.key_length_mla", U32, key_length), ("attention.value_length_mla", U32, value_length))
    if "mscale_all_dim" in (getattr(config, "rope_parameters", None) or {}):
        yield "rope.scaling.yarn_log_multiplier", F32, 0.1 * config.rope_parameters["mscale_all_dim"]


OTHER_MIXERS = ("conv", "linear_attention", "moe", "mlp")


def kv_heads(config):
    """None in layers without attention, of which delta nets are told by other keys."""
    kinds = getattr(config, "layer_types", None) or ()
    if hasattr(config, "linear_num_key_heads") or not set(kinds).intersection(OTHER_MIXERS):
        return "attention.head_count_kv", U32, getattr(config, "num_key_value_heads", config.num_attention_heads)
    heads = getattr(config, "num_key_value_heads", 0)
    return "attention.head_count_kv", COUNTS, [0 if kind in OTHER_MIXERS else heads for kind in kinds]


CHOICE_BIAS = ("e_score_correction_bias", "expert_bias")


def expert_parts(architecture, name, values):
    """One parameter of the model as the tensors that the converter makes of it, or nothing for what it keeps."""
    stem, suffix = name.rsplit(".", 1)
    layer = f"blk.{stem.split('.')[2]}" if stem.startswith("model.layers.") else ""
    if suffix in CHOICE_BIAS:
        return [(f"{layer}.exp_probs_b.bias", values)]
    if suffix == "up_proj":
        return [(f"{layer}.ffn_up_exps.weight", values)]
    if suffix == "sinks":
        return [(f"{layer}.attn_sinks.weight", values)]
    if architecture == "gpt-oss" and ".experts" in stem:
        return gpt_oss_experts(layer, suffix, values)
    rows = values.shape[-2] // 2 if values.ndim > 1 else 0
    if suffix == "gate_up_proj":
        return [(f"{layer}.ffn_gate_exps.weight", values[:, :rows]), (f"{layer}.ffn_up_exps.weight", values[:, rows:])]
    if suffix == "down_proj":
        return [(f"{layer}.ffn_down_exps.weight", values)]
    if stem.endswith("shared_mlp.input_linear"):
        return [(f"{layer}.ffn_gate_shexp.weight", values[:rows]), (f"{layer}.ffn_up_shexp.weight", values[rows:])]
    if stem.endswith("shared_expert_gate"):
        return [(f"{layer}.ffn_gate_inp_shexp.weight", values)]
    return []


def windows(architecture, config):
    kinds = getattr(config, "layer_types", None) or []
    if getattr(config, "sliding_window", None) and architecture != "dots1":
        yield "attention.sliding_window", U32, config.sliding_window
    if "sliding_attention" in kinds and architecture in ("olmo2", "exaone4"):
        yield "attention.sliding_window_pattern", BOOLS, [kind == "sliding_attention" for kind in kinds]
    if architecture in ("olmo2", "gemma3") and "sliding_attention" in config.rope_parameters:
        yield "rope.freq_base_swa", F32, config.rope_parameters["sliding_attention"]["rope_theta"]
    if "linear_attention" in kinds and hasattr(config, "linear_num_key_heads"):
        yield "attention.recurrent_layers", BOOLS, [kind == "linear_attention" for kind in kinds]
