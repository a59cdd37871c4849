"""Clients that want everything for themselves, and bytes that two readers may understand differently."""
import os
import select
import signal
import subprocess
import threading
import time

import wire
from arena import Attack
from expect import BUSY, FREE, answer_problems, raw
from grammars import ambiguous

COMPLETIONS = "/v1/completions"
DRAIN_SECONDS = 3
HEAD = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
HEALTH = "GET /health HTTP/1.1\r\nHost: localhost\r\n"


def long_answers(number, **more):
    return wire.post(COMPLETIONS, {"prompt": "a", "n": number, "max_tokens": 512, "ignore_eos": True, **more})


def connect(arena, sources):
    """Open connections, as many as the server takes."""
    clients = []
    for source in sources:
        try:
            clients.append(wire.Client(arena.port, source, arena.deadline()))
        except OSError:
            arena.answers["not connected"] += 1
    return clients


def holds(sources, data, statuses, says):
    """A connection from each source sends its request and waits while the innocents are served, then all go."""
    def run(arena, _):
        clients = connect(arena, sources)
        try:
            for client in clients:
                client.send(data)
            yield from arena.innocents_served()
            for client in clients:
                yield from first_answer_problems(arena, client, statuses, says)
        finally:
            for client in clients:
                client.close()
    return run


def served_beside(arena, clients, attack, number=1):
    """The innocents are served while `attack`, which gets an event that ends it, runs in a thread; then the clients go."""
    ending = threading.Event()
    thread = threading.Thread(target=attack, args=(ending,))
    thread.start()
    try:
        yield from arena.innocents_served(number)
    finally:
        ending.set()
        thread.join()
        for client in clients:
            client.close()


def all_places(arena, _):
    """4 clients take every place for an answer that they can get, and each that comes free."""
    many = connect(arena, [f"127.0.0.{2 + i % 4}" for i in range(32)])
    problems = []

    def press(worker, ending):
        kept = []
        while not ending.is_set() and len(kept) < 100:
            kept += connect(arena, [f"127.0.0.{2 + worker}"])
            kept[-1].send(long_answers(1))
            if select.select([kept[-1].socket], [], [], 0.02)[0]:
                with kept.pop() as refused:
                    yield from first_answer_problems(arena, refused, {200, 429}, "queue")
        for client in kept:
            client.close()

    for client in many:
        client.send(long_answers(80))
    yield from served_beside(arena, many, lambda ending: problems.extend(arena.together(4, lambda worker: press(worker, ending))), 5)
    yield from problems


def first_answer_problems(arena, client, statuses, says):
    """Of an answer that may not have come yet."""
    answer = client.read_begun()
    arena.answers[answer.status or "none yet"] += 1
    if answer.status:
        yield from answer_problems(answer, statuses, says)


def slow_heads(arena, _):
    """200 heads of which a byte comes now and then."""
    clients = connect(arena, [f"127.0.0.{2 + i % 100}" for i in range(200)])

    def drip(ending):
        for i in range(10_000):
            for client in clients:
                client.send((HEAD + "X: " + "y" * 10_000)[i].encode())
            if ending.wait(0.2):
                return

    return served_beside(arena, clients, drip, 3)


def quick_disconnects(arena, _):
    """4,000 connections that end at every place of a request."""
    data = wire.post(COMPLETIONS, {"prompt": "What is 1 + 1?", "max_tokens": 64, "stream": True})

    def body(worker):
        for i in range(500):
            client = wire.Client(arena.port, f"127.0.0.{2 + worker}", arena.deadline())
            client.send(data[: i * 7 % (len(data) + 1)])
            client.reset() if i % 2 else client.close()
        return []

    return arena.together(8, body)


def abandoned_work(arena, bodies):
    """Requests that are long to read, whose clients leave at once."""
    for i, body in enumerate(bodies):
        with wire.Client(arena.port, f"127.0.0.{2 + i % 8}", arena.deadline()) as client:
            client.send(body)
    return arena.innocents_served()


def heavy_bodies(number):
    # Each request needs work of its own: no cached result of another one can be used.
    return [wire.post(COMPLETIONS, {"prompt": "a", "max_tokens": 64, "json_schema": {
        "type": "object", "required": [f"p{i}_{j}" for j in range(90_000)], "additionalProperties": True}}) for i in range(number)]


def pipelined(arena, _):
    """2,000 requests in a row, of which no answer is read before the innocents are served."""
    with wire.Client(arena.port, "127.0.0.2", arena.deadline()) as client:
        client.socket.settimeout(1)
        try:
            client.socket.sendall(wire.get("/slots") * 2_000)
        except TimeoutError:
            pass  # the server waits with reading until its answers are taken
        yield from arena.innocents_served()
        yield from first_answer_problems(arena, client, {200}, "")


def ends_in_time(arena, bodies):
    """SIGTERM while as many requests are read as the server has threads for that, and some more wait."""
    clients = []
    for i, body in enumerate(bodies):
        client = wire.Client(arena.port, f"127.0.0.{2 + i}", arena.deadline())
        client.send(body)
        clients.append(client)
    time.sleep(0.2)
    os.kill(arena.pid, signal.SIGTERM)
    try:
        code = arena.server.process.wait(timeout=DRAIN_SECONDS + arena.guard)  # no measure of speed: whether it ends at all
        if code != 0:
            yield f"it ended with {arena.end_of_server()}"
    except subprocess.TimeoutExpired:
        yield f"it had {DRAIN_SECONDS} s to end and has not after {arena.guard:.0f} s more"
    for client in clients:
        client.close()


