#!/usr/bin/env python3
"""A server under load: 256 streams at once of which every fifth client leaves, and a prompt of 2,000 tokens every second.

usage: load_test.py ROCMFORGE MODEL [SECONDS]

Nothing may fail, no stream may stall for 2 seconds, every block of the cache is free at the end, memory stays flat.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

STREAMS = 256
LONGEST_STALL_SECONDS = 2.0
MEMORY_GROWTH = 1.05
SETTLING_SHARE = 0.4  # of the time, until every buffer has had its largest size


class Server:
    def __init__(self, program, model):
        command = [program, "serve", model, "--port", "0", "--device", "cpu", "--parallel", str(STREAMS), "--max-waiting", "1024",
                   "--context", "4096", "--kv-tokens", "131072"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def metric(self, name):
        with urllib.request.urlopen(self.url + "/metrics", timeout=30) as response:
            found = re.findall(rf"^rocmforge:{name}(?:{{.*}})? (\S+)", response.read().decode(), re.M)
        return sum(map(float, found))

    def wait_until_ready(self):
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(self.url + "/ready", timeout=5).read()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the server does not become ready")
                time.sleep(0.1)

    def wait_until_idle(self):
        deadline = time.monotonic() + 60
        while self.metric("num_requests_running") + self.metric("num_requests_waiting") > 0:
            if time.monotonic() > deadline:
                raise RuntimeError("requests still run a minute after the load has ended")
            time.sleep(0.2)

    def memory_kib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))

    def stop(self):
        self.process.terminate()
        return self.process.wait(timeout=60)


def load(program, url, report, seconds, *flags):
    return subprocess.Popen([program, "load", url, "--duration", str(seconds), "--json", str(report), *flags])


def main():
    program, model = sys.argv[1:3]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 60.0
    server = Server(program, model)
    problems = []
    memory = []
    with tempfile.TemporaryDirectory() as folder:
        streams, prompts = pathlib.Path(folder, "streams.json"), pathlib.Path(folder, "prompts.json")
        try:
            server.wait_until_ready()
            loads = [load(program, server.url, streams, seconds, "--concurrency", str(STREAMS), "--prompt-tokens", "16-128",
                          "--output-tokens", "16-96", "--drop", "0.2"),
                     load(program, server.url, prompts, seconds, "--rate", "1", "--prompt-tokens", "2000", "--output-tokens", "8")]
            begin = time.monotonic()
            while any(process.poll() is None for process in loads):
                if time.monotonic() - begin > seconds + 120:
                    raise RuntimeError("the load does not end")
                memory.append((time.monotonic() - begin, server.memory_kib()))
                time.sleep(0.5)
            server.wait_until_idle()
            for name, process, path in (("streams", loads[0], streams), ("long prompts", loads[1], prompts)):
                report = json.loads(path.read_text())
                if process.returncode != 0 or report["failed"] != 0:
                    errors = sorted({request["error"] for request in report["requests"] if "error" in request})
                    problems.append(f"{name}: {report['failed']} requests failed: {errors[:3]}")
                if name == "streams" and report["dropped"] == 0:
                    problems.append("no client has left")
                if report["itl_seconds"]["max"] > LONGEST_STALL_SECONDS:
                    problems.append(f"{name}: a stream stood still for {report['itl_seconds']['max']:.2f} s")
            if server.metric("kv_cache_usage_perc") != 0:
                problems.append(f"{server.metric('kv_cache_usage_perc'):.2%} of the cache are in use by nobody")
            settled = [kib for at, kib in memory if at >= SETTLING_SHARE * seconds]
            first, last = settled[:len(settled) // 4], settled[-len(settled) // 4:]
            growth = (sum(last) / len(last)) / (sum(first) / len(first))
            print(f"memory: {memory[0][1] // 1024} MiB at first, {max(kib for _, kib in memory) // 1024} MiB at most, "
                  f"last quarter / first quarter after settling {growth:.3f}")
            if growth > MEMORY_GROWTH:
                problems.append(f"memory grew by {growth - 1:.1%}")
            print(f"preemptions: {server.metric('num_preemptions_total'):.0f}")
        finally:
            code = server.stop()
    if code != 0:
        problems.append(f"the server ended with code {code}")
    for problem in problems:
        print("FAILED:", problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
