#!/usr/bin/env python3
"""Three clients that mean no harm, in a process of their own so that an attacker's work does not slow their clocks: one streams,
one asks short questions, one asks for /health.

usage: innocent.py PORT SECONDS

Reads commands from standard input, one a line, and answers each with one line of JSON. `alone`: the texts of an idle server,
which all later ones have to equal. `begin`: all three ask again and again. `progress`: how many answers each has since, null for one that has given up. `end`: each
completes what it is at, and at least one; then comes what they saw. No answer may take more than SECONDS.
"""
import json
import socket
import sys
import threading
import time

import wire

SOURCE = "127.0.0.1"
PAUSE_SECONDS = 0.02
MOST_PROBLEMS = 3
STREAM = {"prompt": "Count from one to twenty: one, two, three,", "max_tokens": 32, "ignore_eos": True, "temperature": 0, "stream": True}
QUESTION = {"prompt": "What is 127 + 458?", "max_tokens": 6, "ignore_eos": True, "temperature": 0}


class Trouble(Exception):
    pass


def stream(port, seconds):
    """The text of a stream and the longest wait for a piece of it."""
    text, done, gap = "", False, 0.0
    with socket.create_connection(("127.0.0.1", port), timeout=seconds, source_address=(SOURCE, 0)) as connection:
        last = time.monotonic()
        connection.sendall(wire.post("/v1/completions", STREAM))
        with connection.makefile("rb") as lines:
            status = lines.readline().split()[1:2]
            if status != [b"200"]:
                raise Trouble(f"the stream is answered with {b' '.join(status).decode() or 'nothing'}: {lines.read(600)[-200:]!r}")
            for line in lines:
                now = time.monotonic()
                gap, last = max(gap, now - last), now
                if line.startswith(b"data: [DONE]"):
                    done = True
                    break
                if line.startswith(b"data: "):
                    event = json.loads(line[6:])
                    if "error" in event:
                        raise Trouble(f"the stream ends with {event['error']['message']!r}")
                    text += event["choices"][0]["text"] if event["choices"] else ""
    if not done:
        raise Trouble(f"the stream ends behind {text!r}")
    return text, gap


def timed_answer(port, seconds, data):
    begin = time.monotonic()
    answer = wire.exchange(port, data, SOURCE, begin + seconds)
    if answer.status != 200:
        raise Trouble(answer.trouble or f"{answer.status}: {answer.message()}")
    return answer, time.monotonic() - begin


def question(port, seconds):
    answer, took = timed_answer(port, seconds, wire.post("/v1/completions", QUESTION))
    return answer.json()["choices"][0]["text"], took


def health(port, seconds):
    answer, took = timed_answer(port, seconds, wire.get("/health"))
    return answer.json()["status"], took


class Innocent:
    """Asks in its own thread for as long as it is told to. `ask` gives a text, that has to be the same each time, and seconds."""

    def __init__(self, name, ask, arguments):
        self.name, self.ask, self.arguments = name, ask, arguments
        self.alone = None
        self.seconds, self.problems = [], []
        self.answers = 0
        self.ending = threading.Event()
        self.thread = None

    def listen(self):
        self.alone = self.ask(*self.arguments)[0]

    def begin(self):
        self.seconds, self.problems, self.answers = [], [], 0
        self.ending.clear()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not (self.ending.is_set() and self.answers) and len(self.problems) < MOST_PROBLEMS:
            try:
                text, seconds = self.ask(*self.arguments)
                if text != self.alone:
                    raise Trouble(f"gets {text!r}, alone it was {self.alone!r}")
                self.answers += 1
                self.seconds.append(seconds)
            except (Trouble, OSError, ValueError, KeyError, IndexError) as error:
                self.problems.append(f"the innocent's {self.name}: {type(error).__name__}: {error}")
            time.sleep(PAUSE_SECONDS)

    def end(self):
        self.ending.set()
        self.thread.join()
        return {"seconds": self.seconds, "problems": self.problems}


def main():
    arguments = (int(sys.argv[1]), float(sys.argv[2]))
    innocents = [Innocent(ask.__name__, ask, arguments) for ask in (stream, question, health)]
    for command in map(str.strip, sys.stdin):
        answer = {}
        if command == "alone":
            for innocent in innocents:
                innocent.listen()
                answer[innocent.name] = innocent.alone
        elif command == "begin":
            for innocent in innocents:
                innocent.begin()
        elif command == "progress":
            answer = {innocent.name: innocent.answers if innocent.thread.is_alive() else None for innocent in innocents}
        elif command == "end":
            for innocent in innocents:
                innocent.ending.set()
            answer = {innocent.name: innocent.end() for innocent in innocents}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
