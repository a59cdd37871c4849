#!/usr/bin/env python3
"""Makes the tiny models and EAGLE3 drafts of tests/golden/models/eagle3, and the logits that the drafts must give.

A draft has random weights and is computed here from the paper's equations, in f32, on the layers' inputs that transformers
gives for its model. With x the inputs of the target layers side by side, e the embedding of the token behind each position
(behind the last one the first) and n RMSNorms:
    g = fc x, or fc n(x);  r = g, or n(g)
    a = r + Wo attention(rope(Wq [n(e); n(g)]), rope(Wk [n(e); n(g)]), Wv [n(e); n(g)])
    s = a + Wdown (silu(Wgate n(a)) * Wup n(a));  logits = output(n(s))
The draft goes on from s in place of g. NAME.logits has the logits of all positions; NAME-next.logits those of some tokens
behind them that it is given, in the model's ids, one after another.

    golden/bin/python tools/goldens/golden_eagle3.py tests/golden/models
"""
import pathlib
import struct
import sys

import numpy
import torch

import model_golden
from model_golden_parts import BOOL, COUNTS, F32, STRING, U32, neighbours, write_gguf

FOLDER = "eagle3/"
NEXT = 3
SIZES = {"num_hidden_layers": 4, "num_key_value_heads": 2, "intermediate_size": 32}
EPSILON, BASE = 1e-3, 500.0

ROPE = {"rope_parameters": model_golden.rope(10000.0)}

# name: (entry of MODELS, sizes of the draft)
DRAFTS = {
    # As wide as its model, with the model's embedding and all of its tokens.
    "llama": (
        ("llama", "Llama", {**SIZES, **ROPE, "hidden_size": 32, "num_attention_heads": 4, "rms_norm_eps": 1e-5}),
        {"hidden": 32, "heads": 4, "kv_heads": 4, "head_dim": 8, "width": 48, "layers": [1, 2, 3]}),
    # Its own embedding, a part of the tokens, both norms, and the last layer's output.
    "qwen3": (
        ("qwen3", "Qwen3", {
            **SIZES, **ROPE, "hidden_size": 32, "num_attention_heads": 4, "head_dim": 16, "rms_norm_eps": 1e-6}),
        {"hidden": 32, "heads": 6, "kv_heads": 2, "head_dim": 16, "width": 40, "layers": [1, 3, 4], "embedding": True,
         "vocab": 70, "norm_before_residual": True, "norm_before_fc": True}),
    # Of another width than its model.
    "qwen2": (
        ("qwen2", "Qwen2", {**SIZES, **ROPE, "hidden_size": 48, "num_attention_heads": 4, "rms_norm_eps": 1e-6}),
        {"hidden": 32, "heads": 2, "kv_heads": 1, "head_dim": 16, "width": 40, "layers": [2, 3], "embedding": True}),
}


def norm(x, weight):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPSILON) * weight


