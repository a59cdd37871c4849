"""The network: a small Llama (RMSNorm, rotary grouped-query attention, SwiGLU) with tied embeddings."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    vocab: int = 4096
    hidden: int = 512
    layers: int = 6
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 64
    ffn: int = 512
    context: int = 2048
    rope_base: float = 10000.0
    eps: float = 1e-5


def fake_quant(weight):
    """4-bit rounding of blocks of 32, as GGUF's Q4_0 does it; the gradient passes through unchanged."""
    blocks = weight.detach().float().unflatten(1, (-1, 32))
    top = blocks.gather(2, blocks.abs().argmax(2, keepdim=True))
    scale = top / -8
    inverse = torch.where(scale == 0, 0.0, 1.0 / scale)
    rounded = (torch.floor(blocks * inverse + 8.5).clamp(0, 15) - 8) * scale
    return weight + (rounded.flatten(1).to(weight.dtype) - weight).detach()


class Linear(nn.Linear):
    quantised = False

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x):
        return F.linear(x, fake_quant(self.weight) if Linear.quantised else self.weight)


class Norm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x.float(), (x.size(-1),), self.weight, self.eps).to(x.dtype)


def rope_table(config, device):
    """cos and sin by position and pair; pair p of a head is its elements 2p and 2p + 1."""
    frequency = config.rope_base ** (-torch.arange(0, config.head_dim, 2, device=device).float() / config.head_dim)
    angle = torch.arange(config.context, device=device).float()[:, None] * frequency
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    """x: batch, heads, positions, head_dim."""
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2).to(x.dtype)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.attn_norm, self.ffn_norm = Norm(c.hidden, c.eps), Norm(c.hidden, c.eps)
        self.attn_q = Linear(c.hidden, c.heads * c.head_dim)
        self.attn_k = Linear(c.hidden, c.kv_heads * c.head_dim)
        self.attn_v = Linear(c.hidden, c.kv_heads * c.head_dim)
        self.attn_output = Linear(c.heads * c.head_dim, c.hidden)
        self.ffn_gate, self.ffn_up = Linear(c.hidden, c.ffn), Linear(c.hidden, c.ffn)
        self.ffn_down = Linear(c.ffn, c.hidden)

    def forward(self, x, cos, sin, attend):
        batch, length, _ = x.shape
        c, h = self.c, self.attn_norm(x)
        q = self.attn_q(h).view(batch, length, c.heads, c.head_dim).transpose(1, 2)
        k = self.attn_k(h).view(batch, length, c.kv_heads, c.head_dim).transpose(1, 2)
        v = self.attn_v(h).view(batch, length, c.kv_heads, c.head_dim).transpose(1, 2)
        a = attend(rotate(q, cos, sin), rotate(k, cos, sin), v)
        x = x + self.attn_output(a.transpose(1, 2).reshape(batch, length, c.heads * c.head_dim))
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.token_embd = nn.Embedding(config.vocab, config.hidden)
        self.blk = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.output_norm = Norm(config.hidden, config.eps)
        nn.init.normal_(self.token_embd.weight, std=0.03)
        for name, weight in self.named_parameters():
            if weight.dim() == 2 and not name.startswith("token"):
                nn.init.normal_(weight, std=weight.size(1) ** -0.5)
            if "attn_output" in name or "ffn_down" in name:
                nn.init.zeros_(weight)

    def embedding(self):
        return fake_quant(self.token_embd.weight) if Linear.quantised else self.token_embd.weight

    def forward(self, ids, attend=causal):
        cos, sin = rope_table(self.config, ids.device)
        cos, sin = cos[:ids.size(1)], sin[:ids.size(1)]
        table = self.embedding()
        x = F.embedding(ids, table)
        for block in self.blk:
            x = block(x, cos, sin, attend)
        return F.linear(self.output_norm(x), table)
