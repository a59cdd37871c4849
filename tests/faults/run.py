#!/usr/bin/env python3
"""Puts faults into copies of kernels, one at a time, and looks which checks find them.

    run.py [--device DEVICE] [--only KIND] [--seconds N] [--limit SECONDS] [--preset PRESET]

DEVICE is `cuda` (Hopper), `hip`, or `emulated:gfx1100`. For each fault of faults.py the sources are copied to build/faults, the fault is put in,
its object alone is compiled, and a folder of kernels is made with this object among the good ones: of build/kernels, and of
build/kernels-shaken (build_kernels.py --shaken) for a race. Then run, as far as there are any for this fault and device:

    check         `rocmforge check --only KERNEL` for N seconds (0, the default: not); not for emulated devices, which it can't open
    conformance   cases of tests/conformance
    protocol      a test of tests/protocols, compiled with the copied headers

Found means: something fails and the name of the kernel or of its code object is in what it says, or the protocol's test fails. The table shows
"wrong" where something fails and names no kernel. Fails where fewer than nine of ten are found. Tests pass without the faults: so do these
checks, which is not repeated here.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools/build"), str(ROOT / "tests/faults")]

from faults import AMD_FAULTS, NVIDIA_FAULTS
from shake import Problem, write_seeded

FOLDER = ROOT / "build/faults"
TREE = FOLDER / "tree"
SEEDS = range(1, 6)  # of a race, until one shows it
HANGS = 3  # tests/conformance/case_watch.h


def copy_sources():
    shutil.rmtree(TREE, ignore_errors=True)
    for folder in ("src", "tools", "tests/device"):
        shutil.copytree(ROOT / folder, TREE / folder, ignore=shutil.ignore_patterns("__pycache__"))
    libraries = FOLDER / "device-libs"
    if not libraries.exists() and (ROOT / "build/device-libs").exists():
        libraries.symlink_to(ROOT / "build/device-libs")


class Mutation:
    """The copied sources with a fault, for as long as it lasts."""

    def __init__(self, fault):
        self.fault, self.before = fault, {}

    def __enter__(self):
        for name, there, instead in self.fault.changes:
            path = TREE / name
            text = path.read_text()
            if text.count(there) != 1:
                raise Problem(f"{name}: '{there.strip()}' stands there {text.count(there)} times: the fault '{self.fault.kind}' needs a new place")
            self.before.setdefault(path, text)
            path.write_text(text.replace(there, instead))

    def __exit__(self, *_):
        for path, text in self.before.items():
            path.write_text(text)


def compile_fault(fault, architecture, shaken):
    output = FOLDER / ("built-shaken" if shaken else "built")
    command = [sys.executable, TREE / "tools/build/build_kernels.py", "--output", output, "--quiet", "--only", fault.object, architecture]
    done = subprocess.run([*command, *(["--shaken"] if shaken else [])], capture_output=True, text=True)
    built = [path for path in (output / architecture).glob(f"{fault.object}.*")]
    if not built:
        raise Problem(f"'{fault.kind}' does not compile:\n{done.stdout}{done.stderr}")
    return built[0]


def folder_with(fault, architecture, shaken):
    """A kernel folder with the faulty object among the good ones; without a seed."""
    good = ROOT / ("build/kernels-shaken" if shaken else "build/kernels")
    faulty = compile_fault(fault, architecture, shaken)
    folder = FOLDER / "kernels"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(good / architecture, folder / architecture)
    if not any((folder / architecture).iterdir()):
        raise Problem(f"{good} has no kernels of {architecture}")
    shutil.copy(faulty, folder / architecture)
    return folder


def with_seed(folder, seed):
    """A copy of a folder of shaken kernels."""
    seeded = FOLDER / "kernels-seeded"
    shutil.rmtree(seeded, ignore_errors=True)
    seeded.mkdir(parents=True)
    write_seeded(folder, seed, seeded)
    return seeded


def say(command, environment, limit):
    """(status or None where it did not end, what it said)"""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", timeout=limit, cwd=ROOT,
                              env=os.environ | environment)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode(errors="replace")


def log_of(fault, column):
    return FOLDER / f"{fault.kind.replace(' ', '_')}-{column}.log"


def judge(status, said, fault):
    if status == 0:
        return "not found"
    named = [name for name in fault.kernel.split("|") if re.search(rf"\b{re.escape(name)}\b", said)]
    named += [fault.object] if re.search(rf"\b{re.escape(fault.object)}", said) else []  # launches begin with it
    how = "hangs" if status in (None, HANGS) else "wrong" if status == 1 else f"status {status}"
    return f"found: {named[0]} {how}" if named else how


class Checks:
    def __init__(self, arguments):
        self.arguments = arguments
        self.emulated = arguments.device.startswith("emulated:")
        self.build = ROOT / "build" / (arguments.preset or ("tested" if self.emulated else arguments.device.split(":")[0]))

    def check(self, fault, folder):
        return self._judge_seeds(fault, folder, self._run_check)

    def conformance(self, fault, folder):
        return self._judge_seeds(fault, folder, self._run_cases)

    def _judge_seeds(self, fault, folder, run):
        """The judgement; of a race that of the first seed that shows it."""
        if not fault.shaken:
            return judge(*run(fault, folder, {}), fault)
        for seed in SEEDS:
            if self.emulated:
                status, said = run(fault, folder, {"ROCMFORGE_EMULATOR_SEED": str(seed)})
            else:
                status, said = run(fault, with_seed(folder, seed), {})
            if status != 0:
                return f"{judge(status, said, fault)} with seed {seed}"
        return f"not found with {len(SEEDS)} seeds"

    def _run_check(self, fault, folder, environment):
        command = [self.build / "apps/rocmforge/rocmforge", "check", "--device", self.arguments.device, "--kernel-dir", folder,
                   "--seconds", self.arguments.seconds]
        for name in fault.kernel.split("|"):
            command += ["--only", f"{fault.operation}:{name}"]
        status, said = say(command, environment, self.arguments.seconds + 60)
        log_of(fault, "check").write_text(said)
        wrong = [line for line in said.splitlines() if re.match(r"(WRONG|HUNG|CRASHED):", line)]
        return status, "\n".join(wrong)

    def _run_cases(self, fault, folder, environment):
        environment = environment | {"ROCMFORGE_TEST_DEVICE": self.arguments.device, "ROCMFORGE_KERNEL_DIR": str(folder),
                                     "ROCMFORGE_TEST_CASE_SECONDS": str(int(self.arguments.limit))}
        command = [self.build / "tests/test_conformance", f"--gtest_filter={fault.filters}", "--gtest_fail_fast"]
        status, said = say(command, environment, 10 * self.arguments.limit)
        if status == 77 or re.search(r"\[=+\] 0 tests", said):
            raise Problem(f"'{fault.kind}': no case of {fault.filters} runs: {said.strip()[-300:]}")
        log_of(fault, "conformance").write_text(said)
        return status, said

    def protocol(self, fault):
        program = FOLDER / f"{fault.protocol}_test"
        sources = [ROOT / f"tests/protocols/{name}.cpp" for name in (f"{fault.protocol}_test", "protocol")]
        command = ["c++", "-std=c++20", "-O1", f"-I{TREE / 'src'}", f"-I{ROOT / 'tests'}", *sources, "-o", program, "-lgtest", "-lgtest_main", "-pthread"]
        status, said = say(command, {}, 300)
        if status != 0:
            raise Problem(f"the test of the protocol does not compile:\n{said}")
        status, said = say([program], {}, 120)
        failed = re.findall(r"^\[  FAILED  \] ([\w.]+)", said, re.MULTILINE)
        return f"found: {failed[0]}" if failed else "not found"


def look(fault, checks, architecture):
    """(column, result) of each check."""
    with Mutation(fault):
        if fault.protocol:
            yield "protocol", checks.protocol(fault)
        if not fault.object:
            return
        shaken = fault.shaken and not checks.emulated
        folder = folder_with(fault, architecture, shaken)
    if checks.arguments.seconds > 0 and not checks.emulated:
        yield "check", checks.check(fault, folder)
    if fault.filters and checks.arguments.limit > 0:
        yield "conformance", checks.conformance(fault, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--architecture", help="of its kernels; default: that of the emulated device, or sm_90a")
    parser.add_argument("--only", action="append", default=[], metavar="KIND", help="such as 'a counter not reset'; may be given several times")
    parser.add_argument("--seconds", type=float, default=0, help="for `rocmforge check`")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a case of conformance; one that takes longer hangs; 0: no conformance")
    parser.add_argument("--preset", help="the build whose programs run; default: cuda, hip, or tested for an emulated device")
    arguments = parser.parse_args()
    architecture = arguments.architecture or (arguments.device.split(":")[1] if ":" in arguments.device else "sm_90a")
    faults = NVIDIA_FAULTS if architecture.startswith("sm_") else AMD_FAULTS
    faults = [fault for fault in faults if not arguments.only or fault.kind in arguments.only]
    checks = Checks(arguments)
    found = 0
    try:
        copy_sources()
        for fault in faults:
            results = []
            for column, result in look(fault, checks, architecture):
                results.append((column, result))
            good = any(result.startswith("found") for _, result in results)
            found += good
            print(f"{'found' if good else 'MISSED':<7} {fault.kind:<30} {fault.object:<20} {'; '.join(f'{c}: {r}' for c, r in results)}", flush=True)
    except (OSError, Problem) as problem:
        print(f"faults: {problem}", file=sys.stderr)
        return 2
    print(f"faults: {found} of {len(faults)} found on {arguments.device}")
    return 0 if 10 * found >= 9 * len(faults) else 1


if __name__ == "__main__":
    sys.exit(main())
