#!/usr/bin/env python3
"""The official anthropic client against a server of the demo model.

usage: anthropic_client_test.py PROGRAM MODEL VENV (client_testing.py)
"""
import sys
import unittest

import client_testing

WEATHER = {"name": "get_weather", "description": "The weather of a city.",
           "input_schema": {"type": "object", "required": ["city"], "additionalProperties": False,
                            "properties": {"city": {"type": "string", "maxLength": 20},
                                           "days": {"type": "integer", "minimum": 1, "maximum": 9}}}}
BY_NAME = {"type": "tool", "name": "get_weather"}
QUESTION = [{"role": "user", "content": "What is 127 + 458?"}]


class AnthropicClient(unittest.TestCase):
    def ask(self, **more):
        return self.client.messages.create(**{"model": "forge-demo", "max_tokens": 64, "messages": QUESTION, "temperature": 0, **more})

    def stream(self, **more):
        return self.client.messages.stream(
            **{"model": "forge-demo", "max_tokens": 64, "messages": QUESTION, "temperature": 0, **more})

    def test_message(self):
        answer = self.ask(system="You are helpful.", metadata={"user_id": "u"})
        self.assertEqual((answer.type, answer.role, answer.model), ("message", "assistant", "forge-demo"))
        self.assertEqual([block.type for block in answer.content], ["text"])
        self.assertIn(answer.stop_reason, ("end_turn", "max_tokens"))
        self.assertGreater(answer.usage.output_tokens, 0)
        self.assertEqual(self.ask().content[0].text, "585")

    def test_stream(self):
        with self.stream() as stream:
            text = "".join(stream.text_stream)
            message = stream.get_final_message()
        self.assertEqual(text, "585")
        self.assertEqual([block.text for block in message.content], ["585"])
        self.assertEqual(message.stop_reason, "end_turn")
        self.assertEqual(message.usage.output_tokens, self.ask().usage.output_tokens)

    def test_raw_events(self):
        kinds = [event.type for event in self.ask(stream=True)]
        self.assertEqual(kinds[:2], ["message_start", "content_block_start"])
        self.assertEqual(kinds[-3:], ["content_block_stop", "message_delta", "message_stop"])
        self.assertEqual(set(kinds[2:-3]), {"content_block_delta"})

    def test_blocks_and_turns(self):
        block = {"type": "text", "text": "What is 127 + 458?", "cache_control": {"type": "ephemeral"}}
        self.assertEqual(self.ask(messages=[{"role": "user", "content": [block]}]).content[0].text, "585")
        turns = QUESTION + [{"role": "assistant", "content": "585"}, {"role": "user", "content": "What is 2 + 3?"}]
        self.assertEqual(self.ask(messages=turns).content[0].type, "text")

    def test_limits_and_stops(self):
        self.assertEqual(self.ask(max_tokens=1).stop_reason, "max_tokens")
        stopped = self.ask(stop_sequences=["8"])
        self.assertEqual((stopped.stop_reason, stopped.stop_sequence), ("stop_sequence", "8"))
        self.assertEqual(stopped.content[0].text, "5")

    def test_tools(self):
        answer = self.ask(tools=[WEATHER], tool_choice=BY_NAME, max_tokens=400)
        self.assertEqual(answer.stop_reason, "tool_use")
        call = answer.content[-1]
        self.assertEqual((call.type, call.name), ("tool_use", "get_weather"))
        self.assertIsInstance(call.input["city"], str)
        with self.stream(tools=[WEATHER], tool_choice=BY_NAME, max_tokens=400) as stream:
            streamed = stream.get_final_message()
        self.assertEqual((streamed.content[-1].name, streamed.content[-1].input), (call.name, call.input))
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "12 degrees"}
        turns = QUESTION + [{"role": "assistant", "content": [call.model_dump()]}, {"role": "user", "content": [result]}]
        self.assertEqual(self.ask(messages=turns, tools=[WEATHER]).type, "message")

    def test_count_tokens(self):
        counted = self.client.messages.count_tokens(model="forge-demo", messages=QUESTION).input_tokens
        usage = self.ask().usage
        self.assertEqual(counted, usage.input_tokens + usage.cache_read_input_tokens)
        self.assertGreater(self.client.messages.count_tokens(model="m", messages=QUESTION, tools=[WEATHER]).input_tokens, counted)

    def test_thinking_is_accepted(self):
        answer = self.ask(thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2048, temperature=1)
        self.assertEqual(answer.content[-1].type, "text")

    def test_errors(self):
        import anthropic
        with self.assertRaises(anthropic.BadRequestError) as refused:
            self.ask(messages=[])
        self.assertEqual(refused.exception.body["error"]["type"], "invalid_request_error")
        with self.assertRaises(anthropic.AuthenticationError):
            self.client.with_options(api_key="wrong").messages.create(model="m", max_tokens=1, messages=QUESTION)

    def test_what_the_model_cannot_see_is_named(self):
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
        answer = self.client.messages.with_raw_response.create(
            model="m", max_tokens=1, messages=[{"role": "user", "content": [picture, {"type": "text", "text": "What is this?"}]}])
        self.assertIn("image", answer.headers["x-ignored-fields"])
        self.assertEqual(answer.parse().type, "message")


def prepare(server):
    import anthropic
    AnthropicClient.client = anthropic.Anthropic(base_url=server.url, api_key=client_testing.KEY, max_retries=0, timeout=120)


if __name__ == "__main__":
    sys.exit(client_testing.run(AnthropicClient, prepare))
