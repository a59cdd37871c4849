#!/usr/bin/env python3
"""`rocmforge serve` with several models: a process for each, loaded when asked for.

usage: several_models_test.py ROCMFORGE MODEL
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

from demo_server import SECONDS, DemoServer

QUESTION = [{"role": "user", "content": "What is 127 + 458?"}]
LONG = {"prompt": "Once upon a time", "max_tokens": 1500, "ignore_eos": True, "temperature": 0}


class Router(DemoServer):
    """The demo model under several names. `url` is the router's, `log` what it and its models write."""

    def __init__(self, folder, *flags, models=("a", "b", "c"), environment=None):
        self.log_file = tempfile.NamedTemporaryFile("r", suffix=".log")
        command = [PROGRAM, "serve", *[str(folder / f"{name}.gguf") for name in models], "--port", "0", "--device", "cpu",
                   "--threads", "1", "--ctx-size", "2048", "--parallel", "4", *flags]
        with open(self.log_file.name, "w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True,
                                            env={**os.environ, "XDG_RUNTIME_DIR": str(folder), **(environment or {})})
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(f"the server has ended with {self.process.wait()}: {self.log()}")

    def log(self):
        return pathlib.Path(self.log_file.name).read_text()

    def state(self, name):
        return json.loads(self.get(f"/v1/models/{name}"))["status"]

    def wait_for_state(self, name, value):
        self.wait_until(lambda: self.state(name)["value"] == value, f"has the model {name} {value}")

    def chat(self, name, **more):
        return self.post("/v1/chat/completions", {"model": name, "messages": QUESTION, "temperature": 0, **more})

    def children(self):
        return children_of(self.process.pid)

    def child(self):
        """The id of the only model's process."""
        [child] = self.children()
        return child


def children_of(process):
    return [int(word) for path in pathlib.Path(f"/proc/{process}/task").glob("*/children") for word in path.read_text().split()]


def is_alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def refusal(call):
    """Status and message of an error."""
    try:
        call()
    except urllib.error.HTTPError as error:
        body = json.loads(error.read())["error"]
        return error.code, body if isinstance(body, str) else body["message"]
    raise AssertionError("the request was not refused")


def raw(url, method, path, body=None, headers=None):
    request = urllib.request.Request(url + path, None if body is None else json.dumps(body).encode(),
                                     {"Content-Type": "application/json", **(headers or {})}, method=method)
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        return response.headers.get("Content-Type"), response.read().decode()


class OpenStream:
    """A streamed completion of which the first piece has come."""

    def __init__(self, url, name, **more):
        host, port = url.removeprefix("http://").split(":")
        self.connection = socket.create_connection((host, int(port)), timeout=SECONDS)
        body = json.dumps({"model": name, "stream": True, **LONG, **more}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self.connection.sendall(head.encode() + body)
        self.text = b""
        while b"data: " not in self.text:
            self.text += self.connection.recv(65536)

    def rest(self):
        while piece := self.connection.recv(65536):
            self.text += piece
        self.close()
        return self.text.decode()

    def close(self):
        self.connection.close()


class WithModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.place.name)
        for name in "abc":
            (cls.folder / f"{name}.gguf").symlink_to(MODEL)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def router(self, *flags, **more):
        router = Router(self.folder, *flags, **more)
        self.addCleanup(router.process.stdout.close)
        self.addCleanup(router.process.wait)
        self.addCleanup(router.process.kill)
        return router


