#!/usr/bin/env python3
"""Three servers behind HAProxy with deploy/haproxy.cfg: restarts lose no request, conversations keep their replica.

usage: replicas_test.py ROCMFORGE MODEL [TEST...]
"""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/server"))

from demo_server import SECONDS, DemoServer  # noqa: E402

PROGRAM, MODEL = sys.argv[1:3]
FLAGS = ("--threads", "1", "--parallel", "8", "-c", "512")


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Replicas:
    """Servers behind a proxy, each at a port that it keeps when it starts again."""

    def __init__(self):
        self.ports = [free_port() for _ in range(3)]
        self.servers = [DemoServer(PROGRAM, MODEL, *FLAGS, port=port) for port in self.ports]
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        addresses = {f"REPLICA_{i + 1}": f"127.0.0.1:{port}" for i, port in enumerate(self.ports)}
        self.proxy = subprocess.Popen(["haproxy", "-f", str(ROOT / "deploy/haproxy.cfg")], stdout=subprocess.DEVNULL,
                                      env={**os.environ, **addresses, "LISTEN": f"127.0.0.1:{self.port}",
                                           "FIGURES": f"127.0.0.1:{free_port()}"})
        deadline = time.monotonic() + SECONDS
        while not self.answers():
            assert self.proxy.poll() is None, "the proxy runs"
            assert time.monotonic() < deadline, "the proxy answers"
            time.sleep(0.05)

    def answers(self):
        try:
            urllib.request.urlopen(self.url + "/ready", timeout=SECONDS).close()
            return True
        except OSError:
            return False

    def restart(self, index):
        code = self.servers[index].stop()
        self.servers[index] = DemoServer(PROGRAM, MODEL, *FLAGS, port=self.ports[index])
        return code

    def metrics(self, name):
        return [server.metric(name) for server in self.servers]

    def close(self):
        self.proxy.terminate()
        self.proxy.wait(timeout=SECONDS)
        for server in self.servers:
            server.stop()


def chat(url, messages, **headers):
    body = json.dumps({"messages": messages, "max_tokens": 12, "temperature": 0}).encode()
    request = urllib.request.Request(url + "/v1/chat/completions", body, {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        return json.load(response), response.headers


def converse(url, turns=6, users=10):
    """Conversations of several users in turn; the share of prompt tokens that were computed before. Requests that are dealt out in
    turn would meet another of three replicas each time."""
    talks = [[{"role": "system", "content": "You add numbers."},
              {"role": "user", "content": f"I am user {user}. " * 12 + f"What is {user} + 1?"}] for user in range(users)]
    prompt = cached = 0
    for turn in range(turns):
        for user, messages in enumerate(talks):
            answer, _ = chat(url, messages)
            prompt += answer["usage"]["prompt_tokens"]
            cached += answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            messages += [{"role": "assistant", "content": answer["choices"][0]["message"]["content"] or "?"},
                         {"role": "user", "content": f"And {user} + {turn + 2}?"}]
    return cached / prompt


class ReplicasTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.replicas = Replicas()
        cls.addClassCleanup(cls.replicas.close)

    def test_a_restart_of_each_loses_no_request(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            load = subprocess.Popen([PROGRAM, "load", self.replicas.url, "--concurrency", "6", "--duration", "20",
                                     "--prompt-tokens", "8-60", "--output-tokens", "4-40", "--json", str(path)],
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for index in range(3):
                time.sleep(1)
                self.assertEqual(self.replicas.restart(index), 0)
                self.replicas.servers[index].wait_until(
                    lambda: self.replicas.servers[index].metric("request_success_total") > 0, "gets requests again")
            text, _ = load.communicate(timeout=SECONDS)
            self.assertEqual(load.returncode, 0, text)
            report = json.loads(path.read_text())
        self.assertEqual((report["dropped"], report["failed"]), (0, 0), text)
        self.assertGreater(report["completed"], 30)

    def test_conversations_keep_their_replica(self):
        before = self.replicas.metrics("request_success_total")
        behind = converse(self.replicas.url)
        served = [now - then for now, then in zip(self.replicas.metrics("request_success_total"), before)]
        self.assertGreater(min(served), 0, f"each serves some of the users: {served}")
        single = DemoServer(PROGRAM, MODEL, *FLAGS)
        try:
            alone = converse(single.url)
        finally:
            single.stop()
        self.assertGreater(alone, 0.5)
        self.assertGreaterEqual(behind, 0.9 * alone)

    def test_an_answer_names_its_beginning(self):
        messages = [{"role": "system", "content": "Answer with a number. " * 20}, {"role": "user", "content": "1 + 1?"}]
        first = chat(self.replicas.url, messages)[1]["X-Prefix-Hash"]
        self.assertRegex(first, "^[0-9a-f]{16}$")
        self.assertEqual(chat(self.replicas.url, messages + [{"role": "assistant", "content": "2"},
                                                             {"role": "user", "content": "2 + 2?"}])[1]["X-Prefix-Hash"], first)
        messages[0]["content"] = "Say a number. " * 20
        self.assertNotEqual(chat(self.replicas.url, messages)[1]["X-Prefix-Hash"], first)
        self.assertIsNone(chat(self.replicas.url, [{"role": "user", "content": "1 + 1?"}])[1]["X-Prefix-Hash"])

    def test_a_request_keeps_its_id(self):
        messages = [{"role": "user", "content": "1 + 1?"}]
        self.assertEqual(chat(self.replicas.url, messages, **{"X-Request-Id": "trace-7:a.b_c"})[1]["X-Request-Id"],
                         "trace-7:a.b_c")
        self.assertTrue(chat(self.replicas.url, messages)[1]["X-Request-Id"])


if __name__ == "__main__":
    if shutil.which("haproxy") is None:
        print("haproxy is not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
