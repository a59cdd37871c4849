#!/usr/bin/env python3
"""Reads ctest's JUnit report; prints "passed failed skipped" and, on standard error, the names of what failed or was skipped."""
import sys
import xml.etree.ElementTree as ElementTree


def main(path):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        failed, skipped = case.find("failure"), case.find("skipped")
        status = "failed" if failed is not None or case.get("status") == "fail" else "skipped" if skipped is not None else "passed"
        counts[status] += 1
        if status == "failed":
            print(f"failed: {case.get('name')}", file=sys.stderr)
        elif status == "skipped":
            text = (case.findtext("system-out") or "").strip().splitlines()
            reason = next((line.strip() for line in text if "Skipped" in line or "skip" in line.lower()), "")
            print(f"skipped: {case.get('name')} {reason}", file=sys.stderr)
    print(*counts.values())


if __name__ == "__main__":
    main(sys.argv[1])
