#!/usr/bin/env python3
"""Checks every include in src/, library/ and apps/options/ and apps/hub/ against tools/checks/layers.txt, those inside src/kernels/ by rooms and families too. Prints one line per
breach and exits 1 when there is any."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
OUTSIDE = ("library", "apps/options", "apps/hub")
# Folders whose headers these files include without a path; folders of apps/ by their names.
OWN = {"library": [ROOT / folder for folder in ("library", "library/include", "apps/options")],
       "options": [ROOT / "apps/options", ROOT / "apps"], "hub": [ROOT / "apps"]}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def layer_of(path, rules):
    """The layer of a path relative to src/, such as 'ops/matmul.h': the innermost of its folders that has a rule."""
    return next((str(folder) for folder in path.parents if str(folder) in rules), path.parts[0])


def read_rules():
    rules = {}
    for line in (ROOT / "tools/checks/layers.txt").read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            layer, allowed = line.split(":")
            rules[layer] = set(allowed.split()) | {layer}
    return rules


def room_of(path):
    """The room of a path below kernels/, such as 'matmul' of kernels/matmul/amd/matvec.cpp; '' for register_all."""
    parts = path.parts[1:-1]
    return "/".join(parts[:2] if parts[:2] == ("check", "arguments") else parts[:1])


def family_of(path, rules):
    return next((part for part in path.parts[1:-1] if f"family {part}" in rules), None)


def breach_of_room(path, target, rules):
    """What forbids that one file of kernels/ includes another; None: nothing."""
    room, family, other = room_of(path), family_of(path, rules), family_of(target, rules)
    if room and f"room {room}" not in rules:
        return f"{path}: room '{room}' is not in tools/checks/layers.txt"
    if room and room_of(target) not in rules[f"room {room}"] | {room}:
        return f"{path}: {room} must not include {target}"
    if family and other and other not in rules[f"family {family}"] | {family}:
        return f"{path}: the family {family} must not include {target}"
    return None


def sources():
    """Files and their paths as includes name them: relative to src/, the others as if they lay beside the layers."""
    for file in sorted(SOURCE.rglob("*")):
        yield file, file.relative_to(SOURCE)
    for folder in OUTSIDE:
        for file in sorted((ROOT / folder).glob("*")):
            yield file, pathlib.Path(pathlib.Path(folder).name, file.name)


def breaches(rules):
    for file, relative in sources():
        if file.suffix not in {".h", ".cpp", ".hip", ".cu"}:
            continue
        layer = layer_of(relative, rules)
        if layer not in rules:
            yield f"{relative}: folder '{relative.parts[0]}' is not in tools/checks/layers.txt"
            continue
        for target in INCLUDE.findall(file.read_text()):
            if layer in OWN and any((folder / target).exists() for folder in OWN[layer]):
                continue
            if not (SOURCE / target).exists():
                yield f"{relative}: includes \"{target}\", which is not a path from src/"
            elif layer_of(pathlib.Path(target), rules) not in rules[layer]:
                yield f"{relative}: {layer} must not include {target}"
            elif layer == "kernels" and target.startswith("kernels/"):
                if breach := breach_of_room(relative, pathlib.Path(target), rules):
                    yield breach
            elif layer in {"engine", "options", "library"} and target.startswith("kernels/") and target != "kernels/register_all.h":
                yield f"{relative}: {layer} may include of kernels/ only register_all.h"


def main():
    found = list(breaches(read_rules()))
    print("\n".join(found) if found else "layers: every include is allowed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
