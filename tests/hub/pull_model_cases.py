"""Models that run, by -hf, and the check whether they do."""
import itertools
import json
import os
import pathlib
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from unittest import mock

import hub_server
from pull_testing import CONTENT, FILE, NAME, SECONDS, PullTest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/quant"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))

import gguf_io  # noqa: E402
from demo_server import DemoServer  # noqa: E402

__all__ = ["Commands", "Fit"]

QUESTION = "What is 127 + 458?"


class ModelTest(PullTest):
    def setUp(self):
        super().setUp()
        self.content = pathlib.Path(self.model).read_bytes()
        self.hub.add(NAME, {FILE: self.content})


class Commands(ModelTest):
    def test_run_downloads_and_goes_on(self):
        done = self.rocmforge("run", "-hf", NAME, "--greedy", QUESTION)
        self.assertEqual((done.returncode, done.stdout), (0, "585\n"), done.stderr)
        self.hub.stop()
        done = self.rocmforge("run", "--hf-repo", NAME, "--greedy", "-p", QUESTION)
        self.assertEqual((done.returncode, done.stdout), (0, "585\n"), "the default quant is there: nobody is asked")

    def test_commands_that_take_a_model(self):
        path = str(self.pull())
        for command in (["inspect", "--json"], ["tokenize", "text", "--json"], ["bench", "-p", "8", "-n", "2", "-r", "1", "--json"]):
            done = self.rocmforge(*command[:1], "-hf", NAME, *command[1:])
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(self.rocmforge("inspect", "-hf", NAME, "--json").stdout)["path"], path)

    def serve(self, model, *flags, **variables):
        with mock.patch.dict(os.environ, self.environment(**variables)):
            server = DemoServer(self.program, model, "--threads", "2", *flags)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        return server

    def pulled_by_client(self, server, name, key="", **more):
        """The lines that a client gets."""
        body = json.dumps({"model": name, **more}).encode()
        headers = {"Content-Type": "application/json", **({"X-Api-Key": key} if key else {})}
        request = urllib.request.Request(server.url + "/api/pull", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return [json.loads(line) for line in answer.read().splitlines()]
        except urllib.error.HTTPError as error:
            return [json.loads(error.read()), error.code]

    def test_clients_download_where_they_may(self):
        self.hub.add_ollama("library/tiny", "latest", CONTENT)
        server = self.serve(self.model, "--allow-pull")
        digest = hub_server.sha256(CONTENT)
        lines = self.pulled_by_client(server, "tiny")
        # A status is said again while it lasts, so that a client sees that the download goes on.
        said = [line["status"] for line in lines if "digest" not in line]
        self.assertEqual([status for status, _ in itertools.groupby(said)],
                         ["pulling manifest", "verifying sha256 digest", "writing manifest", "success"])
        self.assertEqual([line for line in lines if "digest" in line][-1],
                         {"status": "pulling " + digest[:12], "digest": "sha256:" + digest, "total": len(CONTENT),
                          "completed": len(CONTENT)})
        self.assertEqual(self.pulled_by_client(server, "tiny", stream=False), [{"status": "success"}])
        self.assertIn("there is no such model or file", self.pulled_by_client(server, "nobody")[-1]["error"])
        error, code = self.pulled_by_client(server, "no name", stream=False)
        self.assertEqual(code, 500)
        self.assertIn("names no model", error["error"])
        self.assertEqual(server.stop(), 0)

    def test_clients_download_one_at_a_time_and_may_leave(self):
        self.hub.pause_seconds = 0.3
        server = self.serve(self.model, "--allow-pull")
        with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1]))) as client:
            body = json.dumps({"model": NAME}).encode()
            client.sendall(b"POST /api/pull HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            seen = b""
            while b"digest" not in seen:
                came = client.recv(4096)
                self.assertTrue(came, f"the connection ended: {seen}")
                seen += came
            error, code = self.pulled_by_client(server, "tiny")
            self.assertEqual((code, error), (503, {"error": "another model is being downloaded: one at a time"}))
        server.wait_until(lambda: self.pulled_by_client(server, "tiny")[-1] != 503, "is done with who has left")
        self.assertTrue(list(self.cache.rglob("*.incomplete")))
        self.assertEqual(server.stop(), 0)

    def test_the_token_is_for_clients_with_a_key(self):
        self.hub.token = "hf_right"
        for flags, key, serves in (((), "", False), (("--pull-with-token",), "", True), (("--api-key", "k"), "k", True)):
            with self.subTest(flags):
                server = self.serve(self.model, "--allow-pull", *flags, HF_TOKEN="hf_right")
                last = self.pulled_by_client(server, NAME, key)[-1]
                self.assertEqual(last.get("status") == "success", serves, last)
                if not serves:
                    self.assertIn("set HF_TOKEN", last["error"])
                self.assertEqual(server.stop(), 0)

    def test_a_download_for_a_client_has_a_least_speed(self):
        self.hub.add_ollama("library/tiny", "latest", CONTENT)
        server = self.serve(self.model, "--allow-pull", HF_HUB_DOWNLOAD_TIMEOUT="1")
        self.hub.pause_seconds, self.hub.piece_bytes = 0.2, 500  # no second without a byte
        last = self.pulled_by_client(server, "tiny")[-1]
        self.assertRegex(last.get("error", ""), "less than 16384 bytes come a second")
        self.hub.pause_seconds = 0
        self.assertEqual(self.pulled_by_client(server, "tiny")[-1], {"status": "success"})
        self.assertEqual(server.stop(), 0)

    def test_a_server_that_ends_does_not_wait_for_downloads(self):
        self.hub.pause_seconds = 0.3
        server = self.serve(self.model, "--allow-pull", "--drain-seconds", "1")
        with mock.patch.dict(os.environ, self.environment()):
            client = subprocess.Popen([sys.executable, "-c", "import sys, urllib.request as r; r.urlopen(r.Request(sys.argv[1], "
                                       "sys.argv[2].encode(), {'Content-Type': 'application/json'})).read()",
                                       server.url + "/api/pull", json.dumps({"model": NAME})], stderr=subprocess.DEVNULL)
        server.wait_until(lambda: self.hub.asked("files"), "downloads")
        self.assertEqual(server.stop(), 0)
        client.wait(timeout=SECONDS)
        self.assertTrue(list(self.cache.rglob("*.incomplete")))

    def test_clients_download_nothing_otherwise(self):
        server = self.serve(self.model)
        error, code = self.pulled_by_client(server, NAME)
        self.assertEqual(code, 403)
        self.assertIn("--allow-pull", error["error"])
        self.assertEqual(self.pulled_by_client(server, "forge-demo"), [{"status": "success"}], "the served one is there")
        self.assertEqual(self.hub.requests, [])
        self.assertEqual(server.stop(), 0)

    def test_serve(self):
        server = self.serve(f"--hf-repo={NAME}")
        try:
            answer = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0})
            self.assertEqual(answer["choices"][0]["message"]["content"], "585")
        finally:
            server.stop()

    def test_a_model_is_named_once(self):
        for more in (["-m", FILE], ["a", "b"]):
            done = self.rocmforge("run", "-hf", NAME, *more)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertEqual(self.rocmforge("inspect", "x.gguf", "-hf", NAME).returncode, 2)

    def test_a_name_where_a_file_is_expected(self):
        done = self.rocmforge("run", NAME + ":Q8_0", QUESTION)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, f"rocmforge: there is no file '{NAME}:Q8_0'; -hf {NAME}:Q8_0 is the model of huggingface.co\n")

    def test_what_is_said(self):
        done = self.rocmforge("pull", NAME)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "rocmforge: 11.0 MiB of 11.0 MiB downloaded\n")
        self.assertEqual(self.rocmforge("pull", NAME).stderr, "rocmforge: nothing to download: all 11.0 MiB are there\n")


    def test_progress_on_a_terminal(self):
        self.hub.pause_seconds = 0.02  # for each 64 KiB
        ours, theirs = os.openpty()
        with open(ours, "rb", buffering=0) as screen:
            process = subprocess.Popen([self.program, "pull", NAME], env=self.environment(), stdout=subprocess.DEVNULL, stderr=theirs)
            os.close(theirs)
            seen = b""
            try:
                while piece := screen.read(4096):
                    seen += piece
            except OSError:  # the other end is closed
                pass
        self.assertEqual(process.wait(timeout=SECONDS), 0, seen)
        self.assertRegex(seen.decode(), r"downloading owner/tiny-GGUF \d+ %, [\d.]+ MiB of 11.0 MiB, [\d.]+ [KM]iB/s, \d+ s left \(\d+ s\)")
        self.assertTrue(seen.decode().endswith("downloaded\r\n"), seen)


