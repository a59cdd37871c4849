"""Attacks that are requests, each with the statuses and the words of its answer."""
import re

import wire
from arena import Attack

BUSY = frozenset({429, 503})  # there is no room at the moment
REFUSED = frozenset({400, 413})
FREE = frozenset({200, 400, 413, 429, 503})  # served or refused, but in good order
CLIENTS = 4  # as many as the server has threads that read requests


def answer_problems(answer, statuses, says="", most=wire.LONGEST_MESSAGE):
    """`most`: characters of a message."""
    if answer.status == 0:
        yield f"no answer: {answer.trouble}"
    elif answer.status not in statuses:
        yield f"status {answer.status} ({str(answer.message())[:200]}), expected {sorted(statuses)}"
    elif answer.status >= 400:
        message = answer.message()
        yield from wire.line_problems(message, most)
        if answer.status not in BUSY and not re.search(says, message or ""):
            yield f"the message is {message[:200]!r}, expected {says!r}"


def requests(name, path, body, statuses, says="", clients=CLIENTS, flags=()):
    """`clients` send the same request at once. `body()`: bytes, or what JSON is made of. `says`: a pattern for the message of a
    refusal that is about the request."""

    def problems(arena, data, client):
        answer = arena.exchange(data, client)
        return [] if answer.status == 0 and arena.may_close else answer_problems(answer, statuses, says)

    def run(arena, data):
        return arena.together(clients, lambda i: problems(arena, data, i))

    return Attack(name, run, lambda: wire.post(path, body()), flags)


def raw(name, data, statuses, says="", clients=CLIENTS):
    """The same with the bytes of a whole request."""

    def run(arena, prepared):
        return arena.together(clients, lambda i: answer_problems(arena.exchange(prepared, i), statuses, says))

    return Attack(name, run, data)
