#!/usr/bin/env python3
"""Makes the tiny models of tests/golden/models and the logits they must give.

Each is the real architecture of Hugging Face transformers with random weights, run in f32 on one fixed sequence and written
as an F32 GGUF file together with the logits of every position. Weights are spread far wider than an initialiser's, so that a
wrong norm, a missing bias or a wrong angle moves the logits by much more than the tests allow.

    python -m venv golden && golden/bin/pip install torch transformers numpy
    golden/bin/python tools/model_golden.py tests/golden/models
"""
import math
import pathlib
import struct
import sys

import numpy
import torch
import transformers

TOKENS = 44
SIZES = {
    "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 112, "max_position_embeddings": 128}
U32, F32, STRING = 4, 6, 8


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
}

NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def spread(model, generator):
    """Random weights with which every part of the model matters."""
    for name, weight in model.named_parameters():
        if weight.dim() == 1 and name.endswith("norm.weight"):
            values = 0.5 + torch.rand(weight.shape, generator=generator)
        elif weight.dim() == 1:
            values = 0.5 * torch.randn(weight.shape, generator=generator)
        elif "embed_tokens" in name:
            values = 0.5 * torch.randn(weight.shape, generator=generator)
        else:
            gain = 2.5 if "lm_head" in name else 1.5
            values = gain / math.sqrt(weight.shape[1]) * torch.randn(weight.shape, generator=generator)
        weight.data.copy_(values)


def gguf_name(name):
    stem, suffix = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, layer, part = stem.split(".", 3)
        return f"blk.{layer}.{NAMES[part]}.{suffix}"
    return f"{NAMES[stem]}.{suffix}"


def neighbours(weight, heads):
    """Rows of Q or K so that elements p and p + n/2 of a head, which turn together, become neighbours."""
    rows = weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1)
    return rows.swapaxes(1, 2).reshape(weight.shape)


def tensors(architecture, config, model):
    for name, parameter in model.named_parameters():
        values, target = parameter.detach().numpy(), gguf_name(name)
        if architecture == "llama" and ".attn_q." in target:
            values = neighbours(values, config.num_attention_heads)
        if architecture == "llama" and ".attn_k." in target:
            values = neighbours(values, config.num_key_value_heads)
        yield target, values
    if config.rope_parameters["rope_type"] == "llama3":
        yield "rope_freqs.weight", llama3_factors(config)


def llama3_factors(config):
    """What each pair's angle is divided by: fast pairs stay, slow ones are stretched in full, those between in part."""
    scaling = config.rope_parameters
    head_dim = config.hidden_size // config.num_attention_heads
    factors = []
    for pair in range(head_dim // 2):
        turns = scaling["original_max_position_embeddings"] / (2 * math.pi * scaling["rope_theta"] ** (2 * pair / head_dim))
        share = (turns - scaling["low_freq_factor"]) / (scaling["high_freq_factor"] - scaling["low_freq_factor"])
        share = min(1.0, max(0.0, share))
        factors.append(1.0 / (share + (1.0 - share) / scaling["factor"]))
    return numpy.array(factors, dtype=numpy.float32)


def metadata(architecture, name, config):
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    yield "general.architecture", STRING, architecture
    yield "general.name", STRING, name
    own = [
        ("block_count", U32, config.num_hidden_layers), ("context_length", U32, config.max_position_embeddings),
        ("embedding_length", U32, config.hidden_size), ("feed_forward_length", U32, config.intermediate_size),
        ("attention.head_count", U32, config.num_attention_heads),
        ("attention.head_count_kv", U32, config.num_key_value_heads),
        ("attention.layer_norm_rms_epsilon", F32, config.rms_norm_eps),
        ("rope.freq_base", F32, config.rope_parameters["rope_theta"]),
    ]
    if head_dim * config.num_attention_heads != config.hidden_size:
        own += [("attention.key_length", U32, head_dim), ("attention.value_length", U32, head_dim)]
    if architecture == "llama":
        own += [("rope.dimension_count", U32, head_dim), ("vocab_size", U32, config.vocab_size)]
        if getattr(config, "sliding_window", None):
            own.append(("attention.sliding_window", U32, config.sliding_window))
    kind = config.rope_parameters["rope_type"]
    if kind in ("linear", "yarn"):
        own += [("rope.scaling.type", STRING, kind), ("rope.scaling.factor", F32, config.rope_parameters["factor"])]
    if kind == "yarn":
        original = config.rope_parameters["original_max_position_embeddings"]
        own.append(("rope.scaling.original_context_length", U32, original))
    for key, kind, value in own:
        yield f"{architecture}.{key}", kind, value


def string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def write_gguf(path, pairs, weights):
    align = 32
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(weights), len(pairs))
    for key, kind, value in pairs:
        head += string(key) + struct.pack("<I", kind)
        head += string(value) if kind == STRING else struct.pack({U32: "<I", F32: "<f"}[kind], value)
    data = b""
    for name, values in weights:
        head += string(name) + struct.pack("<I", values.ndim) + struct.pack(f"<{values.ndim}Q", *reversed(values.shape))
        head += struct.pack("<IQ", 0, len(data))
        data += numpy.ascontiguousarray(values, dtype="<f4").tobytes()
        data += bytes(-len(data) % align)
    path.write_bytes(head + bytes(-len(head) % align) + data)


def make(folder, number, name):
    architecture, family, own = MODELS[name]
    config = getattr(transformers, family + "Config")(**{**SIZES, **own})
    config._attn_implementation = "eager"
    model = getattr(transformers, family + "ForCausalLM")(config).float().eval()
    generator = torch.Generator().manual_seed(1000 + number)
    spread(model, generator)
    ids = torch.randint(0, config.vocab_size, (1, TOKENS), generator=generator)
    with torch.no_grad():
        logits = model(ids).logits[0].numpy()
    pairs, weights = list(metadata(architecture, name, config)), list(tensors(architecture, config, model))
    write_gguf(folder / f"{name}.gguf", pairs, weights)
    golden = struct.pack("<II", TOKENS, config.vocab_size) + ids[0].numpy().astype("<i4").tobytes()
    (folder / f"{name}.logits").write_bytes(golden + logits.astype("<f4").tobytes())
    top = numpy.sort(logits, axis=1)
    print(f"{name:15} logits spread {logits.std():.2f}, closest first and second {(top[:, -1] - top[:, -2]).min():.4f}")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(MODELS):
        make(folder, number, name)


if __name__ == "__main__":
    main()
