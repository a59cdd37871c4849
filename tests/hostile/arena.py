"""A server under attack: what it has when it is idle, who asks it beside the attacker, and what has to hold at the end."""
import collections
import dataclasses
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import typing

import wire

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "server"))
from demo_server import DemoServer, ServerEnded  # noqa: E402

# The most address space that a server may use beyond its idle size. Without this limit a failing server could exhaust the
# machine's memory.
SPARE_MIB = 8192
NAMES = {"stream": "innocent's stream", "question": "innocent's questions", "health": "/health"}


# The read buffers of the largest number of connections, in addition to the memory of requests.
CONNECTIONS_KIB = (1024 + 64) * 64


class NotStarted(Exception):
    """The server has ended before it was ready, with a code and a last line."""

    def __init__(self, code, line):
        super().__init__(f"the server has not started: {end_of(code)} {line[:200]}")
        self.code, self.line = code, line


def end_of(code):
    return signal.Signals(-code).name if code < 0 else f"code {code}"


@dataclasses.dataclass
class Attack:
    """`run(arena, prepared)` gives the problems it finds; `prepare()` makes what needs no server, before the clocks start."""

    name: str
    run: typing.Callable
    prepare: typing.Callable = lambda: None
    early: typing.Callable = None  # in place of `prepare`: begins to wait, for a Place, when the suite does
    flags: tuple = ()  # of a server of its own
    model: typing.Callable = None  # gives the model's path for the demo model's and a folder
    spare_mib: int = 0  # a server of its own may take so much more address space than when it is idle
    may_not_start: bool = False  # a server of its own may refuse the model
    needs_server: bool = True
    innocents_after: bool = False  # the innocents come behind the attack: there is no room beside it
    ends_server: bool = False

    def wants_own_server(self):
        return bool(self.flags or self.spare_mib or self.ends_server or self.model)


@dataclasses.dataclass
class Result:
    """What an attack did; times in seconds."""

    name: str
    problems: list
    seconds: float = 0.0
    answers: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    latencies: dict = dataclasses.field(default_factory=dict)  # of the innocents, by name
    peak_mib: float = 0.0


