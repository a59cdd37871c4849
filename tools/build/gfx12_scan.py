#!/usr/bin/env python3
"""Looks for missing waits in the machine code of gfx12 objects, by the rule of gfx12_hazard.py. Needs LLVM's llvm-objdump.

    gfx12_scan.py OBJECT... or FOLDER...

A folder stands for its gfx12*/*.hsaco. Fails where an object lacks a wait or the mark of gfx12_waits.py, and where there is no object.
"""
import pathlib
import re
import subprocess
import sys

from amd_toolchain import find_disassembler
from code_object import CodeObject
from gfx12_hazard import Function, Problem, parse, places
from gfx12_waits import MARK

START = re.compile(r"[0-9a-f]+ <([^>]+)>:")
LINE = re.compile(r"\t(.*?)\s*// ([0-9A-F]+):.*?(?:<([^>]+)>)?$")
# A jump that is too far for a branch.
FAR = re.compile(r"\ts_getpc_b64 s\[(\d+):\d+\]\s*// ([0-9A-F]+):.*\n(?:\ts_wait_alu .*\n)?\ts_add_co_u32 s\1, s\1, (0x[0-9a-f]+|-?\d+) ")
GETPC_BYTES = 4


def far_targets(text):
    """Addresses of instructions that jumps lead to whose targets the disassembly does not name."""
    found = set()
    for _, address, offset in FAR.findall(text):
        low = int(offset, 0) & 0xffffffff
        found.add(int(address, 16) + GETPC_BYTES + low - (low >> 31 << 32))
    return found


def read_disassembly(text, kernels):
    """Functions of what llvm-objdump -d prints. Labels are written as its comments name a branch's target: NAME+0x1c."""
    targets = set(re.findall(r"\ts_c?branch.*<([^>]+)>$", text, re.MULTILINE))
    far = far_targets(text)
    found, function, begin, ended = [], None, 0, False
    for line in text.splitlines():
        if match := START.match(line):
            function, begin, ended = Function(match[1], match[1] in kernels), int(line.split()[0], 16), False
            found.append(function)
        elif function and (match := LINE.match(line)):
            code, address, target = match[1], int(match[2], 16), match[3]
            # What follows the last function fills up the section.
            ended = ended or code.startswith("s_code_end")
            if ended:
                continue
            offset = address - begin
            name = f"{function.name}+0x{offset:x}" if offset else function.name
            if name in targets or address in far:
                function.labels[name] = len(function.instructions)
            if code.startswith(("s_branch", "s_cbranch")):
                code = f"{code.split()[0]} {target}"
            function.instructions.append(parse(code))
    return found


def scan(path, disassembler):
    """(instructions, lines that name what is missing)"""
    raw = path.read_bytes()
    done = subprocess.run([disassembler, "-d", str(path)], capture_output=True, text=True)
    functions = read_disassembly(done.stdout, CodeObject(raw).kernels)
    if done.returncode or not functions:
        raise Problem(f"{disassembler} finds no code: {done.stderr.strip()}")
    missing = [] if MARK.encode() in raw else [f"not marked as '{MARK}'"]
    for function in functions:
        if found := places(function):
            index, fields = found[0]
            missing.append(f"{function.name}: {len(found)} places without s_wait_alu, the first before instruction {index}, "
                           f"'{function.instructions[index].name}', which needs 0x{0xffff & ~fields:x}")
    return sum(len(function.instructions) for function in functions), missing


def main():
    paths = []
    for name in map(pathlib.Path, sys.argv[1:]):
        paths += sorted(name.glob("gfx12*/*.hsaco")) if name.is_dir() else [name]
    disassembler = find_disassembler()
    if not paths or not disassembler:
        print(f"gfx12_scan: {'no llvm-objdump here' if paths else 'no objects of gfx12'}", file=sys.stderr)
        return 2
    instructions = faults = 0
    for path in paths:
        try:
            count, missing = scan(path, disassembler)
        except (OSError, ValueError, Problem) as problem:
            count, missing = 0, [str(problem)]
        instructions += count
        faults += bool(missing)
        for line in missing:
            print(f"gfx12_scan: {path.parent.name}/{path.name}: {line}", file=sys.stderr)
    print(f"gfx12_scan: {len(paths)} objects, {instructions} instructions, {faults} objects with missing waits")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
