#!/usr/bin/env python3
"""The table of docs/clients.md: what the clients from PyPI can do with a server of the demo model, told nothing but its address.

usage: run.py [PROGRAM MODEL FOLDER] [--write | --check]

Makes a virtual environment for each client in FOLDER (or finds it there), runs its script (client_features.py) and prints the table
and counts. --write puts the table into docs/clients.md when everything passed. --check, which needs no program and no network, fails
unless that document has the rows, versions and features that the scripts and requirements.txt have.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
DOCUMENT = HERE.parents[2] / "docs" / "clients.md"
INSTALLER = "uv==0.13.9"
KEY = "test-key"

from client_features import FEATURES, SECONDS  # noqa: E402: found by the path above

LATEST = SECONDS + 30  # a script ends itself before, and says where it stood


class Skipped(Exception):
    """A client, or all of them, cannot be installed: the reason."""


def clients():
    """{name: requirements}, and the day of the rest."""
    lines = [line.split() for line in (HERE / "requirements.txt").read_text().splitlines() if line and not line.startswith("#")]
    [newest] = [line[1] for line in lines if line[0] == "newest"]
    return {name.rstrip(":"): requirements for name, *requirements in lines if name != "newest"}, newest


def rows_of(name):
    """{row: its features}, by the script itself, which needs its client only to use it."""
    done = subprocess.run([sys.executable, str(HERE / f"use_{name}.py"), "--list"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def table():
    lines = ["| client | version | " + " | ".join(FEATURES) + " |", "|---" * (len(FEATURES) + 2) + "|"]
    for name, requirements in clients()[0].items():
        version = requirements[0].split("==")[1]
        for row, features in rows_of(name).items():
            lines.append(f"| {row} | {version} | " + " | ".join("yes" if feature in features else "–" for feature in FEATURES) + " |")
    return "\n".join(lines)


def in_document(text):
    """The document with this table in the place of its own."""
    old = DOCUMENT.read_text()
    new, count = re.subn(r"^\| client \|.*?(?=\n\n|\n*\Z)", lambda _: text, old, flags=re.S | re.M)
    assert count == 1, f"{DOCUMENT} has {count} tables of clients"
    return old, new


def command(arguments, **more):
    done = subprocess.run([str(part) for part in arguments], capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise Skipped(((done.stderr or done.stdout).strip().splitlines() or ["no reason given"])[-1])


def need_installer(folder):
    """Environments share what they have in common by links into its cache."""
    uv = folder / "installer" / "bin" / "uv"
    if not uv.exists():
        command([sys.executable, "-m", "venv", folder / "installer"])
        command([uv.with_name("pip"), "install", "--quiet", "--disable-pip-version-check", "--retries", "1", INSTALLER])
    return uv


def environment(uv, folder, name, requirements, newest):
    """The Python of a client's virtual environment."""
    home = folder / name
    ready = home / "ready"
    wanted = " ".join([newest, *requirements])
    if not ready.exists() or ready.read_text() != wanted:
        settings = {**os.environ, "UV_CACHE_DIR": str(folder / "cache"), "UV_NO_PROGRESS": "1"}
        command([uv, "venv", "--quiet", "--clear", "--python", sys.executable, home], env=settings)
        command([uv, "pip", "install", "--quiet", "--exclude-newer", newest, "--python", home / "bin" / "python", *requirements], env=settings)
        ready.write_text(wanted)
    return home / "bin" / "python"


def use(python, name, url):
    """[(row, feature, error)] of a client's script; its words go to standard error when something fails."""
    settings = {key: value for key, value in os.environ.items() if key not in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY")}
    try:
        done = subprocess.run([str(python), str(HERE / f"use_{name}.py"), url, KEY], capture_output=True, text=True, timeout=LATEST, env=settings)
        words, output = done.stderr, done.stdout
    except subprocess.TimeoutExpired as late:
        output = late.stdout or ""  # bytes before Python 3.12
        words, output = f"it took longer than {LATEST} s", output if isinstance(output, str) else output.decode()
    found = {}
    for line in output.splitlines():
        if line.startswith('{"row": '):
            entry = json.loads(line)
            found[entry["row"], entry["feature"]] = entry["error"]
    results = [(row, feature, found.get((row, feature), "its script ended before")) for row, features in rows_of(name).items() for feature in features]
    if any(error for _, _, error in results):
        print(words, file=sys.stderr)
    return results


def run(program, model, folder):
    from demo_server import DemoServer
    passed, failed, skipped = 0, 0, 0
    chosen, newest = clients()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        uv = need_installer(folder)
    except Skipped as reason:
        print(f"SKIPPED: all clients: {INSTALLER} cannot be installed: {reason}")
        return 0, 0, len(chosen)
    server = DemoServer(program, model, "--api-key", KEY, "--temp", "0", "--threads", "2")
    try:
        for name, requirements in chosen.items():
            try:
                python = environment(uv, folder, name, requirements, newest)
            except Skipped as reason:
                skipped += 1
                print(f"SKIPPED: {name} cannot be installed: {reason}", flush=True)
                continue
            for row, feature, error in use(python, name, server.url):
                passed, failed = passed + (not error), failed + bool(error)
                print(f"FAILED: {row}: {feature}: {error}" if error else f"{row}: {feature}", flush=True)
    finally:
        code = server.stop()
    if code != 0:
        failed += 1
        print(f"FAILED: the server ended with {code}")
    return passed, failed, skipped


def main():
    options = [argument for argument in sys.argv[1:] if argument.startswith("--")]
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    if options == ["--check"] and not arguments:
        old, new = in_document(table())
        if old != new:
            print(f"the table in {DOCUMENT.name} is not that of tests/server/clients: write it with run.py --write\n\n{table()}")
        return int(old != new)
    if len(arguments) != 3 or options not in ([], ["--write"]):
        print(__doc__)
        return 2
    program, model, folder = arguments
    passed, failed, skipped = run(program, model, pathlib.Path(folder).absolute())
    print("\n" + table() + "\n")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    if options and failed + skipped == 0:
        DOCUMENT.write_text(in_document(table())[1])
    return int(failed > 0 or (bool(options) and skipped > 0))


if __name__ == "__main__":
    sys.exit(main())
