#!/usr/bin/env python3
"""Logits of a tiny model some of whose tokens see each other in both directions, as those of an image do.

    spans_golden.py FOLDER

For a model of model_golden.py, which FOLDER already holds, with the same weights and tokens: FOLDER/spans/NAME.logits has the
logits that transformers computes when tokens FIRST to FIRST + COUNT - 1 see each other, in layers with a window too. Layout: u32
FIRST, u32 COUNT, f32 logits.
"""
import pathlib
import struct
import sys

import numpy
import torch

import model_golden

NAME = "gemma3"
FIRST, COUNT = 6, 9


def mask(tokens, window):
    """What is added to the scores, [1, 1, tokens, tokens]: a token sees up to itself, or to the end of its span."""
    query = torch.arange(tokens)[:, None]
    key = torch.arange(tokens)[None, :]
    inside = (query >= FIRST) & (query < FIRST + COUNT)
    seen = key < torch.where(inside, FIRST + COUNT, query + 1)
    if window:
        seen &= key > query - window
    return torch.zeros(tokens, tokens).masked_fill(~seen, float("-inf"))[None, None]


def main():
    folder = pathlib.Path(sys.argv[1])
    architecture, family, own = model_golden.MODELS[NAME]
    model, config, generator = model_golden.build(NAME, architecture, family, own)
    tokens = model_golden.TOKENS
    ids = torch.randint(0, config.vocab_size, (1, tokens), generator=generator)
    masks = {"full_attention": mask(tokens, None), "sliding_attention": mask(tokens, config.sliding_window)}
    with torch.no_grad():
        of_text = model(ids, use_cache=False).logits[0].numpy()
        logits = model(ids, attention_mask=masks, use_cache=False).logits[0].numpy()
    known = numpy.frombuffer((folder / f"{NAME}.logits").read_bytes(), "<f4", offset=8 + 4 * tokens).reshape(of_text.shape)
    if abs(known - of_text).max() > 1e-4:
        sys.exit(f"{NAME}: the weights are not those of {folder / NAME}.gguf")
    (folder / "spans").mkdir(exist_ok=True)
    (folder / "spans" / f"{NAME}.logits").write_bytes(struct.pack("<II", FIRST, COUNT) + logits.astype("<f4").tobytes())
    print(f"{NAME}: logits differ from those of a text by up to {abs(logits - of_text).max():.3f}")


if __name__ == "__main__":
    main()
