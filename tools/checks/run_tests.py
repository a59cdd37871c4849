#!/usr/bin/env python3
"""Runs parts of the tests and ends with their counts: run_tests.py [--all] [PART...]. `./forge test` calls it; tools/checks/parts.ini says what a part is.

A case that passed in an earlier run with the same program, data, environment and machine counts as passed (tools/checks/suite/record.py). --all, and
CI (the variable of that name), run every test.

FORGE_JOBS: processors to use. FORGE_TEST_MINUTES: a part that would end after so many minutes, by the pace of those before it, does not
begin and counts as skipped.
"""
import configparser
import contextlib
import os
import pathlib
import shlex
import subprocess
import sys
import threading
import time

from suite.registered import Selection, registered, select
from suite.record import Record
from suite.results import Tally
from suite.schedule import run_all

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ROOT / "tools/checks/parts.ini"
KEYS = {"prepare", "needs", "preset", "targets", "select", "script", "command", "environment", "beside", "within", "minutes"}
MODEL = "models/forge-demo.gguf"
SHOWN = 8000  # bytes of a failed test's output
JOBS = int(os.environ.get("FORGE_JOBS") or len(os.sched_getaffinity(0)))


class Problem(Exception):
    """One line for a person."""


def lines_of(value):
    return [line for line in (value or "").splitlines() if line.strip()]


class Part:
    def __init__(self, name, settings, groups):
        if unknown := set(settings) - KEYS:
            raise Problem(f"{PARTS.name}: part {name} has an unknown key '{sorted(unknown)[0]}'")
        if sum(key in settings for key in ("select", "script", "command")) != 1:
            raise Problem(f"{PARTS.name}: part {name} needs one of select, script and command")
        self.name = name
        self.prepare, self.needs, self.targets = (settings.get(key, "").split() for key in ("prepare", "needs", "targets"))
        self.preset, self.beside, self.within = (settings.get(key) for key in ("preset", "beside", "within"))
        self.script, self.command = settings.get("script"), settings.get("command")
        self.minutes = float(settings.get("minutes", 0))
        self.selections = [Selection(line, groups) for line in lines_of(settings.get("select"))]
        self.environment = dict(line.replace("{root}", str(ROOT)).split("=", 1) for line in lines_of(settings.get("environment")))


def read_parts():
    """({name: Part}, the names of those that run by default)"""
    file = configparser.ConfigParser(interpolation=None, delimiters="=", comment_prefixes="#", inline_comment_prefixes=None)
    file.optionxform = str
    file.read_string(PARTS.read_text(), PARTS.name)
    groups = {name: lines_of(value) for name, value in file["names"].items()}
    parts = {section.removeprefix("part "): Part(section.removeprefix("part "), dict(file[section]), groups)
             for section in file.sections() if section.startswith("part ")}
    default, on_demand = (file["suite"][key].split() for key in ("default", "on_demand"))
    if sorted(default + on_demand) != sorted(parts):
        raise Problem(f"{PARTS.name}: [suite] names {sorted(default + on_demand)}, the parts are {sorted(parts)}")
    return parts, default


def forge(*arguments, capture=False):
    return subprocess.run(["./forge", *arguments], cwd=ROOT, text=True, stdout=subprocess.PIPE if capture else None)


class Report:
    """Lines of a part: shown at once, or when the part ends where it runs beside another."""

    def __init__(self, at_once):
        self.at_once, self.lines = at_once, []

    def say(self, line):
        if self.at_once:
            print(line, flush=True)
        else:
            self.lines.append(line)

    def end(self):
        if self.lines:
            print("\n".join(self.lines), flush=True)


