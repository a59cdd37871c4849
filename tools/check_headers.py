#!/usr/bin/env python3
"""Checks that every header of src/, library/, apps/ and tests/ compiles alone: check_headers.py [--all] COMPILER [FLAGS...]

Where a library's source of the same name includes its header before all else, a build that compiles that source by itself (preset cpu
or asan-ubsan) has compiled it alone; --all compiles those here too. Left out are headers that only GPU sources (.hip, .cu) reach, which need another compiler, and those of
the CPU bodies that are named for an instruction set, which need its flags. Headers of C++ are precompiled here as in builds, but not for
tests: tools/check_includes.py knows what lacks them. Prints the first error of each header that fails."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from check_includes import precompiled

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("src", "library", "apps", "tests")
BUILT_ON_HEADERS_OF_OTHERS = {"src", "library"}  # where no header of the project is precompiled, but chat/json.h
INCLUDE_ROOTS = [ROOT / folder for folder in ("src", "library/include", "library", "tests", "apps/options", "apps/rocmforge")]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
FIRST_INCLUDE = re.compile(r'\A(?:\s|//[^\n]*\n)*#\s*include\s+"([^"]+)"')
GPU_SOURCES, HOST_SOURCES = {".hip", ".cu"}, {".cpp"}
OF_INSTRUCTION_SET = re.compile(r"_(avx2|avxvnni|avx512|neon)$")
FIXED_FLAGS = ["-std=c++20", "-fsyntax-only", "-w", "-DROCMFORGE_ISA=generic", "-DROCMFORGE_ISA_generic=1",
               '-DROCMFORGE_TEST_DATA=""', '-DROCMFORGE_SOURCE_DIR=""']


def included_by(file):
    for name in INCLUDE.findall(file.read_text()):
        found = next((folder / name for folder in [file.parent, *INCLUDE_ROOTS] if (folder / name).is_file()), None)
        if found:
            yield found.resolve()


def reached_from(sources, includes):
    reached, waiting = set(), list(sources)
    while waiting:
        for header in includes[waiting.pop()] - reached:
            reached.add(header)
            waiting.append(header)
    return reached


def host_headers():
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*"))
             if file.suffix in {".h"} | GPU_SOURCES | HOST_SOURCES]
    includes = {file: set(included_by(file)) for file in files}
    on_gpu, on_host = (reached_from([file for file in files if file.suffix in kind], includes)
                       for kind in (GPU_SOURCES, HOST_SOURCES))
    return [file for file in files if file.suffix == ".h" and (file in on_host or file not in on_gpu)
            and not OF_INSTRUCTION_SET.search(file.stem)]


def opens_its_source(header):
    if header.relative_to(ROOT).parts[0] not in BUILT_ON_HEADERS_OF_OTHERS:
        return False
    source = header.with_suffix(".cpp")
    first = FIRST_INCLUDE.search(source.read_text()) if source.is_file() else None
    return first is not None and any(root / first.group(1) == header for root in [header.parent, *INCLUDE_ROOTS])


def precompile(command, folder):
    """The command that takes what builds precompile of C++ and fmt from `folder`."""
    common = pathlib.Path(folder) / "common.h"
    common.write_text("".join(f"#include <{header}>\n" for header in precompiled()))
    generated = [flag for flag in command if flag != "-fsyntax-only"]
    subprocess.run([*generated, "-x", "c++-header", common, "-o", f"{common}.gch"], check=True, cwd=ROOT)
    return [*command, "-include", str(common)]


def compile_alone(header, command):
    # Included twice, which detects a missing `#pragma once`.
    result = subprocess.run([*command, "-x", "c++", "-"], input=f'#include "{header}"\n#include "{header}"\n', text=True,
                            capture_output=True, cwd=ROOT)
    if result.returncode == 0:
        return None
    lines = result.stderr.splitlines()
    first = next((line for line in lines if "error:" in line), lines[-1] if lines else f"exit code {result.returncode}")
    return f"{header.relative_to(ROOT)}: does not compile alone: {first}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="compile also what its own source includes first")
    parser.add_argument("compiler")
    parser.add_argument("flags", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = [options.compiler, *(flag for flag in options.flags if flag), *FIXED_FLAGS, *(f"-I{root}" for root in INCLUDE_ROOTS)]
    headers = host_headers()
    by_their_source = [] if options.all else [header for header in headers if opens_its_source(header)]
    headers = [header for header in headers if header not in by_their_source]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        with_common = precompile(command, folder)
        commands = [command if header.relative_to(ROOT).parts[0] == "tests" else with_common for header in headers]
        failures = [failure for failure in pool.map(compile_alone, headers, commands) if failure]
    print("\n".join(failures) if failures else f"headers: {len(headers)} compile alone, {len(by_their_source)} more open their source")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