def turn(x, positions):
    """x [heads, rows, dim]: elements p and p + dim / 2 turn together."""
    half = x.shape[-1] // 2
    angles = positions[:, None].double() * BASE ** (-torch.arange(half, dtype=torch.float64) / half)
    cos, sin = angles.cos().float(), angles.sin().float()
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class Draft:
    def __init__(self, sizes, model_hidden, model_vocab, generator):
        self.sizes, n = sizes, sizes["hidden"]
        vocab = sizes.get("vocab", model_vocab)
        q, kv = sizes["heads"] * sizes["head_dim"], sizes["kv_heads"] * sizes["head_dim"]
        fused = model_hidden * len(sizes["layers"])

        def matrix(rows, columns):
            return torch.randn(rows, columns, generator=generator) * columns ** -0.5 * 1.5

        def vector(length):
            return 1.0 + 0.4 * torch.randn(length, generator=generator)

        self.w = {
            "fc": matrix(n, fused), "blk.0.attn_norm": vector(n), "blk.0.attn_norm_2": vector(n),
            "blk.0.attn_q": matrix(q, 2 * n), "blk.0.attn_k": matrix(kv, 2 * n), "blk.0.attn_v": matrix(kv, 2 * n),
            "blk.0.attn_output": matrix(n, q), "blk.0.ffn_norm": vector(n), "blk.0.ffn_gate": matrix(sizes["width"], n),
            "blk.0.ffn_up": matrix(sizes["width"], n), "blk.0.ffn_down": matrix(n, sizes["width"]), "output_norm": vector(n),
            "output": matrix(vocab, n)}
        if sizes.get("norm_before_fc"):
            self.w["enc.output_norm"] = vector(fused)
        if sizes.get("embedding"):
            self.w["token_embd"] = torch.randn(model_vocab, n, generator=generator)
        self.d2t = None
        if "vocab" in sizes:
            self.d2t = torch.randperm(model_vocab, generator=generator)[:vocab].sort().values
        self.k = self.v = torch.zeros(sizes["kv_heads"], 0, sizes["head_dim"])

    def fuse(self, features):
        if self.sizes.get("norm_before_fc"):
            features = norm(features, self.w["enc.output_norm"])
        return features @ self.w["fc"].T

    def block(self, embedding, g, first):
        """The states of rows at positions from `first` on; appends their K and V."""
        w, rows, dim = self.w, g.shape[0], self.sizes["head_dim"]
        normed = norm(g, w["blk.0.attn_norm_2"])
        x = torch.cat([norm(embedding, w["blk.0.attn_norm"]), normed], -1)
        positions = torch.arange(first, first + rows)

        def heads(name):
            return (x @ w[f"blk.0.attn_{name}"].T).reshape(rows, -1, dim).transpose(0, 1)

        self.k = torch.cat([self.k, turn(heads("k"), positions)], 1)
        self.v = torch.cat([self.v, heads("v")], 1)
        q = turn(heads("q"), positions)
        share = q.shape[0] // self.k.shape[0]
        scores = q @ self.k.repeat_interleave(share, 0).transpose(1, 2) * dim ** -0.5
        ahead = torch.arange(self.k.shape[1])[None, :] > positions[:, None]
        mixed = scores.masked_fill(ahead, -torch.inf).softmax(-1) @ self.v.repeat_interleave(share, 0)
        mixed = mixed.transpose(0, 1).reshape(rows, -1) @ w["blk.0.attn_output"].T
        a = (normed if self.sizes.get("norm_before_residual") else g) + mixed
        inner = norm(a, w["blk.0.ffn_norm"])
        fed = torch.nn.functional.silu(inner @ w["blk.0.ffn_gate"].T) * (inner @ w["blk.0.ffn_up"].T)
        return a + fed @ w["blk.0.ffn_down"].T

    def head(self, states):
        return norm(states, self.w["output_norm"]) @ self.w["output"].T

    def model_token(self, token):
        return token if self.d2t is None else self.d2t[token]

    def tensors(self):
        for name, values in self.w.items():
            values = values.numpy()
            if name in ("blk.0.attn_q", "blk.0.attn_k"):
                values = neighbours(values, self.sizes["heads" if name.endswith("q") else "kv_heads"])
            yield f"{name}.weight", values
        if self.d2t is not None:
            yield "d2t", self.d2t.numpy()

    def metadata(self, model_hidden):
        sizes = self.sizes
        yield "general.architecture", STRING, "eagle3"
        for key, kind, value in (
                ("block_count", U32, 1), ("context_length", U32, 128), ("embedding_length", U32, sizes["hidden"]),
                ("feed_forward_length", U32, sizes["width"]), ("attention.head_count", U32, sizes["heads"]),
                ("attention.head_count_kv", U32, sizes["kv_heads"]), ("attention.key_length", U32, sizes["head_dim"]),
                ("attention.value_length", U32, sizes["head_dim"]), ("attention.layer_norm_rms_epsilon", F32, EPSILON),
                ("rope.freq_base", F32, BASE), ("rope.dimension_count", U32, sizes["head_dim"]),
                ("target_layers", COUNTS, sizes["layers"]), ("target_hidden_size", U32, model_hidden),
                ("norm_before_residual", BOOL, sizes.get("norm_before_residual", False)),
                ("norm_before_fc", BOOL, sizes.get("norm_before_fc", False))):
            yield f"eagle3.{key}", kind, value


def write_logits(path, ids, logits):
    head = struct.pack("<II", len(ids), logits.shape[1]) + numpy.asarray(ids).astype("<i4").tobytes()
    path.write_bytes(head + logits.numpy().astype("<f4").tobytes())


@torch.no_grad()
def make(folder, name):
    (architecture, family, own), sizes = DRAFTS[name]
    name = FOLDER + name
    model, config, generator = model_golden.build(name, architecture, family, own)
    pairs = list(model_golden.metadata(architecture, name, config))
    write_gguf(folder / f"{name}.gguf", pairs, list(model_golden.tensors(architecture, name, config, model)))

    draft = Draft(sizes, config.hidden_size, config.vocab_size, generator)
    write_gguf(folder / f"{name}-draft.gguf", list(draft.metadata(config.hidden_size)), list(draft.tensors()))

    ids = torch.randint(0, config.vocab_size, (1, model_golden.TOKENS), generator=generator)
    layers = {}
    for index, layer in enumerate(model.model.layers):
        layer.register_forward_hook(
            lambda _, args, output, index=index: layers.update({index + 1: output[0] if isinstance(output, tuple) else output}))
    model(ids, use_cache=False)
    features = torch.cat([layers[index].reshape(model_golden.TOKENS, -1) for index in sizes["layers"]], -1)
    table = draft.w.get("token_embd", model.model.embed_tokens.weight)
    states = draft.block(table[ids.roll(-1, 1)[0]], draft.fuse(features), 0)
    logits = draft.head(states)
    write_logits(folder / f"{name}-draft.logits", ids[0], logits)

    fed, rows, state = [], [], states[-1:]
    for step in range(NEXT):
        token = int(draft.model_token((rows[-1] if rows else logits[-1]).argmax()))
        state = draft.block(table[token][None], state, model_golden.TOKENS + step)
        fed.append(token)
        rows.append(draft.head(state)[0])
    write_logits(folder / f"{name}-next.logits", fed, torch.stack(rows))
    print(f"{name}: logits spread {logits.std():.2f}, then {fed}")


def main():
    folder = pathlib.Path(sys.argv[1])
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    for name in DRAFTS:
        make(folder, name)


if __name__ == "__main__":
    main()
