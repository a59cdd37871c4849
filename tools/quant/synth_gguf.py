#!/usr/bin/env python3
"""Writes a GGUF file of a real model's shape with random weights, for speed measurements. Needs numpy.

With VOCAB.gguf its tokenizer is copied in and the model's vocabulary gets its size; with the word `words` a tokenizer of the
model's size is made up (a server needs one); without, there is none.
usage: synth_gguf.py SHAPE[/LAYERS] MIX OUT.gguf [VOCAB.gguf | words]
With LAYERS the model has that many, to fit a smaller machine.
MIX: f32 f16 bf16 q8_0 q6_k q5_k q4_k q4_0 for matrices of one type, q4_k_m for the usual mix of Q4_K and Q6_K, or mxfp4 for experts
in MXFP4 and all else in Q8_0.
"""
import dataclasses
import sys

import numpy as np

import gguf_io
import gguf_quant
import synth_vocab


@dataclasses.dataclass
class Model:
    arch: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    rope_base: float
    qkv_bias: bool = False
    qk_norm: bool = False
    experts: int = 0
    experts_used: int = 0
    expert_ffn: int = 0
    window: int = 0  # of the layers that have one
    post_norms: bool = False
    tied: bool = False  # no output matrix: the embedding serves
    n_rot: int = 0  # of a head, where not all of it turns
    sections: tuple = ()  # of the turning pairs: time, height, width, other
    shared_ffn: int = 0  # of the expert that every token takes, behind a gate
    attention_every: int = 0  # layers; the others are gated delta nets, and heads of attention have a gate
    key_heads: int = 0  # of a gated delta net
    value_heads: int = 0
    state_dim: int = 0  # of its heads, keys and values
    conv_kernel: int = 0
    q_rank: int = 0  # of latent attention
    kv_rank: int = 0
    plain_dim: int = 0  # of a head's query, beside its n_rot turning elements
    value_dim: int = 0
    leading_dense: int = 0  # layers without experts
    biases: bool = False  # of every matrix of a layer; and a sink for each head
    yarn: float = 0  # RoPE's scaling factor, of 4,096 positions

    def attends(self, layer):
        return self.attention_every == 0 or (layer + 1) % self.attention_every == 0

    def metadata(self):
        """Keys beyond those of every model, without the architecture's name before them."""
        latent = {"attention.q_lora_rank": self.q_rank, "attention.kv_lora_rank": self.kv_rank,
                  "attention.key_length_mla": self.plain_dim + self.n_rot, "attention.value_length_mla": self.value_dim,
                  "leading_dense_block_count": self.leading_dense, "expert_gating_func": SIGMOID, "expert_shared_count": 1,
                  "expert_group_count": 1, "expert_group_used_count": 1} if self.kv_rank else {}
        entries = latent | {"attention.sliding_window": self.window, "expert_count": self.experts, "expert_used_count": self.experts_used,
                   "expert_feed_forward_length": self.expert_ffn,
                   "expert_shared_feed_forward_length": 0 if self.kv_rank else self.shared_ffn,
                   "rope.scaling.original_context_length": 4096 if self.yarn else 0,
                   "feed_forward_length": self.ffn, "full_attention_interval": self.attention_every,
                   "ssm.conv_kernel": self.conv_kernel, "ssm.state_size": self.state_dim,
                   "ssm.group_count": self.key_heads, "ssm.time_step_rank": self.value_heads,
                   "ssm.inner_size": self.value_heads * self.state_dim}
        return {key: value for key, value in entries.items() if value}


