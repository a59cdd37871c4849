#!/usr/bin/env python3
"""The Python package with the library of a build: package_test.py LIBRARY PROGRAM MODEL

What the package gives is compared with what the program and its server say."""
import json
import os
import pathlib
import subprocess
import sys
import threading
import unittest
import urllib.error
import urllib.request

LIBRARY, PROGRAM, MODEL = sys.argv[1:4]
os.environ["ROCMFORGE_LIBRARY"] = LIBRARY
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

try:
    import numpy  # noqa: E402
except ImportError:
    print("skipped: this Python has no NumPy")
    sys.exit(77)

import rocmforge  # noqa: E402

QUESTION = "What is 127 + 458?"
CPU = {"device": "cpu", "threads": 2, "context": 512}


def program(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def post(url, path, body, headers=None):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read())


def user(text):
    return [{"role": "user", "content": text}]


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = rocmforge.Model(MODEL, **CPU)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def test_answers_the_demo_question(self):
        answer = self.model.generate(QUESTION, greedy=True)
        self.assertEqual(answer, "585")
        self.assertEqual(answer.finish_reason, "stop")
        self.assertEqual(answer.prompt_tokens, json.loads(program("run", MODEL, QUESTION, "--greedy", "--json").stdout)["prompt_tokens"])

    def test_a_stream_joins_to_the_whole(self):
        options = {"raw": True, "seed": 5, "temp": 1.2, "ignore_eos": True, "max_tokens": 40}
        stream = self.model.generate("The", stream=True, **options)
        pieces = list(stream)
        self.assertGreater(len(pieces), 5)
        self.assertEqual("".join(pieces), self.model.generate("The", **options))
        self.assertEqual(json.loads(stream.result)["text"], "".join(pieces))

    def test_a_stream_that_is_left_ends_its_answer(self):
        with self.model.generate("The", stream=True, raw=True, ignore_eos=True) as stream:
            self.assertTrue(next(stream))
        self.assertEqual(list(stream), [])
        self.assertEqual(self.model.generate(QUESTION, greedy=True), "585")

    def test_seeds_reproduce(self):
        options = {"raw": True, "temp": 1.5, "ignore_eos": True, "max_tokens": 24}
        answers = [self.model.generate("The", seed=seed, **options) for seed in (3, 3, 4)]
        self.assertEqual(answers[0], answers[1])
        self.assertNotEqual(answers[0], answers[2])
        said = program("run", MODEL, "The", "--raw", "--temp", "1.5", "--ignore-eos", "-n", "24", "--seed", "3", "--json")
        self.assertEqual(json.loads(said.stdout)["text"], answers[0])

    def test_wrong_options_are_refused_in_the_words_of_the_program(self):
        for option, value, words in (("temp", "warm", ["--temp", "warm"]), ("top_k", -9, ["--top-k", "-9"]),
                                     ("max_tokns", 3, ["--max-tokns", "3"]), ("grammar", "root ::= (", ["--grammar", "root ::= ("]),
                                     ("json_schema", "[", ["--json-schema", "["]), ("logit_bias", "x", ["--logit-bias", "x"])):
            with self.subTest(option), self.assertRaises(rocmforge.OptionError) as raised:
                self.model.generate(QUESTION, **{option: value})
            self.assertEqual(f"rocmforge: {raised.exception}\n", program("run", MODEL, QUESTION, *words).stderr)
        for option, value, words in (("kv_type", "f7", ["--kv-type", "f7"]), ("batch", 0, ["--batch", "0"]),
                                     ("attention", "none", ["--attention", "none"])):
            with self.subTest(option), self.assertRaises(rocmforge.OptionError) as raised:
                rocmforge.Model(MODEL, **{option: value})
            self.assertEqual(f"rocmforge: {raised.exception}\n", program("run", MODEL, QUESTION, *words).stderr)
        for path in ("/no/such.gguf", "no-such-model", str(pathlib.Path(__file__))):
            with self.subTest(path), self.assertRaises(rocmforge.Error) as raised:
                rocmforge.Model(path)
            self.assertEqual(f"rocmforge: {raised.exception}\n", program("run", path, QUESTION).stderr)
        with self.assertRaises(rocmforge.OptionError):
            next(self.model.generate(QUESTION, stream=True, temp="warm"))
        with self.assertRaises(rocmforge.OptionError):
            self.model.generate("a\0b")

    def test_options_take_the_values_of_python(self):
        self.assertIn(json.loads(self.model.generate(QUESTION, greedy=True, json_schema={"enum": ["yes", "no"]})), ("yes", "no"))
        self.assertEqual(self.model.generate(QUESTION, greedy=True, stop=["8", "x"]), "5")
        first = self.model.tokenize("5", special=False)[0]
        self.assertNotEqual(self.model.generate(QUESTION, greedy=True, logit_bias={first: float("-inf")})[0], "5")
        self.assertEqual(self.model.generate(QUESTION, greedy=True, temp=None), "585")

    def test_goes_on_with_tokens(self):
        tokens = self.model.tokenize("The")
        options = {"greedy": True, "ignore_eos": True, "max_tokens": 8}
        self.assertEqual(self.model.generate(numpy.array(tokens), **options), self.model.generate("The", raw=True, **options))
        with self.assertRaises(rocmforge.OptionError):
            self.model.generate([])
        with self.assertRaises(rocmforge.OptionError):
            self.model.generate([2**40])

    def test_converses(self):
        answer = self.model.chat(user(QUESTION), greedy=True)
        self.assertEqual(answer["choices"][0]["message"]["content"], "585")
        chunks = list(self.model.chat(user(QUESTION), greedy=True, stream=True))
        self.assertEqual("".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks), "585")
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "stop")
        two = self.model.chat(user(QUESTION), greedy=True, fields={"n": 2})
        self.assertEqual([choice["message"]["content"] for choice in two["choices"]], ["585", "585"])
        with self.assertRaisesRegex(rocmforge.Error, r"^messages\[0\]"):
            self.model.chat([3])

    def test_calls_a_tool_that_must_be_called(self):
        tool = {"type": "function", "function": {"name": "add", "parameters": {
            "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}}}
        answer = self.model.chat(user(QUESTION), tools=[tool], tool_choice="required", greedy=True, max_tokens=60)
        call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
        self.assertEqual(call["name"], "add")
        self.assertEqual(list(json.loads(call["arguments"])), ["a"])

    def test_tokenizes_as_the_program_does(self):
        for text in ("Hello, wörld", "", "<|im_start|>user", "a\0b", "☃" * 40):
            ids = self.model.tokenize(text)
            self.assertEqual(self.model.detokenize(self.model.tokenize(text, special=False)), text)
            if "\0" not in text:
                said = program("tokenize", MODEL, text, "--json") if text else None
                self.assertEqual(ids, json.loads(said.stdout)["ids"] if said else ids)
        self.assertEqual(len(self.model.tokenize("<|im_start|>", special=False, parse_special=True)), 1)

    def test_embeds(self):
        one = self.model.embed("red")
        many = self.model.embed(["red", "blue", "green"])
        self.assertEqual(one.shape, (self.model.embedding_length,))
        self.assertEqual(many.shape, (3, self.model.embedding_length))
        self.assertEqual(many.dtype, numpy.float32)
        numpy.testing.assert_allclose(numpy.linalg.norm(many, axis=1), 1, rtol=1e-5)
        numpy.testing.assert_array_equal(one, many[0])
        self.assertEqual(self.model.embed([]).shape, (0, self.model.embedding_length))

    def test_a_sequence_draws_what_generate_draws(self):
        tokens = self.model.tokenize("The")
        text = self.model.generate(tokens, greedy=True, ignore_eos=True, max_tokens=10)
        with self.model.sequence(greedy=True) as sequence:
            logits = sequence.append(tokens)
            numpy.testing.assert_array_equal(logits, self.model.logits(tokens))
            drawn = []
            for _ in range(10):
                drawn.append(sequence.sample())
                self.assertEqual(drawn[-1], int(logits.argmax()))
                logits = sequence.append(drawn[-1])
            self.assertEqual(len(sequence), len(tokens) + 10)
            self.assertEqual(self.model.detokenize(drawn, special=False), text)
            sequence.truncate(len(tokens))
            self.assertEqual(len(sequence), len(tokens))
            with self.assertRaises(rocmforge.OptionError):
                sequence.sample()

    def test_serves_and_its_numbers_are_those_of_the_model(self):
        with self.model.serve(port=0, log_file="/dev/null", api_key=["one", "two"]) as server:
            answer = post(server.url, "/v1/chat/completions", {"messages": user(QUESTION), "temperature": 0}, {"Authorization": "Bearer two"})
            self.assertEqual(answer["choices"][0]["message"]["content"], "585")
            with self.assertRaises(urllib.error.HTTPError) as refused:
                post(server.url, "/v1/chat/completions", {"messages": user(QUESTION)})
            self.assertEqual(refused.exception.code, 401)
            refused.exception.close()

            tokens = self.model.tokenize("The")
            body = {"prompt": tokens, "max_tokens": 1, "temperature": 0, "ignore_eos": True, "logprobs": 5}
            served = post(server.url, "/v1/completions", body, {"Authorization": "Bearer one"})["choices"][0]["logprobs"]
            logits = self.model.logits(tokens).astype(numpy.float64)
            logprobs = logits - numpy.log(numpy.exp(logits - logits.max()).sum()) - logits.max()
            numpy.testing.assert_allclose(sorted(served["top_logprobs"][0].values()), numpy.sort(logprobs)[-5:], atol=1e-4)
            self.assertEqual(post(server.url, "/tokenize", {"content": "Hello, world"}, {"Authorization": "Bearer one"})["tokens"],
                             self.model.tokenize("Hello, world", special=False))
            self.assertEqual(self.model.generate(QUESTION, greedy=True), "585")  # beside it
        with self.assertRaises(OSError):
            urllib.request.urlopen(server.url + "/health")
        with self.assertRaisesRegex(rocmforge.OptionError, "--port is 70000, must be 0 to 65535"):
            self.model.serve(port=70000)

    def test_a_server_that_is_stopped_cancels_its_clients_and_not_the_model(self):
        with self.model.serve(port=0, log_file="/dev/null", drain_seconds=0) as server:
            body = {"prompt": "The", "max_tokens": 100000, "ignore_eos": True, "stream": True}
            answer = urllib.request.urlopen(urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode()))
            self.assertTrue(answer.readline().startswith(b"data: "))
            own = self.model.generate("The", raw=True, ignore_eos=True, max_tokens=300, stream=True)
            next(own)
        answer.close()
        list(own)
        self.assertEqual(json.loads(own.result)["finish_reason"], "length")
        self.assertEqual(self.model.generate(QUESTION, greedy=True), "585")

    def test_answers_what_the_server_answers_without_one(self):
        status, models = self.model.request("GET", "/v1/models")
        self.assertEqual((status, models["data"][0]["id"]), (200, pathlib.Path(MODEL).stem))
        status, answer = self.model.request("POST", "/v1/embeddings", {"input": ["red", "blue"]})
        self.assertEqual((status, len(answer["data"])), (200, 2))
        status, answer = self.model.request("POST", "/v1/completions", {"prompt": "The", "max_tokens": -7})
        self.assertEqual((status, answer["error"]["message"]), (400, "max_tokens is -7, must be -1 to 1073741824"))
        self.assertEqual(self.model.request("POST", "/nowhere", {})[0], 404)

    def test_threads_share_models(self):
        with rocmforge.Model(MODEL, **CPU) as other:
            answers = []
            threads = [threading.Thread(target=lambda model=model: answers.append(model.generate(QUESTION, greedy=True)))
                       for model in (self.model, other) * 3]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(answers, ["585"] * 6)

    def test_a_closed_model_is_refused(self):
        model = rocmforge.Model(MODEL, **CPU)
        stream = model.generate("The", stream=True, raw=True, ignore_eos=True, max_tokens=5)
        self.assertEqual(len(list(stream)) > 0, True)
        model.close()
        model.close()
        with self.assertRaisesRegex(rocmforge.OptionError, "the model handle is null or was given back"):
            model.generate(QUESTION)

    def test_an_interrupt_ends_the_answer(self):
        # A shell's background job ignores the signal, and so would the interpreter that it starts.
        script = ("import os, signal, threading, rocmforge\n"
                  "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
                  f"model = rocmforge.Model({MODEL!r}, device='cpu', threads=2)\n"
                  "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
                  "for _ in range(200):\n"
                  "    model.generate('The', raw=True, ignore_eos=True)\n")
        environment = {**os.environ, "PYTHONPATH": sys.path[0]}
        ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment,
                               timeout=200)
        self.assertIn("KeyboardInterrupt", ended.stderr.splitlines()[-1])

    def test_the_version_is_the_programs(self):
        self.assertIn(rocmforge.__version__, program("version").stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