class PartRun:
    """One run of a part: prepare, build, then run. The three steps are separate, because another part may run beside the build."""

    def __init__(self, part, at_once=True, uses_record=False):
        self.uses_record = uses_record
        self.part, self.tally, self.report = part, Tally(), Report(at_once)
        self.environment = dict(part.environment)
        self.ready, self.started = True, time.monotonic()

    def fail(self, what):
        self.tally.fail(what)
        self.ready = False

    def prepare(self):
        for what in self.part.prepare + self.part.needs:
            done = forge("prepare", what, capture=True)
            self.environment.update(line.split("=", 1) for line in lines_of(done.stdout) if "=" in line)
            if done.returncode != 0 and what in self.part.needs:
                self.fail(f"{self.part.name}: cannot prepare {what}")
                return

    def build(self):
        if self.ready and self.part.preset and forge("build", self.part.preset, *self.part.targets).returncode != 0:
            self.fail(f"preset {self.part.preset} does not build")

    def run(self):
        if not self.ready:
            return
        if self.part.selections:
            self.run_selected()
        else:
            self.run_script()

    def run_script(self):
        command = shlex.split(self.part.script or self.part.command)
        if self.part.script:
            command = [sys.executable, command[0], f"build/{self.part.preset}/apps/rocmforge/rocmforge", MODEL, *command[1:]]
        output = []
        with subprocess.Popen(command, cwd=ROOT, env={**os.environ, **self.environment}, text=True, errors="replace",
                              stdout=subprocess.PIPE) as process:
            for line in process.stdout:
                output.append(line)
                self.report.say(line.rstrip("\n"))
        self.tally.read_script(shlex.split(self.part.script or self.part.command)[0], "".join(output))

    def run_selected(self):
        try:
            tests = select(registered(ROOT / "build" / self.part.preset), self.part.selections)
        except ValueError as error:
            self.fail(str(error))
            return
        if not tests:
            self.fail(f"{self.part.name} selects no test")
            return
        record = Record(ROOT / "build" / self.part.preset, self.environment, ROOT)
        known = {test.name for test in record.known(tests)} if self.uses_record else set()
        self.tally.count_recorded(len(known))
        recorded = f", {len(known)} of them passed in an earlier run with the same program, data and environment (--all runs them)" if known else ""
        self.report.say(f"{self.part.name}: {len(tests)} tests{recorded}")
        tests = [test for test in tests if test.name not in known]
        done = 0

        def say(name, results):
            nonlocal done
            done += len(results)
            bad = [result for result in results if result.status == "failed"]
            self.report.say(f"{done:5}/{len(tests)} {name}{f': {len(bad)} failed' if bad else ''}")
            for result in bad:
                self.report.say(f"--- {result.name}: {result.reason}\n{result.output[-SHOWN:]}")
        # Twice as many as processors, because tests of servers, pages and downloads mostly wait.
        results = run_all(tests, self.environment, 2 * JOBS, 2 * JOBS, say, record)
        self.tally.count(results)
        self.tally.note_times(results)

    def end(self, seconds):
        self.report.end()
        head = f"{self.part.name:<12} {self.tally} in {seconds // 60:.0f} min {seconds % 60:02.0f} s"
        return [head, *(f"  {note}" for note in self.tally.notes)]


class Suite:
    def __init__(self, parts, asked, uses_record=False):
        self.parts, self.asked, self.uses_record = parts, asked, uses_record
        self.begun = time.monotonic()
        self.total, self.summary = Tally(), []
        self.lock = threading.Lock()
        minutes = os.environ.get("FORGE_TEST_MINUTES")
        self.most_minutes = float(minutes) if minutes else None
        self.expected = 0.0  # minutes of the parts that have ended, by parts.ini

    def add(self, run):
        with self.lock:
            self.summary += run.end(time.monotonic() - run.started)
            for count in ("passed", "failed", "skipped", "recorded"):
                setattr(self.total, count, getattr(self.total, count) + getattr(run.tally, count))

    def out_of_time(self, run):
        """Whether the part would end too late on this machine, which may be slower than the one whose minutes parts.ini tells."""
        passed = (time.monotonic() - self.begun) / 60
        pace = passed / self.expected if self.expected else 1.0
        if self.most_minutes is None or passed + pace * run.part.minutes < self.most_minutes:
            return False
        run.tally.skip(f"all of {run.part.name}: after {passed:.0f} minutes it would take about {pace * run.part.minutes:.0f} more "
                       f"on this machine, of {self.most_minutes:.0f}")
        return True

    def run_part(self, part, at_once=True):
        run = PartRun(part, at_once, self.uses_record)
        beside = [each for each in map(self.parts.get, self.asked) if each.beside == part.name]
        if part.within in self.asked:
            run.tally.notes.append(f"part of {part.within}")
        elif not self.out_of_time(run):
            run.prepare()
            with self.running(beside):
                run.build()
            beside = []
            run.run()
            if at_once:
                self.expected += part.minutes
        for each in beside:  # nothing was built beside which they could run
            self.run_part(each)
        self.add(run)

    @contextlib.contextmanager
    def running(self, parts):
        """These parts one after another, while the caller builds."""
        thread = threading.Thread(target=lambda: [self.run_part(part, at_once=False) for part in parts])
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def run(self):
        for part in map(self.parts.get, self.asked):
            if part.beside not in self.asked:
                self.run_part(part)
        print("\n" + "\n".join(self.summary))
        for name in self.parts:
            if name not in self.asked:
                print(f"{name:<12} not asked for")
        # Repeated at the end, because only the end of a long log may be visible.
        print("\n".join(line for line in self.summary if line.startswith("  failed: ")) or "", end="\n" * self.total.failed.__bool__())
        if self.total.recorded:
            print(f"{self.total.recorded} of those that passed did so in an earlier run; ./forge test --all runs them")
        print(f"{self.total.passed} passed, {self.total.failed} failed, {self.total.skipped} skipped")
        return 0 if self.total.passed and not self.total.failed else 1


def main(arguments):
    try:
        parts, default = read_parts()
        runs_all = "--all" in arguments or os.environ.get("CI", "") not in ("", "false") or os.environ.get("FORGE_GREEN") == "0"
        asked = list(dict.fromkeys(word for word in arguments if word != "--all")) or default
        if unknown := [name for name in asked if name not in parts]:
            raise Problem(f"no part '{unknown[0]}' of the tests; there are {', '.join(parts)}")
    except (Problem, ValueError, configparser.Error) as problem:
        print(f"forge: {problem}", file=sys.stderr)
        return 1
    return Suite(parts, asked, not runs_all).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