SHAPES = {
    "tinyllama": Model("llama", 22, 2048, 5632, 32, 4, 64, 32000, 1e4),
    "llama2-7b": Model("llama", 32, 4096, 11008, 32, 32, 128, 32000, 1e4),
    "llama3-8b": Model("llama", 32, 4096, 14336, 32, 8, 128, 128256, 5e5),
    "llama3-70b": Model("llama", 80, 8192, 28672, 64, 8, 128, 128256, 5e5),
    "qwen2.5-0.5b": Model("qwen2", 24, 896, 4864, 14, 2, 64, 151936, 1e6, qkv_bias=True),
    "qwen2.5-1.5b": Model("qwen2", 28, 1536, 8960, 12, 2, 128, 151936, 1e6, qkv_bias=True),
    "qwen2.5-7b": Model("qwen2", 28, 3584, 18944, 28, 4, 128, 152064, 1e6, qkv_bias=True),
    "qwen3-8b": Model("qwen3", 36, 4096, 12288, 32, 8, 128, 151936, 1e6, qk_norm=True),
    "qwen3-30b-a3b": Model("qwen3moe", 48, 2048, 6144, 32, 4, 128, 151936, 1e6, qk_norm=True, experts=128, experts_used=8,
                           expert_ffn=768),
    "qwen3.5-35b-a3b": Model("qwen35moe", 40, 2048, 0, 16, 2, 256, 248320, 1e7, qk_norm=True, experts=256, experts_used=8,
                             expert_ffn=512, shared_ffn=512, n_rot=64, sections=(11, 11, 10, 0), attention_every=4,
                             key_heads=16, value_heads=32, state_dim=128, conv_kernel=4),
    "gemma3-12b": Model("gemma3", 48, 3840, 15360, 16, 8, 256, 262208, 1e6, qk_norm=True, window=1024, post_norms=True,
                        tied=True),
    "glm-4.7-flash": Model("deepseek2", 47, 2048, 10240, 20, 1, 576, 154880, 1e6, experts=64, experts_used=4, expert_ffn=1536,
                           shared_ffn=1536, n_rot=64, q_rank=768, kv_rank=512, plain_dim=192, value_dim=256, leading_dense=1),
    "gpt-oss-20b": Model("gpt-oss", 24, 2880, 2880, 64, 8, 64, 201088, 1.5e5, experts=32, experts_used=4, expert_ffn=2880,
                         window=128, biases=True, yarn=32.0),
}
SIGMOID = 2  # of expert_gating_func
Q4_K_M_FILE_TYPE = 15
MXFP4_FILE_TYPE = 38
PRE_TOKENIZERS = {"llama": "llama-bpe", "qwen35moe": "qwen35", "gpt-oss": "gpt-4o", "deepseek2": "glm4"}
BOOL = 7
DEVIATION = 0.02  # of the weights
# Random values are made once per type and repeated, in another order each time. A prime number of blocks can be taken in steps of any size.
REPEATED_BLOCKS = {1: 2097143, 32: 65521, 256: 8191}


class RandomWeights:
    def __init__(self):
        self._blocks = {}
        self._random = np.random.default_rng(7)

    def blocks(self, kind):
        """The blocks of a type, as bytes: [block, byte]."""
        if kind not in self._blocks:
            elems = gguf_io.TYPES[kind][1]
            count = REPEATED_BLOCKS[elems]
            values = self._random.standard_normal(count * elems, dtype=np.float32) * np.float32(DEVIATION)
            self._blocks[kind] = np.frombuffer(b"".join(gguf_quant.quantize(kind, values)), np.uint8).reshape(count, -1)
        return self._blocks[kind]

    def normal(self, count):
        """Fresh f32 values as bytes: what small matrices hold never repeats from layer to layer."""
        return (self._random.standard_normal(count, dtype=np.float32) * np.float32(DEVIATION)).tobytes()

    def pieces(self, kind, nbytes):
        """The data of a matrix. No two rows are the same: tokens whose rows of the head are the same would always be equally probable."""
        blocks = self.blocks(kind)
        step = 1
        while nbytes > 0:
            piece = blocks[np.arange(len(blocks)) * step % len(blocks)].tobytes()[:nbytes]
            nbytes -= len(piece)
            step += 1
            yield piece


def matrix_type(model, mix, name, layer):
    """In the q4_k_m mix the head, and attn_v and ffn_down of the first and last eighth and every third layer, get Q6_K."""
    if mix == "MXFP4":
        return mix if name.endswith("_exps") else "Q8_0"
    if mix != "Q4_K_M":
        return mix
    if name in ("attn_v", "attn_v_b", "ffn_down", "ffn_down_exps", "ffn_down_shexp"):
        eighth = model.layers // 8
        finer = layer < eighth or layer >= 7 * model.layers // 8 or (layer - eighth) % 3 == 2
        return "Q6_K" if finer else "Q4_K"
    return "Q6_K" if name == ("token_embd" if model.tied else "output") else "Q4_K"


