#!/usr/bin/env python3
"""Looks for missing waits in the machine code of gfx12 objects, by the rule of gfx12_hazard.py. Needs LLVM's llvm-objdump.

    gfx12_scan.py OBJECT... or FOLDER...

A folder stands for its gfx12*/*.hsaco. Fails where an object lacks a wait or the mark of gfx12_waits.py, and where there is no object.
"""
import pathlib
import sys

from amd_toolchain import find_disassembler
from code_flow import Problem
from disassembly import functions_of
from gfx12_hazard import parse, places
from gfx12_waits import MARK

def scan(path, disassembler):
    """(instructions, lines that name what is missing)"""
    functions, code_object = functions_of(path, disassembler, parse)
    missing = [] if MARK.encode() in code_object.raw else [f"not marked as '{MARK}'"]
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
