#!/usr/bin/env python3
"""Compiles the GPU kernels of src/kernels/: build/kernels/ARCHITECTURE/SOURCE.hsaco for AMD, .cubin for NVIDIA.

    build_kernels.py [--output FOLDER] [--jobs N] [--quiet] [--strict] [--tuned] [--check] [--compiler] [--shaken]
                     [--only SOURCE] [ARCHITECTURE...]

ARCHITECTURE `all` is every AMD card that a compiler here knows, the generic targets that serve the others, and the default ones of NVIDIA.
Only what is older than its source or one of its headers is compiled. Ends with what every kernel uses: registers, spills,
shared memory, scratch. A kernel written for one architecture family that reaches memory for what it spills fails the build; with
--strict so does a warning, any spill of such a kernel, and a portable one that reaches memory (a scalar that goes to a lane of a vector register does
not, nor a vector that goes to an accumulator register). On NVIDIA a kernel may store and load SPILLED_BYTES. The first line of each
problem is also in FOLDER/problems.txt.
--shaken compiles into build/kernels-shaken: all that orders threads waits for pseudo-random times (src/kernels/tile/shake.h), for tools/build/shake.py;
spills are no faults there.
tests/device/device_check.hip is compiled too: the tests of a GPU load it from the folder, no program embeds it.
For gfx12 the compiler writes assembly, which gfx12_waits.py completes before it is assembled.
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

from amd_toolchain import Problem, find_toolchains, make_device_libraries, toolchain_for
from code_flow import Problem as UnknownAssembly
from code_object import CodeObject
from gfx12_waits import NEEDED, with_waits

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src/kernels"
DEFAULT = ["gfx90a", "gfx942", "gfx1100", "gfx1201", "sm_90a"]
# AMD architectures and the number of each in the device libraries. Without gfx900 and gfx90c: for chunk_states the back end of Clang 19
# ends with an internal error (illegal VGPR to SGPR copy).
AMD = {"gfx906": 9006, "gfx908": 9008, "gfx90a": 9010, "gfx942": 9402, "gfx950": 9500, "gfx1010": 10100,
       "gfx1011": 10101, "gfx1012": 10102, "gfx1013": 10103, "gfx1030": 10300, "gfx1031": 10301, "gfx1032": 10302, "gfx1033": 10303,
       "gfx1034": 10304, "gfx1035": 10305, "gfx1036": 10306, "gfx1100": 11000, "gfx1101": 11001, "gfx1102": 11002, "gfx1103": 11003,
       "gfx1150": 11500, "gfx1151": 11501, "gfx1152": 11502, "gfx1153": 11503, "gfx1200": 12000, "gfx1201": 12001}
# Generic objects of a generation, for cards without objects of their own. They are of code object version 6.
GENERIC = {"gfx9-4-generic": 9402, "gfx10-1-generic": 10100, "gfx10-3-generic": 10300, "gfx11-generic": 11003,
           "gfx12-generic": 12000}
# The cards that each serves: LLVM's AMDGPU usage guide, "Generic processors".
SERVED = {"gfx9-4-generic": r"gfx9(42|50)", "gfx10-1-generic": r"gfx101\d", "gfx10-3-generic": r"gfx103\d", "gfx11-generic": r"gfx11[05]\d",
          "gfx12-generic": r"gfx120\d"}
# Those of generations that still grow.
FOR_UNKNOWN = ("gfx10-3-generic", "gfx11-generic", "gfx12-generic")
ALL = "all"
# For tests on an emulator that lacks the instructions of older cards: the kernels for cards without matrix cores, compiled
# for another card.
WITHOUT_MATRIX_CORES = {"gfx10-as-gfx1100": "gfx1100"}
ISA_VERSIONS = AMD | GENERIC
# Families, which are folders of src/kernels and of its rooms, and the architectures their sources are for. Extensions: .hip for both
# vendors, .cu for NVIDIA.
FAMILIES = {"portable": r".*", "check": r".*", "amd": r"gfx(9(0a|42|50|-4-generic)|1[12](\d\d|-generic))", "hopper": r"sm_90a"}
PORTABLE = {"portable", "check"}
TEST_SOURCES = [ROOT / "tests/device/device_check.hip"]
AMD_FLAGS = ["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-O3", "-std=c++20", "-Wall", "-Wextra"]
WAITS_FROM = [pathlib.Path(__file__).parent / name for name in ("code_flow.py", "gfx12_hazard.py", "gfx12_waits.py")]
# What a kernel for NVIDIA may spill: ptxas does not allocate the same registers on every machine, so a kernel that has none to spare may
# store a few words on one and none on another.
SPILLED_BYTES = 96
NVIDIA_FLAGS = ["-x", "cu", "-std=c++20", "-cubin", "-O3", "--expt-relaxed-constexpr", "-Xptxas", "-v"]


def is_amd(architecture):
    return architecture.startswith("gfx")


def processor_of(architecture):
    """The compiler's name of it."""
    return WITHOUT_MATRIX_CORES.get(architecture, architecture)