def tensors_of(model, mix):
    weights = RandomWeights()

    def matrix(name, inputs, outputs, layer=None, experts=0):
        kind = matrix_type(model, mix, name, layer)
        if inputs % gguf_io.TYPES[kind][1]:
            kind = "Q8_0" if inputs % 32 == 0 else "F32"
        full = f"{name}.weight" if layer is None else f"blk.{layer}.{name}.weight"
        tensor = gguf_io.Tensor(full, (inputs, outputs, experts) if experts else (inputs, outputs), kind, None)
        tensor.data = weights.pieces(kind, tensor.nbytes())
        return tensor

    def vector(name, size, fill):
        return gguf_io.Tensor(name, (size,), "F32", np.full(size, fill, np.float32).tobytes())

    def delta_net(layer):
        values, heads = model.value_heads * model.state_dim, model.value_heads
        channels = 2 * model.key_heads * model.state_dim + values
        yield matrix("attn_qkv", model.hidden, channels, layer)
        yield matrix("attn_gate", model.hidden, values, layer)
        for name in ("ssm_alpha", "ssm_beta"):
            yield matrix(name, model.hidden, heads, layer)
        conv = weights.normal(model.conv_kernel * channels)
        yield gguf_io.Tensor(f"blk.{layer}.ssm_conv1d.weight", (model.conv_kernel, channels), "F32", conv)
        yield vector(f"blk.{layer}.ssm_a", heads, -1)
        yield vector(f"blk.{layer}.ssm_dt.bias", heads, 0)
        yield vector(f"blk.{layer}.ssm_norm.weight", model.state_dim, 1)
        yield matrix("ssm_out", values, model.hidden, layer)

    def latent_attention(layer):
        for name, size in (("attn_q_a_norm", model.q_rank), ("attn_kv_a_norm", model.kv_rank)):
            yield vector(f"blk.{layer}.{name}.weight", size, 1)
        yield matrix("attn_q_a", model.hidden, model.q_rank, layer)
        yield matrix("attn_q_b", model.q_rank, model.heads * (model.plain_dim + model.n_rot), layer)
        yield matrix("attn_kv_a_mqa", model.hidden, model.kv_rank + model.n_rot, layer)
        yield matrix("attn_k_b", model.plain_dim, model.kv_rank, layer, model.heads)
        yield matrix("attn_v_b", model.kv_rank, model.value_dim, layer, model.heads)
        yield matrix("attn_output", model.heads * model.value_dim, model.hidden, layer)

    def biases(layer, sizes):
        for name, shape in sizes.items():
            values = weights.normal(int(np.prod(shape)))
            yield gguf_io.Tensor(f"blk.{layer}.{name}", shape, "F32", values)

    def attention(layer):
        queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
        query_rows = 2 * queries if model.attention_every else queries
        for name, size in (("attn_q", query_rows), ("attn_k", keys), ("attn_v", keys)):
            yield matrix(name, model.hidden, size, layer)
            if model.qkv_bias:
                yield vector(f"blk.{layer}.{name}.bias", size, 0)
        if model.qk_norm:
            for name in ("attn_q_norm", "attn_k_norm"):
                yield vector(f"blk.{layer}.{name}.weight", model.head_dim, 1)
        yield matrix("attn_output", queries, model.hidden, layer)
        if model.biases:
            yield from biases(layer, {"attn_q.bias": (queries,), "attn_k.bias": (keys,), "attn_v.bias": (keys,),
                                      "attn_output.bias": (model.hidden,), "attn_sinks.weight": (model.heads,)})

    yield matrix("token_embd", model.hidden, model.vocab)
    yield vector("output_norm.weight", model.hidden, 1)
    if not model.tied:
        yield matrix("output", model.hidden, model.vocab)
    for i in range(model.layers):
        yield vector(f"blk.{i}.attn_norm.weight", model.hidden, 1)
        yield from latent_attention(i) if model.kv_rank else attention(i) if model.attends(i) else delta_net(i)
        norm = "post_attention_norm" if model.attention_every or model.biases else "ffn_norm"
        yield vector(f"blk.{i}.{norm}.weight", model.hidden, 1)
        if model.post_norms:
            for name in ("post_attention_norm", "post_ffw_norm"):
                yield vector(f"blk.{i}.{name}.weight", model.hidden, 1)
        if model.experts and i >= model.leading_dense:
            router = weights.normal(model.experts * model.hidden)
            yield gguf_io.Tensor(f"blk.{i}.ffn_gate_inp.weight", (model.hidden, model.experts), "F32", router)
            yield matrix("ffn_gate_exps", model.hidden, model.expert_ffn, i, model.experts)
            yield matrix("ffn_up_exps", model.hidden, model.expert_ffn, i, model.experts)
            yield matrix("ffn_down_exps", model.expert_ffn, model.hidden, i, model.experts)
            if model.kv_rank:
                yield from biases(i, {"exp_probs_b.bias": (model.experts,)})
            if model.biases:
                yield from biases(i, {"ffn_gate_inp.bias": (model.experts,),
                                      "ffn_gate_exps.bias": (model.expert_ffn, model.experts),
                                      "ffn_up_exps.bias": (model.expert_ffn, model.experts),
                                      "ffn_down_exps.bias": (model.hidden, model.experts)})
            if model.shared_ffn and not model.kv_rank:
                gate = weights.normal(model.hidden)
                yield gguf_io.Tensor(f"blk.{i}.ffn_gate_inp_shexp.weight", (model.hidden,), "F32", gate)
            if model.shared_ffn:
                yield matrix("ffn_gate_shexp", model.hidden, model.shared_ffn, i)
                yield matrix("ffn_up_shexp", model.hidden, model.shared_ffn, i)
                yield matrix("ffn_down_shexp", model.shared_ffn, model.hidden, i)
        else:
            yield matrix("ffn_gate", model.hidden, model.ffn, i)
            yield matrix("ffn_up", model.hidden, model.ffn, i)
            yield matrix("ffn_down", model.ffn, model.hidden, i)