def framing(name, text, statuses, says):
    return raw(name, lambda: text().encode("latin-1"), statuses, says, clients=1)


FRAMES = [
    framing("a list of equal lengths", lambda: HEAD + "Content-Length: 16, 16\r\n\r\n" + "x" * 16, {400}, "Content-Length"),
    framing("two lengths", lambda: HEAD + "Content-Length: 16\r\nContent-Length: 2\r\n\r\n{}", {400}, "Content-Length"),
    framing("a length and chunks", lambda: HEAD + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}, "."),
    framing("chunks and a length", lambda: HEAD + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n", {400}, "."),
    framing("a length of a million digits", lambda: HEAD + "Content-Length: " + "9" * 1_000_000 + "\r\n\r\n", {400, 431}, "."),
    framing("a folded header", lambda: HEALTH + "X: a\r\n b\r\n\r\n", {400}, "second line"),
    framing("a folded length", lambda: HEAD + "Content-Length:\r\n 2\r\n\r\n{}", {400}, "second line"),
    framing("a million folded lines", lambda: HEALTH + "X: a\r\n" + " b\r\n" * 250_000 + "\r\n", {400, 431}, "."),
    framing("a chunk that is no number", lambda: HEAD + "Transfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n", {400}, "chunk"),
    framing("a chunk beyond 64 bits", lambda: HEAD + "Transfer-Encoding: chunked\r\n\r\n" + "f" * 17 + "\r\nab\r\n", {400}, "chunk"),
    framing("a chunk with a sign", lambda: HEAD + "Transfer-Encoding: chunked\r\n\r\n-2\r\nab\r\n0\r\n\r\n", {400}, "chunk"),
    framing("a chunk with an extension of a million bytes",
            lambda: HEAD + "Transfer-Encoding: chunked\r\n\r\n2;" + "x" * 1_000_000 + "\r\n{}\r\n0\r\n\r\n", {400, 413, 431}, "."),
    framing("chunks of one byte, 9 MiB of them", lambda: HEAD + "Transfer-Encoding: chunked\r\n\r\n" + "1\r\na\r\n" * (9 << 20), {413}, "larger"),
    framing("a trailer of a million lines", lambda: HEAD + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + "x: y\r\n" * 1_000_000 + "\r\n", {400, 413, 431}, "."),
    framing("codings in a row", lambda: HEAD + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", {501}, "chunked"),
    framing("a target of a million bytes", lambda: "GET /" + "a" * 1_000_000 + " HTTP/1.1\r\nHost: localhost\r\n\r\n", {431}, "larger"),
    framing("100,000 headers", lambda: HEALTH + "X: y\r\n" * 100_000 + "\r\n", {431}, "larger"),
    framing("NUL in a header", lambda: HEALTH + "X: a\0b\r\n\r\n", {400}, "."),
    framing("no HTTP", lambda: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 100 + "\r\n\r\n", {400}, "."),
]

ONE = "127.0.0.2"
MANY = [f"127.0.0.{2 + i % 100}" for i in range(1_100)]

ATTACKS = [
    *FRAMES,
    Attack("one request of 2,048 answers", holds([ONE], wire.post(COMPLETIONS, {"prompt": ["a"] * 16, "n": 128, "max_tokens": 512, "ignore_eos": True}),
                                                 {400, 429}, "answers|queue")),
    Attack("16 requests of 128 answers from one client", holds([ONE] * 16, long_answers(128), FREE, "queue")),
    Attack("all places for answers are taken by 4 clients", all_places),
    Attack("priority -1000 from one client", holds([ONE] * 16, long_answers(32, priority=-1000), {400}, "priority")),
    Attack("1,100 idle connections from one client", holds([ONE] * 1_100, b"", {408} | BUSY, "connections|arrive")),
    Attack("1,100 idle connections from 100 clients", holds(MANY, b"", {408} | BUSY, "connections|arrive")),
    Attack("1,100 connections that keep alive", holds(MANY, wire.get("/version"), {200} | BUSY, "connections")),
    Attack("200 slow heads", slow_heads),
    Attack("4,000 quick disconnects", quick_disconnects),
    Attack("2,000 requests in a row, unread", pipelined),
    Attack("32 heavy requests whose clients leave", abandoned_work, lambda: heavy_bodies(32)),
    Attack("SIGTERM while 8 heavy requests are read", ends_in_time, lambda: heavy_bodies(8),
           flags=("--drain-seconds", str(DRAIN_SECONDS)), ends_server=True),
    Attack("SIGTERM while 8 ambiguous grammars are answered", ends_in_time,
           lambda: [wire.post(COMPLETIONS, {"prompt": "a", "max_tokens": 512, "grammar": ambiguous(i)}) for i in range(8)],
           flags=("--drain-seconds", str(DRAIN_SECONDS)), ends_server=True),
]