def amd_flags(architecture, toolchain, libraries):
    # The build sets the wave size, because compilers no longer have a macro for it.
    wave_size = 64 if architecture.startswith("gfx9") else 32
    flags = [f"--offload-arch={processor_of(architecture)}", *toolchain.flags(libraries, wave_size), f"-DROCMFORGE_WAVE_SIZE={wave_size}"]
    if architecture in GENERIC:
        flags.append("-mcode-object-version=6")  # clang 19 warns that its version 6 is not the last word
    if architecture in WITHOUT_MATRIX_CORES:
        flags.append("-DROCMFORGE_MATRIX_CORES=0")
    if NEEDED.fullmatch(processor_of(architecture)):  # branches reach as far when gfx12_waits.py has made the code longer
        flags += ["-mllvm", "-amdgpu-s-branch-bits=15"]
    return [*AMD_FLAGS, *flags]


def assembler(architecture, toolchain):
    """Makes an object of assembly."""
    version = ["-mcode-object-version=6"] if architecture in GENERIC else []
    return [toolchain.clang, "-x", "assembler", "-target", "amdgcn-amd-amdhsa", f"-mcpu={processor_of(architecture)}", *version]


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
        if architecture not in {*ISA_VERSIONS, *WITHOUT_MATRIX_CORES, *nvidia}:
            raise Problem(f"unknown architecture '{architecture}'; available: {', '.join([ALL, *ISA_VERSIONS, *nvidia])}")


class Toolchains:
    """Those of this machine that compile."""

    def __init__(self, device_libraries):
        self.device_libraries = device_libraries  # a folder
        self.found, self.problems = find_toolchains(), {}

    def for_architecture(self, architecture):
        return toolchain_for(architecture, self.found, self._problem_of)

    def _problem_of(self, toolchain, architecture):
        """Tried once, with the first architecture that is asked for."""
        if toolchain not in self.problems:
            self.problems[toolchain] = toolchain.problem(self.device_libraries, architecture, ISA_VERSIONS)
        return self.problems[toolchain]

    def refusal(self):
        """Why those refuse that do not know an architecture."""
        broken = "".join(f"; {toolchain.name} does not compile: {text}" for toolchain, text in self.problems.items() if text)
        return f"not known to {' or '.join(one.clang for one in self.found if not self.problems.get(one)) or 'any compiler here'}{broken}"


def generics_for(cards, toolchains):
    """The generic targets that a compiler here knows and that serve one of the cards."""
    return [name for name, served in SERVED.items() if any(re.fullmatch(served, card) for card in cards) and toolchains.for_architecture(name)]


def every_architecture(toolchains):
    """What `all` stands for, and a line about the cards that have no objects of their own."""
    unknown = [card for card in AMD if toolchains.for_architecture(card) is None]
    generic = generics_for(unknown, toolchains)
    unserved = [card for card in unknown if not any(re.fullmatch(SERVED[name], card) for name in generic)]
    note = f"{', '.join(unknown)}: {toolchains.refusal()}; " if unknown else ""
    note += f"{', '.join(generic)} in place of them" if generic else ""
    note += f"; nothing for {', '.join(unserved)}" if unserved else ""
    generic += [name for name in FOR_UNKNOWN if name not in generic and toolchains.for_architecture(name)]
    return [*(card for card in AMD if card not in unknown), *generic, *(name for name in DEFAULT if not is_amd(name))], note


