#!/usr/bin/env python3
"""Perplexity of each golden model beside that of llama.cpp or a fork of it, with the same protocol and the same tokens.

    tools/compare_perplexity.py build/cpu/apps/rocmforge/rocmforge PATH/llama-perplexity [NAME...]

The golden models have no tokenizer: both programs get a copy with one whose tokens are single characters, and a text of random ones, so
that both score the same ids. Weights are F32, the cache is F16. Where the other program does not take a model its own words say why.
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

import gguf_io

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/models"
BOOL, INT32 = 7, 5
CONTEXT, CHUNKS = 64, 6
COMPLAINT = re.compile(r"error|assert|unknown|unsupported|missing|requires|not found|fail", re.I)


def array(kind, values):
    body = b"".join(gguf_io.text(each) for each in values) if kind == gguf_io.STRING else struct.pack(f"<{len(values)}i", *values)
    return struct.pack("<IIQ", gguf_io.ARRAY, kind, len(values)) + body


ASCII = [chr(code) for code in range(0x21, 0x7F)]  # stand for themselves in byte-level vocabularies
LINE_END = "\u010a"


def with_tokenizer(source, target):
    file = gguf_io.File(source)
    vocab = next(tensor.dims[1] for tensor in file.tensors if tensor.name == "token_embd.weight")
    merge = ASCII[0] + ASCII[1]  # a list without any is refused elsewhere
    tokens = [*ASCII, LINE_END, merge]
    tokens += [chr(0xAE + index) for index in range(vocab - len(tokens))]  # of bytes that the text does not have
    metadata = dict(file.metadata)
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
    text.write_text("".join(draw.choice(ASCII[1:]) for _ in range(CONTEXT * CHUNKS)), encoding="utf-8")
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