class Loading(WithModels):
    def test_swaps_under_load_lose_no_request_and_no_memory(self):
        router = self.router("--models-max", "1")
        swaps, answers, problems, memory = 30, [], [], []

        def count():
            return len(re.findall(r" model \w: loaded in ", router.log()))

        def ask(first):
            turn = first
            while count() < swaps and not problems:
                name = "abc"[turn % 3]
                try:
                    answer = router.chat(name)
                    assert answer["model"] == name, answer["model"]
                    answers.append(answer["choices"][0]["message"]["content"])
                except Exception as problem:  # whatever it is, the request was lost
                    problems.append(repr(problem))
                turn += 1

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        router.wait_until(lambda: count() >= swaps // 3 or problems, "swaps")
        memory.append(router.memory_kib())
        for thread in threads:
            thread.join()
        memory.append(router.memory_kib())
        self.assertEqual(problems, [])
        self.assertEqual(set(answers), {"585"})
        self.assertGreaterEqual(count(), swaps)
        if "ASAN_OPTIONS" not in os.environ:  # the sanitizer keeps what is freed for a while
            self.assertLess(memory[1] - memory[0], 16 << 10, "KiB that the router has grown")
        router.wait_until(lambda: len(router.children()) <= 1, "has one model's process")

    def test_states_and_lists(self):
        router = self.router("--models-max", "2")
        names = [(entry["id"], entry["status"]["value"]) for entry in json.loads(router.get("/v1/models"))["data"]]
        self.assertEqual(names, [("a", "unloaded"), ("b", "unloaded"), ("c", "unloaded")])
        self.assertEqual([entry["name"] for entry in json.loads(router.get("/api/tags"))["models"]], ["a", "b", "c"])
        self.assertEqual(router.post("/models/load", {"model": "a"}), {"success": True})
        router.wait_for_state("a", "loaded")
        entry = json.loads(router.get("/v1/models/a"))
        self.assertEqual(entry["meta"]["n_vocab"], 4096)
        for name in ("b", "a", "c"):  # a was used after b, which makes way
            router.chat(name)
        self.assertEqual([router.state(name)["value"] for name in "abc"], ["loaded", "unloaded", "loaded"])
        self.assertEqual([entry["name"] for entry in json.loads(router.get("/api/ps"))["models"]], ["a", "c"])
        self.assertEqual(refusal(lambda: router.post("/models/load", {"model": "a"})),
                         (400, "the model 'a' is loaded already"))
        self.assertEqual(router.post("/models/unload", {"model": "a"}), {"success": True})
        router.wait_for_state("a", "unloaded")
        self.assertEqual(refusal(lambda: router.post("/models/unload", {"model": "a"})), (400, "the model 'a' is not loaded"))
        self.assertEqual(router.stop(), 0)

    def test_requests_name_a_model_that_is_there(self):
        router = self.router()
        self.assertEqual(refusal(lambda: router.chat("d")), (404, "there is no model 'd'"))
        self.assertEqual(refusal(lambda: router.post("/v1/chat/completions", {"messages": QUESTION})),
                         (400, "model is missing: the server has a, b, c"))
        self.assertEqual(refusal(lambda: router.get("/v1/models/d")), (404, "there is no model 'd'"))
        self.assertEqual(refusal(lambda: router.post("/api/chat", {"model": "d", "messages": QUESTION})),
                         (404, "there is no model 'd'"))
        answer = router.post("/api/chat", {"model": "a:latest", "messages": QUESTION, "stream": False})
        self.assertEqual(answer["message"]["content"], "585")
        self.assertEqual(len(json.loads(router.get("/slots?model=a"))), 4)
        answered = re.search(r'\nrocmforge:request_success_total{model_name="a",.*finished_reason="stop"} (\d+)\n',
                             router.get("/metrics?model=a"))
        self.assertEqual(answered and answered[1], "1")
        self.assertEqual(refusal(lambda: router.get("/metrics?model=b")), (503, "the model 'b' is not loaded"))

    def test_times_that_models_stay_loaded(self):
        router = self.router("--keep-alive", "0")
        answer = router.post("/api/chat", {"model": "a", "messages": QUESTION, "stream": False, "keep_alive": -1})
        self.assertEqual(answer["message"]["content"], "585")
        [entry] = json.loads(router.get("/api/ps"))["models"]
        self.assertEqual((entry["name"], entry["expires_at"][:4]), ("a", "2318"))
        router.chat("b")  # as the server is set: not at all
        router.wait_for_state("b", "unloaded")
        self.assertEqual(router.state("a")["value"], "loaded")
        router.post("/api/generate", {"model": "a", "keep_alive": "0s"})
        router.wait_for_state("a", "unloaded")
        router.post("/api/chat", {"model": "a", "messages": QUESTION, "stream": False, "keep_alive": "10m"})
        [entry] = json.loads(router.get("/api/ps"))["models"]
        left = time.mktime(time.strptime(entry["expires_at"], "%Y-%m-%dT%H:%M:%SZ")) - time.mktime(time.gmtime())
        self.assertTrue(500 < left <= 600, left)
        self.assertEqual(refusal(lambda: router.post("/api/chat", {"model": "a", "messages": QUESTION, "keep_alive": "soon"})),
                         (400, "keep_alive: 'soon' is no time to stay loaded: give seconds, or 5m or 1h30m; -1 is for ever"))

    def test_an_idle_model_sleeps_and_wakes(self):
        router = self.router("--sleep-idle", "0.2", models=["a"])
        for _ in range(2):
            self.assertEqual(router.post("/v1/chat/completions", {"messages": QUESTION})["model"], "a")
            router.wait_for_state("a", "sleeping")
            self.assertEqual(router.children(), [])

    def test_memory_of_all_has_a_limit(self):
        router = self.router()
        router.chat("a")
        needed = json.loads(router.get("/api/ps"))["models"][0]["size"]
        self.assertGreater(needed, 10 << 20)
        router.stop()
        limited = self.router("--models-memory", str((2 * needed >> 20) + 4))
        for name in "abc":
            limited.chat(name)
        self.assertEqual([limited.state(name)["value"] for name in "abc"], ["unloaded", "loaded", "loaded"])

    def test_host_memory_for_prompts_is_divided(self):
        router = self.router("--cache-ram", "100", "--models-max", "2")
        router.chat("a")
        [child] = router.children()
        arguments = pathlib.Path(f"/proc/{child}/cmdline").read_text().split("\0")
        self.assertEqual([text for text in arguments if text.startswith("--cache-ram")], ["--cache-ram=50"])


class Failures(WithModels):
    def test_a_killed_model_is_reported_and_loaded_again(self):
        router = self.router(models=["a", "b"])
        router.chat("b")
        other = router.child()
        stream = OpenStream(router.url, "a")
        [child] = set(router.children()) - {other}
        os.kill(child, signal.SIGKILL)
        self.assertIn("the model's server gave no whole answer: its process has ended with signal 9 (Killed)", stream.rest())
        state = router.state("a")
        self.assertEqual((state["value"], state["failed"], state["exit_code"]), ("unloaded", True, 137))
        self.assertIn("model a: its process has ended with signal 9 (Killed)", router.log())
        self.assertEqual(router.chat("a")["model"], "a")
        self.assertNotIn("failed", router.state("a"))
        self.assertTrue(is_alive(other))

    def test_no_model_outlives_a_killed_router(self):
        for earlier in self.folder.glob("rocmforge-models-*"):
            shutil.rmtree(earlier)
        router = self.router()
        router.chat("a")
        router.chat("b")
        children = router.children()
        self.assertEqual(len(children), 2)
        router.kill()
        router.wait_until(lambda: not any(map(is_alive, children)), "leaves no process")
        [left] = self.folder.glob("rocmforge-models-*")
        os.utime(left, (0, 0))
        self.assertEqual(self.router().stop(), 0)
        self.assertEqual(list(self.folder.glob("rocmforge-models-*")), [], "folders of sockets")

    def test_a_broken_file_among_good_ones(self):
        broken = self.folder / "broken.gguf"
        broken.write_bytes(MODEL.read_bytes()[:5000])
        self.addCleanup(broken.unlink)
        router = self.router("--models-max", "1", models=["a", "broken"])
        router.chat("a")
        status, message = refusal(lambda: router.chat("broken"))
        self.assertEqual(status, 500)
        self.assertRegex(message, r"^the model 'broken' can't be loaded: .*broken\.gguf: .+$")
        state = router.state("broken")
        self.assertEqual((state["value"], state["failed"], state["exit_code"]), ("unloaded", True, 1))
        self.assertEqual(router.state("a")["value"], "loaded", "a file that can't be read takes nobody's place")

    def test_the_end_waits_for_answers(self):
        router = self.router(models=["a", "b"])
        stream = OpenStream(router.url, "a")
        child = router.child()
        router.process.terminate()
        text = stream.rest()
        self.assertIn("data: [DONE]", text)
        self.assertIn('"finish_reason":"length"', text)
        self.assertEqual(router.wait(), 0)
        self.assertFalse(is_alive(child))

    def test_a_client_that_leaves_ends_its_request(self):
        router = self.router(models=["a", "b"])
        stream = OpenStream(router.url, "a", n=4)
        router.wait_until(lambda: '"is_processing":true' in router.get("/slots?model=a"), "answers")
        stream.close()
        router.wait_until(lambda: '"is_processing":true' not in router.get("/slots?model=a"), "answers nothing")
        router.wait_until(lambda: router.state("a")["answering"] == 0, "has no request under way")

    def test_requests_under_way_have_a_limit(self):
        router = self.router("--max-waiting", "0", models=["a", "b"])
        streams = [OpenStream(router.url, "a") for _ in range(4)]
        self.assertEqual(refusal(lambda: router.chat("b")), (429, "the queue is full: 4 requests wait or are answered"))
        self.assertEqual(router.state("b")["value"], "unloaded")
        for stream in streams:
            stream.close()
        router.wait_until(lambda: router.state("a")["answering"] == 0, "has no request under way")
        self.assertEqual(router.chat("b")["model"], "b")

    def test_who_waits_for_a_model_has_a_deadline_and_may_leave(self):
        router = self.router("--models-max", "1", "--request-timeout", "3", models=["a", "b"])
        stream = OpenStream(router.url, "a")
        child = router.child()
        os.kill(child, signal.SIGSTOP)  # so that its answer lasts
        self.assertEqual(refusal(lambda: router.chat("b")), (504, "the request took longer than 3 s"))
        host, port = router.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as waiting:
            waiting.sendall(b'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 27\r\n\r\n'
                            b'{"model":"b","content":"a"}')
            router.wait_until(lambda: router.state("b")["waiting"] == 1, "has somebody who waits")
        router.wait_until(lambda: router.state("b")["waiting"] == 0, "has nobody who waits")
        os.kill(child, signal.SIGCONT)
        self.assertIn("data: [DONE]", stream.rest())
        router.wait_for_state("a", "unloaded")  # it was to make way, and has answered before
        router.chat("b")

    def test_command_lines_that_are_refused(self):
        twin = self.folder / "below"
        twin.mkdir()
        (twin / "a.gguf").symlink_to(MODEL)
        empty = self.folder / "empty"
        empty.mkdir()
        for arguments, line in [
                (["a.gguf", "below/a.gguf"], "two models are called a: a.gguf and below/a.gguf; --models-preset gives them "
                                             "other names"),
                (["a.gguf", "none.gguf"], "there is no model file 'none.gguf' here"),
                (["empty"], "empty: there is no .gguf file below this folder"),
                (["a.gguf", "b.gguf", "--alias", "x"], "--alias is for one model"),
                (["a.gguf", "--keep-alive", "soon"], "--keep-alive: 'soon' is no time to stay loaded"),
                (["a.gguf", "--behind-router"], "--behind-router trusts who asks")]:
            command = [PROGRAM, "serve", *arguments, "--port", "0"]
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertTrue(done.stderr.startswith("rocmforge: " + line), done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


class Presets(WithModels):
    def write(self, text):
        path = self.folder / "models.ini"
        path.write_text(text)
        return str(path)

    def test_sections_are_models_with_options_of_their_own(self):
        path = self.write(f"; two of a kind\nversion = 1\n[*]\nctx-size = 512\n\n[small one]\nmodel = {self.folder}/a.gguf\n"
                          f"c = 256\nno-prefix-cache = true\nload-on-startup = yes\n[big]\nm = {self.folder}/b.gguf\n")
        router = self.router("--models-preset", path, models=[])
        router.wait_for_state("small%20one", "loaded")
        router.chat("big")
        entries = {entry["id"]: entry["meta"]["n_ctx"] for entry in json.loads(router.get("/v1/models"))["data"]}
        self.assertEqual(entries, {"small one": 256, "big": 512})

    def test_each_mistake_is_a_line_with_its_place(self):
        model = f"model = {self.folder}/a.gguf\n"
        for text, line, message in [
                ("[a]\n" + model + "ctx-size = many\n", 3, "--context is many, must be a whole number"),
                ("[a]\n" + model + "\nctx-sise = 5\n", 4, "there is no option --ctx-sise"),
                ("[a]\n" + model + "port = 99\n", 3, "--port is no option of one model"),
                ("[a\n" + model, 1, "'[a' is no section like [NAME]"),
                ("[]\n" + model, 1, "'[]' is no section like [NAME]"),
                ("[a]\n" + model + "[b]\n" + model + "[a]\n" + model, 5, "the section [a] is in line 1 already"),
                ("[a]\n" + model + "greedy\n", 3, "'greedy' is no line like KEY = VALUE"),
                (model + "[a]\n", 1, "'model' stands before the first section"),
                ("[a]\n" + model + "greedy = perhaps\n", 3, "greedy is 'perhaps', must be true or false"),
                ("[a]\nmodel = /none.gguf\n", 1, "there is no file '/none.gguf'"),
                ("[a]\nctx-size = 5\n", 1, "the section [a] names no model: model = FILE"),
                ("[a]\n" + model + "mlock = true\n", 3, "there is no option --mlock here"),
                ("\n", None, "the file has no section of a model, like [NAME]")]:
            path = self.write(text)
            command = [PROGRAM, "serve", "--models-preset", path, "--port", "0"]
            done = subprocess.run(command, capture_output=True, text=True)
            place = path if line is None else f"{path}:{line}"
            self.assertTrue(done.stderr.startswith(f"rocmforge: {place}: {message}"), done.stderr)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)


class Access(WithModels):
    def test_keys_hold_across_models(self):
        router = self.router(environment={"ROCMFORGE_API_KEY": "first,second"})
        self.assertEqual(refusal(lambda: router.chat("a"))[0], 401)

        def ask(key, path="/v1/chat/completions", **more):
            messages = [{"role": "user", "content": "one two three four " * 20}]
            body = {"model": "a", "messages": messages, "max_tokens": 4, **more}
            return json.loads(raw(router.url, "POST", path, body, {"Authorization": f"Bearer {key}"})[1])

        def cached(answer):
            return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

        self.assertEqual(cached(ask("first")), 0)
        self.assertGreater(cached(ask("first")), 0)
        self.assertEqual(cached(ask("second")), 0, "a key learns nothing of another's prompts")
        space = hashlib.sha256(b"rocmforge prefixes of key first").hexdigest()
        forged = {"Authorization": "Bearer second", "X-Router-Prefix-Space": space, "X-Router-Owner": "key 0"}
        body = {"model": "a", "messages": [{"role": "user", "content": "five six seven " * 20}], "max_tokens": 4}
        raw(router.url, "POST", "/v1/chat/completions", body, {"Authorization": "Bearer first"})
        self.assertEqual(cached(json.loads(raw(router.url, "POST", "/v1/chat/completions", body, forged)[1])), 0)
        stored = json.loads(raw(router.url, "POST", "/v1/responses", {"model": "a", "input": "Hello"},
                                {"Authorization": "Bearer first"})[1])["id"]
        self.assertEqual(json.loads(raw(router.url, "GET", f"/v1/responses/{stored}", None,
                                        {"Authorization": "Bearer first"})[1])["id"], stored)
        self.assertEqual(refusal(lambda: raw(router.url, "GET", f"/v1/responses/{stored}", None,
                                             {"Authorization": "Bearer second"}))[0], 404)

    def test_a_request_has_one_id(self):
        router = self.router()
        body = json.dumps({"model": "a", "messages": QUESTION, "max_tokens": 1}).encode()
        for given in ({}, {"X-Request-Id": "trace-1"}):
            request = urllib.request.Request(router.url + "/v1/chat/completions", body,
                                             {"Content-Type": "application/json", **given})
            with urllib.request.urlopen(request, timeout=SECONDS) as response:
                own = response.headers["X-Request-Id"]
            self.assertEqual(own, given.get("X-Request-Id", own))
            router.wait_until(lambda: router.log().count(own) == 2, "and its model log the request by the same id")

    def test_answers_are_those_of_a_server_of_one(self):
        text = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
        chat = {"messages": QUESTION, "max_tokens": 12, "temperature": 0}
        ollama = {"messages": QUESTION, "options": {"temperature": 0, "num_predict": 12}}
        response = {"input": "Hello", "max_output_tokens": 12, "temperature": 0}
        plain = {"prompt": "Hello", "n_predict": 5, "temperature": 0}
        calls = [("/v1/chat/completions", {**chat, "logprobs": True, "top_logprobs": 3}),
                 ("/v1/chat/completions", {**chat, "stream": True}),
                 ("/v1/completions", text),
                 ("/v1/completions", {**text, "stream": True}),
                 ("/v1/responses", response),
                 ("/v1/responses", {**response, "stream": True}),
                 ("/v1/messages", chat),
                 ("/v1/messages", {**chat, "stream": True}),
                 ("/v1/messages/count_tokens", {"messages": QUESTION}),
                 ("/api/chat", ollama),
                 ("/api/chat", {**ollama, "stream": False}),
                 ("/api/generate", {"prompt": "Hello", "options": {"temperature": 0}}),
                 ("/api/show", {}),
                 ("/api/embed", {"input": "a cat"}),
                 ("/completion", plain),
                 ("/completion", {**plain, "stream": True}),
                 ("/v1/embeddings", {"input": ["a cat", "a dog"]}),
                 ("/v1/embeddings", {"input": ["a cat"] * 64}),  # a whole answer that comes in pieces
                 ("/tokenize", {"content": "Hello"}),
                 ("/detokenize", {"tokens": [72, 73]}),
                 ("/apply-template", {"messages": QUESTION}),
                 ("/v1/completions", {"prompt": 5}),
                 ("/v1/messages", {"messages": []})]
        direct = DemoServer(PROGRAM, str(self.folder / "a.gguf"), "--threads", "1", "--ctx-size", "2048", "--parallel", "4")
        self.addCleanup(direct.kill)
        router = self.router(models=["a", "b"])
        for path, body in calls:
            with self.subTest(path=path, body=body):
                body = {"model": "a", **body}
                self.assertEqual(answer_without_times(router.url, path, body), answer_without_times(direct.url, path, body))
        self.assertEqual(raw(router.url, "GET", "/tokenizer_info?model=a")[1], direct.get("/tokenizer_info"))
        self.assertEqual(raw(router.url, "GET", "/")[1], direct.get("/"))


def answer_without_times(url, path, body):
    try:
        kind, text = raw(url, "POST", path, body)
    except urllib.error.HTTPError as error:
        kind, text = error.code, error.read().decode()
    text = re.sub(r"\b(chatcmpl|cmpl|resp|msg|rs|fc|gen|item)([-_])[0-9a-f_]+", r"\1\2ID", text)
    text = re.sub(r'"(created|created_at|completed_at|modified_at)":("[^"]*"|\d+)', r'"\1":0', text)
    text = re.sub(r'"(\w*(?:duration|_ms|per_second|_seconds))":[-+.\de]+', r'"\1":0', text)
    return kind, re.sub(r'"(cache_n|prompt_n|cached_tokens|tokens_cached|tokens_evaluated)":\d+', r'"\1":0', text)


if __name__ == "__main__":
    PROGRAM, MODEL = os.path.abspath(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
