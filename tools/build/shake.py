#!/usr/bin/env python3
"""Runs a test program with its timing shaken, once for each seed, and prints which cases failed with which seeds.

    shake.py [--device DEVICE] [--seeds N] [--first SEED] [--limit SECONDS] [--program PROGRAM] [--kernels FOLDER] FILTER...

On a GPU (`cuda`, `hip`) the kernels are those of `build_kernels.py --shaken ARCHITECTURE`, which wait for pseudo-random times; the seed
is written into copies of them. On an emulated one (`emulated:gfx1100`) they are the usual ones, and the emulator runs waves and
work-groups in an order of its own, which the seed gives (ROCMFORGE_EMULATOR_SEED). Seed 0 is without waits and in the usual order.

Each FILTER is one of GoogleTest, such as 'AttentionOfModels.*'. What a failed run said is kept in build/shaken.
"""
import argparse
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time

from code_object import CodeObject

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEED = "rocmforge_shake_seed"  # src/kernels/tile/shake.h
SKIPPED = 77


class Problem(Exception):
    pass


def write_seeded(kernels, seed, folder):
    """Copies the shaken objects of `kernels`, with their seed, into a folder of the same form."""
    objects = [path for path in sorted(kernels.glob("*/*")) if path.suffix in (".hsaco", ".cubin")]
    if not objects:
        raise Problem(f"{kernels} has no code objects; tools/build/build_kernels.py --shaken ARCHITECTURE makes them")
    for path in objects:
        raw = bytearray(path.read_bytes())
        place = CodeObject(raw).place_of(SEED)
        if place is None:
            raise Problem(f"{path} is not shaken: it has no {SEED}")
        struct.pack_into("<I", raw, place, seed)
        copy = folder / path.relative_to(kernels)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(raw)


class Tally:
    """The runs of one filter."""

    def __init__(self, name):
        self.name, self.cases, self.runs, self.seconds = name, 0, 0, 0.0
        self.failures = {}  # seed -> names of tests, or what else was the matter

    def add(self, seed, output, status, seconds):
        self.runs, self.seconds = self.runs + 1, self.seconds + seconds
        ran = re.search(r"\[=+\] (\d+) tests? from .* ran", output)
        self.cases = max(self.cases, int(ran[1]) if ran else 0)
        failed = list(dict.fromkeys(re.findall(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", output, re.MULTILINE)))
        if status is None:
            failed.append(f"{(re.findall(r'RUN      . (.+)', output) or ['the program'])[-1]} never ends")
        elif status and not failed:
            failed.append(f"{(re.findall(r'RUN      . (.+)', output) or ['the program'])[-1]} ends with status {status}")
        elif ran and int(ran[1]) == 0:
            failed.append("no test of this name")
        if failed:
            self.failures[seed] = failed

    def row(self):
        good = self.runs - len(self.failures)
        return f"{self.name:<60} {self.cases:>5} {good:>5} of {self.runs:<4} {self.seconds:>7.0f} s"


def run(program, name, seed, environment, limit):
    """(what it said, status or None where it did not end)"""
    command = [str(program), f"--gtest_filter={name}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=os.environ | environment, cwd=ROOT, errors="replace")
        return done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode(errors="replace"), None


def shake(arguments, tallies):
    emulated = arguments.device.startswith("emulated:")
    kept = ROOT / "build/shaken"
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        with tempfile.TemporaryDirectory(prefix="rocmforge-shaken-") as folder:
            environment = {"ROCMFORGE_TEST_DEVICE": arguments.device, "ROCMFORGE_EMULATOR_SEED": str(seed)}
            if emulated:
                environment["ROCMFORGE_KERNEL_DIR"] = str(arguments.kernels)
            else:
                write_seeded(arguments.kernels, seed, pathlib.Path(folder))
                environment["ROCMFORGE_KERNEL_DIR"] = folder
            for number, tally in enumerate(tallies):
                started = time.monotonic()
                output, status = run(arguments.program, tally.name, seed, environment, arguments.limit)
                if status == SKIPPED:
                    raise Problem(output.strip())
                tally.add(seed, output, status, time.monotonic() - started)
                if seed in tally.failures:
                    kept.mkdir(parents=True, exist_ok=True)
                    (kept / f"{arguments.device.replace(':', '-')}-filter{number}-seed{seed}.log").write_text(output)
                    print(f"seed {seed}: {', '.join(tally.failures[seed])}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("filters", nargs="+", metavar="FILTER")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1, metavar="SEED")
    parser.add_argument("--limit", type=float, default=300, metavar="SECONDS", help="for one run; what takes longer counts as endless")
    parser.add_argument("--program", type=pathlib.Path, help="default: test_conformance of the preset cuda, hip, or tested for an emulated GPU")
    parser.add_argument("--kernels", type=pathlib.Path, help="default: build/kernels-shaken, or build/kernels for an emulated GPU")
    arguments = parser.parse_args()
    emulated = arguments.device.startswith("emulated:")
    preset = "tested" if emulated else arguments.device.split(":")[0]
    arguments.program = (arguments.program or ROOT / f"build/{preset}/tests/test_conformance").resolve()
    arguments.kernels = (arguments.kernels or ROOT / ("build/kernels" if emulated else "build/kernels-shaken")).resolve()
    tallies = [Tally(name) for name in arguments.filters]
    try:
        shake(arguments, tallies)
    except (OSError, ValueError, Problem) as problem:
        print(f"shake: {problem}", file=sys.stderr)
        return 2
    print(f"{arguments.device}, seeds {arguments.first} to {arguments.first + arguments.seeds - 1}")
    print(f"{'filter':<60} {'cases':>5} {'seeds right':<13} {'time':>5}")
    for tally in tallies:
        print(tally.row())
    return 1 if any(tally.failures for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
