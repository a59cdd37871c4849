"""What costs the server more memory than it costs the client to ask."""
import dataclasses
import selectors
import time

import wire
from arena import Attack
from expect import BUSY, FREE, answer_problems, requests

COMPLETIONS, GENERATE, RESPONSES, TOKENIZE = "/v1/completions", "/generate", "/v1/responses", "/tokenize"
BODY = 8 << 20
LONGEST_SECONDS = 10  # that an attacker waits for an answer before it leaves
STALLED_SECONDS = 1  # without a byte taken
GRAMMARS = 64


def probabilities(prompts, number):
    return {"prompt": [f"What is {i} + {i}?" for i in range(prompts)], "n": number, "n_probs": 20, "n_predict": 16, "ignore_eos": True}


def leaves(path, make):
    """Asks, waits for a while beside the innocents, and goes."""
    def run(arena, data):
        with wire.Client(arena.port, "127.0.0.2", arena.deadline()) as client:
            client.send(data)
            client.deadline = time.monotonic() + LONGEST_SECONDS
            answer = client.read()
            arena.answers[answer.status or "left"] += 1
            if answer.status:
                yield from answer_problems(answer, FREE, "answers")
        yield from arena.innocents_served()
    return run, lambda: wire.post(path, make())


def tokenize(size):
    text = b"The quick brown fox jumps over 13 lazy dogs; "
    return b'{"with_pieces": true, "content": "%s"}' % (text * (size // len(text)))[:size - 64]


def unread_answers(arena, data, addresses):
    """A client at each address asks, and reads the first bytes of the answer alone, at the end."""
    clients = [wire.Client(arena.port, address, arena.deadline()) for address in addresses]
    try:
        for client in clients:
            client.send(data)
        yield from arena.innocents_served(3)
        for client in clients:
            yield from status_problems(arena, client, FREE)
    finally:
        for client in clients:
            client.close()


def slow_readers(arena, data):
    """64 clients that ask for answers of megabytes."""
    yield from unread_answers(arena, data, [f"127.0.0.{2 + i}" for i in range(64)])


def status_problems(arena, client, statuses):
    """Of what has come so far; nothing is no problem."""
    client.socket.setblocking(False)
    try:
        begun = client.socket.recv(16)
    except (BlockingIOError, ConnectionResetError):
        begun = b""
    status = int(begun.split()[1]) if begun.startswith(b"HTTP/1.1 ") else 0
    arena.answers[status or "none"] += 1
    if status and status not in statuses:
        yield f"status {status}, expected {sorted(statuses)}"


def unfinished_bodies(arena, body):
    """200 bodies of which the last byte never comes."""
    selector = selectors.DefaultSelector()
    data = memoryview(wire.head(COMPLETIONS, len(body) + 1) + body)
    clients = []
    try:
        for i in range(200):
            client = wire.Client(arena.port, f"127.0.0.{2 + i % 100}", arena.deadline())
            client.socket.setblocking(False)
            selector.register(client.socket, selectors.EVENT_WRITE, [client, 0])
            clients.append(client)
        push(selector, data)
        yield from arena.innocents_served()
        for client in clients:
            yield from status_problems(arena, client, {408, 413} | BUSY)
    finally:
        selector.close()
        for client in clients:
            client.close()


def push(selector, data):
    """Sends for as long as the server takes anything."""
    last = time.monotonic()
    while selector.get_map() and time.monotonic() - last < STALLED_SECONDS:
        for key, _ in selector.select(STALLED_SECONDS):
            _, sent = key.data
            try:
                more = key.fileobj.send(data[sent : sent + (1 << 18)])
            except BlockingIOError:
                continue
            except OSError:
                selector.unregister(key.fileobj)
                continue
            last = time.monotonic()
            key.data[1] = sent + more
            if key.data[1] == len(data):
                selector.unregister(key.fileobj)


def waiting_grammars(arena, bodies):
    return arena.together(GRAMMARS, lambda i: answer_problems(arena.exchange(bodies[i], i), FREE, "grammar"))


def different_grammars():
    return [wire.post(COMPLETIONS, {"prompt": "a", "max_tokens": 16, "grammar": 'root ::= ([a-z] | "%d"){0,20000} "!"' % i})
            for i in range(GRAMMARS)]


def unread_stored(arena, data):
    """300 clients ask for a stored response of megabytes, and read nothing."""
    made = arena.exchange(data)
    if made.status != 200:
        yield f"the response to store: {made.status}: {made.message() or made.trouble}"
        return
    asked = wire.get(f"/v1/responses/{made.json()['id']}")
    yield from unread_answers(arena, asked, [f"127.0.0.{2 + i % 100}" for i in range(300)])
    yield from answer_problems(arena.exchange(asked.replace(b"GET", b"DELETE", 1)), {200})


def repeated(size, **more):
    """A response repeats the metadata of its request."""
    return {"input": "a", "max_output_tokens": 2, "metadata": {"note": "m" * size}, **more}


def whole_streams(arena, data):
    """Streams that repeat megabytes three times come to their end for clients that read."""
    def body(i):
        answer = arena.exchange(data, i)
        yield from answer_problems(answer, FREE)
        if answer.status == 200 and b'"type":"response.incomplete"' not in answer.body and b'"type":"response.completed"' not in answer.body:
            yield f"the stream was cut: it has {len(answer.body)} bytes"
    return arena.together(4, body)


def body_text():
    return b'{"prompt": "' + b"a" * (BODY - 14) + b'"'


def arrays():
    return b'{"prompt": "a", "max_tokens": 4, "x": [[]' + b",[]" * ((BODY - 64) // 3) + b"]}"



def alone(attack):
    """The same against a server that may take 400 MiB more than it has when it is idle; the innocents come behind it."""
    return dataclasses.replace(attack, name="400 MiB to spare: " + attack.name, spare_mib=400, innocents_after=True)


PLENTY = [
    Attack("16 prompts, 60 answers to each, 20 probabilities", *leaves(GENERATE, lambda: probabilities(16, 60))),
    requests("8 MiB are tokenized, with pieces", TOKENIZE, lambda: tokenize(BODY), FREE, clients=2),
    requests("8 MiB of empty arrays from 8 clients", COMPLETIONS, arrays, FREE, clients=8),
    requests("8 MB of ids are made text, for 4 clients", "/detokenize", lambda: b'{"tokens": [%s5]}' % (b"5," * (BODY // 2 - 32)), FREE),
    Attack("300 unread answers of a stored response", unread_stored, lambda: wire.post(RESPONSES, repeated(5 << 20))),
    Attack("streams that repeat requests of 2 MB", whole_streams, lambda: wire.post(RESPONSES, repeated(2 << 20, stream=True, store=False))),
    Attack("64 slow readers of large answers", slow_readers, lambda: wire.post(TOKENIZE, tokenize(256 << 10))),
    Attack("200 unfinished bodies of 8 MiB", unfinished_bodies, body_text),
]

ATTACKS = [
    *PLENTY,
    Attack("16 prompts, 128 answers to each, 20 probabilities", *leaves(GENERATE, lambda: probabilities(16, 128))),
    Attack("64 waiting requests with grammars of their own", waiting_grammars, different_grammars, flags=("--parallel", "1")),
    *map(alone, PLENTY),
]
