"""Predicted beside recorded cycles, for the instruction traces that a tinygrad checkout holds (extra/sqtt/examples).

A recorded wave's instructions are run through the pipes alone. Compared are the cycles between neighbouring instructions, except where the later
one waits for memory: those kernels run once, with cold caches and address translation, which a kernel's time in a model does not depend on. Intervals
of more than COLD cycles that wait for nothing are fetches of instructions, left out for the same reason.
"""
import collections
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import types

from . import isa
from .chips import CHIPS, TIMINGS
from .memory import Access, unknown_access
from .pipeline import Supply, Unit
from .waits import wait_counts

COLD = 100
EXAMPLES = {"gfx1100": "rx7900xtx", "gfx1200": "rx9070xt"}


class Record:
    """Stands for any class of the profile."""

    def __init__(self, *arguments, **named):
        self.arguments = arguments

    def __setstate__(self, state):
        if isinstance(state, dict):
            self.__dict__.update(state)

    def __hash__(self):
        return id(self)


class Reader(pickle.Unpickler):
    """Takes nothing but plain data from a profile: its classes become records."""
    PLAIN = {("decimal", "Decimal"), ("builtins", "set"), ("builtins", "frozenset"), ("builtins", "bytearray"), ("collections", "OrderedDict")}

    def find_class(self, module, name):
        return super().find_class(module, name) if (module, name) in self.PLAIN else type(name, (Record,), {})


def recorded_waves(path, architecture):
    """(kernel's name, its object, waves as [(cycle, offset of the instruction)]) of each trace; its waves share one SIMD."""
    from tinygrad.renderer.amd.sqtt import map_insts
    with open(path, "rb") as file:
        events = Reader(file).load()
    programs = {e.tag: e for e in events if type(e).__name__ == "ProfileProgramEvent" and getattr(e, "tag", None) is not None}
    for event in events:
        program = programs.get(getattr(event, "kern", None)) if type(event).__name__ == "ProfileSQTTEvent" and event.itrace else None
        if program is None:
            continue
        waves, first = {}, None
        try:
            for packet, info in map_insts(event.blob, program.lib, architecture):
                if info is not None:
                    first = info.pc if first is None or info.pc < first else first
                    waves.setdefault(info.wave, []).append((packet._time, info.pc))
        except Exception as problem:  # a trace that its own decoder cannot follow to its end: what came before is good
            print(f"{path.name}: {program.name}: the trace is read up to a point only ({type(problem).__name__})", file=sys.stderr)
        start = min((wave[0][0] for wave in waves.values()), default=0)
        found = [[(time - start, pc - first) for time, pc in wave] for wave in waves.values() if len(wave) > 2]
        if found:
            yield program.name, program.lib, sorted(found)


