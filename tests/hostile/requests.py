"""JSON bodies: huge, deep, repeated, with what no text is; schemas; tools; characters that steer a terminal."""
import json

import wire
from arena import Attack
from expect import CLIENTS, FREE, REFUSED, answer_problems, raw, requests

CHAT, COMPLETIONS, GENERATE, TOKENIZE = "/v1/chat/completions", "/v1/completions", "/generate", "/tokenize"
RESPONSES, MESSAGES, OLLAMA = "/v1/responses", "/v1/messages", "/api/chat"
MILLION = 1_000_000
BODY = 8 << 20
BUSY_TOO = REFUSED | {429, 503}


def field(name, value, more=b""):
    """A completion's request with one more field, given as JSON."""
    return b'{"prompt": "What is 1 + 1?", "max_tokens": 4, %s"%s": %s}' % (more, name.encode(), value)


def array(item, number):
    return b"[" + b",".join([item] * number) + b"]"


def nested(number, begin=b"[", end=b"]"):
    return begin * number + end * number


def mapping(number, value=b"0"):
    return b"{" + b",".join(b'"k%d":%s' % (i, value) for i in range(number)) + b"}"


def to_size(begin, filling, end, size=BODY):
    return begin + filling * ((size - len(begin) - len(end)) // len(filling)) + end


def schema(value):
    return field("json_schema", value if isinstance(value, bytes) else json.dumps(value).encode())


def chain(length):
    """Each definition is the next one, by allOf."""
    links = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}]} for i in range(length)}
    return schema({"$defs": {**links, f"d{length}": {"type": "integer"}}, "$ref": "#/$defs/d0"})


def open_object(name_length):
    name = "a" * name_length
    return schema({"type": "object", "properties": {name: {"type": "integer"}}, "required": [name], "additionalProperties": True})


def message(content):
    return b'{"max_tokens": 4, "messages": [{"role": "user", "content": %s}]}' % content


def call(arguments):
    """A conversation in which a function was called with these arguments, a text."""
    return {"max_tokens": 4, "messages": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "x", "type": "function", "function": {"name": "f", "arguments": arguments}}]},
        {"role": "tool", "tool_call_id": "x", "content": "b"}]}


def tools(number, parameters, choice="auto"):
    return {"max_tokens": 4, "messages": [{"role": "user", "content": "a"}], "tool_choice": choice,
            "tools": [{"type": "function", "function": {"name": f"tool_{i}", "description": "d", "parameters": parameters}}
                      for i in range(number)]}


