"""What became of tests, and the lines that say it."""
import collections
import dataclasses
import re

NAMED = 4  # tests named beside a reason
SLOWEST = 6  # tests named with their time
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)


@dataclasses.dataclass
class Result:
    name: str
    status: str  # "passed", "failed" or "skipped"
    reason: str = ""
    output: str = ""
    seconds: float = 0.0


def skip_reason(text):
    """GoogleTest gives the reason on the line after "FILE:LINE: Skipped"; a program that skips itself, after "[  SKIPPED ]"."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line, following in zip(lines, [*lines[1:], ""]):
        if re.search(r":\d+: Skipped$", line):
            return following
    return next((line.removeprefix("[  SKIPPED ]").strip() for line in lines if "skip" in line.lower()), "no reason given")


class Tally:
    """Counts, and notes about what failed and what was skipped."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.recorded = 0  # of those that passed: in an earlier run
        self.notes = []

    def note_times(self, results):
        """Where the time has gone: of all, and of the tests that took longest."""
        slow = sorted((result for result in results if result.seconds >= 1), key=lambda result: -result.seconds)[:SLOWEST]
        if slow:
            named = ", ".join(f"{result.name} {result.seconds:.0f} s" for result in slow)
            suites = collections.Counter()
            for result in results:
                suites[result.name.partition(".")[0].rpartition("/")[2]] += result.seconds
            of_suites = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in suites.most_common(SLOWEST))
            self.notes.append(f"took {sum(suites.values()):.0f} s of one processor or of waiting; the slowest: {named}; by suite: {of_suites}")

    def count(self, results):
        skipped = collections.defaultdict(list)
        for result in results:
            setattr(self, result.status, getattr(self, result.status) + 1)
            if result.status == "failed":
                self.notes.append(f"failed: {result.name}{': ' * bool(result.reason)}{result.reason}")
            elif result.status == "skipped":
                skipped[result.reason].append(result.name)
        for reason, names in skipped.items():
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            self.notes.append(f"skipped: {', '.join(names[:NAMED])}{more}: {reason}")

    def count_recorded(self, number):
        self.passed += number
        self.recorded += number

    def fail(self, what):
        self.failed += 1
        self.notes.append(f"failed: {what}")

    def skip(self, what):
        self.skipped += 1
        self.notes.append(f"skipped: {what}")

    def read_script(self, name, output):
        """Of a script that writes lines `FAILED: ` and `SKIPPED: ` and ends with its counts."""
        counts = COUNTS.findall(output)
        if not counts:
            self.fail(f"{name} left no counts")
            return
        passed, failed, skipped = map(int, counts[-1])
        self.passed, self.failed, self.skipped = self.passed + passed, self.failed + failed, self.skipped + skipped
        self.notes += [f"{kind.lower()}: {rest}" for kind, rest in re.findall(r"^(FAILED|SKIPPED): (.*)$", output, re.M)]

    def __str__(self):
        recorded = f" ({self.recorded} of them in an earlier run)" if self.recorded else ""
        return f"{self.passed:5} passed, {self.failed:3} failed, {self.skipped:4} skipped{recorded}"
