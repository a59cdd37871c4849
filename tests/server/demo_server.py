"""`rocmforge serve` as a process, for the tests that are written in Python."""
import json
import os
import pathlib
import re
import subprocess
import time
import urllib.request

SECONDS = 180  # anything but load may take, also on a slow machine beside other tests


class ServerEnded(RuntimeError):
    def __init__(self, code):
        super().__init__(f"the server has ended with {code}")
        self.code = code


class DemoServer:
    """Serves a model on the CPU, at a free port unless one is given. Ready when the constructor returns. `stderr` as Popen has it."""

    def __init__(self, program, model, *flags, port=0, stderr=None):
        command = [program, "serve", model, "--port", str(port), "--device", "cpu", "--log-file", os.devnull, *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        try:
            self.url = self.process.stdout.readline().strip()
            self.wait_until(self.ready, "is ready")
        except BaseException:
            self.kill()
            raise

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=SECONDS) as response:
            return response.read().decode()

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            return json.load(response)

    def ready(self):
        try:
            self.get("/ready")
            return True
        except OSError:
            if self.process.poll() is not None:
                raise ServerEnded(self.process.returncode)
            return False

    def metric(self, name, labels=""):
        """The sum of the samples of this name whose labels contain `labels`."""
        found = re.findall(rf"^rocmforge:{name}(?:{{(.*)}})? (\S+)$", self.get("/metrics"), re.M)
        return sum(float(value) for have, value in found if labels in have)

    def wait_until(self, condition, meaning):
        deadline = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{SECONDS} s have passed, and not yet: the server {meaning}")
            time.sleep(0.05)

    def wait_until_idle(self):
        self.wait_until(lambda: self.metric("num_requests_running") + self.metric("num_requests_waiting") == 0, "is idle")

    def memory_kib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))

    def kill(self):
        self.process.kill()
        return self.wait()

    def stop(self):
        """The exit code."""
        self.process.terminate()
        return self.wait()

    def wait(self):
        code = self.process.wait(timeout=SECONDS)
        self.process.stdout.close()
        return code
