"""Finds rows that act as words for things: with those of a thing in the place of a picture the language model, whose
weights stay, answers questions about it."""
import argparse
import random
import time

import torch
import torch.nn.functional as F

import gguf_file
from chat import tokenizer_of
from evaluate import load
from eyes import MARKS, EyesConfig
from model import causal, rope_table
from pictures import DIGITS, SHAPES, THINGS, questions

NOISE = .1  # of a row's elements, as a share of their size: an encoder will not meet the rows exactly


class Reader:
    """Makes examples: the tokens of a question about a picture and its answer, and which of them count."""

    def __init__(self, tokenizer, rows):
        self.text = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
        before, row, behind = MARKS
        self.prompt = f"<|im_start|>user\n{before}{row * rows}{behind}\n{{}}<|im_end|>\n<|im_start|>assistant\n"
        self.row = tokenizer.token_to_id(row)

    def batch(self, things, rng):
        prompts = [self.text(self.prompt.format(rng.choice(questions(thing)))) for thing in things]
        replies = [self.text(f"{thing}<|im_end|>") for thing in things]
        length = max(map(len, map(list.__add__, prompts, replies)))
        ids = torch.zeros(len(things), length, dtype=torch.long)
        counts = torch.zeros(len(things), length, dtype=torch.bool)
        for i, (prompt, reply) in enumerate(zip(prompts, replies)):
            ids[i, :len(prompt) + len(reply)] = torch.tensor(prompt + reply)
            counts[i, len(prompt):len(prompt) + len(reply)] = True
        return ids, counts


def answers(model, rows, ids, counts, row_token):
    """Logits and ids of the tokens that count, where the embeddings of row_token are `rows`."""
    x = F.embedding(ids, model.token_embd.weight)
    x = x.masked_scatter((ids == row_token)[..., None], rows)
    cos, sin = rope_table(model.config, ids.device)
    for block in model.blk:
        x = block(x, cos[:ids.size(1)], sin[:ids.size(1)], causal)
    logits = F.linear(model.output_norm(x[:, :-1][counts[:, 1:]]), model.token_embd.weight)
    return logits, ids[:, 1:][counts[:, 1:]]


def begin(model, reader, rows):
    """A digit's rows begin as the words "7+0=", to which the model knows the answer; those of a shape as its letters."""
    texts = [f"{thing}+0=" if thing in DIGITS else thing for thing in THINGS]
    ids = [reader.text(text) for text in texts]
    return model.token_embd.weight[torch.tensor([[of[min(i, len(of) - 1)] for i in range(rows)] for of in ids])].clone()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="the GGUF file of the language model, with the marks of images")
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rate", type=float, default=.1)
    parser.add_argument("--seed", type=int, default=20261)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    rng, rows = random.Random(args.seed), EyesConfig().rows
    model = load(args.model, "cpu").requires_grad_(False)
    reader = Reader(tokenizer_of(gguf_file.read(args.model)[0]), rows)
    words = begin(model, reader, rows)
    size = words.square().mean().sqrt().item()
    optimizer = torch.optim.Adam([words.requires_grad_()], lr=args.rate * size, betas=(.8, .98))
    began, recent = time.time(), []
    for step in range(args.steps):
        optimizer.param_groups[0]["lr"] = args.rate * size * min(1, (args.steps - step) / (.5 * args.steps))
        things = SHAPES * 2 + rng.sample(DIGITS, 4)  # shapes have more to learn
        ids, counts = reader.batch(things, rng)
        now = words[[THINGS.index(thing) for thing in things]]
        logits, wanted = answers(model, now + NOISE * size * torch.randn_like(now), ids, counts, reader.row)
        loss = F.cross_entropy(logits, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        recent = recent[-9:] + [(loss.item(), (logits.argmax(1) == wanted).float().mean().item())]
        if (step + 1) % 10 == 0:
            loss, right = torch.tensor(recent).mean(0).tolist()
            print(f"{step + 1}: loss {loss:.4f}, tokens right {right:.1%}  {time.time() - began:.0f} s", flush=True)
    torch.save(words.detach(), args.out)


if __name__ == "__main__":
    main()
