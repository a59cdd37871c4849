#!/usr/bin/env python3
"""Makes the tiny encoders of tests/golden/models/encoders and the rows that they must give.

Each is the real architecture of Hugging Face transformers with random weights, run in f32 on each of a few texts by itself.
It is written as an F32 GGUF file with the names of llama.cpp's converter, together with the hidden states of all tokens, or
the scores of the texts if the model has a classifier.

    python -m venv golden && golden/bin/pip install torch transformers numpy
    golden/bin/python tools/goldens/encoder_golden.py tests/golden/models/encoders [NAME...]
"""
import math
import pathlib
import re
import struct
import sys

import numpy
import torch
import transformers

from model_golden_parts import BOOL, F32, STRING, U32, seed_of, write_gguf

LENGTHS = (19, 1, 33, 6)
SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 112,
    "max_position_embeddings": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
RANK = 4


def rope(theta):
    return {"rope_theta": theta, "rope_type": "default"}


MODERN = {
    "num_hidden_layers": 4, "local_attention": 8, "norm_eps": 1e-4, "cls_token_id": 1, "sep_token_id": 2,
    "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
    "rope_parameters": {"full_attention": rope(3000.0), "sliding_attention": rope(100.0)}}

# name: (GGUF architecture, transformers class, configuration)
MODELS = {
    "bert": ("bert", "BertModel", {"layer_norm_eps": 1e-3}),
    # Positions begin behind the padding's.
    "bert-rank": ("bert", "XLMRobertaForSequenceClassification", {
        "layer_norm_eps": 1e-5, "num_labels": 1, "pad_token_id": 1, "max_position_embeddings": 42, "type_vocab_size": 1}),
    "nomic-bert": ("nomic-bert", "NomicBertModel", {"layer_norm_eps": 1e-4, "head_dim": 8, "rope_parameters": rope(100.0)}),
    "jina-bert-v3": ("jina-bert-v3", "JinaEmbeddingsV3Model", {
        "layer_norm_eps": 1e-5, "type_vocab_size": 1, "rope_parameters": rope(2000.0)}),
    "modern-bert": ("modern-bert", "ModernBertModel", MODERN),
    "modern-bert-rank": ("modern-bert", "ModernBertForSequenceClassification", {
        **MODERN, "num_labels": 3, "classifier_pooling": "cls", "hidden_activation": "silu"}),
    "eurobert": ("eurobert", "EuroBertModel", {
        "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "mask_token_id": 3, "rope_parameters": rope(500.0)}),
    "gemma-embedding": ("gemma-embedding", "Gemma3TextModel", {
        "num_hidden_layers": 7, "num_key_value_heads": 1, "head_dim": 16, "query_pre_attn_scalar": 16, "rms_norm_eps": 1e-6,
        "sliding_window": 8, "use_bidirectional_attention": True,
        "rope_parameters": {"sliding_attention": rope(100.0), "full_attention": rope(3000.0)}}),
}
DENSE = {"gemma-embedding": (40, 24)}

LAYER_NAMES = {
    "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down",
    "post_mlp_layernorm": "layer_output_norm", "input_layernorm": "attn_norm",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
    "attn_norm": "attn_norm", "attn.Wqkv": "attn_qkv", "attn.Wo": "attn_output", "mlp_norm": "ffn_norm", "mlp.Wi": "ffn_up",
    "mlp.Wo": "ffn_down"}
NAMES = {
    "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
    "embeddings.tok_embeddings": "token_embd", "embeddings.norm": "token_embd_norm", "final_norm": "output_norm",
    "embed_tokens": "token_embd", "norm": "output_norm", "classifier.dense": "cls", "classifier.out_proj": "cls.output",
    "head.dense": "cls", "head.norm": "cls.norm", "classifier": "cls.output"}
# What the norm behind a layer's attention is called.
POST_ATTENTION = {"eurobert": "ffn_norm", "gemma-embedding": "post_attention_norm"}


def gguf_name(architecture, name):
    stem, kind = re.sub(r"^(roberta|model)\.", "", name).rsplit(".", 1)
    layer = re.match(r"(?:encoder\.layer|layers)\.(\d+)\.(.*)", stem)
    if not layer:
        return f"{NAMES[stem]}.{kind}" if stem in NAMES else None  # the pooler is not used
    part = layer[2]
    own = POST_ATTENTION.get(architecture, "attn_output_norm") if part == "post_attention_layernorm" else LAYER_NAMES[part]
    return f"blk.{layer[1]}.{own}.{kind}"


def spread(model, generator, norm_offset):
    """Random weights with which every part of the model matters."""
    for name, weight in model.named_parameters():
        is_norm = weight.dim() == 1 and name.endswith("weight")
        if is_norm:
            values = 0.5 + torch.rand(weight.shape, generator=generator) - norm_offset
        elif weight.dim() == 1 or "embed" in name:
            values = 0.5 * torch.randn(weight.shape, generator=generator)
        else:
            values = 1.5 / math.sqrt(weight.shape[-1]) * torch.randn(weight.shape, generator=generator)
        weight.data.copy_(values)


def tensors(architecture, model):
    for name, weight in model.named_parameters():
        target, values = gguf_name(architecture, name), weight.detach().numpy()
        if target is None:
            continue
        if architecture == "gemma-embedding" and target.endswith("norm.weight"):
            values = values + 1.0
        if target == "position_embd.weight" and "XLMRoberta" in type(model).__name__:
            values = values[2:]
        yield target, values


def metadata(name, architecture, config, rank):
    rows = config.max_position_embeddings - (2 if config.model_type == "xlm-roberta" else 0)
    yield "general.architecture", STRING, architecture
    yield "general.name", STRING, name
    yield "tokenizer.ggml.model", STRING, "none"
    own = [
        ("block_count", U32, config.num_hidden_layers), ("context_length", U32, rows),
        ("embedding_length", U32, config.hidden_size), ("feed_forward_length", U32, config.intermediate_size),
        ("attention.head_count", U32, config.num_attention_heads), ("attention.causal", BOOL, False)]
    if hasattr(config, "rms_norm_eps"):
        own += [("attention.layer_norm_rms_epsilon", F32, config.rms_norm_eps),
                ("attention.head_count_kv", U32, config.num_key_value_heads)]
    else:
        own.append(("attention.layer_norm_epsilon", F32, getattr(config, "layer_norm_eps", 0) or config.norm_eps))
    parameters = getattr(config, "rope_parameters", None) or {}
    if parameters:
        own.append(("rope.freq_base", F32, parameters.get("full_attention", parameters)["rope_theta"]))
    if "sliding_attention" in parameters:
        own.append(("rope.freq_base_swa", F32, parameters["sliding_attention"]["rope_theta"]))
    if architecture == "modern-bert":
        own += [("attention.sliding_window", U32, config.local_attention), ("attention.sliding_window_pattern", U32, 3),
                ("hidden_activation", STRING, config.hidden_activation), ("rope.scaling.type", STRING, "none")]
    if architecture == "gemma-embedding":
        own += [("attention.sliding_window", U32, MODELS[name][2]["sliding_window"]), ("attention.key_length", U32, config.head_dim),
                ("attention.value_length", U32, config.head_dim)]
    own.append(("pooling_type", U32, RANK if rank else 1))
    yield from ((f"{architecture}.{key}", kind, value) for key, kind, value in own)


def make(folder, name):
    architecture, family, own = MODELS[name]
    config_class = re.sub("(Model|ForSequenceClassification)$", "Config", family)
    config = getattr(transformers, config_class)(**{**SIZES, **own}, attn_implementation="eager")
    model = getattr(transformers, family)(config).float().eval()
    generator = torch.Generator().manual_seed(seed_of("encoders/" + name))
    spread(model, generator, 1.0 if architecture == "gemma-embedding" else 0.0)
    weights = list(tensors(architecture, model))
    rank = "Classification" in family
    rows, texts = [], [torch.randint(4, config.vocab_size, (1, length), generator=generator) for length in LENGTHS]
    dense = []
    if name in DENSE:
        inner, outer = DENSE[name]
        dense = [torch.randn(inner, config.hidden_size, generator=generator) / math.sqrt(config.hidden_size),
                 torch.randn(outer, inner, generator=generator) / math.sqrt(inner)]
        weights += [("dense_2.weight", dense[0].numpy()), ("dense_3.weight", dense[1].numpy())]
    with torch.no_grad():
        for text in texts:
            out = model(text)
            states = out.logits if rank else out.last_hidden_state[0]
            for layer in dense:
                states = states @ layer.T
            rows.append(states.numpy())
    rows = numpy.concatenate(rows)
    write_gguf(folder / f"{name}.gguf", list(metadata(name, architecture, config, rank)), weights)
    head = struct.pack("<III", len(texts), rows.shape[1], int(rank)) + struct.pack(f"<{len(texts)}I", *LENGTHS)
    ids = torch.cat(texts, 1)[0].numpy().astype("<i4").tobytes()
    (folder / f"{name}.states").write_bytes(head + ids + rows.astype("<f4").tobytes())
    print(f"{name:18} {rows.shape[0]} rows of {rows.shape[1]}, spread {rows.std():.2f}")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        if name in sys.argv[2:] or len(sys.argv) == 2:
            make(folder, name)


if __name__ == "__main__":
    main()
