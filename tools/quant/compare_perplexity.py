#!/usr/bin/env python3
"""Perplexity of each golden model beside that of llama.cpp or a fork of it, with the same protocol and the same tokens.

    tools/quant/compare_perplexity.py build/cpu/apps/rocmforge/rocmforge PATH/llama-perplexity [NAME...]

The golden models have no tokenizer: both programs get a copy with one whose tokens are single characters, and a text of random ones, so
that both score the same ids. Weights are F32, the cache is F16. Heads of 8 are filled up with zeros to 16, since a fork's product of F16
rows is wrong for shorter ones: the function stays the same. Where the other program does not take a model its own words say why.
Random weights are sensitive to rounding; where the two differ, the golden logits say which is right.
The exit status is 1 when rocmforge does not take a model."""
import argparse
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

import numpy

import gguf_io

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/models"
BOOL, INT32 = 7, 5
CONTEXT, CHUNKS = 64, 6
COMPLAINT = re.compile(r"error|assert|unknown|unsupported|missing|requires|not found|fail", re.I)


def array(kind, values):
    body = b"".join(gguf_io.text(each) for each in values) if kind == gguf_io.STRING else struct.pack(f"<{len(values)}i", *values)
    return struct.pack("<IIQ", gguf_io.ARRAY, kind, len(values)) + body


ASCII = [chr(code) for code in range(0x21, 0x7F)]  # stand for themselves in byte-level vocabularies
LINE_END = "\u010a"


HEAD, PADDED = 8, 16
NEOX = {"qwen2", "qwen2moe", "qwen2vl", "falcon"}  # RoPE turns values i and i + half of a head; others 2i and 2i + 1


def pad_heads(file, metadata):
    """Heads of 8 become heads of 16 that compute the same: RoPE's base is squared and its pairs keep their places."""
    name = file.metadata["general.architecture"][12:].decode()
    width, heads = file.scalar(f"{name}.embedding_length"), file.scalar(f"{name}.attention.head_count")
    kv_heads = file.scalar(f"{name}.attention.head_count_kv") if f"{name}.attention.head_count_kv" in metadata else heads
    if f"{name}.attention.key_length" in metadata or f"{name}.rope.freq_base" not in metadata or width // heads != HEAD:
        return
    half = HEAD // 2
    places = [*range(half), *range(HEAD, HEAD + half)] if name in NEOX else range(HEAD)
    scale = 1.0 if f"{name}.attention.scale" in metadata else (PADDED / HEAD) ** 0.5

    def padded(rows, where, scales):  # rows of heads; a scale for each head
        rows = rows.reshape(len(scales), HEAD, -1)
        wide = numpy.zeros((len(scales), PADDED, rows.shape[2]), numpy.float32)
        wide[:, list(where)] = rows * numpy.array(scales, numpy.float32)[:, None, None]
        return wide.reshape(len(scales) * PADDED, -1)

    roles = {"q": (places, [scale] * heads), "k": (places, [1.0] * kv_heads), "v": (range(HEAD), [1.0] * kv_heads)}
    for tensor in file.tensors:
        values = numpy.frombuffer(tensor.data, numpy.float32) if tensor.type == "F32" else None
        part = tensor.name.split(".")[2].removeprefix("attn_") if ".attn_" in tensor.name else ""
        if part == "output" and tensor.name.endswith("weight"):
            wide = padded(values.reshape(width, -1).T, range(HEAD), [1.0] * heads).T
            tensor.dims, tensor.data = (wide.shape[1], width), numpy.ascontiguousarray(wide).tobytes()
        elif part in ("q", "k", "v", "qkv"):
            pieces, at = [], 0
            for where, scales in (roles[letter] for letter in part):
                rows = values.reshape(-1, tensor.dims[0] if len(tensor.dims) > 1 else 1)[at : at + len(scales) * HEAD]
                pieces.append(padded(rows, where, scales))
                at += len(scales) * HEAD
            wide = numpy.concatenate(pieces)
            tensor.dims = (tensor.dims[0], len(wide)) if len(tensor.dims) > 1 else (len(wide),)
            tensor.data = wide.tobytes()
    base = file.scalar(f"{name}.rope.freq_base") ** 2
    metadata.update({f"{name}.rope.freq_base": gguf_io.value(gguf_io.FLOAT32, base),
                     f"{name}.rope.dimension_count": gguf_io.value(gguf_io.U32, PADDED),
                     f"{name}.attention.key_length": gguf_io.value(gguf_io.U32, PADDED),
                     f"{name}.attention.value_length": gguf_io.value(gguf_io.U32, PADDED)})


