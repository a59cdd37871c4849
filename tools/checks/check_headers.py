#!/usr/bin/env python3
"""Checks that headers and sources compile alone: check_headers.py [--all] COMPILER [FLAGS...]

With --all every header of src/, library/, apps/ and tests/, and every source of the first three. Without it only what has changed since
the commit that this checkout shares with origin/main, or where there is no origin/main, in the last RECENT commits; and the headers that
include one that has lost an include since. (Builds find the names that a header has lost: each header is compiled in some source.) All
headers where nothing has changed, or there are fewer commits. What has compiled with the same content of itself and all it includes is
not compiled again (tools/checks/green.py).

No build of the tests compiles a source by itself (preset cpu does). Left out are headers that only GPU sources (.hip, .cu) reach, which need
another compiler, and those of the CPU bodies that are named for an instruction set, which need its flags. Headers of C++ are precompiled
here as in builds, but not for tests: tools/checks/check_includes.py knows what lacks them. The library for JSON is precompiled for files
that include it. Prints the first error of each file that fails."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from check_includes import precompiled
from green import Green, digest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("src", "library", "apps", "tests")
INCLUDE_ROOTS = [ROOT / folder for folder in ("src", "library/include", "library", "tests", "apps/options", "apps/rocmforge")]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
INCLUDE_LINE = re.compile(r'^\s*#\s*include\s+(["<][^">\n]+[">])', re.M)
RECENT = 60
JSON = ROOT / "src/base/json.h"
GPU_SOURCES, HOST_SOURCES = {".hip", ".cu"}, {".cpp"}
OF_INSTRUCTION_SET = re.compile(r"_(avx2|avxvnni|avx512|neon)$")
FIXED_FLAGS = ["-std=c++20", "-fsyntax-only", "-w", "-DROCMFORGE_ISA=generic", "-DROCMFORGE_ISA_generic=1",
               '-DROCMFORGE_VERSION=""', '-DROCMFORGE_MODELS_DIR=""']


def included_by(file):
    for name in INCLUDE.findall(file.read_text()):
        found = next((folder / name for folder in [file.parent, *INCLUDE_ROOTS] if (folder / name).is_file()), None)
        if found:
            yield found.resolve()


def reached_from(sources, includes):
    reached, waiting = set(), list(sources)
    while waiting:
        for header in includes.get(waiting.pop(), set()) - reached:
            reached.add(header)
            waiting.append(header)
    return reached


def host_files():
    """The files that must compile alone, and {file: the files of the project that it includes}."""
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*"))
             if file.suffix in {".h"} | GPU_SOURCES | HOST_SOURCES]
    includes = {file: set(included_by(file)) for file in files}
    on_gpu, on_host = (reached_from([file for file in files if file.suffix in kind], includes)
                       for kind in (GPU_SOURCES, HOST_SOURCES))
    headers = [file for file in files if file.suffix == ".h" and (file in on_host or file not in on_gpu)
               and not OF_INSTRUCTION_SET.search(file.stem)]
    sources = [file for file in files if file.suffix in HOST_SOURCES and file.relative_to(ROOT).parts[0] != "tests" and "body" not in file.parts]
    return headers + sources, includes


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else None


def recent_base():
    """The commit since which changes count, or None."""
    shared = git("merge-base", "HEAD", "origin/main") or git("rev-parse", "--verify", "--quiet", f"HEAD~{RECENT}")
    return shared[0] if shared else None


def changed_files(base):
    """What differs from `base`; None for no such commit, or no difference."""
    changed = base and git("diff", "--name-only", base)
    return {ROOT / name for name in changed + (git("ls-files", "--others", "--exclude-standard") or [])} if changed else None


def lost_an_include(header, base):
    before = git("show", f"{base}:{header.relative_to(ROOT)}")
    return before is not None and not set(INCLUDE_LINE.findall("\n".join(before))) <= set(INCLUDE_LINE.findall(header.read_text()))


def concerned(files, includes, base):
    changed = changed_files(base)
    if changed is None:
        return [file for file in files if file.suffix == ".h"]
    narrower = {file for file in changed & includes.keys() if file.suffix == ".h" and lost_an_include(file, base)}
    return [file for file in files if file in changed or (file.suffix == ".h" and reached_from([file], includes) & narrower)]


def keys_of(files, includes, command):
    """{file: a digest of it, of all that it includes of the project, of the compiler and the flags}"""
    version = subprocess.run([command[0], "--version"], capture_output=True, check=True).stdout
    flags = [flag.replace(str(ROOT), "") for flag in command[1:]]
    contents = {file: digest(file.read_bytes()) for file in includes}
    return {file: digest(version, *flags, *precompiled(), *(f"{part.relative_to(ROOT)} {contents[part]}"
                                                            for part in sorted({file} | reached_from([file], includes))))
            for file in files}


def precompile(command, folder, name, lines):
    """The command that takes what `lines` include, precompiled in `folder`."""
    common = pathlib.Path(folder) / f"{name}.h"
    common.write_text("".join(f"#include {line}\n" for line in lines))
    generated = [flag for flag in command if flag != "-fsyntax-only"]
    subprocess.run([*generated, "-x", "c++-header", common, "-o", f"{common}.gch"], check=True, cwd=ROOT)
    return [*command, "-include", str(common)]


def commands_of(files, includes, command, folder):
    """The command for each file."""
    lines = [f"<{header}>" for header in precompiled()]
    of_tests = {file for file in files if file.relative_to(ROOT).parts[0] == "tests"}
    with_json = {file for file in files if JSON in reached_from([file], includes)} - of_tests
    common = precompile(command, folder, "common", lines) if set(files) - of_tests - with_json else None
    json = precompile(command, folder, "json", [*lines, f'"{JSON}"']) if with_json else None
    return [command if file in of_tests else json if file in with_json else common for file in files]


def compile_alone(file, command):
    # A header is included twice, which detects a missing `#pragma once`.
    text = f'#include "{file}"\n' * (2 if file.suffix == ".h" else 1)
    result = subprocess.run([*command, "-x", "c++", "-"], input=text, text=True, capture_output=True, cwd=ROOT)
    if result.returncode == 0:
        return None
    lines = result.stderr.splitlines()
    first = next((line for line in lines if "error:" in line), lines[-1] if lines else f"exit code {result.returncode}")
    return f"{file.relative_to(ROOT)}: does not compile alone: {first}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="whatever has changed")
    parser.add_argument("compiler")
    parser.add_argument("flags", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = [options.compiler, *(flag for flag in options.flags if flag), *FIXED_FLAGS, *(f"-I{root}" for root in INCLUDE_ROOTS)]
    every, includes = host_files()
    files = every if options.all else concerned(every, includes, recent_base())
    keys, green = keys_of(files, includes, command), Green("headers")
    unknown = green.unknown(keys)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        failures = dict(zip(unknown, pool.map(compile_alone, unknown, commands_of(unknown, includes, command, folder))))
    green.add(key for file, key in keys.items() if not failures.get(file))
    found = [failure for failure in failures.values() if failure]
    print("\n".join(found) if found else f"{len(unknown)} files compile alone, {len(files) - len(unknown)} have before; of {len(every)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
