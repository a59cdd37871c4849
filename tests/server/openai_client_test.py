#!/usr/bin/env python3
"""The official openai client, and instructor on top of it, against a server of the demo model, and of one that hears recordings.

usage: openai_client_test.py PROGRAM MODEL VENV (client_testing.py)
"""
import base64
import json
import math
import pathlib
import random
import re
import sys
import unittest

import client_testing
from demo_server import DemoServer

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"


def random_schema(source, depth=0):
    """A schema of what docs/grammars.md lists; sizes are bounded so that every answer ends."""
    kinds = ["string", "integer", "number", "boolean", "null", "enum", "const", "pattern", "format"]
    if depth < 3:
        kinds += ["object", "object", "array", "anyOf", "types"]
    kind = "object" if depth == 0 else source.choice(kinds)
    if kind == "object":
        names = source.sample(["name", "age", "tags", "a b", "größe", "x", "items", "ok"], source.randint(1, 4))
        return {"type": "object", "properties": {n: random_schema(source, depth + 1) for n in names},
                "required": source.sample(names, source.randint(0, len(names))), "additionalProperties": False}
    if kind == "array":
        low = source.randint(0, 2)
        return {"type": "array", "items": random_schema(source, depth + 1), "minItems": low,
                "maxItems": low + source.randint(0, 2)}
    if kind == "anyOf":
        return {"anyOf": [random_schema(source, depth + 1) for _ in range(source.randint(2, 3))]}
    if kind == "types":
        return {"type": [source.choice(["boolean", "null"]), "integer"], "minimum": -50, "maximum": 50}
    if kind == "string":
        low = source.randint(0, 3)
        return {"type": "string", "minLength": low, "maxLength": low + source.randint(0, 8)}
    if kind == "integer":
        low = source.randint(-1000, 1000)
        return {"type": "integer", "minimum": low, "maximum": low + source.randint(0, 5000)}
    if kind == "number":
        return {"type": "number", "minimum": -10, "maximum": 10}
    if kind == "enum":
        return {"enum": source.sample(["red", "grün", 1, 2.5, None, True, "a\"b"], source.randint(1, 4))}
    if kind == "const":
        return {"const": source.choice(["fixed", 42, [1, 2], {"k": "v"}])}
    if kind == "pattern":
        return {"type": "string", "pattern": source.choice(["^[a-z]{2,5}$", "^\\d{3}-\\d{2}$", "^(yes|no)$", "^[A-Z][a-z]{0,6}$"])}
    if kind == "format":
        return {"type": "string", "format": source.choice(["date", "time", "date-time", "uuid", "ipv4"])}
    return {"type": kind}


WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "required": ["city"], "additionalProperties": False,
                   "properties": {"city": {"type": "string", "maxLength": 20},
                                  "days": {"type": "integer", "minimum": 1, "maximum": 9}}}}}
