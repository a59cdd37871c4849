#!/usr/bin/env python3
"""A server under load: 256 streams at once of which every fifth client leaves, and a prompt of 2,000 tokens every second.

usage: load_test.py ROCMFORGE MODEL [SECONDS]

Nothing may fail, no stream may stand still for 2 seconds, every block of the cache is free at the end, memory stays flat.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from demo_server import DemoServer

STREAMS = 256
LONG_PROMPT = 2000
LONGEST_STALL_SECONDS = 2.0
MEMORY_GROWTH = 1.05
SETTLING_SHARE = 0.4  # of the time, until each block of the cache and each buffer has been used once


class Load:
    """A running `rocmforge load`."""

    def __init__(self, name, program, url, folder, seconds, *flags):
        self.name = name
        self.path = pathlib.Path(folder, name + ".json")
        self.process = subprocess.Popen([program, "load", url, "--duration", str(seconds), "--json", str(self.path), *flags])

    def report(self):
        return json.loads(self.path.read_text())

    def problems(self):
        report = self.report()
        if report["failed"] != 0 or report["completed"] == 0:
            errors = sorted({request["error"] for request in report["requests"] if "error" in request})
            yield f"{self.name}: {report['failed']} requests failed, {report['completed']} were completed: {errors[:3]}"
        if report["itl_seconds"]["max"] > LONGEST_STALL_SECONDS:
            yield f"{self.name}: a stream stood still for {report['itl_seconds']['max']:.2f} s"


def control_tokens(server):
    """They have no text in an answer and so bring a client nothing: a row of them would look like a stall."""
    pieces = {id: server.post("/detokenize", {"tokens": [id]})["content"] for id in range(16)}
    return [id for id, piece in pieces.items() if re.fullmatch(r"<\|.*\|>", piece)]


def growth(memory, seconds):
    """The last quarter's mean by the first quarter's, after settling."""
    settled = [kib for at, kib in memory if at >= SETTLING_SHARE * seconds]
    first, last = settled[:len(settled) // 4], settled[-(len(settled) // 4):]
    return (sum(last) / len(last)) / (sum(first) / len(first))


def put_load(server, program, seconds, folder):
    forbidden = ["--forbid", ",".join(map(str, control_tokens(server)))]
    streams = Load("streams", program, server.url, folder, seconds, "--concurrency", str(STREAMS), "--prompt-tokens", "16-128",
                   "--output-tokens", "16-96", "--drop", "0.2", *forbidden)
    prompts = Load("long prompts", program, server.url, folder, seconds, "--rate", "1", "--seed", "4",
                   "--prompt-tokens", str(LONG_PROMPT), "--output-tokens", "8", *forbidden)
    memory = []
    begin = time.monotonic()
    most_under_way = 0
    while any(load.process.poll() is None for load in (streams, prompts)):
        if time.monotonic() - begin > seconds + 120:
            raise RuntimeError("the load does not end")
        most_under_way = max(most_under_way, server.metric("num_requests_running") + server.metric("num_requests_waiting"))
        memory.append((time.monotonic() - begin, server.memory_kib()))
        time.sleep(0.5)
    server.wait_until_idle()

    yield from streams.problems()
    yield from prompts.problems()
    left, cancelled = streams.report()["dropped"], server.metric("request_success_total", 'finished_reason="cancelled"')
    if len(prompts.report()["requests"]) < 0.8 * seconds:
        yield f"{len(prompts.report()['requests'])} long prompts in {seconds:.0f} s"
    if not 0.5 * left < cancelled <= left:  # an answer may be complete before the server sees that nobody reads it
        yield f"{left} clients have left, {cancelled:.0f} answers were cancelled"
    if most_under_way < 0.9 * STREAMS:
        yield f"at most {most_under_way:.0f} requests were under way at once"
    if server.metric("kv_cache_usage_perc") != 0:
        yield f"{server.metric('kv_cache_usage_perc'):.2%} of the cache are in use by nobody"
    marks = [next(kib for at, kib in reversed(memory) if at <= seconds * tenth / 10) // 1024 for tenth in range(1, 11)]
    print(f"memory, MiB after each tenth of the time: {marks}; growth after settling: {growth(memory, seconds):.3f}")
    print(f"longest wait between two pieces of a stream: {streams.report()['itl_seconds']['max'] * 1e3:.0f} ms; "
          f"preemptions: {server.metric('num_preemptions_total'):.0f}")
    if growth(memory, seconds) > MEMORY_GROWTH:
        yield f"memory grew by {growth(memory, seconds) - 1:.1%}"


def main():
    program, model = sys.argv[1:3]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 60.0
    server = DemoServer(program, model, "--parallel", str(STREAMS), "--kv-tokens", "65536")
    try:
        with tempfile.TemporaryDirectory() as folder:
            problems = list(put_load(server, program, seconds, folder))
    finally:
        code = server.stop()
    if code != 0:
        problems.append(f"the server ended with code {code}")
    for problem in problems:
        print("FAILED:", problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
