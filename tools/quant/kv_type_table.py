#!/usr/bin/env python3
"""The table of docs/kv-cache-types.md, for any model: how far types of the KV cache are from F32, and what they still find.

    tools/quant/kv_type_table.py build/cpu/apps/rocmforge/rocmforge models/forge-demo.gguf tests/data/demo_heldout.txt

For each type, with and without rotation, as the type of K and V, of K alone and of V alone (the other one is F16):
- the KL divergence of the distributions of the next token from those with a cache of F32, by `rocmforge perplexity`, and how often the
  most likely token is the same;
- how many pass keys `rocmforge serve` finds, greedily: numbers that are hidden in texts of sentences of the same file, at places spread
  evenly over texts of lengths spread evenly. Only models that answer questions find any.
"""
import argparse
import concurrent.futures
import json
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

TYPES = ("f16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
ROTATED = TYPES[2:]  # where rotation is not turned off
PARTS = (("K and V", "{0},{0}"), ("K", "{0},f16"), ("V", "f16,{0}"))
ASK = "There is a pass key hidden in this text. Find it and remember it.\n\n{text}\n\nWhat is the pass key?"
START_SECONDS = 600


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def questions(text, count, longest):
    """(question, key): the i-th of `count` has about i / count * longest characters, and the key at a place of its own."""
    sentences = [part.strip() for part in re.split(r"(?<=[.!?])\s+", text) if 20 < len(part) < 200]
    rng = random.Random(1)
    for i in range(count):
        chosen, size = [], 0
        while size < longest * (i + 1) // count:
            chosen.append(rng.choice(sentences))
            size += len(chosen[-1]) + 1
        key = str(rng.randint(10000, 99999))
        chosen.insert(len(chosen) * (i * 7 % count) // count, f"The pass key is {key}. Remember it.")
        yield ASK.format(text=" ".join(chosen)), key


class Server:
    def __init__(self, program, model, options, answers):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"http://127.0.0.1:{free.getsockname()[1]}"
        port = self.address.rsplit(":", 1)[1]
        self.process = subprocess.Popen(
            [program, "serve", model, "--host", "127.0.0.1", "--port", port, "--parallel", str(answers), "--cache-ram", "0", *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            try:
                urllib.request.urlopen(self.address + "/ready").close()
                return self
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        self.process.terminate()
        sys.exit("the server does not start")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def answer(self, question):
        body = {"messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 64}
        request = urllib.request.Request(self.address + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)["choices"][0]["message"]["content"] or ""


def measure(args, base, asked, options):
    out = json.loads(run(args.program, "perplexity", args.model, "--kl-divergence", "--kl-divergence-base", base, "--json", *options))
    found = 0
    if asked:
        with Server(args.program, args.model, options, args.answers) as server, \
                concurrent.futures.ThreadPoolExecutor(args.answers) as threads:
            replies = threads.map(server.answer, [question for question, _ in asked])
            found = sum(key in reply for reply, (_, key) in zip(replies, asked))
    return out["kl_divergence"], found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--context", type=int, default=1024, help="tokens of a chunk, whose second half is compared")
    parser.add_argument("--chunks", type=int, default=-1)
    parser.add_argument("--keys", type=int, default=40, help="pass keys; 0: none are asked for")
    parser.add_argument("--longest", type=int, default=5000, help="characters of the longest text with a key")
    parser.add_argument("--answers", type=int, default=4, help="computed at once")
    parser.add_argument("--types", nargs="*", default=TYPES, choices=TYPES)
    args, options = parser.parse_known_args()  # others go to the program: -t 8, --device cuda
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder) / "f32.kld"
        plain = json.loads(run(args.program, "perplexity", args.model, "-f", args.text, "-c", args.context, "--chunks", args.chunks,
                               "--kv-type", "f32", "--kl-divergence-base", base, "--json", *options))
        asked = list(questions(args.text.read_text(), args.keys, args.longest)) if args.keys else []
        print(f"{plain['scored_tokens']} tokens in chunks of {args.context}, perplexity {plain['perplexity']:.4f} with F32; "
              f"{len(asked)} pass keys\n")
        print("| type | rotated | of | KL divergence, 10^-6 | 99 % are below | same token | keys |\n|---|---|---|---|---|---|---|")
        for kind in args.types:
            for rotated in (True, False) if kind in ROTATED else (False,):
                for part, form in PARTS if kind != "f16" else PARTS[:1]:
                    turned = [] if rotated or kind not in ROTATED else ["--no-kv-rotation"]
                    kl, found = measure(args, base, asked, ["--kv-type", form.format(kind), *turned, *options])
                    print(f"| `{kind}` | {'yes' if rotated else 'no'} | {part} | {1e6 * kl['mean']:.1f} | "
                          f"{1e6 * kl['p99']:.0f} | {100 * kl['same_top']:.2f} % | {found} of {len(asked)} |", flush=True)


if __name__ == "__main__":
    main()
