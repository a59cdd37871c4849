"""Chat templates that want to do harm: they come with model files that nobody has read."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import wire
from arena import Attack
from expect import answer_problems

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools/quant"))
import gguf_io  # noqa: E402

MILLION = 1_000_000
CONVERSATION = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}
PLACE = "{{ messages[0].content }}"  # without it a template is none for chats
LONGEST_LINE = 8000  # a file's own texts may be of any length
MOST_KIB = 1 << 20  # of a command: the model and what a rendering may hold


def macros(number):
    """Each calls the next one twice."""
    return "".join("{%% macro m%d() %%}{{ m%d() }}{{ m%d() }}{%% endmacro %%}" % (i, i + 1, i + 1) for i in range(number)) + \
        "{%% macro m%d() %%}a{%% endmacro %%}{{ m0() }}" % number


TEMPLATES = {
    "loops in loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}",
    "a loop that grows its text": "{% set ns = namespace(t='aaaaaaaa') %}{% for a in range(99999) %}{% set ns.t = ns.t + ns.t %}{% endfor %}{{ ns.t }}",
    "macros that double": macros(60),
    "a macro that calls itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "a sort of sorts": "{% for a in range(99999) %}{% set b = range(99999) | sort(reverse=true) | list | unique | sort | list %}{% endfor %}",
    "unique among long texts": "{% set x = range(99999) | map('string') | map('center', 4000) | unique | list %}{{ x | length }}",
    "a text of 10 GB": "{{ 'a' * 99999 * 99999 }}",
    "joins of joins": "{% set ns = namespace(t=['aaaa'] * 99999) %}{% for a in range(99999) %}{% set ns.t = [ns.t | join(ns.t | join)] * 2 %}{% endfor %}",
    "values a million deep": "{% set ns = namespace(v=[]) %}{% for a in range(99999) %}{% for b in range(11) %}{% set ns.v = [ns.v] %}{% endfor %}{% endfor %}{{ ns.v }}",
    "200,000 set": lambda: "{% set a = 1 %}" * 200_000,
    "200,000 different set": lambda: "".join("{%% set a%d = 1 %%}" % i for i in range(200_000)),
    "50 MB of {{": lambda: "{{" * 25_000_000,
    "brackets a million deep": lambda: "{{ " + "[" * MILLION + "]" * MILLION + " }}",
    "conditions 100,000 deep": lambda: "{% if true %}" * 100_000 + "{% endif %}" * 100_000,
    "not a million times": lambda: "{{ " + "not " * MILLION + "true }}",
    "a chain of a million sums": lambda: "{{ " + "1 + " * MILLION + "1 }}",
    "a chain of a million names": lambda: "{{ a" + ".a" * MILLION + " }}",
    "the largest numbers": "{{ 9999999999999999999 ** 99999999 }}{{ (1 << 999999999999) }}{{ '%999999999d' % 1 }}",
    "a format a billion wide": "{{ '%*d' | format(999999999, 1) }}{{ 'a' | indent(999999999) }}{{ 'a' | center(999999999) }}",
    "an exception of a million letters": "{{ raise_exception('a' * 1000000) }}",
    "an exception that steers a terminal": "{{ raise_exception('\x1b[2J\u009b31m\u202e\n') }}",
}


def serves(arena, _):
    """What the template makes of a conversation: whatever it is, it ends."""
    for path in ("/apply-template", "/v1/chat/completions"):
        yield from arena.together(2, lambda i: answer_problems(arena.exchange(wire.post(path, CONVERSATION), i), {200, 400}, "template|context",
                                                               LONGEST_LINE))


def one_line(output, what):
    """Of the last line that a command wrote to standard error."""
    lines = [line for line in output.splitlines() if line.strip()]
    if not lines:
        yield f"{what} says nothing"
    elif raw := wire.raw_characters(lines[-1]):
        yield f"{what} writes {raw} to the terminal"
    elif len(lines[-1]) > LONGEST_LINE:
        yield f"{what} ends with a line of {len(lines[-1])} characters"


def write_model(text):
    """Makes the demo model with this template as its own."""
    def write(model, folder):
        path = os.path.join(folder, "hostile.gguf")
        demo = gguf_io.File(model)
        gguf_io.write(path, {**demo.metadata, "tokenizer.chat_template": gguf_io.value(gguf_io.STRING, text())}, demo.tensors)
        return path
    return write


def opens(arena, _):
    """The commands that open a model: each ends by itself, with one line where it refuses."""
    for arguments, words in (["inspect", arena.model], ""), (["run", arena.model, "--device", "cpu", "-n", "2", "-p", "hello"], ""), \
            (["chat", arena.model, "--device", "cpu", "-n", "2"], "hello\n/exit\n"):
        yield from command_problems(arena, arguments, words)


def command_problems(arena, arguments, words):
    what = f"rocmforge {arguments[0]}"
    with tempfile.TemporaryFile("w+") as told, tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        told.write(words)
        told.seek(0)
        child = subprocess.Popen([arena.program, *arguments], stdin=told, stdout=output, stderr=errors)
        code, peak_kib = wait(child, arena.guard)
        output.seek(0)
        errors.seek(0)
        arena.answers[f"{arguments[0]}: {code}"] += 1
        if code is None:
            yield f"{what} has not ended after {arena.guard:.0f} s"
        elif code < 0:
            yield f"{what} was ended by signal {-code}"
        elif code:
            yield from one_line(errors.read(), what)
        if raw := wire.raw_characters(output.read(), allowed="\n\t"):
            yield f"{what} writes {raw}"
        if peak_kib > MOST_KIB:
            yield f"{what} took {peak_kib // 1024} MiB"


def wait(child, seconds):
    """Exit code, None when it had to be ended, and the most memory that it had in KiB."""
    deadline = time.monotonic() + seconds
    while (ended := os.wait4(child.pid, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            child.kill()
            return None, os.wait4(child.pid, 0)[2].ru_maxrss
        time.sleep(0.01)
    child.returncode = os.waitstatus_to_exitcode(ended[1])
    return child.returncode, ended[2].ru_maxrss


def attacks():
    for name, text in TEMPLATES.items():
        def whole(text=text):
            return (text() if callable(text) else text) + PLACE
        yield Attack(name, serves, model=write_model(whole), may_not_start=True)
        yield Attack(f"{name}, in commands", opens, model=write_model(whole), needs_server=False)


ATTACKS = list(attacks())
