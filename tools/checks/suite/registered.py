"""The tests of a build as ctest knows them, and selections of them."""
import dataclasses
import json
import re
import subprocess

# DEPENDS is what ctest adds to a test with FIXTURES_REQUIRED: the tests that set them up.
KNOWN = {"COST", "DEPENDS", "ENVIRONMENT", "FIXTURES_REQUIRED", "FIXTURES_SETUP", "LABELS", "RESOURCE_LOCK", "SKIP_REGULAR_EXPRESSION", "SKIP_RETURN_CODE",
         "TIMEOUT", "WORKING_DIRECTORY"}


@dataclasses.dataclass
class Test:
    name: str
    command: list
    labels: list
    seconds: float  # it may take
    cost: float
    environment: dict
    folder: str
    locks: list
    needs: list  # fixtures
    provides: list
    skip_code: int
    skip_words: list  # expressions of its output

    @property
    def case(self):
        """Its name in a program of GoogleTest; None for a test that is a command of its own."""
        options = [word for word in self.command[1:] if word.startswith("--gtest_filter=")]
        if len(options) != 1 or "--gtest_also_run_disabled_tests" not in self.command:
            return None
        return options[0].split("=", 1)[1]


def read(entry):
    values = {each["name"]: each["value"] for each in entry.get("properties", [])}
    if unknown := set(values) - KNOWN:
        raise ValueError(f"{entry['name']}: the runner knows no property {', '.join(sorted(unknown))}")
    if "command" not in entry:
        raise ValueError(f"{entry['name']}: its program is not built")
    environment = dict(setting.split("=", 1) for setting in values.get("ENVIRONMENT", []))
    return Test(entry["name"], entry["command"], values.get("LABELS", []), float(values.get("TIMEOUT", 1500)), float(values.get("COST", 0)),
                environment, values.get("WORKING_DIRECTORY", "."), values.get("RESOURCE_LOCK", []), values.get("FIXTURES_REQUIRED", []),
                values.get("FIXTURES_SETUP", []), int(values.get("SKIP_RETURN_CODE", -1)), values.get("SKIP_REGULAR_EXPRESSION", []))


def registered(folder):
    done = subprocess.run(["ctest", "--test-dir", str(folder), "--show-only=json-v1"], capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(f"ctest cannot list the tests of {folder}: {done.stderr.strip()}")
    return [entry for entry in json.loads(done.stdout)["tests"]]


class Selection:
    """One line of tools/checks/parts.ini, `labels A B not C; names X not Y`: tests with one of the labels A and B and without C, whose names match
    an expression of group X and none of Y. Without `labels` or what comes before `not`, any."""

    def __init__(self, line, groups):
        self.line = line
        chosen = {"labels": ([], []), "names": ([], [])}
        for clause in filter(None, (part.split() for part in line.split(";"))):
            kind, *words = clause
            place = words.index("not") if "not" in words else len(words)
            if kind not in chosen or not words:
                raise ValueError(f"tools/checks/parts.ini: '{line}' is not `labels A B not C; names X not Y`")
            chosen[kind] = (words[:place], words[place + 1:])
        self.labels = chosen["labels"]
        if missing := [name for side in chosen["names"] for name in side if name not in groups]:
            raise ValueError(f"tools/checks/parts.ini: '{line}' names no group: {', '.join(missing)}")
        self.names = [re.compile("|".join(expression for name in side for expression in groups[name]) or "$^") for side in chosen["names"]]
        self.any_name = not chosen["names"][0]

    def takes(self, entry):
        labels = next((set(each["value"]) for each in entry.get("properties", []) if each["name"] == "LABELS"), set())
        with_one, without = self.labels
        return ((not with_one or labels & set(with_one)) and not labels & set(without)
                and (self.any_name or self.names[0].search(entry["name"])) and not self.names[1].search(entry["name"]))


def select(entries, selections):
    """The tests that a selection takes, and those that provide what they need."""
    taken = [read(entry) for entry in entries if any(selection.takes(entry) for selection in selections)]
    names = {test.name for test in taken}
    needed = {fixture for test in taken for fixture in test.needs}
    for entry in entries:
        values = {each["name"]: each["value"] for each in entry.get("properties", [])}
        if entry["name"] not in names and needed & set(values.get("FIXTURES_SETUP", [])):
            taken.append(read(entry))
    return taken