JSON_TEXTS = [
    requests("400,000 empty objects as messages", CHAT, lambda: b'{"messages": %s}' % array(b"{}", 400_000), BUSY_TOO, "messages"),
    requests("400,000 empty objects as the prompt", COMPLETIONS, lambda: b'{"prompt": %s}' % array(b"{}", 400_000), BUSY_TOO, "prompt"),
    requests("400,000 empty objects in a field nobody knows", COMPLETIONS, lambda: field("x", array(b"{}", 400_000)), FREE),
    requests("8 MiB of empty arrays", COMPLETIONS, lambda: to_size(field("x", b"[[]")[:-1], b",[]", b"]}"), FREE),
    requests("8 MiB of one-letter texts", COMPLETIONS, lambda: to_size(field("x", b'["a"')[:-1], b',"a"', b"]}"), FREE),
    requests("100,000 keys nobody knows", COMPLETIONS, lambda: b'{"prompt": "a", "max_tokens": 4, ' + mapping(100_000)[1:], FREE),
    requests("100,000 biases", COMPLETIONS, lambda: field("logit_bias", mapping(100_000)), BUSY_TOO, "logit_bias"),
    requests("100,000 variables for the template", CHAT,
             lambda: b'{"max_tokens": 4, "messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": %s}' % mapping(100_000), FREE),
    requests("one key a million times", COMPLETIONS, lambda: b"{" + b'"a":0,' * MILLION + field("x", b"0")[1:], FREE),
    requests("messages 50,000 times", CHAT, lambda: b"{" + b'"messages":[{"role":"user","content":"a"}],' * 50_000 + b'"max_tokens":4}', FREE),
    requests("arrays a million deep", COMPLETIONS, lambda: field("x", nested(MILLION)), BUSY_TOO, "nested deeper"),
    requests("arrays a million deep that never end", COMPLETIONS, lambda: b'{"x": ' + b"[" * MILLION, BUSY_TOO, "nested deeper|JSON"),
    requests("objects a million deep", COMPLETIONS, lambda: field("x", b'{"a":' * MILLION + b"0" + b"}" * MILLION), BUSY_TOO, "nested deeper"),
    requests("a content a million deep", CHAT, lambda: message(nested(MILLION)), BUSY_TOO, "nested deeper"),
    requests("a call's arguments a million deep", CHAT, lambda: call("[" * MILLION), FREE),
    requests("a call's arguments of 400,000 objects", CHAT, lambda: call("[" + "{}," * 400_000 + "{}]"), FREE),
    requests("a number of a million digits", COMPLETIONS, lambda: field("seed", b"9" * MILLION), BUSY_TOO, "."),
    requests("a fraction of a million digits", COMPLETIONS, lambda: field("temperature", b"0." + b"3" * MILLION), FREE),
    requests("an exponent of a million digits", COMPLETIONS, lambda: field("temperature", b"1e" + b"9" * MILLION), BUSY_TOO, "too large"),
    requests("a prompt of 8 MiB in escapes", COMPLETIONS, lambda: to_size(b'{"prompt": "', b"\\u0041", b'"}'), BUSY_TOO, "context"),
    requests("a prompt of 8 MiB in surrogate pairs", COMPLETIONS, lambda: to_size(b'{"prompt": "', b"\\ud83d\\ude00", b'"}'), BUSY_TOO, "context"),
    requests("a prompt of 8 MiB of one letter", COMPLETIONS, lambda: to_size(b'{"prompt": "', b"a", b'"}'), BUSY_TOO, "context"),
    requests("a prompt of 8 MiB of blanks", COMPLETIONS, lambda: to_size(b'{"prompt": "', b" ", b'"}'), BUSY_TOO, "context"),
    requests("a message of 8 MiB of combining marks", CHAT, lambda: to_size(message(b'"')[:-3], "\u0301".encode(), b'"}]}'), BUSY_TOO, "context"),
    requests("a million half surrogate pairs", COMPLETIONS, lambda: field("x", b'"%s"' % (b"\\ud800" * MILLION)), BUSY_TOO, "JSON"),
    requests("a million bytes that are no UTF-8", COMPLETIONS, lambda: field("x", b'"%s"' % (b"\xff" * MILLION)), BUSY_TOO, "JSON"),
    requests("no UTF-8 behind 8 MiB of text", COMPLETIONS, lambda: to_size(b'{"prompt": "', b"a", b'\xff"}'), BUSY_TOO, "JSON"),
    requests("a million token ids", COMPLETIONS, lambda: b'{"prompt": %s}' % array(b"1", MILLION), BUSY_TOO, "prompt|context"),
    requests("10,000 messages", CHAT, lambda: {"messages": [{"role": "user", "content": "a"}] * 10_000}, BUSY_TOO, "context"),
    requests("a stop text of a million bytes", COMPLETIONS, lambda: field("stop", b'"%s"' % (b"a" * MILLION)), BUSY_TOO, "stop"),
    requests("a field's name of a million bytes", COMPLETIONS, lambda: field("x" * MILLION, b"0"), FREE),
]

# Requests of other APIs, which are converted to chat completions.
OTHER_APIS = [
    requests("400,000 empty objects as input", RESPONSES, lambda: b'{"input": %s}' % array(b"{}", 400_000), BUSY_TOO, "input"),
    requests("400,000 thoughts", RESPONSES, lambda: b'{"input": %s}' % array(b'{"type":"reasoning"}', 400_000), BUSY_TOO, "."),
    requests("10,001 calls in one turn", RESPONSES, lambda: {"input": [
        {"type": "function_call", "call_id": "a", "name": "b", "arguments": "{}"}] * 10_001, "max_output_tokens": 4}, FREE),
    requests("100,000 fields of a response that nobody knows", RESPONSES,
             lambda: b'{"input": "a", "max_output_tokens": 4, ' + mapping(100_000)[1:], FREE),
    requests("a response that follows a name of a million bytes", RESPONSES,
             lambda: {"input": "a", "previous_response_id": "a" * MILLION}, BUSY_TOO | {404}, "response"),
    requests("400,000 empty blocks", MESSAGES,
             lambda: b'{"max_tokens": 4, "messages": [{"role": "user", "content": %s}]}' % array(b"{}", 400_000), BUSY_TOO, "."),
    requests("300,000 short blocks", MESSAGES, lambda: b'{"max_tokens": 4, "messages": [{"role": "user", "content": %s}]}' %
             array(b'{"type":"text","text":"a"}', 300_000), BUSY_TOO, "."),
    requests("100,000 options", OLLAMA, lambda: b'{"messages": [{"role": "user", "content": "a"}], "stream": false, "options": '
             + mapping(100_000) + b"}", FREE),
]

