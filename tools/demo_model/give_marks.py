"""Gives a GGUF file of the demo model the marks of images: three tokens of word parts that text hardly needs become
control tokens. All else stays, to the last bit; the parts are then written with two tokens each."""
import argparse

import gguf_file
from chat import IM_START
from eyes import MARKS

PARTS = ["iomp", "oagh", "uett"]  # of words that the generators made up; no other token is made of them


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    metadata, tensors = gguf_file.read(args.model)
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    never_said = tensors["token_embd.weight"][tokens.index(IM_START)]  # training never asked for it, so that nothing draws it
    embeddings = tensors["token_embd.weight"].copy()
    for part, mark in zip(PARTS, MARKS):
        at = tokens.index(part)
        tokens[at], types[at], embeddings[at] = mark, 3, never_said
    tensors["token_embd.weight"] = embeddings
    metadata["tokenizer.ggml.merges"] = [m for m in metadata["tokenizer.ggml.merges"] if m.replace(" ", "") not in PARTS]
    kinds = {2: gguf_file.TYPE_Q8_0}
    gguf_file.write(args.out, metadata, {name: (x, kinds.get(x.ndim, gguf_file.TYPE_F32)) for name, x in tensors.items()})


if __name__ == "__main__":
    main()
