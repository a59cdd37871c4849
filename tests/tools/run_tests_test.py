"""The runner of the tests (tools/checks/run_tests.py): nothing that fails, crashes, hangs or leaks beside others is counted as passed."""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/checks"))
import run_tests  # noqa: E402
from suite.registered import Selection, Test  # noqa: E402
from suite.record import Record  # noqa: E402
from suite.results import Result, Tally  # noqa: E402
from suite.schedule import run_all  # noqa: E402

# Behaves as a program of GoogleTest whose cases do what their names say.
PROGRAM = '''#!/usr/bin/env python3
import os, pathlib, sys, time
words = [word for option in sys.argv[1:] for word in
         (pathlib.Path(option.split("=", 1)[1]).read_text().split() if option.startswith("--gtest_flagfile=") else [option])]
flags = dict(word.split("=", 1) for word in words if "=" in word)
names = flags["--gtest_filter"].split(":")
cases = ""
code = 0
if "ROCMFORGE_TEST_READS" in os.environ:
    open(os.environ["ROCMFORGE_TEST_READS"], "a").write(str(pathlib.Path(sys.argv[0]).parent / "data") + "\\n")
for name in names:
    print(f"[ RUN      ] {name}", flush=True)
    suite, case = name.split(".")
    inner = ""
    if case.startswith("Crash") or (case.startswith("OnlyBesideOthers") and len(names) > 1):
        os.abort()
    if case.startswith("Hang"):
        time.sleep(60)
    if case.startswith("Fail"):
        inner, code = '<failure message="wrong">wrong</failure>', 1
    if case.startswith("Skip"):
        inner = '<skipped message="file.cpp:1&#x0A;no device"/>'
        print("file.cpp:1: Skipped\\nno device\\n\\n[  SKIPPED ] " + name, flush=True)
    if case.startswith("Leak"):
        code = 23
    if not inner:
        print(f"[       OK ] {name} (0 ms)", flush=True)
    cases += f'<testcase name="{case}" status="run" classname="{suite}">{inner}</testcase>'
if "--gtest_output" in flags:
    pathlib.Path(flags["--gtest_output"].removeprefix("xml:")).write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
sys.exit(code)
'''


class Cases(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.program = self.folder / "test_program"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)

    def case(self, name, program=None):
        return self.made(f"Suite.{name}", [str(program or self.program), f"--gtest_filter=Suite.{name}", "--gtest_also_run_disabled_tests"],
                         skip_words=[r"\[  SKIPPED \]"])

    def made(self, name, command, **more):
        return Test(**{**dict(name=name, command=command, labels=[], seconds=2.0, cost=0.0, environment={}, folder=str(self.folder), locks=[],
                              needs=[], provides=[], skip_code=77, skip_words=[]), **more})

    def results(self, tests, shards=1):
        lines = []
        found = run_all(tests, {}, 4, shards, lambda name, results: lines.append(name))
        self.processes = len(lines)
        return {result.name: result for result in found}

    def statuses(self, *names):
        found = self.results([self.case(name) for name in names])
        return {name.removeprefix("Suite."): result.status for name, result in found.items()}