SCHEMAS = [
    requests("enum of 99,000", COMPLETIONS, lambda: schema({"enum": list(range(99_000))}), FREE, "json_schema"),
    requests("enum of 99,000 texts", COMPLETIONS, lambda: schema({"enum": [f"text {i}" for i in range(99_000)]}), FREE, "json_schema"),
    requests("anyOf of 99,000", COMPLETIONS, lambda: schema({"anyOf": [{"const": i} for i in range(99_000)]}), FREE, "json_schema"),
    requests("oneOf of 5,000", COMPLETIONS, lambda: schema({"oneOf": [{"const": i} for i in range(5_000)]}), FREE, "json_schema"),
    requests("90,000 required properties", COMPLETIONS,
             lambda: schema({"type": "object", "required": [f"p{i}" for i in range(90_000)], "additionalProperties": True}), FREE, "json_schema"),
    requests("20,000 properties", COMPLETIONS,
             lambda: schema({"type": "object", "properties": {f"p{i}": {} for i in range(20_000)}}), FREE, "json_schema"),
    requests("a property's name of 22,000 beside others", COMPLETIONS, lambda: open_object(22_000), FREE, "json_schema"),
    requests("a property's name of a million beside others", COMPLETIONS, lambda: open_object(MILLION), FREE, "json_schema"),
    requests("5,000 references in a row", COMPLETIONS, lambda: chain(5_000), BUSY_TOO, "json_schema"),
    requests("200,000 references in a row", COMPLETIONS, lambda: chain(200_000), BUSY_TOO, "json_schema|larger"),
    requests("a reference of a million steps", COMPLETIONS, lambda: schema({"$ref": "#" + "/a" * MILLION}), BUSY_TOO, "json_schema"),
    requests("a reference to itself", COMPLETIONS, lambda: schema({"$ref": "#"}), BUSY_TOO, "json_schema"),
    requests("a million empty schemas", COMPLETIONS, lambda: schema(b'{"allOf": %s}' % array(b"{}", MILLION)), FREE, "json_schema"),
    requests("a schema 96 deep, of twos", COMPLETIONS,
             lambda: schema({"$defs": {f"d{i}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(60)}
                             | {"d60": {"type": "integer"}}, "$ref": "#/$defs/d0"}), FREE, "json_schema"),
]

TOOLS = [
    requests("512 tools", CHAT, lambda: tools(512, {"type": "object", "properties": {"a": {"type": "integer"}}}), FREE, "context|tools"),
    requests("513 tools", CHAT, lambda: tools(513, {"type": "object"}), BUSY_TOO, "tools"),
    requests("512 tools of 50 parameters, one is required", CHAT,
             lambda: tools(512, {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(50)}}, "required"), FREE, "tools|context"),
    requests("a tool with an enum of 99,000", CHAT, lambda: tools(1, {"enum": list(range(99_000))}, "required"), FREE, "tools|context"),
]

STEERING = "\x1b[2J\u009b31m\u202e\u2028\x07\x7f"


def steer(arena, _):
    """What a request names comes back and goes to the log; neither may hold the characters themselves."""
    bodies = [
        {"prompt": "a", "max_tokens": 2, "model": STEERING},
        {"prompt": "a", "max_tokens": 2, STEERING: 1},
        {"prompt": "a", "max_tokens": 2, "stop": STEERING},
        {"prompt": "a", "max_tokens": 2, "user": STEERING, "temperature": STEERING},
        {"prompt": "a", "stream": STEERING},
        {"prompt": "a", "logit_bias": {STEERING: 1}},
        {"prompt": "a", "grammar": "root ::= " + STEERING},
        {"prompt": "a", "grammar": f"root ::= <{STEERING}>"},
        {"prompt": "a", "json_schema": {"type": STEERING}},
        {"prompt": "a", "json_schema": {STEERING: 1}},
        {"prompt": "a", "json_schema": {"properties": {STEERING: {"type": 1}}}},
        {"prompt": "a", "json_schema": {"pattern": "(" + STEERING, "type": "string"}},
        {"prompt": "a", "samplers": [STEERING]},
        {"messages": [{"role": STEERING, "content": "a"}]},
        {"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {STEERING: STEERING}, "max_tokens": 2},
        {"messages": [{"role": "user", "content": "a"}], "tool_choice": {"type": STEERING}, "max_tokens": 2},
        {"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "function", "function": {"name": STEERING}}], "max_tokens": 2},
    ]
    for path in (COMPLETIONS, CHAT, GENERATE):
        for body in bodies:
            answer = arena.exchange(wire.post(path, body))
            yield from answer_problems(answer, {200, 400})
            for name, value in answer.headers.items():
                if raw_characters := wire.raw_characters(value.encode("latin-1").decode(errors="replace")):
                    yield f"the header {name} holds {raw_characters}"
    for path in ("/%1b%5b2J", "/v1/models/%c2%9b%e2%80%ae%1b", "/cancel/%c2%9b%1b"):
        method = b"POST" if path.startswith("/cancel") else b"GET"
        answer = arena.exchange(wire.get(path).replace(b"GET", method, 1))
        yield from answer_problems(answer, {400, 404, 411})


ATTACKS = [*JSON_TEXTS, *OTHER_APIS, *SCHEMAS, *TOOLS,
           Attack("characters that steer a terminal", steer, flags=("--log-requests",)),
           Attack("characters that steer a terminal, in a log of JSON", steer, flags=("--log-requests", "--log-format", "json"))]