def with_tokenizer(source, target):
    file = gguf_io.File(source)
    vocab = next(tensor.dims[1] for tensor in file.tensors if tensor.name == "token_embd.weight")
    merge = ASCII[0] + ASCII[1]  # a list without any is refused elsewhere
    tokens = [*ASCII, LINE_END, merge]
    tokens += [chr(0xAE + index) for index in range(vocab - len(tokens))]  # of bytes that the text does not have
    metadata = dict(file.metadata)
    pad_heads(file, metadata)
    metadata.update({
        "tokenizer.ggml.model": gguf_io.value(gguf_io.STRING, "gpt2"),
        "tokenizer.ggml.pre": gguf_io.value(gguf_io.STRING, "gpt-2"),
        "tokenizer.ggml.tokens": array(gguf_io.STRING, tokens),
        "tokenizer.ggml.token_type": array(INT32, [1] * vocab),
        "tokenizer.ggml.merges": array(gguf_io.STRING, [f"{ASCII[0]} {ASCII[1]}"]),
        "tokenizer.ggml.bos_token_id": gguf_io.value(gguf_io.U32, 0),
        "tokenizer.ggml.eos_token_id": gguf_io.value(gguf_io.U32, 0),
        "tokenizer.ggml.add_bos_token": gguf_io.value(BOOL, False)})
    gguf_io.write(target, metadata, file.tensors)


def run(command, folder=None):
    """(perplexity or None, why not)"""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, errors="replace", cwd=folder)
    except subprocess.TimeoutExpired:
        return None, "no end after 300 s"
    output = done.stdout + done.stderr
    if found := re.search(r"Final estimate: PPL[^\n]*?= *([0-9.einfa]+) \+/-", output):
        return float(found.group(1)), ""
    lines = [line.strip() for line in output.splitlines()
             if COMPLAINT.search(line) and not line.startswith(("main:", "llm_load_print_meta:"))]
    return None, lines[0][:150] if lines else f"exit status {done.returncode}"


def compare(name, folder, arguments):
    model, text = folder / f"{name}.gguf", folder / f"{name}.txt"
    with_tokenizer(GOLDEN / f"{name}.gguf", model)
    draw = random.Random(name)
    letters = [each for each in ASCII[1:] if each != "\\"]  # the other program reads escapes in a text
    text.write_text("".join(draw.choice(letters) for _ in range(CONTEXT * CHUNKS)), encoding="utf-8")
    common = ["-m", str(model), "-f", str(text), "-c", str(CONTEXT)]
    own = run([arguments.rocmforge, "perplexity", *common, "--kv-type", "f16", "--device", "cpu"])
    command = [str(pathlib.Path(arguments.peer).resolve()), *common, "-t", "1", *arguments.peer_options.split()]
    peer = run(command, folder)  # it leaves a log where it runs
    return own, peer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rocmforge")
    parser.add_argument("peer", help="llama-perplexity")
    parser.add_argument("names", nargs="*", metavar="NAME", help="golden models, all without any")
    parser.add_argument("--peer-options", default="-ngl 0", help='more for it, as one argument: "-ngl 0 -no-fa" (default: "-ngl 0")')
    arguments = parser.parse_args()
    names = arguments.names or sorted(path.stem for path in GOLDEN.glob("*.gguf"))
    compared, far, broken = 0, 0, 0
    print("| golden model | rocmforge | peer | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            own, peer = compare(name, pathlib.Path(folder), arguments)
            broken += own[0] is None
            if own[0] is None or peer[0] is None:
                print(f"| {name} | {own[0] or own[1]} | {peer[0] or peer[1]} | |", flush=True)
                continue
            ratio = own[0] / peer[0]
            compared, far = compared + 1, far + (abs(ratio - 1.0) > 1e-3)
            print(f"| {name} | {own[0]:.4f} | {peer[0]:.4f} | {ratio:.6f} |", flush=True)
    print(f"\n{compared} of {len(names)} compared, {far} further than 0.1 % apart")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