def compilers_of(architectures, device_libraries):
    """The toolchain of each AMD architecture."""
    wanted = [architecture for architecture in architectures if is_amd(architecture)]
    toolchains = Toolchains(device_libraries) if wanted else None
    chosen = {architecture: toolchains.for_architecture(processor_of(architecture)) for architecture in wanted}
    if unknown := [architecture for architecture, toolchain in chosen.items() if toolchain is None]:
        generic = generics_for(unknown, toolchains)
        raise Problem(f"{', '.join(unknown)}: {toolchains.refusal()}" +
                      (f", which compiles {' and '.join(generic)} for it" if generic else ""))
    return chosen


class Task:
    """One source for one architecture."""

    def __init__(self, source, architecture, output, compiler, flags, assembler=None):
        """`assembler`: of an architecture whose assembly is completed."""
        self.source, self.architecture = source, architecture
        self.portable, self.is_test = source.parent.name in PORTABLE, source in TEST_SOURCES
        self.object = output / architecture / f"{source.stem}.{'hsaco' if is_amd(architecture) else 'cubin'}"
        self.dependencies = output / ".state" / architecture / f"{source.stem}.d"
        self.state = self.dependencies.with_suffix(".json")
        self.command = [compiler, *flags, f"-I{ROOT / 'src'}", str(source), "-MMD", "-MF", str(self.dependencies)]
        self.assembler = assembler
        if assembler:
            self.command.append("-S")
        self.seconds, self.error = 0.0, None

    def is_current(self):
        try:
            if json.loads(self.state.read_text())["command"] != self.command:
                return False
            built = self.object.stat().st_mtime_ns
            names = self.dependencies.read_text().replace("\\\n", " ").split(": ", 1)[1].split()
            names += WAITS_FROM if self.assembler else []
            return all(pathlib.Path(name).stat().st_mtime_ns < built for name in names)
        except (OSError, ValueError, KeyError, IndexError):
            return False

    def build(self):
        started = time.monotonic()
        self.object.parent.mkdir(parents=True, exist_ok=True)
        self.state.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.object.with_suffix(f".{os.getpid()}")
        done = self._compile(unfinished)
        self.seconds = time.monotonic() - started
        if done.returncode:
            self.error = done.stdout + done.stderr
            unfinished.unlink(missing_ok=True)
            self.object.unlink(missing_ok=True)
            return
        # The object's time is set to the start of its compilation, so that a source that changes meanwhile is compiled
        # again.
        os.utime(unfinished, ns=(time.time_ns(), time.time_ns() - int(self.seconds * 1e9)))
        unfinished.rename(self.object)
        self.state.write_text(json.dumps({"command": self.command, "usage": done.stderr}))

    def _compile(self, unfinished):
        """What the last command that ran has said."""
        if not self.assembler:
            return subprocess.run([*self.command, "-o", str(unfinished)], capture_output=True, text=True)
        assembly = self.state.with_suffix(".s")
        done = subprocess.run([*self.command, "-o", str(assembly)], capture_output=True, text=True)
        if done.returncode:
            return done
        try:
            completed, _ = with_waits(assembly.read_text())
        except UnknownAssembly as problem:
            return subprocess.CompletedProcess(self.command, 1, "", f"no waits can be put into it: {problem}\n")
        assembly.write_text(completed)
        assembled = subprocess.run([*self.assembler, str(assembly), "-o", str(unfinished)], capture_output=True, text=True)
        assembled.stderr = done.stderr + assembled.stderr
        return assembled

    @property
    def warnings(self):
        """The lines of its compilation, whenever that was."""
        said = json.loads(self.state.read_text())["usage"] if self.state.exists() else ""
        return "\n".join(line for line in said.splitlines() if "warning" in line)

    def kernels(self):
        """(name, registers, spills, shared bytes, scratch bytes) of every kernel in the object; no spills are an empty text."""
        if is_amd(self.architecture):
            for name, kernel in sorted(CodeObject(self.object.read_bytes()).kernels.items()):
                registers = f"{kernel['.vgpr_count']} v {kernel['.sgpr_count']} s"
                if kernel.get(".agpr_count"):
                    registers += f" {kernel['.agpr_count']} a"
                # A spilled scalar goes to a lane of a vector register, and on CDNA a vector to an accumulator register; only with
                # scratch does a spill reach memory.
                spilled = ((kernel.get(".vgpr_spill_count", 0), "v"), (kernel.get(".sgpr_spill_count", 0), "s"))
                yield (name, registers, " ".join(f"{count} {kind}" for count, kind in spilled if count),
                       kernel[".group_segment_fixed_size"], kernel[".private_segment_fixed_size"])
        else:
            yield from nvidia_usage(json.loads(self.state.read_text())["usage"])


