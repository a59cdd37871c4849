#!/usr/bin/env python3
"""Compares the answers of a server under many streams with those of the same prompts alone.

usage: compare_streams.py URL [--streams 64] [--seconds 300] [--prompts 256] [--lengths 20,130] [--tokens 8] [--tolerance 0.05] [--vocabulary 30000]

Draws prompts of random tokens. Each is answered alone first (greedy, log probabilities), then by many streams at once until the
time is over. Of each answer the tokens and their log probabilities are compared with those of the same prompt alone, up to the
first token that differs. Products of several tokens round otherwise than those of one, so a log probability may differ by
TOLERANCE, and another token may come where both answers give the two tokens nearly the same probability: that is counted as a
tie. Whatever else differs is wrong: exit code 1, as for a request that fails or does not end in 60 seconds.
"""
import argparse
import concurrent.futures
import json
import random
import sys
import threading
import time
import urllib.request


class Answer:
    def __init__(self, document):
        steps = document["completion_probabilities"]
        self.tokens = [step["id"] for step in steps]
        self.log_probs = [step["logprob"] for step in steps]
        self.top = [{entry["id"]: entry["logprob"] for entry in step["top_logprobs"]} for step in steps]


def ask(url, prompt, tokens):
    body = {"prompt": prompt, "n_predict": tokens, "temperature": 0, "n_probs": 5, "ignore_eos": True}
    request = urllib.request.Request(url + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return Answer(json.load(response))


class Tally:
    def __init__(self, tolerance):
        self.tolerance, self.lock = tolerance, threading.Lock()
        self.answers = self.tokens = self.ties = 0
        self.largest, self.wrong = 0.0, []

    def compare(self, number, alone, crowded):
        with self.lock:
            self.answers += 1
            if len(crowded.tokens) != len(alone.tokens):
                self.wrong.append(f"prompt {number}: {len(crowded.tokens)} tokens, alone {len(alone.tokens)}")
                return
            for place, (expected, actual) in enumerate(zip(alone.tokens, crowded.tokens)):
                self.tokens += 1
                if expected != actual:
                    # Either answer has both tokens in its list if they are nearly alike.
                    gap = alone.log_probs[place] - alone.top[place].get(actual, -99.0)
                    if gap > 2 * self.tolerance:
                        self.wrong.append(f"prompt {number}, token {place}: {actual}, alone {expected}, {gap:.3f} more probable")
                    else:
                        self.ties += 1
                    return
                difference = abs(alone.log_probs[place] - crowded.log_probs[place])
                self.largest = max(self.largest, difference)
                if difference > self.tolerance:
                    self.wrong.append(f"prompt {number}, token {place}: log probability {crowded.log_probs[place]:.4f}, alone {alone.log_probs[place]:.4f}")
                    return


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--prompts", type=int, default=256)
    parser.add_argument("--lengths", default="20,130", help="least and most tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=8, help="of an answer")
    parser.add_argument("--tolerance", type=float, default=0.05)
    parser.add_argument("--vocabulary", type=int, default=30000, help="tokens are drawn below this number")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    least, most = map(int, options.lengths.split(","))
    prompts = [[draw.randrange(100, options.vocabulary) for _ in range(draw.randint(least, most))] for _ in range(options.prompts)]
    tally, failures = Tally(options.tolerance), []
    alone = [ask(options.url, prompt, options.tokens) for prompt in prompts]
    print(f"{len(alone)} prompts of {least} to {most} tokens answered alone", flush=True)
    end = time.monotonic() + options.seconds

    def stream(seed):
        order = random.Random(seed)
        while time.monotonic() < end and not failures:
            number = order.randrange(len(prompts))
            try:
                tally.compare(number, alone[number], ask(options.url, prompts[number], options.tokens))
            except (OSError, KeyError, ValueError) as error:
                failures.append(f"prompt {number}: {type(error).__name__}: {error}")

    with concurrent.futures.ThreadPoolExecutor(options.streams) as pool:
        list(pool.map(stream, range(options.streams)))
    print(f"{tally.answers} answers of {options.streams} streams in {options.seconds:.0f} s: {tally.tokens} tokens compared, {tally.ties} ties, "
          f"largest difference of a log probability {tally.largest:.4f}, {len(tally.wrong)} wrong, {len(failures)} failed")
    for line in (failures + tally.wrong)[:10]:
        print(line)
    return 1 if failures or tally.wrong or not tally.answers else 0


if __name__ == "__main__":
    sys.exit(main())