def disassemble(lib, architecture):
    """The instructions of a recorded object; those put together without a compiler are no ELF that objdump reads, their code is wrapped anew."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "recorded.o"
        path.write_bytes(lib)
        try:
            return isa.disassemble(path)
        except isa.Unknown:
            from tinygrad.runtime.support.elf import elf_loader
            image, sections, _ = elf_loader(lib)
            text = next(section.header for section in sections if section.name == ".text")
            code = bytes(image[text.sh_addr:text.sh_addr + text.sh_size])
        source = ".text\n" + "".join(f".byte {byte}\n" for byte in code)
        subprocess.run(["clang-19", "-x", "assembler", "-target", "amdgcn-amd-amdhsa", f"-mcpu={architecture}", "-c", "-", "-o", path], input=source.encode(),
                       check=True)
        return isa.disassemble(path)


def simulate(code, architecture, waves):
    """The cycle at which each executed instruction of each wave starts. Waves start, and return from waits for memory, when they were recorded to."""
    chip, timing = CHIPS[EXAMPLES[architecture]], TIMINGS[architecture]
    places = {i.address: at for at, i in enumerate(code)}
    kernel = types.SimpleNamespace(code=code, places=places, timing=timing, architecture=architecture)
    end = next(at for at, i in enumerate(code) if i.kind == "end")
    groups, pinned = [], {}
    for number, wave in enumerate(waves):
        steps, accesses = [places[code[0].address + offset] for _, offset in wave], []
        for i, at in enumerate(steps):
            instruction = code[at]
            if i == 0 or waits_for_memory(instruction) or wave[i][0] - wave[i - 1][0] > COLD:
                pinned[number, i] = wave[i][0]
            if instruction.kind == "lds":
                least = max(1, instruction.bytes * timing.wave // timing.lds_bytes)
                accesses.append(Access(instruction.bytes * timing.wave, (), 0, least, least))
            else:
                accesses.append(unknown_access(instruction.bytes, timing.wave, timing.line) if instruction.bytes else None)
        if code[steps[-1]].kind != "end":
            steps, accesses = steps + [end], accesses + [None]
        groups.append(((0, 0, 0), [types.SimpleNamespace(steps=steps, accesses=accesses, moves={}, shares={}, reaches={})]))
    unit = Unit(kernel, chip, Supply(chip, timing, 1))
    unit.recorded, unit.pinned, unit.one_simd = [], pinned, True
    unit.run(groups, len(groups))
    cycles = [[] for _ in waves]
    for wave, _, cycle in unit.recorded:
        cycles[wave].append(cycle)
    return cycles


def waits_for_memory(instruction):
    if instruction.kind != "wait":
        return instruction.kind == "end"
    return any(set(names.split()) & {"loads", "stores", "scalar"} for names, _ in wait_counts(instruction))


def compare(code, architecture, waves):
    """[(kind of the earlier instruction, kind of the later, recorded cycles between them, predicted)]"""
    places = {i.address - code[0].address: at for at, i in enumerate(code)}
    rows = []
    for wave, predicted in zip(waves, simulate(code, architecture, waves)):
        shared = False
        for i in range(1, len(wave)):
            before, instruction = code[places[wave[i - 1][1]]], code[places[wave[i][1]]]
            recorded = wave[i][0] - wave[i - 1][0]
            shared = before.kind == "lds" or shared and before.kind != "smem"
            lds = shared and instruction.kind == "wait" and any("lds" in names for names, _ in wait_counts(instruction))
            if recorded <= COLD and (lds or not waits_for_memory(instruction)):
                rows.append((before.kind, "wait for LDS" if lds else instruction.kind, recorded, predicted[i] - predicted[i - 1]))
    return rows


def table(tinygrad):
    """Rows (architecture, example, kernel, waves, instructions, recorded, predicted), and of kinds (architecture, kinds, count, recorded, predicted)."""
    tinygrad = pathlib.Path(tinygrad)
    examples = tinygrad / "extra/sqtt/examples"
    if not examples.is_dir():
        raise isa.Unknown(f"'{tinygrad}' is no tinygrad checkout with extra/sqtt/examples")
    sys.path.insert(0, str(tinygrad))
    os.environ.setdefault("DEV", "CPU")
    kernels, kinds = collections.OrderedDict(), collections.defaultdict(lambda: [0, 0, 0.0])
    for architecture in EXAMPLES:
        for path in sorted((examples / architecture).glob("profile_*.pkl")):
            for name, lib, waves in recorded_waves(path, architecture):
                rows = compare(disassemble(lib, architecture), architecture, waves)
                entry = kernels.setdefault((architecture, path.stem.split("_")[1], name), [0, 0, 0, 0.0])
                entry[0] += len(waves)
                for before, kind, recorded, predicted in rows:
                    entry[1] += 1
                    entry[2] += recorded
                    entry[3] += predicted
                    found = kinds[architecture, f"{before} to {kind}"]
                    found[0] += 1
                    found[1] += recorded
                    found[2] += predicted
    return [(*key, *value) for key, value in kernels.items()], [(*key, *value) for key, value in kinds.items()]


def report(tinygrad):
    kernels, kinds = table(tinygrad)
    lines = ["| traces | kernel | waves | intervals | recorded cycles | predicted | predicted / recorded |", "|---|---|---:|---:|---:|---:|---:|"]
    for architecture, example, name, waves, count, recorded, predicted in kernels:
        lines.append(f"| {architecture} {example} | `{name}` | {waves} | {count} | {recorded} | {predicted:.0f} | {predicted / max(recorded, 1):.2f} |")
    lines += ["", "| traces | from, to | intervals | recorded | predicted | predicted / recorded |", "|---|---|---:|---:|---:|---:|"]
    for architecture, pair, count, recorded, predicted in sorted(kinds, key=lambda row: (row[0], -row[3]))[:60]:
        if recorded >= 200:
            lines.append(f"| {architecture} | {pair} | {count} | {recorded} | {predicted:.0f} | {predicted / recorded:.2f} |")
    return "\n".join(lines)
