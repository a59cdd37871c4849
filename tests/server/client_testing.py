"""What the tests of vendors' clients share: a virtual environment with the clients from PyPI, and a server of the demo model.

A test's arguments are PROGRAM MODEL VENV. The clients are installed into the folder VENV; where that can't be done the test is
skipped (exit code 77).
"""
import os
import pathlib
import subprocess
import sys
import unittest

PACKAGES = ["openai>=1.60,<3", "instructor>=1.7,<2", "jsonschema>=4,<5", "anthropic>=0.40,<1", "ollama>=0.4,<1"]
SKIPPED = 77
KEY = "test-key"


def enter_venv(folder):
    """Runs the test again inside the virtual environment, which is made first."""
    python = folder / "bin" / "python"
    if pathlib.Path(sys.prefix).resolve() == folder.resolve():
        return
    ready = folder / "ready"
    if not ready.exists() or ready.read_text() != "\n".join(PACKAGES):
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", *PACKAGES]
        for command in ([sys.executable, "-m", "venv", str(folder)], install):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                reason = (done.stderr or done.stdout).strip().splitlines()[-1:]
                print(f"skipped: the clients cannot be installed: {' '.join(reason)}")
                sys.exit(SKIPPED)
        ready.write_text("\n".join(PACKAGES))
    os.execv(python, [str(python), *sys.argv])


class Server:
    def __init__(self, program, model):
        command = [program, "serve", model, "--port", "0", "--device", "cpu", "--threads", "2", "--api-key", KEY]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        for line in self.process.stderr:
            if "info serving" in line:
                break
        # The log is not read from here on; without a reader it would fill the pipe.
        self.drain = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=subprocess.DEVNULL)

    def stop(self):
        self.process.terminate()
        code = self.process.wait(timeout=60)
        self.drain.wait(timeout=60)
        return code


def run(case, prepare):
    """Runs the tests of `case`, which `prepare` has told of the server."""
    program, model, venv = sys.argv[1:4]
    enter_venv(pathlib.Path(venv))
    server = Server(program, model)
    try:
        prepare(server)
        result = unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    finally:
        code = server.stop()
    print(f"the server ended with {code}")
    return 0 if result.wasSuccessful() and code == 0 else 1