class Runner(Cases):
    def test_cases_share_a_process(self):
        found = self.results([self.case(f"Good{i}") for i in range(40)], shards=4)
        self.assertEqual(({result.status for result in found.values()}, len(found), self.processes), ({"passed"}, 40, 4))

    def test_failures_and_skips_are_counted_by_case(self):
        self.assertEqual(self.statuses("Good", "Fail", "Skip", "Good2"), {"Good": "passed", "Fail": "failed", "Skip": "skipped", "Good2": "passed"})
        self.assertEqual(self.results([self.case("Good"), self.case("Skip")])["Suite.Skip"].reason, "no device")

    def test_the_slowest_are_named(self):
        tally = Tally()
        tally.note_times([Result("A.Long", "passed", seconds=7.4), Result("In/A.Short/2", "passed", seconds=0.6), Result("script", "failed", seconds=7.6)])
        self.assertEqual(tally.notes, ["took 16 s of one processor or of waiting; the slowest: script 8 s, A.Long 7 s; by suite: A 8 s, script 8 s"])
        self.assertGreater(self.results([self.made("wait", ["sleep", "0.2"])])["wait"].seconds, 0.1)

    def test_what_a_crash_hides_runs_alone(self):
        self.assertEqual(self.statuses("Good", "Crash", "Fail", "Skip", "Good2"),
                         {"Good": "passed", "Crash": "failed", "Fail": "failed", "Skip": "skipped", "Good2": "passed"})

    def test_a_crash_beside_others_is_a_failure(self):
        found = self.results([self.case("Good"), self.case("OnlyBesideOthers")])
        self.assertEqual(found["Suite.OnlyBesideOthers"].status, "failed")
        self.assertIn("passed alone", found["Suite.OnlyBesideOthers"].reason)

    def test_a_case_that_hangs_is_ended(self):
        self.assertEqual(self.statuses("Good", "Hang", "Good2"), {"Good": "passed", "Hang": "failed", "Good2": "passed"})

    def test_a_process_that_fails_without_a_case_is_searched(self):
        self.assertEqual(self.statuses("Good", "Leak", "Good2"), {"Good": "passed", "Leak": "failed", "Good2": "passed"})

    def test_a_program_that_does_not_start_fails_its_cases(self):
        missing = self.folder / "missing"
        found = self.results([self.case("Good", missing), self.case("Good2", missing)])
        self.assertEqual([result.status for result in found.values()], ["failed", "failed"])

    def test_commands(self):
        shell = {"passed": "true", "failed": "false", "skipped": "echo '[  SKIPPED ] no client'; exit 77"}
        found = self.results([self.made(name, ["sh", "-c", words]) for name, words in shell.items()])
        self.assertEqual({name: result.status for name, result in found.items()}, {name: name for name in shell})
        self.assertEqual(found["skipped"].reason, "no client")

    def test_locks_and_fixtures(self):
        together = "mkdir held && sleep 0.2 && rmdir held"  # fails where it exists
        tests = [self.made(f"lock{i}", ["sh", "-c", together], locks=["one"]) for i in range(3)]
        tests += [self.made("after", ["test", "-e", "made"], needs=["made"]),
                  self.made("make", ["sh", "-c", "sleep 0.3; touch made"], provides=["made"]),
                  self.made("break", ["false"], provides=["broken"]), self.made("of_broken", ["true"], needs=["broken"])]
        failed = [name for name, result in self.results(tests).items() if result.status != "passed"]
        self.assertEqual(sorted(failed), ["break", "of_broken"])


class Recorded(Cases):
    """What has passed is known as long as nothing that it depends on has changed."""

    def setUp(self):
        super().setUp()
        for name in ("build", "data", "cache"):
            (self.folder / name).mkdir()
        self.write("data/one", "1")
        self.age(self.program)
        before = os.environ.get("XDG_CACHE_HOME")
        os.environ["XDG_CACHE_HOME"] = str(self.folder / "cache")
        self.addCleanup(lambda: os.environ.pop("XDG_CACHE_HOME") if before is None else os.environ.update(XDG_CACHE_HOME=before))
        self.tests = [self.case(name) for name in ("Good", "Good2", "Fail", "Skip")] + [self.made("command", ["true"])]
        self.environment = {"SETTING": "1"}

    def age(self, path):
        """Only what is older than a run can have been read by it."""
        os.utime(path, (1e9, os.stat(path).st_mtime - 1000))

    def write(self, name, text):
        (self.folder / name).write_text(text)
        self.age(self.folder / name)
        self.age(self.folder / "data")

    def record(self):
        return Record(self.folder / "build", self.environment, self.folder)

    def known(self):
        return [test.name.removeprefix("Suite.") for test in self.record().known(self.tests)]

    def run_them(self):
        run_all(self.tests, self.environment, 1, 1, lambda name, results: None, self.record())

    def test_what_passed_is_known(self):
        self.assertEqual(self.known(), [])
        self.run_them()
        self.assertEqual(self.known(), ["Good", "Good2"])

    def test_a_change_of_anything_is_seen(self):
        def change_program():
            self.program.write_text(PROGRAM + "# another\n")
            self.age(self.program)

        changes = {"data": lambda: self.write("data/one", "2"), "more data": lambda: self.write("data/two", ""), "program": change_program,
                   "library": lambda: self.write("fake.so", "2"), "environment": lambda: self.environment.update(SETTING="2")}
        for what, change in changes.items():
            with self.subTest(what):
                self.run_them()
                self.assertEqual(self.known(), ["Good", "Good2"])
                change()
                self.assertEqual(self.known(), [])

    def test_data_that_changes_beside_the_run_is_not_trusted(self):
        (self.folder / "data/one").write_text("3")
        os.utime(self.folder / "data/one", (2e9, 4e9))
        self.run_them()
        self.assertEqual(self.known(), [])

    def test_cases_on_cards_are_never_known(self):
        self.tests = [self.case("Good")]
        self.tests[0].labels.append("gpu")
        self.run_them()
        self.assertEqual(self.known(), [])


