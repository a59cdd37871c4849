"""The limits that are times, of docs/server-limits.md. Each is waited for on a server of its own while other attacks run: it may come late
on a busy machine, but never early."""
import concurrent.futures
import socket
import time

import wire
from arena import Attack, DemoServer
from expect import answer_problems

COMPLETIONS, TOKENIZE = "/v1/completions", "/tokenize"
ESTABLISHED = "01"
waiting = concurrent.futures.ThreadPoolExecutor()


class Watch:
    """A client of an idle server that waits for the server to lose patience."""

    def __init__(self, place, limit, flags=()):
        self.place, self.limit = place, limit
        self.server = DemoServer(place.program, place.model, *flags)
        self.port = int(self.server.url.rsplit(":", 1)[1])

    def __enter__(self):
        self.begin = time.monotonic()
        self.client = wire.Client(self.port, deadline=self.begin + self.limit.value + self.place.guard)
        return self

    def __exit__(self, *_):
        self.client.close()
        self.server.kill()

    def is_connected(self):
        """Whether the server's end of the connection is open, however much of what it has sent is on the way."""
        mine = f":{self.client.socket.getsockname()[1]:04X}"
        with open("/proc/net/tcp") as lines:
            ends = [line.split()[1:4] for line in lines]
        return any(local.endswith(f":{self.port:04X}") and remote.endswith(mine) and state == ESTABLISHED for local, remote, state in ends)

    def early_problems(self):
        seconds = time.monotonic() - self.begin
        if seconds < self.limit.value:
            yield f"it came after {seconds:.1f} s, documented are {self.limit.value} s"

    def refusal_problems(self):
        answer = self.client.read()
        yield from answer_problems(answer, {int(self.limit.status)}, self.limit.pattern())
        yield from self.early_problems()

    def wait_for(self, condition):
        while not condition():
            if self.client.left() < 0.02:
                return False
            time.sleep(0.05)
        return True


def head_time(place, limit):
    with Watch(place, limit) as watch:
        watch.client.send(b"GET /health HTTP/1.1\r\nHost: loc")
        yield from watch.refusal_problems()


def body_time(place, limit):
    with Watch(place, limit) as watch:
        watch.client.send(wire.head(COMPLETIONS, 100) + b'{"prompt"')
        yield from watch.refusal_problems()


def idle_time(place, limit):
    with Watch(place, limit) as watch:
        watch.client.send(wire.get("/version"))
        yield from answer_problems(watch.client.read(), {200})
        watch.client.socket.settimeout(watch.client.left())
        if rest := watch.client.socket.recv(100):
            yield f"the server has sent {rest!r} behind its answer"
        yield from watch.early_problems()


def write_time(place, limit):
    """The answer is larger than what both ends' buffers hold."""
    with Watch(place, limit) as watch:
        watch.client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        watch.client.send(wire.post(TOKENIZE, {"content": "some words " * 80_000, "with_pieces": True}))
        watch.client.socket.settimeout(watch.client.left())
        begun = watch.client.socket.recv(12)
        if begun != b"HTTP/1.1 200":
            yield f"the answer begins with {begun!r}"
        if not watch.wait_for(lambda: not watch.is_connected()):
            yield "the connection is still open"
        yield from watch.early_problems()


def unread_bytes(place, limit):
    """A stream of tens of megabytes that nobody reads: its answers are cancelled long before their end."""
    with Watch(place, limit) as watch:
        watch.client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        watch.client.deadline = watch.begin + place.guard
        watch.client.send(wire.post(COMPLETIONS, {"prompt": ["a"] * 32, "max_tokens": 1500, "ignore_eos": True, "logprobs": 5, "stream": True}))
        if not watch.wait_for(lambda: watch.server.metric("request_success_total", 'finished_reason="cancelled"') > 0):
            yield "nothing was cancelled"
        if watch.server.metric("request_success_total", 'finished_reason="length"') > 0:
            yield "answers came to their end"


def attack(wait):
    def make(limit):
        return Attack(limit.name, lambda _, future: future.result(), needs_server=False,
                      early=lambda place: waiting.submit(lambda: list(wait(place, limit))))
    return make


TIME = {"head time": attack(head_time), "body time": attack(body_time), "idle time": attack(idle_time), "write time": attack(write_time),
        "unread bytes": attack(unread_bytes)}
