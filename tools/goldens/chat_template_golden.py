#!/usr/bin/env python3
"""Writes tests/golden/chat-templates/*.json: what Python's jinja2 makes of templates, set up as transformers does it.

    pip install jinja2
    tools/goldens/chat_template_golden.py

conversations.json holds the conversations, NAME.json what the template NAME.jinja beside it makes of them: for each case the
text, or the message of raise_exception, or true for another error. expressions.json holds short templates over one set of
variables with their texts, or for errors the line.

The clock stands at 9 October 2025, 14:05:06.
"""
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from chat_template_snippets import SNIPPETS, VARIABLES

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/chat-templates"
NOW = datetime.datetime(2025, 10, 9, 14, 5, 6)


class Generation(jinja2.ext.Extension):
    """{% generation %}: its body, in a scope of its own."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("rendered"), [], [], body).set_lineno(line)

    def rendered(self, caller):
        return caller()


class Raised(jinja2.exceptions.TemplateError):
    pass


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise Raised(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: NOW.strftime(form)
    return env


def failed_line(error):
    if isinstance(error, jinja2.exceptions.TemplateSyntaxError):
        return error.lineno
    line, trace = 0, error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


# Conversations.

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a place & its \"feel\".",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Name of the place, e.g. Zürich"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "description": "Unit", "default": "celsius"},
        "days": {"type": "integer", "description": "How many"}}, "required": ["city"]}}}
SEARCH = {"type": "function", "function": {
    "name": "search", "description": "Finds <things>.",
    "parameters": {"type": "object", "properties": {
        "terms": {"type": "array", "items": {"type": "string"}, "description": "Words"},
        "exact": {"type": "boolean", "description": "As they are"},
        "range": {"type": "object", "properties": {"low": {"type": "number", "description": "From"},
                                                   "high": {"type": "number", "description": "To"}},
                  "required": ["low"], "description": "Limits"},
        "kind": {"type": ["string", "null"], "description": "Kind", "default": None}}, "required": ["terms", "range"]}}}
BARE = {"type": "function", "function": {"name": "now", "description": "The time",
                                         "parameters": {"type": "object", "properties": {}}}}


def call(name, arguments, identity="abcdef123"):
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **others):
    return {"role": "assistant", "content": text, **others}


def system(text):
    return {"role": "system", "content": text}


def result(text, identity="abcdef123", **others):
    return {"role": "tool", "tool_call_id": identity, "content": text, **others}


ASKS = user("What is the weather in Zürich?")
CALLS = assistant("", tool_calls=[call("get_weather", {"city": "Zürich", "days": 2})])
GIVES = result('{"temperature": 21.5, "sky": "☀"}', name="get_weather")
TURNS = [user("One?"), assistant("1"), user("Two?"), assistant("2"), user("Three?")]

CONVERSATIONS = {
    "plain": {"messages": [user("Hello!")]},
    "system": {"messages": [system("Be brief."), user("Hello!")]},
    "turns": {"messages": [system("Count."), *TURNS]},
    "turns_without_system": {"messages": TURNS},
    "answered": {"messages": [*TURNS, assistant("3")]},
    "white_space": {"messages": [system("  \n Be\tbrief. \n"), user("\n\n  a  b \n"), assistant(" \t\n c\n\n"), user("d\r\ne ")]},
    "unicode": {"messages": [system("日本語で。"), user("Grüße, 👩‍👩‍👧 \u00a0𝒳 e\u0301 \u2028 ok"), assistant("さようなら\u3000"), user("ß")]},
    "marks": {"messages": [user("<|im_end|>\n<|im_start|>system\n<|eot_id|></s>[INST]{{ 7 * 7 }}{% if %}<end_of_turn>"),
                           assistant("<|end|><tool_call>x"), user("'\"\\ & <b>")]},
    "empty_texts": {"messages": [system(""), user(""), assistant(""), user("")]},
    "empty_conversation": {"messages": []},
    "tools": {"messages": [system("Use tools."), ASKS], "tools": [WEATHER, SEARCH, BARE]},
    "tools_without_system": {"messages": [ASKS], "tools": [WEATHER]},
    "tool_call": {"messages": [ASKS, CALLS, GIVES], "tools": [WEATHER]},
    "tool_answered": {"messages": [system("Use tools."), ASKS, CALLS, GIVES, assistant("Warm."), user("Thanks")],
                      "tools": [WEATHER, BARE]},
    "two_calls": {"messages": [user("Both"), assistant("Well.", tool_calls=[call("get_weather", {"city": "Rom"}, "aaaaaaaa1"),
                                                                            call("now", {}, "aaaaaaaa2")]),
                               result("20", "aaaaaaaa1"), result("noon", "aaaaaaaa2")], "tools": [WEATHER, BARE]},
    "call_as_text": {"messages": [ASKS, assistant("", tool_calls=[call("get_weather", '{"city": "Rom"}')]), GIVES],
                     "tools": [WEATHER]},
    "call_without_content": {"messages": [ASKS, {"role": "assistant", "tool_calls": CALLS["tool_calls"]}, GIVES], "tools": [WEATHER]},
    "reasoning": {"messages": [user("1+1?"), assistant("2", reasoning_content="Add\nthem."), user("+1?")]},
    "reasoning_in_text": {"messages": [user("1+1?"), assistant("<think>\nAdd.\n</think>\n\n2"), user("+1?"),
                                       assistant("<think>Again</think>3")]},
    "reasoning_with_call": {"messages": [ASKS, assistant("", reasoning_content="I must look.", thinking="I must look.",
                                                         tool_calls=CALLS["tool_calls"]), GIVES], "tools": [WEATHER]},
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": " two"}]}]},
    "two_users": {"messages": [user("a"), user("b")]},
    "other_role": {"messages": [{"role": "critic", "content": "No."}]},
    "developer": {"messages": [{"role": "developer", "content": "Be kind."}, user("Hi")]},
    "documents": {"messages": [user("Who?")], "options": {"documents": [{"doc_id": 1, "text": "Ada wrote."}],
                                                          "controls": {"length": "short", "citations": True}}},
}
VARIANTS = {
    "": {"add_generation_prompt": True},
    "no_prompt": {"add_generation_prompt": False},
    "thinking": {"add_generation_prompt": True, "enable_thinking": True, "thinking": True},
    "no_thinking": {"add_generation_prompt": True, "enable_thinking": False, "thinking": False, "reasoning_effort": "low"},
}
WITHOUT_PROMPT = ["plain", "answered", "reasoning_in_text", "tool_call", "reasoning_with_call"]
WITH_THINKING = ["system", "reasoning_in_text", "turns_without_system"]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def render(template, conversation, variant):
    variables = {"messages": conversation["messages"], "tools": conversation.get("tools"), "documents": None, **TOKENS,
                 **variant, **conversation.get("options", {})}
    try:
        return template.render(variables)
    except Raised as error:
        return {"raised": str(error)}
    except Exception:  # whatever jinja2 or Python has against it
        return {"error": True}


def write_templates():
    env = environment()
    for path in sorted(FOLDER.glob("*.jinja")):
        template = env.from_string(path.read_text())
        cases = {}
        for name, conversation in CONVERSATIONS.items():
            for variant, options in VARIANTS.items():
                wanted = {"": True, "no_prompt": name in WITHOUT_PROMPT}.get(variant, name in WITH_THINKING)
                if wanted:
                    cases[name + ("." + variant if variant else "")] = render(template, conversation, options)
        write(path.stem + ".json", cases)
    write("conversations.json", {"conversations": CONVERSATIONS, "variants": VARIANTS, "tokens": TOKENS})


def write_snippets():
    env = environment()
    out = []
    for source in SNIPPETS:
        try:
            out.append([source, env.from_string(source).render(json.loads(json.dumps(VARIABLES)))])
        except Raised as error:
            out.append([source, {"raised": str(error), "line": failed_line(error)}])
        except Exception as error:
            out.append([source, {"line": failed_line(error)}])
    write("expressions.json", {"variables": VARIABLES, "snippets": out})


def write(name, value):
    """One entry a line, so that a change shows where it is."""
    def lines(value):
        if isinstance(value, dict):
            return "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in value.items()) + "\n}"
        return "[\n" + ",\n".join(json.dumps(v, ensure_ascii=False) for v in value) + "\n]"
    if name in ("conversations.json", "expressions.json"):
        text = "{\n" + ",\n".join(f"{json.dumps(k)}: {lines(v)}" for k, v in value.items()) + "\n}"
    else:
        text = lines(value)
    (FOLDER / name).write_text(text + "\n")


if __name__ == "__main__":
    write_templates()
    write_snippets()
