"""Every limit of the table in docs/server-limits.md, at its edge and one beyond."""
import dataclasses
import json
import pathlib
import re

import wire
from arena import Attack
from expect import answer_problems
from limits_of_load import LOAD
from limits_of_time import TIME

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "server-limits.md"
CHAT, COMPLETIONS, GENERATE = "/v1/chat/completions", "/v1/completions", "/generate"


@dataclasses.dataclass
class Limit:
    name: str
    flag: str
    value: int
    status: str  # "closed": no answer
    message: str

    def pattern(self, value=None):
        """The message; `value`: in place of the default."""
        text = self.message
        if value is not None:
            text = re.sub(rf"\b{self.value + 1}\b", str(value + 1), re.sub(rf"\b{self.value}\b", str(value), text))
        return "^" + re.escape(text).replace("…", ".+") + "$"


def limits_of(page):
    section = page.split("\n## Limits\n")[1].split("\n## ")[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            name, _, flag, value, status, message = cells
            yield Limit(name.strip("`"), flag.strip("`"), int(value.split()[0]), status, message.strip("`"))


def head_of(size):
    begin, end = b"GET /version HTTP/1.1\r\nHost: localhost\r\nX: ", b"\r\n\r\n"
    return begin + b"y" * (size - len(begin) - len(end)) + end


def completion(**more):
    return wire.post(COMPLETIONS, {"prompt": "a", "max_tokens": 1, **more})


def native(**more):
    return wire.post(GENERATE, {"prompt": "a", "n_predict": 1, **more})


def chat(**more):
    return wire.post(CHAT, {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, **more})


def body_of(size):
    return wire.post(COMPLETIONS, b'{"prompt": "a", "max_tokens": 1}'.ljust(size))


def deep(levels):
    return wire.post(COMPLETIONS, b'{"prompt": "a", "max_tokens": 1, "x": %s}' % (b"[" * levels + b"]" * levels))


def conversation(number):
    return wire.post(CHAT, {"messages": [{"role": "user", "content": "a"}] * number})


def tools(number):
    return chat(tools=[{"type": "function", "function": {"name": f"f{i}"}} for i in range(number)])


def grammar(text):
    return completion(grammar=text)


# For each limit, the request that has exactly n of what it counts. At the limit a request may be refused, but for another
# reason.
COUNTED = {
    "head bytes": head_of,
    "body bytes": body_of,
    "prompts": lambda n: completion(prompt=["a"] * n),
    "answers of a request": lambda n: completion(prompt=["a"] * n),
    "n": lambda n: completion(n=n),
    "priority": lambda n: completion(priority=-n),
    "json depth": deep,
    "messages": conversation,
    "tools": tools,
    "stop strings": lambda n: completion(stop=["x"] * n),
    "stop string bytes": lambda n: completion(stop="x" * n),
    "logit_bias entries": lambda n: completion(logit_bias=[[5, 0]] * n),
    "cache_salt bytes": lambda n: completion(cache_salt="s" * n),
    "response_fields": lambda n: native(response_fields=["content"] * n),
    "top_logprobs": lambda n: chat(logprobs=True, top_logprobs=n),
    "logprobs": lambda n: completion(logprobs=n),
    "n_probs": lambda n: native(n_probs=n),
    "grammar bytes": lambda n: grammar('root ::= "a" #'.ljust(n, "c")),
    "grammar rules": lambda n: grammar('root ::= r0\n' + "\n".join(f'r{i} ::= "a"' for i in range(n - 1))),
    "grammar groups": lambda n: grammar("root ::= " + "(" * n + '"a"' + ")" * n),
    "grammar repetitions": lambda n: grammar('root ::= "a"{0,%d}' % n),
    "grammar places": lambda n: grammar('root ::= "%s"' % ("a" * (n - 1))),  # before and behind each letter
}


def counted(limit):
    def run(arena, data):
        at_edge, beyond = data
        answer = arena.exchange(at_edge)
        if answer.status == 0 or str(answer.status) == limit.status and re.search(limit.pattern(), answer.message() or ""):
            yield f"at the edge: {answer.status}: {answer.message() or answer.trouble}"
        yield from answer_problems(arena.exchange(beyond), {int(limit.status)}, limit.pattern())
    make = COUNTED[limit.name]
    return Attack(limit.name, run, lambda: (make(limit.value), make(limit.value + 1)))


def unknown(limit):
    return Attack(limit.name, lambda *_: [f"{PAGE.name} has the limit '{limit.name}', which no test tries"], needs_server=False)


def attack(limit):
    for known in (LOAD, TIME):
        if limit.name in known:
            return known[limit.name](limit)
    return counted(limit) if limit.name in COUNTED else unknown(limit)


def attacks():
    found = list(limits_of(PAGE.read_text()))
    names = {limit.name for limit in found}
    yield from map(attack, found)
    for name in sorted((COUNTED.keys() | LOAD.keys() | TIME.keys()) - names):
        yield Attack(name, lambda *_, name=name: [f"{PAGE.name} has no limit '{name}'"], needs_server=False)


ATTACKS = list(attacks())
