#!/usr/bin/env python3
"""Checks what a reader would trip over: file lengths, leftover notes, calls that have no place below apps/."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = {".h", ".cpp", ".hip", ".cu", ".py", ".js", ".css", ".html"}
LONGEST, LONGEST_KERNEL = 600, 800
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
# The destructor of the JSON library's values needs memory, which src/base/json.h provides.
JSON, JSON_HEADER = "#include <nlohmann/json.hpp>", pathlib.Path("src/base/json.h")
# The process belongs to the application: a library neither ends it, nor prints, nor reads its environment.
PROCESS = re.compile(r"\b(std::)?(printf|fprintf|puts|exit|abort|getenv)\s*\(|std::c(out|err)\b")

# What returns a std::ranges::subrange, which Clang 14 refuses with GCC 12's library.
SUBRANGE = re.compile(r"\bstd::ranges::(search(_n)?|find_end|unique|remove(_if)?|(stable_)?partition|rotate|equal_range|subrange)\b")


def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    names = listed.stdout.split("\n") if listed.returncode == 0 else (str(p.relative_to(ROOT)) for p in ROOT.rglob("*"))
    return [ROOT / n for n in names if n and (ROOT / n).is_file() and not n.startswith("build/")]


def problems():
    for file in tracked():
        relative = file.relative_to(ROOT)
        if file.suffix not in CODE or relative == pathlib.Path("tools/checks/check_tree.py"):
            continue
        lines = file.read_text().splitlines()
        limit = LONGEST_KERNEL if relative.parts[:2] == ("src", "kernels") else LONGEST
        if len(lines) > limit:
            yield f"{relative}: {len(lines)} lines, at most {limit}"
        for number, line in enumerate(lines, 1):
            if LEFTOVER.search(line):
                yield f"{relative}:{number}: leftover note"
            if relative.parts[0] == "src" and file.suffix != ".js" and PROCESS.search(line.split("//")[0]):
                yield f"{relative}:{number}: belongs in apps/: {line.strip()}"
            if file.suffix in (".h", ".cpp") and SUBRANGE.search(line.split("//")[0]):
                yield f"{relative}:{number}: Clang 14 refuses this algorithm of std::ranges, take that of std: {line.strip()}"
            if relative.parts[0] in ("src", "apps") and line == JSON and relative != JSON_HEADER:
                yield f"{relative}:{number}: include base/json.h for it"


def main():
    found = list(problems())
    print("\n".join(found) if found else "tree: nothing to mend")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