class Innocents:
    """innocent.py as a process."""

    def __init__(self, port, guard):
        script = pathlib.Path(__file__).with_name("innocent.py")
        self.process = subprocess.Popen([sys.executable, str(script), str(port), str(guard)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def tell(self, command):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the innocent clients have ended")
        return json.loads(line)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@dataclasses.dataclass
class Place:
    """Where an attack is made that needs no server."""

    program: str
    model: str
    guard: float
    answers: collections.Counter = dataclasses.field(default_factory=collections.Counter)


class Arena:
    """A running server with its innocent clients."""

    def __init__(self, program, model, guard, flags=(), spare_mib=0):
        self.program, self.model, self.guard = program, model, guard
        self.folder = tempfile.TemporaryDirectory()
        self.log, self.log_read = pathlib.Path(self.folder.name, "log"), 0
        self.errors = open(pathlib.Path(self.folder.name, "errors"), "w+")
        self.innocents = self.server = None
        self.innocents_run = False
        self.may_close = spare_mib > 0  # a connection without an answer, where there is no memory for one
        self.answers = collections.Counter()  # of the attackers, by status
        try:
            # A model that sees images takes larger bodies: the limits here are those of text.
            self.server = DemoServer(program, model, "--no-mmproj", "--log-file", str(self.log), *flags, stderr=self.errors)
            self.port = int(self.server.url.rsplit(":", 1)[1])
            self.pid = self.server.process.pid
            self.innocents = Innocents(self.port, guard)
            self.alone = self.innocents.tell("alone")
            self.warm_up()
            self.idle_kib = self.status("VmRSS") + self.untouched_cache_kib()
            # The budget from the server's log at its start.
            self.budget_kib = int(re.search(r"requests and answers may hold (\d+) MiB together", self.log.read_text()).group(1)) * 1024
            most = (self.status("VmSize") + (spare_mib or SPARE_MIB) * 1024) * 1024
            resource.prlimit(self.pid, resource.RLIMIT_AS, (most, most))
        except ServerEnded as ended:
            refusal = NotStarted(ended.code, self.last_error())
            self.stop()
            raise refusal from ended
        except BaseException:
            self.stop()
            raise

    def warm_up(self):
        """Every size of step has been run once, so that what a step needs is there."""
        words = {"prompt": "one two three " * 400, "max_tokens": 2, "ignore_eos": True, "n": 32}
        self.exchange(wire.post("/v1/completions", words))
        self.server.wait_until_idle()

    def untouched_cache_kib(self):
        """All of the cache of keys and values: its pages become resident as they are first used."""
        labels = re.search(r"^rocmforge:cache_config_info{(.*)}", self.server.get("/metrics"), re.M).group(1)
        size, number = (int(re.search(rf'{name}="(\d+)"', labels).group(1)) for name in ("block_size", "num_blocks"))
        inspected = subprocess.run([self.program, "inspect", self.model, "--device", "cpu", "--json"], capture_output=True, check=True)
        return size * number * json.loads(inspected.stdout)["memory"]["kv_bytes_per_token"] // 1024

    def exchange(self, data, client=0):
        """An attacker's request, whose status is counted. `client`: which of the attackers."""
        answer = wire.exchange(self.port, data, f"127.0.0.{2 + client}", self.deadline())
        self.answers[answer.status or "none"] += 1
        return answer

    def deadline(self):
        return time.monotonic() + self.guard

    def status(self, name):
        """In KiB."""
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+)", text).group(1))

    def counts(self):
        """What an attack may not change."""
        slots = json.loads(self.server.get("/slots"))
        metrics = ("kv_cache_usage_perc", "num_requests_running", "num_requests_waiting")
        return {"busy slots": sum(slot["is_processing"] for slot in slots), **{name: self.server.metric(name) for name in metrics},
                "open files": len(os.listdir(f"/proc/{self.pid}/fd"))}

    def is_alive(self):
        return self.server.process.poll() is None

    def until(self, condition):
        """Whether it came true before the guard's time ended."""
        deadline = self.deadline()
        while not condition():
            if time.monotonic() > deadline or not self.is_alive():
                return False
            time.sleep(0.05)
        return True

    def innocents_served(self, times=2):
        """Waits until each of the innocents has got so many more answers; a problem when that does not come. Without innocents
        beside the attack it waits for nothing."""
        if not self.innocents_run:
            return
        before = self.innocents.tell("progress")
        now = {}

        def served():
            now.update(self.innocents.tell("progress"))
            return None in now.values() or all(now[name] >= before[name] + times for name in before)

        if None in before.values():
            return  # what they met is told at the end
        if self.is_alive() and not self.until(served):
            starved = [NAMES[name] for name in before if now[name] < before[name] + times]
            yield f"beside the attack no answers for {', '.join(starved)} within {self.guard:.0f} s"

    def together(self, number, body):
        """`body(i)` gives problems, in a thread for each i below `number`."""
        problems = [[] for _ in range(number)]

        def run(i):
            try:
                problems[i] += body(i)
            except Exception as error:  # a thread's own would be lost
                problems[i].append(f"attacker {i}: {type(error).__name__}: {error}")

        threads = [threading.Thread(target=run, args=(i,)) for i in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [problem for found in problems for problem in found]

    def face(self, attack, prepared):
        """Runs the attack beside the innocents and looks at what it leaves behind."""
        self.answers = collections.Counter()
        result = Result(attack.name, [], answers=self.answers)
        try:
            before = self.counts()
            pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5")  # the peak of resident memory begins anew
            self.innocents_run = not (attack.innocents_after or attack.ends_server)
            if self.innocents_run:
                self.innocents.tell("begin")
            begin = time.monotonic()
            result.problems += attack.run(self, prepared)
            result.seconds = time.monotonic() - begin
            if self.is_alive() and not attack.ends_server:
                if attack.innocents_after:
                    self.until(lambda: self.counts() == before)
                    self.innocents.tell("begin")
                result.problems += self.end_problems(result, before)
        except Exception as error:  # of the test or of a server that does not answer: either way this attack has failed
            result.problems.append(f"{type(error).__name__}: {error}")
        if not attack.ends_server and not self.is_alive():
            result.problems = [f"the server has ended: {self.end_of_server()}"]
        return result

    def end_problems(self, result, before):
        for name, seen in self.innocents.tell("end").items():
            result.latencies[name] = seen["seconds"]
            yield from seen["problems"]
        if not self.is_alive():
            return
        after = {}

        def settled():
            after.update(self.counts())
            return after == before

        if not self.until(settled):
            yield from (f"{name}: {before[name]:g} before, {after[name]:g} at the end" for name in before if after[name] != before[name])
        yield from self.log_problems()
        peak = self.status("VmHWM")
        result.peak_mib = peak / 1024
        if peak > self.idle_kib + self.budget_kib + CONNECTIONS_KIB:
            yield (f"{peak // 1024} MiB were resident, an idle server has {self.idle_kib // 1024} MiB and requests may take "
                   f"{self.budget_kib // 1024} MiB, connections {CONNECTIONS_KIB // 1024} MiB")

    def end_of_server(self):
        return f"{end_of(self.server.process.wait())} {self.last_error()[:200]}".strip()

    def last_error(self):
        """The last line on the server's standard error."""
        self.errors.seek(0)
        return "".join(self.errors.read().strip().splitlines()[-1:])

    def log_problems(self):
        """Every character that a request put in the log stands there as an escape."""
        with open(self.log, "rb") as file:
            file.seek(self.log_read)
            lines = file.read()
        self.log_read += len(lines)
        raw = wire.raw_characters(lines.decode(errors="surrogateescape"), allowed="\n")
        return [f"the log holds {raw}"] if raw else []

    def stop(self):
        if self.innocents:
            self.innocents.stop()
        if self.server:
            self.server.kill()
        self.errors.close()
        self.folder.cleanup()
