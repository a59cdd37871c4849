"""Writes the tokenizer and the training shards: rows of packed documents with token ids, loss weights, document ids."""
import argparse
import multiprocessing
import os
import random

import numpy as np

from chat import Encoder, train_tokenizer
from skills import SKILLS, letters, question
from smalltalk import conversation, small_talk, story_request
from stories import plain_document

# The relative share of each kind of text in the tokens of the mix.
MIX = {"plain": 14, "stories": 5, "talk": 3, "passkey": 14, "addition": 10, "subtraction": 12, "compare": 6, "sort": 18,
       "reverse": 14, "spell": 7, "letters": 7, "json": 8, "memory": 9, "conversation": 18}


def make_example(encoder, kind, rng, room):
    """One document of the mix as (ids, weights)."""
    if kind == "plain":
        ids = encoder.text(plain_document(rng)) + [encoder.end]
        return ids, [30] * len(ids)
    if kind == "stories":
        return encoder.example(*story_request(rng), weight=30)
    if kind == "talk":
        return encoder.example(*small_talk(rng))
    if kind == "passkey":
        return encoder.example(*question(kind, rng, count=lambda sentence: len(encoder.text(" " + sentence)),
                                         tokens=rng.randint(0, min(1800, room - 140))), prompt_weight=5)
    if kind == "letters":
        return encoder.example(*letters(rng))
    if kind == "conversation":
        while not (turns := conversation(rng)):
            pass
        return encoder.conversation(turns, rng)
    return encoder.example(*question(kind, rng), letter_by_letter=kind == "reverse")


def make_shard(job):
    """Fills rows: each takes documents by the mix until it is full; the last document is cut at the row's end."""
    path, tokenizer_path, seed, rows, length = job
    rng, encoder = random.Random(seed), Encoder(tokenizer_path)
    kinds, spent = list(MIX), {kind: 0.0 for kind in MIX}
    ids = np.zeros((rows, length), np.uint16)
    weights = np.zeros((rows, length), np.uint8)
    docs = np.zeros((rows, length), np.uint8)
    for row in range(rows):
        used, document = 0, 0
        while used < length and document < 255:
            room = length - used
            kind = min(kinds, key=lambda k: spent[k] / MIX[k] + rng.random() * 300)
            if kind == "passkey" and room < 200:
                kind = "plain"
            tokens, weight = make_example(encoder, kind, rng, room)
            if kind != "plain" and len(tokens) > room:
                if room > 150:
                    continue
                tokens, weight = make_example(encoder, "plain", rng, room)
                kind = "plain"
            tokens, weight = tokens[:room], weight[:room]
            spent[kind] += len(tokens)
            ids[row, used:used + len(tokens)] = tokens
            weights[row, used:used + len(tokens)] = weight
            docs[row, used:used + len(tokens)] = document
            used += len(tokens)
            document += 1
        docs[row, used:] = 255
    np.savez(path, ids=ids, weights=weights, docs=docs)
    return spent


def tokenizer_texts(rng, documents):
    for _ in range(documents):
        yield plain_document(rng)
        for kind in SKILLS:
            for _ in range(6 if kind in ("reverse", "spell", "json", "memory") else 1):
                messages, answer = question(kind, rng, tokens=0) if kind == "passkey" else question(kind, rng)
                for message in messages:
                    yield message["content"]
                if kind != "reverse":
                    yield answer
        messages, answer = small_talk(rng)
        yield messages[-1]["content"]
        yield answer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder for tokenizer.json and the shards")
    parser.add_argument("--tokens", type=float, default=300e6)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--tokenizer-documents", type=int, default=12000)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    tokenizer_path = os.path.join(args.out, "tokenizer.json")
    if not os.path.exists(tokenizer_path):
        train_tokenizer(tokenizer_texts(random.Random(args.seed), args.tokenizer_documents), args.vocab).save(tokenizer_path)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    rows = int(args.tokens / args.length / args.shards)
    jobs = [(os.path.join(args.out, f"shard{i:03d}.npz"), tokenizer_path, args.seed * 100003 + i, rows, args.length)
            for i in range(args.shards)]
    total = {}
    with multiprocessing.get_context("spawn").Pool(args.workers) as pool:
        for spent in pool.imap_unordered(make_shard, jobs):
            for kind, tokens in spent.items():
                total[kind] = total.get(kind, 0) + tokens
    everything = sum(total.values())
    print("tokens:", int(everything), {kind: f"{tokens / everything:.3f}" for kind, tokens in total.items()})


if __name__ == "__main__":
    main()
