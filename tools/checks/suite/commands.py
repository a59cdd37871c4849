"""Runs one command of a test: with an end when it hangs, and without its children when it ends."""
import os
import re
import signal
import subprocess
import tempfile
import time

from suite.results import Result, skip_reason

POLL_SECONDS = 0.05
BEGINS = b"[ RUN      ]"
SKIPPED_CASE = r"\[  SKIPPED \]"


def run(command, environment, folder, seconds):
    """(exit code or None when it hung, output). `seconds` is for the command, or for each case of GoogleTest that it begins."""
    with tempfile.TemporaryFile() as file:
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=file,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        code, read, since = None, 0, time.monotonic()
        while True:
            try:
                code = process.wait(POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                pass
            data = os.pread(file.fileno(), 1 << 20, read)
            read += len(data)
            if BEGINS in data:
                since = time.monotonic()
            if time.monotonic() - since > seconds:
                break
        try:
            os.killpg(process.pid, signal.SIGKILL)  # it, or what it has left behind
        except ProcessLookupError:
            pass
        process.wait()
        file.seek(0)
        return code, file.read().decode(errors="replace")


def how_it_ended(code, seconds):
    return f"took longer than {seconds:.0f} s" if code is None else f"ended by signal {-code}" if code < 0 else f"exit code {code}"


def run_test(test, environment):
    """A test that is a command of its own, or one case of a program by itself."""
    begun = time.monotonic()
    code, output = run(test.command, {**environment, **test.environment}, test.folder, test.seconds)
    seconds = time.monotonic() - begun
    if code == test.skip_code or any(re.search(words, output) for words in test.skip_words):
        return Result(test.name, "skipped", skip_reason(output), seconds=seconds)
    if code == 0:
        return Result(test.name, "passed", seconds=seconds)
    return Result(test.name, "failed", how_it_ended(code, test.seconds), output, seconds)
