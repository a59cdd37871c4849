#!/usr/bin/env python3
"""Checks that headers and sources compile alone: check_headers.py [--all] COMPILER [FLAGS...]

With --all every header of src/, library/, apps/ and tests/, and every source of the first three. Without it at most MOST files: what has
changed since the commit that this checkout shares with origin/main, and the headers that reach fewer headers than then. Where that is nothing
or too much, since the last of RECENT commits that leaves few enough. (Builds find the names that a header has lost: each header is compiled
in some source; and tools/checks/check_names.py reads all files.) Where no commit tells, MOST of the headers, others with each state of the
files. What has compiled with the same content of itself and all it includes is not compiled again (tools/checks/green.py), and one
compilation shows of several files that they compile alone (compile_alone.py).

No build of the tests compiles a source by itself (preset cpu does). Left out are headers that only GPU sources (.hip, .cu) reach, which need
another compiler, and those of the CPU bodies that are named for an instruction set, which need its flags. The headers that builds
precompile stand before each file here, but not before those of tests: tools/checks/check_includes.py knows what lacks them. Prints the
first error of each file that fails."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from check_includes import precompiled
from compile_alone import failures_of
from green import Green, digest
from include_graph import GPU_SOURCES, HOST_SOURCES, INCLUDE_ROOTS, ROOT, Includes, reached_from, texts_now, texts_of

RECENT = (40, 20, 10, 5)
MOST = 120  # about 70 compilations, of 3 to 5 s
OF_INSTRUCTION_SET = re.compile(r"_(avx2|avxvnni|avx512|neon)$")
FIXED_FLAGS = ["-std=c++20", "-fsyntax-only", "-w", "-DROCMFORGE_ISA=generic", "-DROCMFORGE_ISA_generic=1", "-DROCMFORGE_HAS_generic=1",
               '-DROCMFORGE_VERSION=""', '-DROCMFORGE_MODELS_DIR=""']


def host_files(includes):
    """The files that must compile alone."""
    on_gpu, on_host = (reached_from([file for file in includes.texts if file.endswith(kind)], includes.any)
                       for kind in (GPU_SOURCES, HOST_SOURCES))
    headers = [file for file in includes.texts if file.endswith(".h") and (file in on_host or file not in on_gpu)
               and not OF_INSTRUCTION_SET.search(pathlib.PurePath(file).stem)]
    sources = [file for file in includes.texts
               if file.endswith(HOST_SOURCES) and not file.startswith("tests/") and "body" not in pathlib.PurePath(file).parts]
    return headers + sources


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else None


def bases():
    """The commits since which changes may count, the preferred first."""
    yield from git("merge-base", "HEAD", "origin/main") or []
    for commits in RECENT:
        yield from git("rev-parse", "--verify", "--quiet", f"HEAD~{commits}") or []


def changed_files(base):
    return {*(git("diff", "--name-only", base) or []), *(git("ls-files", "--others", "--exclude-standard") or [])}


def concerned(files, includes, base, changed):
    before = Includes(texts_of(base))
    return [file for file in files if file in changed or (file.endswith(".h") and includes.has_lost(file, before))]


def part_of(files, texts):
    """MOST neighbours, which share many headers. The state of all files says which, so that each change of it tries others."""
    if len(files) <= MOST:
        return files
    files, first = sorted(files), int(digest(*(part for item in sorted(texts.items()) for part in item)), 16) % len(files)
    return (files + files)[first:first + MOST]


def chosen(files, includes):
    """What is compiled by default, and a word for it."""
    too_many = None
    for base in bases():
        if changed := changed_files(base):
            found = concerned(files, includes, base, changed)
            if len(found) <= MOST:
                return found, f"changed since {base[:10]}"
            too_many = too_many or found
    return part_of(too_many or [file for file in files if file.endswith(".h")], includes.texts), "of the changed ones" if too_many else "of the headers"


def keys_of(files, includes, command):
    """{file: a digest of it, of all that it includes of the project, of the compiler and the flags}"""
    version = subprocess.run([command[0], "--version"], capture_output=True, check=True).stdout
    flags = [flag.replace(str(ROOT), "") for flag in command[1:]]
    contents = {file: digest(text) for file, text in includes.texts.items()}
    return {file: digest(version, *flags, *precompiled(), *(f"{part} {contents[part]}" for part in sorted({file} | includes.any[file])
                                                            if part in contents))
            for file in files}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="whatever has changed")
    parser.add_argument("compiler")
    parser.add_argument("flags", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = [options.compiler, *(flag for flag in options.flags if flag), *FIXED_FLAGS, *(f"-I{ROOT / root}" for root in INCLUDE_ROOTS)]
    includes = Includes(texts_now())
    every = host_files(includes)
    files, which = (every, "all") if options.all else chosen(every, includes)
    keys, green = keys_of(files, includes, command), Green("headers")
    unknown = green.unknown(keys)
    failures = {}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for group, common in (("tests", []), ("others", [f"<{header}>" for header in precompiled()])):
            of_group = [file for file in unknown if file.startswith("tests/") == (group == "tests")]
            failures |= failures_of(of_group, common, includes, command, pathlib.Path(folder) / group, pool) if of_group else {}
    green.add(key for file, key in keys.items() if file not in failures)
    if failures:
        print(*(f"{file}: does not compile alone: {failures[file]}" for file in unknown if file in failures), sep="\n")
        return 1
    print(f"{len(unknown)} files compile alone, {len(files) - len(unknown)} have before; of {len(every)}, {which}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
