"""Trains the model on the shards: Muon for the matrices, AdamW for the rest, documents masked from one another."""
import argparse
import glob
import math
import os
import time
from dataclasses import asdict

import numpy as np
import torch
import torch.nn.functional as F

from model import Config, Linear, Model


def masked_attention(docs):
    """Attention within each row's documents, by torch's flex_attention (GPU) or a dense mask (elsewhere)."""
    if not docs.is_cuda:
        same = (docs[:, :, None] == docs[:, None, :]).tril()[:, None]
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, same, enable_gqa=True)
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def visible(b, h, i, j):
        return (i >= j) & (docs[b, i] == docs[b, j])
    mask = create_block_mask(visible, docs.size(0), None, docs.size(1), docs.size(1), device=docs.device)
    return lambda q, k, v: flex_attention(q, k, v, block_mask=mask, enable_gqa=True)


def orthogonalise(g, steps=5):
    """Newton-Schulz iteration toward the nearest orthogonal matrix, for a stack of matrices."""
    x = g.bfloat16()
    tall = x.size(-2) > x.size(-1)
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum=0.95, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            shapes = {}
            for p in group["params"]:
                shapes.setdefault(p.shape, []).append(p)
            for shape, params in shapes.items():
                updates = []
                for p in params:
                    buffer = self.state[p].setdefault("momentum", torch.zeros_like(p))
                    buffer.lerp_(p.grad, 1 - group["momentum"])
                    updates.append(p.grad.lerp(buffer, group["momentum"]))
                update = orthogonalise(torch.stack(updates)).float() * max(1, shape[0] / shape[1]) ** 0.5
                torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(params, list(update.unbind()), alpha=-group["lr"])


class Rows:
    """All rows of all shards on the device, handed out in a seeded order, epoch after epoch."""

    def __init__(self, folder, device, seed):
        shards = [np.load(path) for path in sorted(glob.glob(os.path.join(folder, "shard*.npz")))]
        self.parts = [torch.from_numpy(np.concatenate([s[key] for s in shards]).astype(kind)).to(device)
                      for key, kind in (("ids", np.int16), ("weights", np.uint8), ("docs", np.uint8))]
        self.generator, self.order = torch.Generator().manual_seed(seed), torch.empty(0, dtype=torch.long)

    def batch(self, size):
        if len(self.order) < size:
            self.order = torch.randperm(len(self.parts[0]), generator=self.generator)
        index, self.order = self.order[:size].to(self.parts[0].device), self.order[size:]
        ids, weights, docs = (part[index] for part in self.parts)
        return ids.long(), weights.float() / 100, docs.int()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True, help="checkpoint to write")
    parser.add_argument("--start", help="checkpoint to go on from")
    parser.add_argument("--minutes", type=float, default=20, help="stop the schedule after this much training time")
    parser.add_argument("--steps", type=int, default=0, help="fixed number of steps instead of --minutes")
    parser.add_argument("--rows", type=int, default=128, help="rows per step")
    parser.add_argument("--micro-rows", type=int, default=64)
    parser.add_argument("--lr-muon", type=float, default=0.02)
    parser.add_argument("--lr-adam", type=float, default=0.003)
    parser.add_argument("--decay-from", type=float, default=0.5, help="share of the run after which the rate falls")
    parser.add_argument("--quantise-from", type=float, default=0.8, help="share after which half the steps see 4-bit weights")
    parser.add_argument("--seed", type=int, default=1)
    for key, value in asdict(Config()).items():
        parser.add_argument("--" + key.replace("_", "-"), type=type(value), default=value)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = Config(**{key: getattr(args, key) for key in asdict(Config())})
    model = Model(config).to(device)
    if args.start:
        model.load_state_dict(torch.load(args.start, map_location=device)["model"])
    print("parameters:", sum(p.numel() for p in model.parameters()), flush=True)
    rows = Rows(args.data, device, args.seed)
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and "token" not in n]
    others = [p for n, p in model.named_parameters() if p.dim() == 1 or "token" in n]
    optimizers = [Muon(matrices, args.lr_muon, weight_decay=0.05),
                  torch.optim.AdamW(others, args.lr_adam, betas=(0.9, 0.98), weight_decay=0.01, fused=device == "cuda")]
    base = [g["lr"] for o in optimizers for g in o.param_groups]

    def loss_of(ids, weights, docs):
        with torch.autocast(device, torch.bfloat16):
            logits = model(ids, masked_attention(docs))
        loss = F.cross_entropy(logits[:, :-1].float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        return (loss * weights[:, 1:].flatten()).sum()
    if device == "cuda":
        loss_of = torch.compile(loss_of, dynamic=False)

    step, began, shown, window = 0, None, time.time(), []
    while True:
        if began is None and step == 10:
            began = time.time()  # compiling is not counted
        elapsed = (time.time() - began) / 60 if began else 0.0
        done = step / args.steps if args.steps else elapsed / args.minutes
        if done >= 1:
            break
        rate = min(1, (step + 1) / 200) * (1 if done < args.decay_from else
                                           max(0.01, (1 - done) / (1 - args.decay_from)))
        for group, lr in zip((g for o in optimizers for g in o.param_groups), base):
            group["lr"] = lr * rate
        Linear.quantised = step == 5 or (done >= args.quantise_from and step % 2 == 0)  # step 5: compile early
        ids, weights, docs = rows.batch(args.rows)
        total = weights[:, 1:].sum()
        for at in range(0, args.rows, args.micro_rows):
            piece = slice(at, at + args.micro_rows)
            loss = loss_of(ids[piece], weights[piece], docs[piece]) / total
            loss.backward()
            window.append(loss.detach())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step += 1
        if step % 100 == 0 or step in (1, 10):
            mean = torch.stack(window).sum().item() / len(window) * (args.rows // args.micro_rows)
            speed = len(window) * args.micro_rows * config.context / (time.time() - shown)
            print(f"step {step}  {done:.1%}  loss {mean:.4f}  {speed / 1e6:.2f} M tokens/s", flush=True)
            window, shown = [], time.time()
            if not math.isfinite(mean):
                raise SystemExit("the loss is not finite")
    Linear.quantised = False
    torch.save({"config": asdict(config), "model": {k: v.cpu() for k, v in model.state_dict().items()}}, args.out)
    print("saved", args.out, "after", step, "steps", flush=True)


if __name__ == "__main__":
    main()