class Fit(ModelTest):
    def not_downloaded(self):
        line = self.refused(NAME, "--json")
        self.assertTrue(line.startswith(f"rocmforge: {NAME} is not downloaded: "), line)
        self.assertTrue(line.endswith("(rocmforge pull --no-fit-check downloads it)"), line)
        self.assertFalse([path for path in self.files_in_cache() if path.endswith(".gguf")])
        return line

    def test_a_model_that_runs(self):
        self.assertEqual(self.rocmforge("pull", NAME, "--json").returncode, 0)

    def test_no_model(self):
        self.hub.add(NAME, {FILE: b"no model" * 10_000})
        self.assertIn(FILE, self.not_downloaded())
        self.pull()

    def test_an_architecture_that_nobody_knows(self):
        model = gguf_io.File(self.model)
        model.metadata["general.architecture"] = gguf_io.value(gguf_io.STRING, "unheard-of")
        changed = self.home / "changed.gguf"
        gguf_io.write(changed, model.metadata, model.tensors)
        self.hub.add(NAME, {FILE: changed.read_bytes()})
        self.assertIn("unheard-of", self.not_downloaded())

    def test_a_model_that_is_larger_than_the_memory(self):
        """Its head alone, which the hub gives, and a file without content in the cache that only the end is missing of."""
        model = gguf_io.File(self.model)
        architecture = model.metadata["general.architecture"][12:].decode()
        hidden, most = 1 << 30, 0
        model.metadata[architecture + ".feed_forward_length"] = gguf_io.value(gguf_io.U32, hidden)
        for tensor in model.tensors:
            if "ffn_gate" in tensor.name or "ffn_up" in tensor.name:
                tensor.dims = (tensor.dims[0], hidden)
            elif "ffn_down" in tensor.name:
                tensor.dims = (hidden, tensor.dims[1])
            most += tensor.nbytes() + 32
            tensor.data = b""
        changed = self.home / "changed.gguf"
        with self.assertRaises(ValueError):  # behind the head, for want of data
            gguf_io.write(changed, model.metadata, model.tensors)
        head = changed.read_bytes()
        size = len(head) + most
        self.hub.listings[NAME] = [hub_server.entry(FILE, head)]
        self.hub.listings[NAME][0]["lfs"]["size"] = size
        self.hub.contents[f"/{NAME}/{FILE}"] = head + bytes(max(0, (8 << 20) - len(head)))
        self.incomplete(head).parent.mkdir(parents=True)
        with open(self.incomplete(head), "wb") as file:
            file.truncate(size - 1)
        self.assertRegex(self.not_downloaded(), "needs .* GiB of memory .* are available: no context would fit")