def nvidia_usage(text):
    """What ptxas -v says: of spills the bytes stored and loaded."""
    found = []
    for block in text.split("Compiling entry function '")[1:]:
        stack, stores, loads = map(int, re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", block).groups())
        registers = re.search(r"Used (\d+) registers", block)[1]
        shared = re.search(r"(\d+) bytes smem", block)
        found.append((block.split("'")[0], f"{registers} r", f"{stores + loads} bytes" if stores + loads else "", int(shared[1]) if shared else 0, stack))
    return sorted(found)


def has_warning(text):
    """Of a line of a source: in clang's form or in nvcc's. Those of the tools themselves have none."""
    return re.search(r"(:\d+: |\(\d+\): )warning[: ]", text) is not None


def sources_of(architecture):
    """All that is compiled for it."""
    suffixes = {".hip"} if is_amd(architecture) else {".hip", ".cu"}
    for family, pattern in FAMILIES.items():
        if re.fullmatch(pattern, architecture):
            yield from sorted(path for path in SOURCES.rglob("*") if path.parent.name == family and path.suffix in suffixes)
    yield from TEST_SOURCES


def plan(architectures, output, only=(), tuned=False, shaken=False):
    device_libraries = output.parent / "device-libs"
    toolchains = compilers_of(architectures, device_libraries)
    nvcc = find_nvcc() if not all(map(is_amd, architectures)) else None
    libraries = {toolchain: toolchain.library_folder(device_libraries) for toolchain in toolchains.values()}
    for toolchain, folder in libraries.items():
        make_device_libraries(toolchain, folder, ISA_VERSIONS)
    tasks = []
    for architecture in architectures:
        if toolchain := toolchains.get(architecture):
            command = (toolchain.clang, amd_flags(architecture, toolchain, libraries[toolchain]),
                       assembler(architecture, toolchain) if NEEDED.fullmatch(processor_of(architecture)) else None)
        else:
            command = nvcc, [*NVIDIA_FLAGS, f"-gencode=arch=compute_{architecture[3:]},code={architecture}"]
        if shaken:
            command[1].append("-DROCMFORGE_SHAKEN=1")
        objects = {}
        for source in sources_of(architecture):
            if source.stem in objects:
                raise Problem(f"{source.relative_to(ROOT)} and {objects[source.stem].relative_to(ROOT)} would be one object")
            objects[source.stem] = source
            tasks.append(Task(source, architecture, output, *command))
        wanted = {task.object for task in tasks}
        for old in [*(output / architecture).glob("*.hsaco"), *(output / architecture).glob("*.cubin")]:
            if old not in wanted:
                old.unlink()
    return [task for task in tasks if (not only or task.object.stem in only) and not (tuned and (task.portable or task.is_test))]


def is_fault(task, spills, scratch, strict):
    if is_amd(task.architecture):
        return strict and scratch if task.portable else strict or scratch
    bytes_spilled = int(spills.split()[0]) if spills else 0
    return (strict or not task.portable) and max(bytes_spilled, scratch) > SPILLED_BYTES


def print_table(tasks, file, strict):
    rows, faults = [], []
    for task in tasks:
        for name, registers, spills, shared, scratch in task.kernels():
            note = ""
            if spills or scratch:
                note = " and ".join(word for word, count in (("SPILLS", spills), ("SCRATCH", scratch)) if count)
                if not task.is_test and is_fault(task, spills, scratch, strict):
                    faults.append((task, f"{task.object.stem}.{name} ({spills or 'no'} spills, {scratch} bytes of scratch)"))
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
    parser.add_argument("--output", type=pathlib.Path, help="default: build/kernels, or build/kernels-shaken")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--quiet", action="store_true", help="no table unless something is the matter")
    parser.add_argument("--strict", action="store_true", help="fail for warnings, and for spills to memory and scratch in the portable kernels too")
    parser.add_argument("--tuned", action="store_true", help="compile only the kernels written for a family of architectures")
    parser.add_argument("--check", action="store_true", help="only say whether the architectures are known")
    parser.add_argument("--compiler", action="store_true", help="only say which compiler would compile for the architectures")
    parser.add_argument("--shaken", action="store_true", help="compile in waits of pseudo-random lengths around all that orders threads")
    parser.add_argument("--only", action="append", default=[], metavar="SOURCE", help="compile this source alone, such as matvec")
    arguments = parser.parse_args()
    started = time.monotonic()
    output = (arguments.output or ROOT / f"build/kernels{'-shaken' if arguments.shaken else ''}").resolve()
    architectures = list(dict.fromkeys(arguments.architectures or DEFAULT))
    try:
        check_architectures([name for name in architectures if name != ALL])
        if arguments.check:
            return 0
        if ALL in architectures:
            every, note = every_architecture(Toolchains(output.parent / "device-libs"))
            architectures = list(dict.fromkeys([*every, *(name for name in architectures if name != ALL)]))
            if note:
                print(f"kernels: {note}", file=sys.stderr)
        if arguments.compiler:
            for architecture, toolchain in compilers_of(architectures, output.parent / "device-libs").items():
                print(f"{architecture}: {toolchain.clang}, headers in {toolchain.headers}/include, device libraries in {toolchain.bitcode}")
            return 0
        tasks = plan(architectures, output, arguments.only, arguments.tuned, arguments.shaken)
        if not tasks:
            raise Problem("no kernel sources for " + ", ".join(architectures))
    except Problem as problem:
        print(f"kernels: {problem}", file=sys.stderr)
        return 2
    outdated = [task for task in tasks if not task.is_current()]
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        list(pool.map(Task.build, outdated))
    failed = [task for task in tasks if task.error]
    warned = [task for task in tasks if arguments.strict and not task.error and has_warning(task.warnings)]
    built = [task for task in tasks if not task.error]
    said = set()
    for task in outdated:
        for text in filter(None, (task.error, task.warnings)):
            if text in said:  # of the compiler itself, the same for every source
                continue
            said.add(text)
            print(f"--- {task.architecture} {task.source.relative_to(ROOT)}\n{text.rstrip()}", file=sys.stderr)
    with open(output / "table.txt", "w") as table:
        kernels, spilling, faults = print_table(built, table, arguments.strict)
    if arguments.shaken:
        faults = []
    if not arguments.quiet or failed or faults:
        print((output / "table.txt").read_text(), end="")
    problems = []
    for architecture in architectures:
        names = [name for task, name in faults if task.architecture == architecture]
        if names:
            problems.append(f"{architecture}: {len(names)} kernels spill or use scratch: {', '.join(names)}")
    problems += [f"{task.source.relative_to(ROOT)} compiles with warnings for {task.architecture}:\n{task.warnings}" for task in warned]
    problems += [f"{task.source.relative_to(ROOT)} does not compile for {task.architecture}" for task in failed]
    for problem in problems:
        print(f"kernels: {problem}", file=sys.stderr)
    (output / "problems.txt").write_text("".join(problem.split("\n")[0] + "\n" for problem in problems))
    size = sum(task.object.stat().st_size for task in built)
    print(f"kernels: {len(built)} code objects of {len(architectures)} architectures ({len(outdated)} compiled), {kernels} kernels, "
          f"{spilling} with spills or scratch, {size / 2**20:.1f} MiB, {time.monotonic() - started:.0f} s")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