class Parts(unittest.TestCase):
    def entry(self, name, *labels):
        return {"name": name, "properties": [{"name": "LABELS", "value": list(labels)}]}

    def test_selections(self):
        groups = {"small": ["Tiny", "Threads"], "scale": [r"Scale\."]}
        entries = [self.entry("AScale.One", "base"), self.entry("B.Tiny", "base", "slow"), self.entry("C.Tiny", "ops"), self.entry("D.Large", "ops")]

        def taken(line):
            return [entry["name"] for entry in entries if Selection(line, groups).takes(entry)]
        self.assertEqual(taken("labels not slow"), ["AScale.One", "C.Tiny", "D.Large"])
        self.assertEqual(taken("labels base ops not slow; names not scale"), ["C.Tiny", "D.Large"])
        self.assertEqual(taken("names small not scale"), ["B.Tiny", "C.Tiny"])
        for wrong in ("label base", "names large", "names"):
            with self.assertRaises(ValueError):
                Selection(wrong, groups)

    def test_the_parts_of_this_checkout(self):
        parts, default = run_tests.read_parts()
        self.assertLessEqual(set(default), set(parts))
        for part in parts.values():
            self.assertIn(part.beside, {None, *parts})
            self.assertIn(part.within, {None, *parts})

    def test_what_runs_no_code_of_the_build_runs_once(self):
        parts, default = run_tests.read_parts()
        for label in ("page", "tools", "hygiene"):
            taking = [name for name in default if any(selection.takes(self.entry("a.b", label)) for selection in parts[name].selections)]
            self.assertEqual(taking, ["cpu"])

    def test_each_program_has_one_part_with_the_address_sanitizer(self):
        parts, _ = run_tests.read_parts()
        folders = re.findall(r"^rocmforge_tests\((\w+)", (ROOT / "tests/CMakeLists.txt").read_text(), re.M)
        self.assertGreater(len(folders), 20)
        self.assertNotIn("protocols", folders)  # of no code of the product: stands under a condition, not built with sanitizers
        for folder in set(folders) - {"acceptance"}:  # slow
            name = "Tiny/A.B" if folder == "conformance" else "A.B"
            taking = [part for part in ("asan-ubsan", "asan-server") if any(line.takes(self.entry(name, folder)) for line in parts[part].selections)]
            self.assertEqual(len(taking), 1, folder)
            if targets := parts[taking[0]].targets:
                self.assertIn(f"test_{folder}", targets)
        self.assertEqual([part for part in ("asan-ubsan", "asan-server") if any(line.takes(self.entry("hub.pull", "hub")) for line in parts[part].selections)],
                         ["asan-server"])

    def test_no_part_is_lost_when_time_is_over(self):
        done = subprocess.run([sys.executable, str(ROOT / "tools/checks/run_tests.py")], capture_output=True, text=True,
                              env={**os.environ, "FORGE_TEST_MINUTES": "0"})
        count = len(run_tests.read_parts()[1])
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (1, f"0 passed, 0 failed, {count} skipped"))

    def test_a_part_that_would_end_too_late_does_not_begin(self):
        suite = run_tests.Suite({}, [])
        run = run_tests.PartRun(run_tests.Part("one", {"command": "true", "minutes": "20"}, {}))
        suite.most_minutes = 70
        for passed, expected, late in ((0, 0, False), (45, 45, False), (55, 55, True), (36, 20, True), (30, 20, False), (5, 20, False)):
            suite.begun, suite.expected = time.monotonic() - 60 * passed, expected
            self.assertEqual(suite.out_of_time(run), late, (passed, expected))
        self.assertEqual(run.tally.skipped, 2)

    def test_the_last_line_counts_and_a_failed_script_fails(self):
        for words, code, counts in (("echo '2 passed, 0 failed, 1 skipped'", 0, "2 passed, 0 failed, 1 skipped"),
                                    ("echo nothing", 1, "0 passed, 1 failed, 0 skipped")):
            script = textwrap.dedent(f"""
                import sys; sys.path.insert(0, {str(ROOT / "tools/checks")!r})
                import run_tests
                part = run_tests.Part("one", {{"command": {shlex.join(["sh", "-c", words])!r}}}, {{}})
                sys.exit(run_tests.Suite({{"one": part}}, ["one"]).run())""")
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (code, counts), done.stderr)


if __name__ == "__main__":
    unittest.main()
