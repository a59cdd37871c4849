#!/usr/bin/env python3
"""A model whose layers several processes share, started by mpirun: its logits, a server on it, and ranks that stop or differ.

usage: processes_test.py ROCMFORGE MODEL TEST_MODELS [TEST...]
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

from demo_server import SECONDS, DemoServer

PROGRAM, MODEL, TEST_MODELS = sys.argv[1:4]
MPIRUN = ["mpirun", "-q", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
# Processes of one host need no network.
SETTINGS = {**os.environ, "OMPI_MCA_btl": "self,vader", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
            "GTEST_COLOR": "no"}
FLAGS = ["--device", "cpu", "-c", "512"]
QUESTION = {"messages": [{"role": "user", "content": "What is 127 + 458?"}], "max_tokens": 24, "temperature": 0}


def run(*command):
    return subprocess.run([*MPIRUN, *command], capture_output=True, text=True, timeout=SECONDS, env=SETTINGS)


def lines_of_program(text):
    return [line for line in text.splitlines() if line.startswith("rocmforge:")]


def ranks_below(launcher):
    """Process ids of the program's ranks, by rank."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == launcher:
                environment = (stat.parent / "environ").read_bytes()
                found[int(re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", environment).group(1))] = int(stat.parent.name)
        except OSError:  # it has ended meanwhile
            continue
    return [found[rank] for rank in sorted(found)]


def is_alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Ranks(DemoServer):
    """The server on several ranks."""

    def __init__(self, count):
        self.stderr = tempfile.TemporaryFile("w+")
        command = [*MPIRUN, "-n", str(count), PROGRAM, "serve", MODEL, "--split", "tensor", "--port", "0", "--threads", "1",
                   "--log-file", os.devnull, *FLAGS]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.stderr, text=True, env=SETTINGS)
        try:
            self.url = self.process.stdout.readline().strip()
            self.wait_until(self.ready, "is ready")
            self.ranks = ranks_below(self.process.pid)
        except BaseException:
            self.kill()
            raise

    def answer(self):
        return self.post("/v1/chat/completions", QUESTION)["choices"][0]["message"]["content"]

    def said(self):
        with self.stderr:
            self.stderr.seek(0)
            return self.stderr.read()

    def wait_until_gone(self):
        code = self.wait()
        deadline = time.monotonic() + SECONDS
        while any(is_alive(rank) for rank in self.ranks):
            assert time.monotonic() < deadline, "no rank is left"
            time.sleep(0.05)
        return code


class Load:
    """Requests without end, until the server is gone."""

    def __init__(self, url):
        self.begun = threading.Event()
        self.thread = threading.Thread(target=self.run, args=(url,))
        self.thread.start()
        self.begun.wait(SECONDS)

    def run(self, url):
        body = json.dumps({"prompt": "Once", "max_tokens": 200, "ignore_eos": True, "stream": True}).encode()
        try:
            while True:
                request = urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})
                with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                    for _ in answer:
                        self.begun.set()
        except OSError:
            self.begun.set()


class TheLogits(unittest.TestCase):
    def test_are_those_of_the_reference_and_of_threads(self):
        result = run("-n", "2", TEST_MODELS, "--gtest_filter=*ProcessRanks.*")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(result.stdout.count("[  PASSED  ] 6 tests."), 2, result.stdout)


class AServer(unittest.TestCase):
    def test_answers_as_on_threads_and_ends_by_a_signal_to_its_first_rank(self):
        threads = DemoServer(PROGRAM, MODEL, "--ranks", "2", "--threads", "2", "-c", "512")
        expected = threads.post("/v1/chat/completions", QUESTION)["choices"][0]["message"]["content"]
        threads.stop()
        server = Ranks(2)
        self.assertEqual(len(server.ranks), 2)
        self.assertEqual(server.answer(), expected)
        os.kill(server.ranks[0], signal.SIGTERM)
        self.assertEqual(server.wait_until_gone(), 0)
        self.assertEqual(lines_of_program(server.said()), [])


class ARank(unittest.TestCase):
    def end(self, rank, how):
        server = Ranks(2)
        load = Load(server.url)
        began = time.monotonic()
        os.kill(server.ranks[rank], how)
        self.assertNotEqual(server.wait_until_gone(), 0)
        print(f"rank {rank}, {how.name}: gone after {time.monotonic() - began:.1f} s", flush=True)
        load.thread.join()
        return lines_of_program(server.said())

    def test_that_was_killed_ends_all(self):
        for rank in (0, 1):
            self.assertLessEqual(len(self.end(rank, signal.SIGKILL)), 1)

    def test_that_hangs_ends_all_with_one_line(self):
        for rank in (0, 1):
            lines = self.end(rank, signal.SIGSTOP)
            self.assertEqual(len(lines), 1, lines)
            self.assertRegex(lines[0], f"rank {rank} has not been heard of for 6 seconds")


class RanksThatDiffer(unittest.TestCase):
    def ended(self, first, second, program_of_second=PROGRAM):
        part = lambda own, program=PROGRAM: ["-n", "1", program, "run", "--split", "tensor", "--greedy", "-p", "Hello", *own]
        result = run(*part(first), ":", *part(second, program_of_second))
        self.assertNotEqual(result.returncode, 0)
        lines = lines_of_program(result.stderr)
        self.assertEqual(len(lines), 1, result.stderr)
        return lines[0]

    def test_end_with_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / pathlib.Path(MODEL).name
            content = bytearray(pathlib.Path(MODEL).read_bytes())
            content[-2] ^= 1  # of the last tensor's last block
            other.write_bytes(content)
            self.assertRegex(self.ended(["-m", MODEL, *FLAGS], ["-m", str(other), *FLAGS]), "rank 1 has another file than rank 0: ")
        self.assertRegex(self.ended(["-m", MODEL, *FLAGS], ["-m", MODEL, "--device", "cpu", "-c", "256"]),
                         "rank 1 has another size of the cache or of a step than rank 0: ")

    def test_of_version_end_with_one_line(self):
        version = subprocess.run([PROGRAM, "version"], capture_output=True, text=True).stdout.split()[1].encode()
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "rocmforge"
            other.write_bytes(pathlib.Path(PROGRAM).read_bytes().replace(version, version[:-1] + b"x"))
            other.chmod(0o755)
            same = ["-m", MODEL, *FLAGS]
            self.assertRegex(self.ended(same, same, str(other)), "rank 1 has another version than rank 0: ")

    def test_a_model_that_can_not_be_shared_is_refused_once(self):
        result = run("-n", "3", PROGRAM, "run", "-m", MODEL, "--split", "tensor", "-p", "Hello", *FLAGS)
        self.assertEqual(len(lines_of_program(result.stderr)), 1, result.stderr)
        self.assertRegex(result.stderr, "can't be shared by 3 ranks")


class WithoutALauncher(unittest.TestCase):
    def test_is_refused(self):
        bare = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI"))}
        result = subprocess.run([PROGRAM, "run", "--split", "tensor", "-p", "Hello"], capture_output=True, text=True, env=bare)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, "^rocmforge: --split tensor: start the program with mpirun")


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        print("skipped: mpirun is missing (package openmpi-bin)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
