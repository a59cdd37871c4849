#!/usr/bin/env python3
"""Reads ctest's JUnit report; prints "passed failed skipped" and, on standard error, what failed, and what was skipped by reason."""
import collections
import re
import sys
import xml.etree.ElementTree as ElementTree

NAMED = 4  # tests named beside a reason


def skip_reason(text):
    """GoogleTest gives the reason on the line after "FILE:LINE: Skipped"; a program that skips itself, after "[  SKIPPED ]"."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line, following in zip(lines, [*lines[1:], ""]):
        if re.search(r":\d+: Skipped$", line):
            return following
    return next((line.removeprefix("[  SKIPPED ]").strip() for line in lines if "skip" in line.lower()), "no reason given")


def main(path):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    skipped = collections.defaultdict(list)
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        failure, skip = case.find("failure"), case.find("skipped")
        status = "failed" if failure is not None or case.get("status") == "fail" else "skipped" if skip is not None else "passed"
        counts[status] += 1
        if status == "failed":
            print(f"failed: {case.get('name')}", file=sys.stderr)
        elif status == "skipped":
            skipped[skip_reason(case.findtext("system-out") or "")].append(case.get("name"))
    for reason, names in skipped.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        print(f"skipped: {', '.join(names[:NAMED])}{more}: {reason}", file=sys.stderr)
    print(*counts.values())


if __name__ == "__main__":
    main(sys.argv[1])
