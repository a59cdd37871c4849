#!/usr/bin/env python3
"""Logits of tiny models whose tokens have a position on each of three axes, as those of an image have.

    mrope_golden.py FOLDER

For models of model_golden.py, which FOLDER already holds, with the same weights and tokens: FOLDER/mrope/NAME.logits has the
positions of the tokens, [tokens, 3] of time, row and column, and then the logits that transformers computes with them. Layout:
u32 tokens, u32 vocabulary, i32 positions, f32 logits.
"""
import pathlib
import struct
import sys

import numpy
import torch

import model_golden

NAMES = ["qwen2vl", "qwen3vl", "qwen35"]
BEFORE, ROWS, COLUMNS = 5, 3, 4  # tokens before an image of so many rows and columns; the rest follows it


def positions(tokens):
    """[3, tokens]: texts count up on all axes; an image stays at one time, and its rows and columns count from there."""
    places = [(p, p, p) for p in range(BEFORE)]
    places += [(BEFORE, BEFORE + row, BEFORE + column) for row in range(ROWS) for column in range(COLUMNS)]
    first = BEFORE + max(ROWS, COLUMNS)
    places += [(first + i,) * 3 for i in range(tokens - len(places))]
    return torch.tensor(places).T


def make(folder, name):
    architecture, family, own = model_golden.MODELS[name]
    model, config, generator = model_golden.build(name, architecture, family, own)
    tokens = model_golden.TOKENS
    ids = torch.randint(0, config.vocab_size, (1, tokens), generator=generator)
    golden = (folder / f"{name}.logits").read_bytes()
    places = positions(tokens)
    with torch.no_grad():
        of_text = model(ids, use_cache=False).logits[0].numpy()
        logits = model(ids, position_ids=places[:, None, :], use_cache=False).logits[0].numpy()
    known = numpy.frombuffer(golden, "<f4", offset=8 + 4 * tokens).reshape(of_text.shape)
    if golden[8:8 + 4 * tokens] != ids[0].numpy().astype("<i4").tobytes() or abs(known - of_text).max() > 1e-4:
        sys.exit(f"{name}: the weights are not those of {folder / name}.gguf")
    data = struct.pack("<II", tokens, config.vocab_size) + places.T.numpy().astype("<i4").tobytes()
    (folder / "mrope" / f"{name}.logits").write_bytes(data + logits.astype("<f4").tobytes())
    print(f"{name:10} logits differ from those of a text by up to {abs(logits - of_text).max():.3f}")


def main():
    folder = pathlib.Path(sys.argv[1])
    (folder / "mrope").mkdir(exist_ok=True)
    for name in NAMES:
        make(folder, name)


if __name__ == "__main__":
    main()
