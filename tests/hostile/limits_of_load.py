"""The limits of docs/server-limits.md that many requests share, each tried on a server where it is small."""
import os
import signal
import subprocess
import time

import wire
from arena import Attack
from expect import answer_problems
from templates import write_model

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
ONE, OTHER, THIRD = "127.0.0.2", "127.0.0.3", "127.0.0.4"
SHORT = wire.post(COMPLETIONS, {"prompt": "a", "max_tokens": 1})


def long_stream(answers=1):
    """Under way for as long as the test needs."""
    return wire.post(COMPLETIONS, {"prompt": "a", "n": answers, "max_tokens": 100_000, "ignore_eos": True, "stream": True})


class Crowd:
    """Connections that are kept until the end of a `with`."""

    def __init__(self, arena):
        self.arena, self.clients = arena, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for client in self.clients:
            client.close()

    def join(self, source, data=b""):
        client = wire.Client(self.arena.port, source, self.arena.deadline())
        self.clients.append(client)
        client.send(data)
        return client

    def stream_problems(self, source, answers=1):
        """One more stream, that has to begin."""
        client = self.join(source, long_stream(answers))
        client.socket.settimeout(client.left())
        begun = client.socket.recv(12)
        if begun != b"HTTP/1.1 200":
            yield f"a stream within the limit begins with {begun!r}"

    def refusal_problems(self, source, data, limit, value=None):
        answer = self.join(source, data).read()
        yield from answer_problems(answer, {int(limit.status)}, limit.pattern(value))
        if answer.status in (429, 503) and "retry-after" not in answer.headers:
            yield "there is no Retry-After"


def small(run, *flags, **more):
    """An attack on a server with these flags; the innocents, who need room, come behind it."""
    return lambda limit: Attack(limit.name, lambda arena, _: run(arena, limit), flags=flags, innocents_after=True, **more)


def answers(arena, limit):
    with Crowd(arena) as crowd:
        yield from crowd.stream_problems(ONE, 8)
        yield from crowd.refusal_problems(OTHER, SHORT, limit)


