#!/usr/bin/env python3
"""Compiles the GPU kernels of src/kernels/: build/kernels/ARCHITECTURE/SOURCE.hsaco for AMD, .cubin for NVIDIA.

    build_kernels.py [--output FOLDER] [--jobs N] [--quiet] [--strict] [--check] [ARCHITECTURE...]

Only what is older than its source or one of its headers is compiled. Ends with what every kernel uses: registers, spills,
shared memory, scratch. A kernel written for one architecture family that spills fails the build; with --strict so does a portable one that
reaches memory for it (a scalar that goes to a lane of a vector register does not).
tests/device/device_check.hip is compiled too: the tests of a GPU load it from the folder, no program embeds it.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from code_object import CodeObject

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src/kernels"
DEFAULT = ["gfx90a", "gfx942", "gfx1100", "gfx1201", "sm_90a"]
# AMD architectures and the number that the device libraries know each by.
AMD = {"gfx90a": 9010, "gfx942": 9402, "gfx1100": 11000, "gfx1101": 11001, "gfx1102": 11002, "gfx1151": 11501, "gfx1200": 12000,
       "gfx1201": 12001}
# Folder of src/kernels: the architectures its sources are for. Extensions: .hip for both vendors, .cu for NVIDIA.
FOLDERS = {"gpu": r".*", "amd": r"gfx(9(0a|42)|1[12]\d\d)", "rdna3": r"gfx11\d\d", "rdna4": r"gfx12\d\d", "cdna3": r"gfx94\w", "hopper": r"sm_90a"}
PORTABLE = {"gpu"}
TEST_SOURCES = [ROOT / "tests/device/device_check.hip"]
AMD_FLAGS = ["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-O3", "-std=c++20", "-Wall", "-Wextra", "-Werror",
             "--rocm-path=/usr", "--hip-path=/usr"]
NVIDIA_FLAGS = ["-x", "cu", "-std=c++20", "-cubin", "-O3", "--expt-relaxed-constexpr", "-Xptxas", "-v"]
BITCODE_FOLDERS = ["/usr/lib/x86_64-linux-gnu/amdgcn/bitcode", "/usr/lib/aarch64-linux-gnu/amdgcn/bitcode", "/usr/lib/amdgcn/bitcode",
                   "/opt/rocm/amdgcn/bitcode"]


class Problem(Exception):
    """One line for a person."""


def is_amd(architecture):
    return architecture.startswith("gfx")


def find_clang():
    for name in ("clang++-19", "clang++-20", "clang++-21"):
        if path := shutil.which(name):
            return path
    raise Problem("clang++-19 is missing (Debian: clang-19 lld-19 libamdhip64-dev rocm-device-libs)")


def find_nvcc():
    candidates = [shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc",
                  *map(str, sorted((ROOT / "build/cuda-toolchain").glob("lib/python*/site-packages/nvidia/*/bin/nvcc")))]
    return next((path for path in candidates if path and os.access(path, os.X_OK)), None)


def nvidia_architectures(nvcc):
    """What nvcc compiles, with the variants that belong to one chip alone."""
    listed = subprocess.run([nvcc, "--list-gpu-code"], capture_output=True, text=True, check=True).stdout.split()
    names = [name for name in listed if re.fullmatch(r"sm_\d+", name)]
    return names + [name + "a" for name in names if int(name[3:]) >= 90]


def check_architectures(wanted):
    nvcc = find_nvcc()
    nvidia = sorted(nvidia_architectures(nvcc), key=lambda name: int(re.sub(r"\D", "", name))) if nvcc else ["sm_90a (without nvcc here)"]
    for architecture in wanted:
        if architecture.startswith("sm_") and not nvcc and re.fullmatch(r"sm_\d+a?", architecture):
            raise Problem(f"{architecture} needs nvcc, which is neither on PATH nor in /usr/local/cuda/bin nor in build/cuda-toolchain")
        if architecture not in AMD and architecture not in nvidia:
            raise Problem(f"unknown architecture '{architecture}'; available: {', '.join([*AMD, *nvidia])}")


def make_device_libraries(clang, folder):
    """The distribution's device libraries, with those of newer architectures beside them: each is one constant."""
    source = next((pathlib.Path(p) for p in BITCODE_FOLDERS if (pathlib.Path(p) / "ocml.bc").exists()), None)
    if source is None:
        raise Problem("ocml.bc is missing (Debian: rocm-device-libs)")
    folder.mkdir(parents=True, exist_ok=True)
    for file in source.glob("*.bc"):
        link = folder / file.name
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(file)
    for architecture, version in AMD.items():
        library = folder / f"oclc_isa_version_{architecture[3:]}.bc"
        if library.exists():
            continue
        code = f"const __attribute__((address_space(4))) int __oclc_ISA_version = {version};"
        unfinished = library.with_suffix(f".{os.getpid()}")
        subprocess.run([clang.replace("++", ""), "-target", "amdgcn-amd-amdhsa", "-x", "c", "-nogpulib", "-emit-llvm", "-c", "-", "-o",
                        unfinished], input=code.encode(), check=True)
        unfinished.rename(library)


