"""Anthropic's own client."""
import client_features as shared
from client_features import MESSAGES, MODEL, Row, same

row = Row("anthropic")
TOOL = {"name": "get_weather", "description": shared.DESCRIPTION, "input_schema": shared.CITY}


def prepare(url, key):
    global client
    import anthropic
    client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)


def ask(**more):
    return client.messages.create(**{"model": MODEL, "max_tokens": 64, "messages": MESSAGES, **more})


@row.can("answer")
def _():
    same([block.text for block in ask().content], [shared.ANSWER])


@row.can("stream")
def _():
    with client.messages.stream(model=MODEL, max_tokens=64, messages=MESSAGES) as stream:
        same("".join(stream.text_stream), shared.ANSWER)


@row.can("tool call")
def _():
    answer = ask(tools=[TOOL], tool_choice={"type": "tool", "name": "get_weather"}, max_tokens=400)
    same((answer.stop_reason, [block.name for block in answer.content if block.type == "tool_use"]), ("tool_use", ["get_weather"]))
    shared.check_city(answer.content[-1].input)


@row.can("structured output")
def _():
    kind = shared.person()
    answer = client.messages.parse(model=MODEL, max_tokens=200, messages=MESSAGES, output_format=kind)
    shared.check_person(answer.parsed_output, kind)


@row.can("token count")
def _():
    usage = ask().usage
    counted = client.messages.count_tokens(model=MODEL, messages=MESSAGES).input_tokens
    same(counted, usage.input_tokens + usage.cache_read_input_tokens)


shared.run(prepare)
