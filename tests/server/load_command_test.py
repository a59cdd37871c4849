#!/usr/bin/env python3
"""`rocmforge load`: whether its reports say what the server says, and what it does when something is wrong.

usage: load_command_test.py ROCMFORGE MODEL
"""
import http.server
import json
import math
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree as ElementTree

from demo_server import DemoServer

FOREIGN_MODEL = 'for<eign> & "co"'
SVG = "{http://www.w3.org/2000/svg}"


def nearest_rank(values, share):
    values = sorted(values)
    return values[max(1, math.ceil(share * len(values))) - 1]


class ForeignServer(http.server.BaseHTTPRequestHandler):
    """Speaks OpenAI's API with other blanks and line ends, no vocabulary, and the counts beside the last piece of text."""

    def log_message(self, *_):
        pass

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self):
        self.answer("application/json", json.dumps({"data": [{"id": FOREIGN_MODEL}]}))

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        count = asked["max_tokens"]
        events = [{"choices": [{"text": " \"usage\": {"}]} for _ in range(count)]
        events[-1]["usage"] = {"prompt_tokens": len(asked["prompt"]), "completion_tokens": count}
        lines = [": a comment"] + ["data: " + json.dumps(event) for event in events] + ["data:[DONE]"]
        self.answer("text/event-stream", "".join(line + "\r\n\r\n" for line in lines))


