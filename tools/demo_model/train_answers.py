"""Trains the image encoder on by the answers themselves: questions about pictures go through the language model, whose
weights stay, and what is wrong in an answer moves the encoder."""
import argparse
import random
import time

import torch
import torch.nn.functional as F
from torch import nn

import gguf_file
from chat import tokenizer_of
from evaluate import load
from eyes import normalised, pixels_of, read, write
from pictures import Painter, subject
from train_words import Reader, answers


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="the GGUF file of the language model, with the marks of images")
    parser.add_argument("--start", required=True, help="the encoder that train_eyes.py has written")
    parser.add_argument("--out", required=True)
    parser.add_argument("--fonts", default="/usr/share/fonts/truetype/dejavu")
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=20265)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    rng, painter, eyes = random.Random(args.seed), Painter(args.fonts), read(args.start)
    model = load(args.model, "cpu").requires_grad_(False)
    reader = Reader(tokenizer_of(gguf_file.read(args.model)[0]), eyes.config.rows)
    optimizer = torch.optim.AdamW(eyes.parameters(), weight_decay=.01, betas=(.9, .98))
    began, recent = time.time(), []
    for step in range(args.steps):
        optimizer.param_groups[0]["lr"] = args.rate * min((step + 1) / 20, (args.steps - step) / (.8 * args.steps), 1)
        subjects = [subject(rng, False) for _ in range(args.batch)]
        pixels = normalised(pixels_of([painter.picture(*of, rng) for of in subjects], eyes.config))
        ids, counts = reader.batch([thing for thing, _, _ in subjects], rng)
        logits, wanted = answers(model, eyes(pixels), ids, counts, reader.row)
        loss = F.cross_entropy(logits, wanted)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(eyes.parameters(), 1.0)
        optimizer.step()
        recent = recent[-24:] + [(loss.item(), (logits.argmax(1) == wanted).float().mean().item())]
        if (step + 1) % 25 == 0:
            loss, right = torch.tensor(recent).mean(0).tolist()
            print(f"{step + 1}: loss {loss:.4f}, tokens right {right:.1%}  {time.time() - began:.0f} s", flush=True)
    write(args.out, eyes)
    print("wrote", args.out)


if __name__ == "__main__":
    main()