def answers_of_a_client(arena, limit):
    with Crowd(arena) as crowd:
        yield from crowd.stream_problems(OTHER)
        yield from crowd.stream_problems(ONE, 8 * limit.value // 100)
        yield from crowd.refusal_problems(ONE, SHORT, limit)
        yield from crowd.stream_problems(THIRD)


def connections(arena, limit):
    with Crowd(arena) as crowd:
        for _ in range(16):
            yield from crowd.stream_problems(ONE)
        yield from crowd.refusal_problems(OTHER, SHORT, limit)
        yield from answer_problems(crowd.join(OTHER, wire.get("/health")).read(), {200})


def connections_of_a_client(arena, limit):
    with Crowd(arena) as crowd:
        yield from crowd.stream_problems(OTHER)
        for _ in range(16 * limit.value // 100):
            yield from crowd.stream_problems(ONE)
        yield from crowd.refusal_problems(ONE, SHORT, limit)
        yield from crowd.stream_problems(OTHER)


def reserved_connections(arena, limit):
    with Crowd(arena) as crowd:
        for _ in range(16):
            yield from crowd.stream_problems(ONE)
        beside = [crowd.join(OTHER) for _ in range(limit.value + 1)]
        closed = 0
        for client in beside:  # the others have said nothing for too long, which is another limit
            client.socket.settimeout(client.left())
            try:
                closed += client.socket.recv(12) == b""
            except ConnectionResetError:
                closed += 1
        if closed != 1:
            yield f"with one beyond the reserved connections {closed} were closed"


def reserved_head_time(arena, limit):
    with Crowd(arena) as crowd:
        for _ in range(16):
            yield from crowd.stream_problems(ONE)
        begin = time.monotonic()
        yield from crowd.refusal_problems(OTHER, b"GET /hea", limit)
        if time.monotonic() - begin < limit.value:
            yield f"refused before {limit.value} s have passed"


def request_time(arena, limit):
    with Crowd(arena) as crowd:
        yield from answer_problems(crowd.join(ONE, SHORT).read(), {200})
        endless = wire.post(COMPLETIONS, {"prompt": "a", "n": 64, "max_tokens": 100_000, "ignore_eos": True})
        yield from crowd.refusal_problems(ONE, endless, limit, 3)


def request_work(arena, limit):
    with Crowd(arena) as crowd:
        yield from answer_problems(crowd.join(ONE, SHORT).read(), {200})
        work = wire.post(COMPLETIONS, b'{"prompt": "a", "x": [%s0]}' % (b"0," * 4_000_000))
        yield from crowd.refusal_problems(ONE, work, limit, 1_000_000)


def request_memory(arena, limit):
    """Numbers in an array take some times the memory of their text."""
    with Crowd(arena) as crowd:
        yield from answer_problems(crowd.join(ONE, SHORT).read(), {200})
        large = wire.post(COMPLETIONS, b'{"prompt": "a", "x": [%s0]}' % (b"0," * 4_000_000))
        yield from crowd.refusal_problems(ONE, large, limit)


def memory_of_a_client(arena, limit):
    """Bodies that never end hold what has come of them."""
    with Crowd(arena) as crowd:
        part = b'{"prompt": "' + b"a" * (6 << 20)
        crowd.join(OTHER, wire.head(COMPLETIONS, 8 << 20) + part)
        crowd.join(ONE, wire.head(COMPLETIONS, 8 << 20) + part)
        crowd.join(ONE, wire.head(COMPLETIONS, 8 << 20) + part)
        yield from crowd.refusal_problems(ONE, wire.head(COMPLETIONS, 8 << 20) + part, limit)
        yield from answer_problems(crowd.join(THIRD, SHORT).read(), {200})


def drain_time(arena, limit):
    with Crowd(arena) as crowd:
        yield from crowd.stream_problems(ONE)
        begin = time.monotonic()
        os.kill(arena.pid, signal.SIGTERM)
        try:
            if code := arena.server.process.wait(timeout=arena.guard):
                yield f"the server ended with code {code}"
        except subprocess.TimeoutExpired:
            yield f"the server has not ended after {arena.guard:.0f} s"
        if time.monotonic() - begin < 1:
            yield "the answer was cut before its time"


# A template whose number of steps depends on the request.
STEPS = "{% for a in range((size | default(0)) // 1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}{{ messages[0].content }}"
TEXT = "{% set a = 'a' * (size | default(0)) %}{{ a | length }}{{ messages[0].content }}"
TEXTS = ("{% set all = namespace(texts=[]) %}{% for a in range((size | default(0)) // 1000000) %}"
         "{% set all.texts = all.texts + ['a' * 1000000 ~ a] %}{% endfor %}{{ messages[0].content }}")


def template(text, within):
    """A template that is asked for `within(value)` and for one more than the limit."""
    def run(arena, limit):
        for size, statuses in ((within(limit.value), {200}), (limit.value + 1, {int(limit.status)})):
            request = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "chat_template_kwargs": {"size": size}}
            yield from answer_problems(arena.exchange(wire.post(CHAT, request)), statuses, limit.pattern())
    return small(run, model=write_model(lambda: text))


def stored_responses(arena, limit):
    """One more than are kept: the first has made room, and few others have for what earlier attacks left."""
    others = 16
    ids = []
    for number in range(limit.value + 1):
        answer = arena.exchange(wire.post("/v1/responses", {"input": "a", "max_output_tokens": 1}))
        ids.append((answer.json() or {}).get("id"))
        if answer.status != 200 or not ids[-1]:
            yield f"response {number}: {answer.status}: {answer.message() or answer.trouble}"
            return
    yield from answer_problems(arena.exchange(wire.get(f"/v1/responses/{ids[others]}")), {200})
    yield from answer_problems(arena.exchange(wire.get(f"/v1/responses/{ids[0]}")), {int(limit.status)}, limit.pattern())


PLACES = ("--parallel", "2", "--max-waiting", "6")
CONNECTIONS = ("--max-connections", "16", "--parallel", "64")

LOAD = {
    "answers": small(answers, *PLACES, "--client-share", "100"),
    "answers of a client": small(answers_of_a_client, *PLACES),
    "connections": small(connections, *CONNECTIONS, "--client-share", "100"),
    "connections of a client": small(connections_of_a_client, *CONNECTIONS),
    "reserved connections": small(reserved_connections, *CONNECTIONS, "--client-share", "100"),
    "reserved head time": small(reserved_head_time, *CONNECTIONS, "--client-share", "100"),
    "request time": small(request_time, "--request-timeout", "3"),
    "request work": small(request_work, "--request-work", "1"),
    "request memory": small(request_memory, "--request-memory", "32"),
    "memory of a client": small(memory_of_a_client, "--request-memory", "32"),
    "stored responses": small(stored_responses),
    "drain time": small(drain_time, "--drain-seconds", "1", ends_server=True),
    "template steps": template(STEPS, lambda value: value // 100),
    "template memory": template(TEXTS, lambda value: value // 10),
    "template text": template(TEXT, lambda value: value),
}