CLOCK = {"type": "function", "function": {
    "name": "get_time", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}
BY_NAME = {"type": "function", "function": {"name": "get_weather"}}
QUESTION = [{"role": "user", "content": "What is 127 + 458?"}]


class OpenAiClient(unittest.TestCase):
    def ask(self, **more):
        return self.client.chat.completions.create(**{"model": "forge-demo", "messages": QUESTION, "temperature": 0, **more})

    def validate(self, value, schema):
        import jsonschema
        kind = jsonschema.Draft202012Validator
        kind(schema, format_checker=kind.FORMAT_CHECKER).validate(value)

    def test_chat(self):
        answer = self.ask()
        self.assertEqual(answer.choices[0].message.content, "585")
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertEqual(answer.model, "forge-demo")

    def test_streaming(self):
        chunks = list(self.ask(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), "585")
        self.assertEqual(chunks[-2].choices[0].finish_reason, "stop")
        self.assertEqual(chunks[-1].usage.completion_tokens, self.ask().usage.completion_tokens)
        self.assertEqual(len({c.id for c in chunks}), 1)

    def test_four_choices(self):
        answer = self.ask(n=4)
        self.assertEqual([(c.index, c.message.content) for c in answer.choices], [(i, "585") for i in range(4)])
        self.assertEqual(answer.usage.prompt_tokens, self.ask().usage.prompt_tokens)
        several = self.client.completions.create(model="m", prompt="Once upon", n=4, temperature=2, seed=3, max_tokens=20)
        self.assertGreater(len({c.text for c in several.choices}), 1)

    def test_logprobs(self):
        choice = self.ask(logprobs=True, top_logprobs=4).choices[0]
        self.assertEqual(b"".join(bytes(t.bytes) for t in choice.logprobs.content).decode(), choice.message.content)
        for token in choice.logprobs.content:
            self.assertLessEqual(token.logprob, 0)
            self.assertEqual(len(token.top_logprobs), 4)
            self.assertLessEqual(sum(math.exp(t.logprob) for t in token.top_logprobs), 1 + 1e-6)

    def test_fields_of_vllm(self):
        schema = {"type": "object", "properties": {"sum": {"enum": [584, 585]}}, "required": ["sum"],
                  "additionalProperties": False}
        for extra in ({"structured_outputs": {"json": schema}}, {"guided_json": schema}):
            self.validate(json.loads(self.ask(extra_body=extra).choices[0].message.content), schema)
        for extra in ({"structured_outputs": {"choice": ["red", "blue"]}}, {"guided_choice": ["red", "blue"]}):
            self.assertIn(self.ask(extra_body=extra).choices[0].message.content, ("red", "blue"))
        answer = self.client.completions.create(model="m", prompt="Once", extra_body={"guided_regex": "[ab]{3}"})
        self.assertRegex(answer.choices[0].text, "^[ab]{3}$")
        self.assertEqual(self.ask(extra_body={"reasoning_budget": 5}).choices[0].message.content, "585")

    def test_completions(self):
        create = self.client.completions.create
        answer = create(model="m", prompt=["Once upon", "What"], max_tokens=5, n=2, echo=True, logprobs=2, temperature=0)
        self.assertEqual(len(answer.choices), 4)
        for choice in answer.choices:
            self.assertIsNone(choice.logprobs.token_logprobs[0])
            self.assertEqual("".join(choice.logprobs.tokens), choice.text)
        stream = create(model="m", prompt="Once upon", max_tokens=5, temperature=0, stream=True)
        self.assertEqual("Once upon" + "".join(c.choices[0].text for c in stream), answer.choices[0].text)

    def check_call(self, name, arguments, tool):
        self.assertEqual(name, tool["function"]["name"])
        self.validate(json.loads(arguments), tool["function"]["parameters"])

    def test_tools(self):
        for choice in ("required", BY_NAME):
            answer = self.ask(tools=[WEATHER], tool_choice=choice, temperature=1, parallel_tool_calls=False).choices[0]
            self.assertEqual(answer.finish_reason, "tool_calls")
            self.assertIsNone(answer.message.content)
            for call in answer.message.tool_calls:
                self.assertTrue(call.id)
                self.check_call(call.function.name, call.function.arguments, WEATHER)
        self.assertIsNone(self.ask(tools=[WEATHER], tool_choice="none").choices[0].message.tool_calls)
        self.assertIn(self.ask(tools=[WEATHER, CLOCK]).choices[0].finish_reason, ("stop", "tool_calls"))

    def test_a_named_tool_is_called_once(self):
        for seed in range(5):
            choice = self.ask(tools=[WEATHER, CLOCK], tool_choice=BY_NAME, temperature=1, seed=seed).choices[0]
            self.assertEqual((choice.finish_reason, choice.message.content), ("tool_calls", None))
            self.assertEqual(len(choice.message.tool_calls), 1)
        for limit in range(1, 30):
            choice = self.ask(tools=[WEATHER, CLOCK], tool_choice=BY_NAME, max_tokens=limit).choices[0]
            self.assertFalse(choice.message.content)

    def test_instructor(self):
        import typing
        import instructor
        import pydantic

        class Person(pydantic.BaseModel):
            name: typing.Literal["Ada", "Grace"]
            age: int = pydantic.Field(ge=1, le=99)

        for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):
            client = instructor.from_openai(self.client, mode=mode)
            with self.subTest(mode=mode):
                for seed in range(3):
                    person = client.chat.completions.create(model="m", response_model=Person, max_retries=0, seed=seed,
                                                            messages=[{"role": "user", "content": "Ada is 36."}])
                    self.assertIn(person.name, ("Ada", "Grace"))
                    self.assertTrue(1 <= person.age <= 99)

    def test_fields_of_other_servers(self):
        create = self.client.chat.completions.with_raw_response.create
        answer = create(model="m", messages=QUESTION, temperature=0,
                        extra_body={"unheard_of": 1, "mirostat": 0, "dry_multiplier": 0, "use_beam_search": False})
        self.assertEqual(answer.headers["x-ignored-fields"], "unheard_of")
        self.assertEqual(answer.parse().choices[0].message.content, "585")
        begun = [*QUESTION, {"role": "assistant", "content": "58"}]
        more = {"add_generation_prompt": False, "continue_final_message": True, "echo": True}
        self.assertEqual(self.ask(messages=begun, extra_body=more).choices[0].message.content, "585")

    def test_tools_streamed(self):
        name, arguments, ids, reason = "", "", set(), None
        for chunk in self.ask(tools=[WEATHER, CLOCK], tool_choice=BY_NAME, parallel_tool_calls=False, stream=True):
            for call in chunk.choices[0].delta.tool_calls or []:
                name += call.function.name or ""
                arguments += call.function.arguments or ""
                ids |= {call.id} - {None}
            reason = chunk.choices[0].finish_reason or reason
        self.assertEqual((reason, len(ids)), ("tool_calls", 1))
        self.check_call(name, arguments, WEATHER)

    def test_tool_results(self):
        call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Bonn\"}"}}
        messages = [{"role": "user", "content": "Weather in Bonn?"}, {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "call_1", "content": "rain"}]
        answer = self.ask(messages=messages, tools=[WEATHER], max_tokens=20)
        self.assertGreater(answer.usage.completion_tokens, 0)

    def test_json_object(self):
        for seed in range(5):
            choice = self.ask(response_format={"type": "json_object"}, seed=seed, temperature=1.5, max_tokens=1500).choices[0]
            if choice.finish_reason == "stop":
                self.assertIsInstance(json.loads(choice.message.content), dict)
            self.assertTrue(choice.message.content.lstrip().startswith("{"))

    def test_json_schemas(self):
        """Drawn at a high temperature, so that the schema and not the model decides."""
        source = random.Random(2024)
        for number in range(200):
            schema = random_schema(source)
            form = {"type": "json_schema", "json_schema": {"name": f"schema_{number}", "schema": schema, "strict": True}}
            choice = self.ask(response_format=form, temperature=1.5, seed=number).choices[0]
            with self.subTest(schema=schema, answer=choice.message.content):
                self.assertEqual(choice.finish_reason, "stop")
                self.validate(json.loads(choice.message.content), schema)

    def test_embeddings(self):
        answer = self.client.embeddings.create(model="m", input=["a cat", "a dog", "a cat"])
        self.assertEqual([d.index for d in answer.data], [0, 1, 2])
        for item in answer.data:
            self.assertAlmostEqual(sum(x * x for x in item.embedding), 1, places=4)
        self.assertEqual(answer.data[0].embedding, answer.data[2].embedding)
        plain = self.client.embeddings.create(model="m", input="a cat", encoding_format="float").data[0].embedding
        self.assertTrue(all(abs(a - b) < 1e-5 for a, b in zip(plain, answer.data[0].embedding)))

    def test_models(self):
        self.assertEqual([m.id for m in self.client.models.list()], ["forge-demo"])
        self.assertEqual(self.client.models.retrieve("forge-demo").object, "model")

    def test_errors(self):
        import openai
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(base_url=self.url + "/v1", api_key="wrong", max_retries=0).embeddings.create(model="m", input="a")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("nothing")
        for wrong, param in (({"temperature": 9}, "temperature"), ({"messages": []}, "messages"), ({"n": 1000}, "n"),
                             ({"extra_body": {"mirostat": 3}}, "mirostat"),
                             ({"response_format": {"type": "yaml"}}, "response_format.type")):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.ask(**wrong)
            self.assertEqual(caught.exception.param, param)
            self.assertEqual(caught.exception.type, "invalid_request_error")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask(messages=[{"role": "user", "content": "word " * 5000}])
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        self.assertTrue(re.search(r"\d+ tokens", str(caught.exception)))


