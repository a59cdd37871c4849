#!/usr/bin/env python3
"""The official ollama client against a server of the demo model.

usage: ollama_client_test.py PROGRAM MODEL VENV (client_testing.py)
"""
import json
import sys
import unittest

import client_testing

QUESTION = [{"role": "user", "content": "What is 127 + 458?"}]
GREEDY = {"temperature": 0}


def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
      city: its name
    """
    return f"rain in {city}"


class OllamaClient(unittest.TestCase):
    def ask(self, **more):
        return self.client.chat(**{"model": "forge-demo", "messages": QUESTION, "options": GREEDY, **more})

    def test_chat(self):
        answer = self.ask()
        self.assertEqual((answer.message.role, answer.message.content), ("assistant", "585"))
        self.assertEqual((answer.done, answer.done_reason), (True, "stop"))
        self.assertGreater(answer.eval_count, 0)

    def test_stream(self):
        parts = list(self.ask(stream=True))
        self.assertEqual("".join(part.message.content for part in parts), "585")
        self.assertTrue(parts[-1].done)
        self.assertFalse(any(part.done for part in parts[:-1]))

    def test_generate(self):
        question = QUESTION[0]["content"]
        answer = self.client.generate(model="m", prompt=question, options=GREEDY)
        self.assertEqual(answer.response, "585")
        parts = list(self.client.generate(model="m", prompt=question, options=GREEDY, stream=True))
        self.assertEqual("".join(part.response for part in parts), "585")
        self.assertTrue(self.client.generate(model="m", prompt="Once upon", raw=True, options={"num_predict": 5}).response)

    def test_formats(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
        self.assertIsInstance(json.loads(self.ask(format=schema).message.content)["n"], int)

    def test_tools(self):
        answer = self.ask(tools=[get_weather])
        turns = QUESTION + [answer.message, {"role": "tool", "tool_name": "get_weather", "content": "rain"}]
        self.assertEqual(self.ask(messages=turns, tools=[get_weather]).message.role, "assistant")

    def test_embeddings(self):
        vectors = self.client.embed(model="m", input=["one", "two"]).embeddings
        self.assertEqual(len(vectors), 2)
        self.assertEqual(list(self.client.embeddings(model="m", prompt="one").embedding), list(vectors[0]))

    def test_the_model(self):
        self.assertEqual([model.model for model in self.client.list().models], ["forge-demo"])
        self.assertEqual([model.name for model in self.client.ps().models], ["forge-demo"])
        shown = self.client.show("forge-demo")
        self.assertIn("completion", shown.capabilities)
        self.assertIn("general.architecture", shown.modelinfo)

    def test_errors(self):
        import ollama
        with self.assertRaises(ollama.ResponseError) as refused:
            self.ask(options={"temperature": 9})
        self.assertEqual(refused.exception.status_code, 400)
        self.assertIn("temperature", refused.exception.error)


def prepare(server):
    import ollama
    OllamaClient.client = ollama.Client(host=server.url, headers={"Authorization": f"Bearer {client_testing.KEY}"}, timeout=120)


if __name__ == "__main__":
    sys.exit(client_testing.run(OllamaClient, prepare))
