#!/usr/bin/env python3
"""Makes control vectors for models of model_golden.py, and the logits that transformers computes with them.

The models are those whose files are committed; the script checks that it has built the same ones. A hook adds the direction to the
output of each layer that has one. The files are as llama.cpp's cvector-generator writes them.

    golden/bin/pip install torch transformers numpy
    golden/bin/python tools/goldens/control_golden.py tests/golden/models [NAME...]
"""
import pathlib
import struct
import sys

import numpy
import torch

import model_golden as golden
from model_golden_parts import STRING, U32, seed_of, write_gguf

MODELS = ("llama-gqa4", "gemma2", "qwen3moe", "falcon-h1", "deepseek-v2")
SCALE = 0.75  # that the test asks for


def layers_of(model):
    body = model.model
    return body.language_model.layers if hasattr(body, "language_model") else body.layers


def add_behind(layer, direction):
    def hook(_module, _inputs, output):
        return (output[0] + direction, *output[1:]) if isinstance(output, tuple) else output + direction
    return layer.register_forward_hook(hook)


def make(folder, name):
    architecture, family, own = golden.MODELS[name]
    model, config, generator = golden.build(name, architecture, family, own)
    ids = torch.randint(0, config.vocab_size, (1, golden.TOKENS), generator=generator)
    committed = (folder / f"{name}.logits").read_bytes()
    with torch.no_grad():
        plain = model(ids, use_cache=False).logits[0].numpy()
    known = numpy.frombuffer(committed[8 + 4 * golden.TOKENS:], "<f4").reshape(plain.shape)
    assert numpy.abs(known - plain).max() < 1e-3, f"{name} is not the model of its file"

    random = torch.Generator().manual_seed(seed_of("control/" + name))
    layers = layers_of(model)
    directions = {layer: torch.randn(config.hidden_size, generator=random) for layer in range(1, len(layers))}
    hooks = [add_behind(layers[layer], SCALE * direction) for layer, direction in directions.items()]
    with torch.no_grad():
        logits = model(ids, use_cache=False).logits[0].numpy()
    for hook in hooks:
        hook.remove()
    keys = [("general.architecture", STRING, "controlvector"), ("controlvector.model_hint", STRING, architecture),
            ("controlvector.layer_count", U32, len(directions))]
    (folder / "control").mkdir(exist_ok=True)
    write_gguf(folder / "control" / f"{name}.gguf", keys,
               [(f"direction.{layer}", direction.numpy()) for layer, direction in directions.items()])
    head = struct.pack("<II", golden.TOKENS, config.vocab_size) + ids[0].numpy().astype("<i4").tobytes()
    (folder / "control" / f"{name}.logits").write_bytes(head + logits.astype("<f4").tobytes())
    moved = numpy.linalg.norm(logits - plain) / numpy.linalg.norm(plain)
    print(f"{name:15} logits moved by {moved:.3f} of their size, {len(directions)} directions")


def main():
    folder = pathlib.Path(sys.argv[1])
    for name in MODELS:
        if name in sys.argv[2:] or len(sys.argv) == 2:
            make(folder, name)


if __name__ == "__main__":
    main()
