#!/usr/bin/env python3
"""Writes the table of docs/models.md from the results of test_models.

    build/cpu/tests/test_models --gtest_filter='Golden/ModelTest.*:Golden/EncoderTest.*' --gtest_output=xml:cpu.xml
    ROCMFORGE_TEST_DEVICE=emulated:gfx1100 ROCMFORGE_KERNEL_DIR=build/kernels \\
        build/cpu/tests/test_models --gtest_filter='Golden/ModelTest.*_gpu' --gtest_output=xml:gfx1100.xml
    tools/checks/model_table.py cpu=cpu.xml gfx1100=gfx1100.xml

Runs: cpu, gfx1100, gfx942, nvidia. What another run has filled stays as it is; several files may be of one run (cpu=a.xml cpu=b.xml).
A test of test_models compares the architectures of the table with those that can be loaded."""
import collections
import pathlib
import re
import sys
import xml.etree.ElementTree

TABLE = pathlib.Path(__file__).resolve().parents[2] / "docs/models.md"
LOGITS = "LogitsAreThoseOfTheReferenceImplementation"
# The same of encoders.
ENCODER_TESTS = {
    "RowsOfPackedTextsAreThoseOfTheReferenceImplementation": LOGITS,
    "ATextHasTheSameRowsAloneAndBesideOthers": "SequencesInOneBatchDoNotSeeEachOther"}
WAYS = {
    "in pieces": "ChunksOfAnySizeGiveTheSameBits", "reused prefix": "AReusedPrefixGivesTheSameBits",
    "preempted": "APreemptedSequenceGivesTheSameBits", "beside others": "SequencesInOneBatchDoNotSeeEachOther"}
GPUS = {"gfx1100": "emulated gfx1100", "gfx942": "emulated gfx942", "nvidia": "NVIDIA"}
COLUMNS = ["architecture", "golden models", "CPU", *WAYS, *GPUS.values()]
HEAD = "| " + " | ".join(COLUMNS) + " |"
FAILED = "**fails**"


def read_results(path):
    """(architecture, golden model, name of the test, passed, greatest relative error or None) of each test that ran."""
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        properties = {each.get("name"): each.get("value") for each in case.iter("property")}
        if not case.get("classname", "").endswith(("ModelTest", "EncoderTest")) or "architecture" not in properties:
            continue
        model = re.search(r'"([^"]+)"', case.get("value_param")).group(1)
        error = properties.get("relative_error")
        test = case.get("name").split("/")[0]
        yield (properties["architecture"], model.removeprefix("encoders/"), ENCODER_TESTS.get(test, test), case.find("failure") is None,
               float(error) if error else None)


def cells_of(run, results):
    """Cells of one architecture's row."""
    outcome = collections.defaultdict(list)
    for _, _, test, passed, _ in results:
        outcome[test].append(passed)

    def state(test, good):
        return "" if test not in outcome else good if all(outcome[test]) else FAILED

    errors = [error for *_, error in results if error is not None]
    logits = state(LOGITS, f"{max(errors):.1e}" if errors else "")
    if run == "cpu":
        names = sorted({model for _, model, *_ in results})
        return {"golden models": ", ".join(names), "CPU": logits, **{way: state(test, "same bits") for way, test in WAYS.items()}}
    ways = [state(test, "close") for test in WAYS.values()]
    rest = "" if all(ways) else ", logits alone"
    return {GPUS[run]: FAILED if FAILED in ways else logits + rest if logits else ""}


def read_table(text):
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == len(COLUMNS) and cells[0] != COLUMNS[0] and set(cells[0]) != {"-"}:
            rows[cells[0]] = dict(zip(COLUMNS, cells))
    return rows


def main():
    runs = collections.defaultdict(list)
    for argument in sys.argv[1:]:
        run, _, path = argument.partition("=")
        if run not in ("cpu", *GPUS) or not path:
            sys.exit(__doc__)
        runs[run] += read_results(path)
    text = TABLE.read_text()
    before, rest = text.split(HEAD)
    rows = read_table(rest)
    after = re.sub(r"\A(\n\|[^\n]*)*", "", rest)
    for run, results in runs.items():
        for architecture in sorted({result[0] for result in results}):
            row = rows.setdefault(architecture, {"architecture": architecture})
            row.update(cells_of(run, [result for result in results if result[0] == architecture]))
    lines = [HEAD, "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(rows[name].get(column, "") for column in COLUMNS) + " |" for name in sorted(rows)]
    TABLE.write_text(before + "\n".join(lines) + after)


if __name__ == "__main__":
    main()