class LoadCommand(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = DemoServer(*ARGUMENTS, "--threads", "2")
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()
        assert cls.server.stop() == 0, "the server ends with 0"

    def command(self, *flags, url=None):
        return [ARGUMENTS[0], "load", url or self.server.url, *flags]

    def run_load(self, *flags, url=None):
        return subprocess.run(self.command(*flags, url=url), capture_output=True, text=True, timeout=120)

    def report(self, *flags, url=None, code=0):
        path = pathlib.Path(self.folder.name, "report.json")
        done = self.run_load(*flags, "--json", str(path), url=url)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(path.read_text()), done.stdout

    def counts(self):
        return {name: self.server.metric(name) for name in ("prompt_tokens_total", "generation_tokens_total",
                                                             "request_success_total")}

    def test_figures_are_those_of_the_server(self):
        before = self.counts()
        drawing = pathlib.Path(self.folder.name, "load.svg")
        report, table = self.report("--concurrency", "4", "--requests", "20", "--prompt-tokens", "8-40",
                                    "--output-tokens", "12~5", "--svg", str(drawing))
        gained = {name: value - before[name] for name, value in self.counts().items()}
        requests = report["requests"]
        self.assertEqual((report["completed"], report["dropped"], report["failed"], len(requests)), (20, 0, 0, 20))
        self.assertEqual(report["prompt_tokens"], gained["prompt_tokens_total"])
        self.assertEqual(report["output_tokens"], gained["generation_tokens_total"])
        self.assertEqual(gained["request_success_total"], 20)
        for name in ("prompt_tokens", "output_tokens", "cached_tokens"):
            self.assertEqual(report[name], sum(request[name] for request in requests))
        self.assertTrue(all(8 <= request["prompt_tokens"] <= 40 for request in requests))
        self.assertGreater(len({request["prompt_tokens"] for request in requests}), 5)
        self.assertGreater(len({request["output_tokens"] for request in requests}), 3)
        self.assertAlmostEqual(report["output_tokens_per_second"], report["output_tokens"] / report["seconds"])
        self.assertAlmostEqual(report["requests_per_second"], 20 / report["seconds"])
        self.assertGreaterEqual(report["seconds"], max(request["end"] for request in requests))
        for share, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (1, "max")):
            first, whole = (nearest_rank(values, share) for values in ([r["ttft"] for r in requests],
                                                                       [r["end"] - r["start"] for r in requests]))
            self.assertAlmostEqual(report["ttft_seconds"][name], first)
            self.assertAlmostEqual(report["e2e_seconds"][name], whole)
        self.assertLessEqual(self.most_at_once(requests), 4)
        row = [cell.strip() for cell in table.splitlines()[4].split("|")]
        self.assertEqual(row[1:5], ["20", "20", "0", "0"])
        self.assertEqual(row[6], f"{report['output_tokens_per_second']:.1f}")
        image = ElementTree.parse(drawing).getroot()
        self.assertEqual(image.tag, SVG + "svg")
        self.assertEqual(len(image.findall(SVG + "circle")), 20, "a point a request")
        self.assertEqual(len(image.findall(SVG + "polyline")), 2)

    @staticmethod
    def most_at_once(requests):
        changes = sorted([(request["start"], 1) for request in requests] + [(request["end"], -1) for request in requests])
        at_once = most = 0
        for _, change in changes:
            at_once += change
            most = max(most, at_once)
        return most

    def test_a_rate_is_kept(self):
        report, _ = self.report("--rate", "25", "--duration", "2", "--prompt-tokens", "8", "--output-tokens", "2")
        starts = [request["start"] for request in report["requests"]]
        self.assertTrue(25 <= len(starts) <= 80, f"{len(starts)} of 50 expected")
        self.assertLess(max(starts), 2)
        self.assertEqual(report["completed"], len(starts))
        gaps = [b - a for a, b in zip(sorted(starts), sorted(starts)[1:])]
        self.assertGreater(max(gaps), 2 * sum(gaps) / len(gaps), "moments are random")

    def test_the_same_seed_asks_for_the_same(self):
        def lengths(seed):
            report, _ = self.report("--seed", seed, "--concurrency", "1", "--requests", "6", "--prompt-tokens", "5-50",
                                    "--output-tokens", "1-9")
            return [(request["prompt_tokens"], request["output_tokens"]) for request in report["requests"]]
        self.assertEqual(lengths("7"), lengths("7"))
        self.assertNotEqual(lengths("7"), lengths("8"))

    def test_clients_that_leave(self):
        def ended(*labels):
            return self.server.metric("request_success_total", *labels)
        before = (ended(), ended('finished_reason="cancelled"'))
        report, _ = self.report("--drop", "1", "--concurrency", "8", "--requests", "16", "--prompt-tokens", "8",
                                "--output-tokens", "400")
        self.assertEqual((report["completed"], report["dropped"], report["failed"]), (0, 16, 0))
        self.assertTrue(all(1 <= request["output_tokens"] <= 201 for request in report["requests"]))
        self.server.wait_until_idle()
        # A client that reads late may leave after the server has written the whole answer.
        self.assertEqual(ended() - before[0], 16)
        self.assertGreater(ended('finished_reason="cancelled"'), before[1])
        self.assertEqual(self.server.metric("kv_cache_usage_perc"), 0)

    def test_refused_requests_are_named_and_counted(self):
        report, text = self.report("--concurrency", "2", "--requests", "3", "--prompt-tokens", "100000", code=1)
        self.assertEqual((report["completed"], report["failed"]), (0, 3))
        self.assertRegex(text, r"\n3 x 400: .*100000 tokens")

    def test_a_server_that_dies_ends_the_run(self):
        mortal = DemoServer(*ARGUMENTS, "--threads", "1")
        with subprocess.Popen(self.command("--concurrency", "4", "--requests", "8", "--output-tokens", "1500", url=mortal.url),
                              stdout=subprocess.PIPE, text=True) as process:
            mortal.wait_until(lambda: mortal.metric("num_requests_running") > 0, "runs something")
            mortal.kill()
            text, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("4 x 127.0.0.1:", text)
        self.assertIn("can't be reached: Connection refused", text)

    def test_what_is_wrong_is_one_line(self):
        dead = "http://127.0.0.1:1"
        lines = {
            (dead,): (1, "127.0.0.1:1 can't be reached: Connection refused"),
            (self.server.url + "/nothing",): (1, f"{self.server.url}/nothing answers 404 to /v1/models: "),
            (self.server.url, "--json", "/nowhere/report.json"): (2, "/nowhere/report.json: can't be written"),
            (self.server.url, "--json", "/dev/full", "--requests", "1", "--output-tokens", "1"):
                (1, "/dev/full: can't be written"),
        }
        for (url, *flags), (code, message) in lines.items():
            done = self.run_load(*flags, url=url)
            self.assertEqual(done.returncode, code, done.stderr)
            said = [line for line in done.stderr.splitlines() if line != "requests ..."]  # progress, on slow machines
            self.assertEqual(len(said), 1, done.stderr)
            self.assertTrue(said[0].startswith("rocmforge: " + message), done.stderr)

    def test_a_connection_that_ends_without_a_word(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def hang_up():
                connection, _ = listener.accept()
                connection.recv(4096)
                connection.close()
            threading.Thread(target=hang_up, daemon=True).start()
            done = self.run_load(url=f"http://127.0.0.1:{listener.getsockname()[1]}")
        self.assertEqual((done.returncode, done.stderr), (1, "rocmforge: the connection ended before an answer\n"))

    def test_a_key_is_sent(self):
        guarded = DemoServer(*ARGUMENTS, "--threads", "1", "--api-key", "secret")
        flags = ("--requests", "1", "--prompt-tokens", "4", "--output-tokens", "2")
        try:
            self.assertEqual(self.run_load(*flags, "--api-key", "secret", url=guarded.url + "/v1/").returncode, 0)
            refused = self.run_load(*flags, url=guarded.url)
            self.assertEqual(refused.returncode, 1)
            self.assertRegex(refused.stdout, r"\n1 x 401: .*key")
        finally:
            guarded.stop()

    def test_servers_of_other_makes(self):
        foreign = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ForeignServer)
        threading.Thread(target=foreign.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{foreign.server_port}"
        drawing = pathlib.Path(self.folder.name, "foreign.svg")
        try:
            self.assertIn("give --vocab", self.run_load(url=url).stderr)
            report, _ = self.report("--vocab", "100", "--requests", "3", "--prompt-tokens", "7", "--output-tokens", "5",
                                    "--svg", str(drawing), url=url)
            self.assertEqual((report["completed"], report["prompt_tokens"], report["output_tokens"]), (3, 21, 15))
            self.assertIn(FOREIGN_MODEL, ElementTree.parse(drawing).getroot().find(SVG + "text").text)
        finally:
            foreign.shutdown()
            foreign.server_close()


if __name__ == "__main__":
    ARGUMENTS = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