def metadata_of(model, shape, mix):
    text, u32, f32 = gguf_io.STRING, gguf_io.U32, gguf_io.FLOAT32
    a = model.arch
    entries = {
        "general.architecture": (text, a),
        "general.name": (text, f"synthetic {shape} {mix.lower()}"),
        "general.file_type": (u32, {"Q4_K_M": Q4_K_M_FILE_TYPE, "MXFP4": MXFP4_FILE_TYPE}.get(mix) or gguf_io.FILE_TYPES[mix]),
        f"{a}.block_count": (u32, model.layers),
        f"{a}.context_length": (u32, 32768),
        f"{a}.embedding_length": (u32, model.hidden),
        f"{a}.attention.head_count": (u32, model.heads),
        f"{a}.attention.head_count_kv": (u32, model.kv_heads),
        f"{a}.attention.key_length": (u32, model.head_dim),
        f"{a}.attention.value_length": (u32, model.kv_rank or model.head_dim),
        f"{a}.attention.layer_norm_rms_epsilon": (f32, 1e-5),
        f"{a}.rope.dimension_count": (u32, model.n_rot or model.head_dim),
        f"{a}.rope.freq_base": (f32, model.rope_base),
        f"{a}.vocab_size": (u32, model.vocab),
    } | {f"{a}.{key}": (u32, value) for key, value in model.metadata().items()}
    if model.kv_rank:
        entries |= {f"{a}.expert_weights_scale": (f32, 1.8), f"{a}.expert_weights_norm": (BOOL, True)}
    if model.yarn:
        entries |= {f"{a}.rope.scaling.type": (text, "yarn"), f"{a}.rope.scaling.factor": (f32, model.yarn)}
    values = {key: gguf_io.value(*entry) for key, entry in entries.items()}
    if model.sections:
        values[f"{a}.rope.dimension_sections"] = synth_vocab.integers(model.sections)
    return values


def synthesise(shape, mix, target, vocab=None):
    mix = mix.upper()
    shape, _, layers = shape.partition("/")
    if shape not in SHAPES:
        raise ValueError(f"shape {shape} is unknown; known: {', '.join(SHAPES)}")
    if mix != "Q4_K_M" and mix not in gguf_quant.QUANTIZE:
        raise ValueError(f"mix {mix} is unknown; known: q4_k_m, {', '.join(gguf_quant.QUANTIZE).lower()}")
    if layers and not 0 < int(layers) <= SHAPES[shape].layers:
        raise ValueError(f"{shape} has {SHAPES[shape].layers} layers, not {layers}")
    model = dataclasses.replace(SHAPES[shape], layers=int(layers or SHAPES[shape].layers))
    tokenizer = {"tokenizer.ggml.model": gguf_io.value(gguf_io.STRING, "no_vocab")}
    if vocab == "words":
        tokenizer = synth_vocab.metadata(model.vocab, PRE_TOKENIZERS.get(model.arch, "qwen2"))
    elif vocab:
        file = gguf_io.File(vocab)
        tokenizer = {key: raw for key, raw in file.metadata.items() if key.startswith("tokenizer.")}
        model = dataclasses.replace(model, vocab=file.array_length("tokenizer.ggml.tokens"))
    tensors = list(tensors_of(model, mix))
    gguf_io.write(target, metadata_of(model, shape, mix) | tokenizer, tensors)
    print(f"{target}: {len(tensors)} tensors, {sum(tensor.nbytes() for tensor in tensors) / 1e9:.2f} GB")


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__ + "SHAPE: " + " ".join(SHAPES))
    try:
        synthesise(*sys.argv[1:])
    except (ValueError, OSError) as error:
        sys.exit(f"synth_gguf.py: {error}")


if __name__ == "__main__":
    main()