class Task:
    """One source for one architecture."""

    def __init__(self, source, architecture, output, compiler, libraries):
        self.source, self.architecture = source, architecture
        self.portable, self.is_test = source.parent.name in PORTABLE, source in TEST_SOURCES
        self.object = output / architecture / f"{source.stem}.{'hsaco' if is_amd(architecture) else 'cubin'}"
        self.dependencies = output / ".state" / architecture / f"{source.stem}.d"
        self.state = self.dependencies.with_suffix(".json")
        flags = [*AMD_FLAGS, f"--offload-arch={architecture}", f"--rocm-device-lib-path={libraries}"] if is_amd(architecture) else \
            [*NVIDIA_FLAGS, f"-gencode=arch=compute_{architecture[3:]},code={architecture}"]
        self.command = [compiler, *flags, f"-I{ROOT / 'src'}", str(source), "-MMD", "-MF", str(self.dependencies)]
        self.seconds, self.error, self.warnings = 0.0, None, ""

    def is_current(self):
        try:
            if json.loads(self.state.read_text())["command"] != self.command:
                return False
            built = self.object.stat().st_mtime_ns
            names = self.dependencies.read_text().replace("\\\n", " ").split(": ", 1)[1].split()
            return all(pathlib.Path(name).stat().st_mtime_ns < built for name in names)
        except (OSError, ValueError, KeyError, IndexError):
            return False

    def build(self):
        started = time.monotonic()
        self.object.parent.mkdir(parents=True, exist_ok=True)
        self.state.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.object.with_suffix(f".{os.getpid()}")
        done = subprocess.run([*self.command, "-o", str(unfinished)], capture_output=True, text=True)
        self.seconds = time.monotonic() - started
        if done.returncode:
            self.error = done.stdout + done.stderr
            unfinished.unlink(missing_ok=True)
            self.object.unlink(missing_ok=True)
            return
        self.warnings = "\n".join(line for line in done.stderr.splitlines() if "warning" in line)
        # The object's time is that of the start: what changes meanwhile is compiled again.
        os.utime(unfinished, ns=(time.time_ns(), time.time_ns() - int(self.seconds * 1e9)))
        unfinished.rename(self.object)
        self.state.write_text(json.dumps({"command": self.command, "usage": done.stderr}))

    def kernels(self):
        """(name, registers, spills, shared bytes, scratch bytes) of every kernel in the object; no spills are an empty text."""
        if is_amd(self.architecture):
            for name, kernel in sorted(CodeObject(self.object.read_bytes()).kernels.items()):
                registers = f"{kernel['.vgpr_count']} v {kernel['.sgpr_count']} s"
                if kernel.get(".agpr_count"):
                    registers += f" {kernel['.agpr_count']} a"
                # A spilled scalar goes to a lane of a vector register; only with scratch does a spill reach memory.
                spilled = ((kernel.get(".vgpr_spill_count", 0), "v"), (kernel.get(".sgpr_spill_count", 0), "s"))
                yield (name, registers, " ".join(f"{count} {kind}" for count, kind in spilled if count),
                       kernel[".group_segment_fixed_size"], kernel[".private_segment_fixed_size"])
        else:
            yield from nvidia_usage(json.loads(self.state.read_text())["usage"])


