"""Runs many cases of a GoogleTest program in one process, and one by one what is not proven by that."""
import pathlib
import re
import tempfile
import xml.etree.ElementTree as ElementTree

from suite.commands import how_it_ended, run, run_test
from suite.results import Result

ENDED_WELL = re.compile(r"\[       OK \] (\S+) \(\d+ ms\)$", re.M)


def split(tests, count):
    """Up to `count` shards: neighbours, which often take as long as each other, go to different ones."""
    return [tests[first::count] for first in range(min(count, len(tests)))]


def from_report(path, names):
    """Results by case, of the report that a program writes when it ends."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    found = {}
    for case in root.iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        if name not in names or case.get("status") != "run":
            continue
        seconds = float(case.get("time") or 0)
        failure, skip = case.find("failure"), case.find("skipped")
        if failure is not None:
            found[name] = Result(names[name], "failed", output="\n".join(each.text or "" for each in case.findall("failure")), seconds=seconds)
        elif skip is not None:
            words = (skip.get("message") or skip.text or "").strip().splitlines()
            found[name] = Result(names[name], "skipped", words[-1] if words else "no reason given", seconds=seconds)
        else:
            found[name] = Result(names[name], "passed", seconds=seconds)
    return found


def run_shard(tests, environment):
    """A case that fails or crashes beside the others has failed, also if it passes alone: then its reason says so. What a crash has kept
    from running runs alone. Where the process fails though no case does (a leak), each case runs alone to find it."""
    names = {test.case: test.name for test in tests}
    first = tests[0]
    with tempfile.TemporaryDirectory() as folder:
        report, flags = pathlib.Path(folder) / "report.xml", pathlib.Path(folder) / "flags"
        flags.write_text(f"--gtest_filter={':'.join(names)}\n--gtest_output=xml:{report}\n")
        code, output = run([first.command[0], f"--gtest_flagfile={flags}", "--gtest_also_run_disabled_tests"],
                           {**environment, **first.environment}, first.folder, first.seconds)
        found = from_report(report, names)
    whole = found is not None
    if found is None:
        found = {name: Result(names[name], "passed") for name in ENDED_WELL.findall(output) if name in names}
    if code == 0 and whole and len(found) == len(tests):
        return list(found.values())
    ended = how_it_ended(code, first.seconds)
    at = next((name for name in reversed(re.findall(r"\[ RUN      \] (\S+)", output)) if name in names), None) if not whole else None
    failed_in_shard = {name for name, result in found.items() if result.status == "failed"} | ({at} - {None} - set(found))
    leaves_no_culprit = code != 0 and not failed_in_shard
    for test in tests:
        result = found.get(test.case)
        if result is None or result.status == "failed" or (leaves_no_culprit and result.status == "passed"):
            alone = run_test(test, environment)
            if test.case in failed_in_shard and alone.status != "failed":
                here = result.output if result else output[-4000:]
                alone = Result(test.name, "failed", f"{ended} in one process with others, but {alone.status} alone", here)
            found[test.case] = alone
    results = list(found.values())
    if leaves_no_culprit and not any(result.status == "failed" for result in results):
        results.append(Result(f"{pathlib.Path(first.command[0]).name} from {tests[0].name} to {tests[-1].name}", "failed",
                              f"{ended}, though each test passes alone", output[-4000:]))
    return results