class Responses:
    """Tests of the Responses API, which belong to OpenAiClient too."""

    def respond(self, **more):
        return self.client.responses.create(**{"model": "forge-demo", "input": QUESTION, "temperature": 0, **more})

    def test_response(self):
        answer = self.respond(instructions=None, metadata={"a": "b"})
        self.assertEqual((answer.output_text, answer.status, answer.object), ("585", "completed", "response"))
        self.assertEqual(answer.usage.total_tokens, answer.usage.input_tokens + answer.usage.output_tokens)
        self.assertEqual(self.respond(input="What is 127 + 458?").output_text, "585")
        cut = self.respond(max_output_tokens=1)
        self.assertEqual((cut.status, cut.incomplete_details.reason), ("incomplete", "max_output_tokens"))

    def test_response_stream(self):
        with self.client.responses.stream(model="forge-demo", input=QUESTION, temperature=0) as stream:
            kinds = [event.type for event in stream]
            answer = stream.get_final_response()
        self.assertEqual(answer.output_text, "585")
        self.assertEqual(kinds[0], "response.created")
        self.assertEqual(kinds[-1], "response.completed")
        self.assertIn("response.output_text.delta", kinds)

    def test_response_goes_on(self):
        import openai
        first = self.respond()
        second = self.respond(input="What is 2 + 3?", previous_response_id=first.id)
        self.assertEqual(second.previous_response_id, first.id)
        self.assertGreater(second.usage.input_tokens, first.usage.input_tokens)
        self.assertEqual(self.client.responses.retrieve(first.id).output_text, "585")
        self.client.responses.delete(first.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(first.id)

    def test_response_calls_functions(self):
        tool = {"type": "function", "strict": True, **WEATHER["function"]}
        answer = self.respond(tools=[tool], tool_choice={"type": "function", "name": "get_weather"})
        call = answer.output[-1]
        self.assertEqual((call.type, call.name), ("function_call", "get_weather"))
        self.assertIsInstance(json.loads(call.arguments)["city"], str)
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "12 degrees"}
        self.assertEqual(self.respond(input=QUESTION + [call.model_dump(), result], tools=[tool]).object, "response")
        self.assertEqual(self.respond(input=[result], previous_response_id=answer.id, tools=[tool]).object, "response")

    def test_response_keeps_to_a_schema(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
        answer = self.respond(text={"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}})
        self.validate(json.loads(answer.output_text), schema)


class Recordings(unittest.TestCase):
    """A model with random weights that hears recordings: what it answers means nothing, but it is the same by each way."""

    def test_transcription(self):
        import openai
        server = DemoServer(sys.argv[1], str(GOLDEN / "models/audio/qwen2vl-chat.gguf"), "--ctx-size", "512",
                            "--mmproj", str(GOLDEN / "models/audio/mmproj-qwen2a.gguf"))
        try:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120)
            with open(GOLDEN / "audio/tones.flac", "rb") as recording:
                data = base64.b64encode(recording.read()).decode()

                def transcribe(**more):
                    recording.seek(0)
                    return client.audio.transcriptions.create(model="m", file=recording, extra_body={"max_tokens": 12}, **more)

                text = transcribe().text
                self.assertEqual(transcribe(response_format="text"), text + "\n")
                verbose = transcribe(response_format="verbose_json")
                self.assertEqual((verbose.text, round(float(verbose.duration), 2)), (text, 0.15))
                events = list(transcribe(stream=True))
                self.assertEqual("".join(event.delta for event in events[:-1]), text)
                self.assertEqual((events[-1].type, events[-1].text), ("transcript.text.done", text))
                with self.assertRaises(openai.BadRequestError):
                    transcribe(response_format="srt")
            parts = [{"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
                     {"type": "text", "text": "Transcribe the recording word for word. Write nothing but the transcript."}]
            answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": parts}], temperature=0,
                                                    max_tokens=12)
            self.assertEqual(answer.choices[0].message.content, text)
        finally:
            server.kill()


class Client(Responses, OpenAiClient, Recordings):
    pass


def prepare(server):
    import openai
    OpenAiClient.url = server.url
    OpenAiClient.client = openai.OpenAI(base_url=server.url + "/v1", api_key=client_testing.KEY, max_retries=0, timeout=120)


if __name__ == "__main__":
    sys.exit(client_testing.run(Client, prepare))