def nvidia_usage(text):
    """What ptxas -v says."""
    found = []
    for block in text.split("Compiling entry function '")[1:]:
        stack, stores, loads = map(int, re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", block).groups())
        registers = re.search(r"Used (\d+) registers", block)[1]
        shared = re.search(r"(\d+) bytes smem", block)
        found.append((block.split("'")[0], f"{registers} r", f"{stores + loads} bytes" if stores + loads else "", int(shared[1]) if shared else 0, stack))
    return sorted(found)


def plan(architectures, output):
    clang = find_clang() if any(map(is_amd, architectures)) else None
    nvcc = find_nvcc() if not all(map(is_amd, architectures)) else None
    libraries = output.parent / "device-libs"
    if clang:
        make_device_libraries(clang, libraries)
    tasks = []
    for architecture in architectures:
        objects = {}
        for folder, pattern in FOLDERS.items():
            if not re.fullmatch(pattern, architecture):
                continue
            for source in sorted((SOURCES / folder).glob("*")) + (TEST_SOURCES if folder == "gpu" else []):
                if source.suffix != ".hip" and (source.suffix != ".cu" or is_amd(architecture)):
                    continue
                if source.stem in objects:
                    raise Problem(f"{source.relative_to(ROOT)} and {objects[source.stem].relative_to(ROOT)} would be one object")
                objects[source.stem] = source
                tasks.append(Task(source, architecture, output, clang if is_amd(architecture) else nvcc, libraries))
        wanted = {task.object for task in tasks}
        for old in [*(output / architecture).glob("*.hsaco"), *(output / architecture).glob("*.cubin")]:
            if old not in wanted:
                old.unlink()
    return tasks


def print_table(tasks, file, strict):
    rows, faults = [], []
    for task in tasks:
        for name, registers, spills, shared, scratch in task.kernels():
            note = ""
            if spills or scratch:
                note = " and ".join(word for word, count in (("SPILLS", spills), ("SCRATCH", scratch)) if count)
                reaches_memory = scratch or not re.fullmatch(r"\d+ s", spills)
                if not task.is_test and (not task.portable or strict and reaches_memory):
                    faults.append((task, f"{task.object.stem}.{name}"))
            rows.append((task.architecture, task.object.stem, name, registers, spills or "0", str(shared), str(scratch), note))
    header = ("arch", "object", "kernel", "registers", "spills", "shared", "scratch", "")
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = ["  ".join(cell.rjust(width) if i in (4, 5, 6) else cell.ljust(width)
                       for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in [header, *rows]]
    print("\n".join(lines), file=file)
    return len(rows), sum(bool(row[7]) for row in rows), faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("architectures", nargs="*", metavar="ARCHITECTURE", help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/kernels")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--quiet", action="store_true", help="no table unless something is the matter")
    parser.add_argument("--strict", action="store_true", help="fail for spills to memory and for scratch in the portable kernels too")
    parser.add_argument("--check", action="store_true", help="only say whether the architectures are known")
    arguments = parser.parse_args()
    started = time.monotonic()
    architectures = list(dict.fromkeys(arguments.architectures or DEFAULT))
    try:
        check_architectures(architectures)
        if arguments.check:
            return 0
        tasks = plan(architectures, arguments.output.resolve())
        if not tasks:
            raise Problem("no kernel sources for " + ", ".join(architectures))
    except Problem as problem:
        print(f"kernels: {problem}", file=sys.stderr)
        return 2
    outdated = [task for task in tasks if not task.is_current()]
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        list(pool.map(Task.build, outdated))
    failed = [task for task in tasks if task.error]
    built = [task for task in tasks if not task.error]
    for task in outdated:
        for text in filter(None, (task.error, task.warnings)):
            print(f"--- {task.architecture} {task.source.relative_to(ROOT)}\n{text.rstrip()}", file=sys.stderr)
    with open(arguments.output / "table.txt", "w") as table:
        kernels, spilling, faults = print_table(built, table, arguments.strict)
    if not arguments.quiet or failed or faults:
        print((arguments.output / "table.txt").read_text(), end="")
    for architecture in architectures:
        names = [name for task, name in faults if task.architecture == architecture]
        if names:
            print(f"kernels: {architecture}: {len(names)} kernels spill or use scratch: {' '.join(names)}", file=sys.stderr)
    for task in failed:
        print(f"kernels: {task.source.relative_to(ROOT)} does not compile for {task.architecture}", file=sys.stderr)
    size = sum(task.object.stat().st_size for task in built)
    print(f"kernels: {len(built)} code objects of {len(architectures)} architectures ({len(outdated)} compiled), {kernels} kernels, "
          f"{spilling} with spills or scratch, {size / 2**20:.1f} MiB, {time.monotonic() - started:.0f} s")
    return 1 if failed or faults else 0


if __name__ == "__main__":
    sys.exit(main())
