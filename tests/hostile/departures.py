"""Clients that leave, in every way and on every route, and a server that stops: what nobody waits for any more is no trouble to others."""
import pathlib
import re
import socket
import struct
import time

import wire
from arena import Attack
from clients import ends_in_time

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "server.md"
DELAYS = (0, 0.005, 0.06)  # seconds between a request and its client's departure
WORKERS = 8

CONVERSATION = {"messages": [{"role": "user", "content": "What is 1 + 1?"}], "max_tokens": 8}
PROMPT = {"prompt": "What is 1 + 1?", "max_tokens": 8}
TEXTS = {"input": ["one", "two"]}
DOCUMENTS = {"query": "which?", "documents": ["one", "two"], "texts": ["one", "two"]}
NAME = {"model": "forge-demo"}

# What is asked of the routes that take JSON, without `/v1` and below the routes that end with ID.
BODIES = {
    "/chat/completions": CONVERSATION, "/completions": PROMPT, "/completion": PROMPT, "/generate": PROMPT,
    "/responses": {"input": "What is 1 + 1?", "max_output_tokens": 8, "store": False}, "/responses/input_tokens": {"input": "What is 1 + 1?"},
    "/messages": CONVERSATION, "/messages/count_tokens": CONVERSATION,
    "/embeddings": TEXTS, "/embedding": {"content": "one"}, "/rerank": DOCUMENTS, "/v2/rerank": DOCUMENTS, "/reranking": DOCUMENTS,
    "/api/chat": CONVERSATION, "/api/generate": PROMPT, "/api/embed": TEXTS, "/api/embeddings": {"prompt": "one"},
    "/api/show": NAME, "/api/pull": NAME,
    "/infill": {"input_prefix": "one", "input_suffix": "three", "n_predict": 4},
    "/tokenize": {"content": "one two"}, "/detokenize": {"tokens": [5, 6, 7]}, "/apply-template": CONVERSATION, "/cancel/ID": {}, "/slots/ID": {"filename": "a"},
    "/lora-adapters": [], "/load_lora_adapter": {"lora_name": "a", "lora_path": "a.gguf"}, "/unload_lora_adapter": {"lora_name": "a"},
}
SILENCE = b"RIFF" + struct.pack("<I4s4sIHHIIHH4sI", 36 + 3200, b"WAVE", b"fmt ", 16, 1, 1, 16000, 32000, 2, 16, b"data", 3200) + bytes(3200)
FORMS = {"/audio/transcriptions": {"file": SILENCE, "model": b"forge-demo"}}
ALSO_STREAMED = {"/chat/completions", "/completions", "/completion", "/generate", "/responses", "/messages", "/api/chat", "/api/generate"}


def routes(page):
    """(method, path) of each route that the page names."""
    section = page.split("\n## Routes\n")[1].split("\n## ")[0]
    for line in section.splitlines():
        method = ""
        for given, path in re.findall(r"`(?:([A-Z]+) )?(/[^`?]*)`", line.split("|")[1] if line.startswith("| `") else ""):
            method = given or method
            yield method, path


def all_requests():
    """Of every route, (name, bytes)."""
    for method, path in routes(PAGE.read_text()):
        if method != "POST":
            yield f"{method} {path}", wire.get(path).replace(b"GET", method.encode(), 1)
            continue
        short = path.removeprefix("/v1")
        if short in FORMS:
            yield f"{method} {path}", wire.post_form(path, FORMS[short])
            continue
        for streams in (False, True) if short in ALSO_STREAMED else (False,):
            body = BODIES[short]
            yield f"{method} {path}", wire.post(path, body | {"stream": streams} if isinstance(body, dict) else body)


def half_close(client):
    client.socket.shutdown(socket.SHUT_WR)
    return True  # it reads what comes


WAYS = {"close": lambda client: client.close(), "half a close": half_close, "reset": lambda client: client.reset()}


def leave(name):
    """A client of each route leaves after each delay."""
    way = WAYS[name]

    def run(arena, data):
        cases = [(request, delay) for request in data for delay in DELAYS]

        def body(worker):
            for (route, request), delay in cases[worker::WORKERS]:
                with wire.Client(arena.port, f"127.0.0.{2 + worker}", arena.deadline()) as client:
                    client.send(request)
                    time.sleep(delay)
                    if way(client):
                        client.read()
                arena.answers["left"] += 1
                if not arena.is_alive():
                    yield f"it has ended behind {route}"
                    return

        yield from arena.together(WORKERS, body)
        yield from arena.innocents_served()

    return run, lambda: list(all_requests())


def stops(arena, data):
    """SIGTERM while a request to every route is under way or waits for its turn."""
    return ends_in_time(arena, [request for _, request in data])


ATTACKS = [
    *(Attack(f"{name} on every route", *leave(name)) for name in WAYS),
    *(Attack(f"{name} on every route, beside one place for answers", *leave(name), flags=("--parallel", "1")) for name in WAYS),
    Attack("SIGTERM beside every route", stops, lambda: list(all_requests()),
           flags=("--parallel", "1", "--drain-seconds", "0"), ends_server=True),
]
