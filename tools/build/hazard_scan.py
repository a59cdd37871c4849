#!/usr/bin/env python3
"""Looks for instructions that follow each other too closely in AMD code objects: gfx90a, gfx942, gfx950 by the rules of gfx9_hazard.py, gfx11 and
gfx12 by those of rdna_hazard.py (gfx12's scalar registers: gfx12_scan.py). Needs LLVM's llvm-objdump.

    hazard_scan.py OBJECT... or FOLDER...

A folder stands for all objects in it; an object lies in a folder of its architecture's name. Objects of other architectures have no rules
here and are counted. Fails where a distance is too short, a hazard is not known, or there is no object with rules.
"""
import concurrent.futures
import pathlib
import re
import sys

import gfx9_hazard
import rdna_hazard
from amd_toolchain import find_disassembler
from code_flow import Problem
from disassembly import functions_of
from operands import parse

RDNA3_0 = rdna_hazard.Card(transcendental=True, exchange=True, wide_product=True)
# Rules of each architecture. Objects of gfx9-4-generic run on gfx942 and gfx950, those of gfx11-generic on all of gfx11.
RULES = ((re.compile("gfx90a"), (gfx9_hazard.Card("gfx90a"),)),
         (re.compile("gfx942"), (gfx9_hazard.Card("gfx942"),)),
         (re.compile("gfx950"), (gfx9_hazard.Card("gfx950"),)),
         (re.compile("gfx9-4-generic"), (gfx9_hazard.Card("gfx942"), gfx9_hazard.Card("gfx950"))),
         (re.compile(r"gfx110\d|gfx11-generic|gfx10-as-gfx1100"), (RDNA3_0,)),
         (re.compile(r"gfx115\d"), (rdna_hazard.Card(transcendental=False, exchange=True, wide_product=True),)),
         (re.compile(r"gfx12(0\d|-generic)"), (rdna_hazard.Card(transcendental=False, exchange=False, wide_product=False),)))


def cards_of(architecture):
    return next((cards for pattern, cards in RULES if pattern.fullmatch(architecture)), ())


def scan(path, disassembler):
    """(instructions, lines that name what is missing)"""
    functions, code_object = functions_of(path, disassembler, parse)
    missing = []
    for card in cards_of(path.parent.name):
        rules = gfx9_hazard if isinstance(card, gfx9_hazard.Card) else rdna_hazard
        if wide := [name for name, kernel in code_object.kernels.items() if rules is rdna_hazard and kernel[".wavefront_size"] != 32]:
            raise Problem(f"{wide[0]} has waves of 64, whose hazards are not looked for")
        for function in functions:
            if found := rules.places(function, card):
                index, *what = found[0]
                states, why = what if len(what) == 2 else (0, what[0])
                short = f", {states} wait states too early" if states else ""
                missing.append(f"{function.name}: {len(found)} places, the first is instruction {index}, "
                               f"'{function.instructions[index].name}': {why}{short}")
    return sum(len(function.instructions) for function in functions), missing


def scan_or_problem(path, disassembler):
    try:
        return scan(path, disassembler)
    except (OSError, ValueError, Problem) as problem:
        return 0, [str(problem)]


def main():
    paths = []
    for name in map(pathlib.Path, sys.argv[1:]):
        paths += sorted(name.rglob("*.hsaco")) if name.is_dir() else [name]
    known = [path for path in paths if cards_of(path.parent.name)]
    disassembler = find_disassembler()
    if not known or not disassembler:
        print(f"hazard_scan: {'no llvm-objdump here' if known else 'no objects of architectures with rules'}", file=sys.stderr)
        return 2
    with concurrent.futures.ProcessPoolExecutor() as pool:
        results = list(pool.map(scan_or_problem, known, [disassembler] * len(known)))
    for path, (_, missing) in zip(known, results):
        for line in missing:
            print(f"hazard_scan: {path.parent.name}/{path.name}: {line}", file=sys.stderr)
    faults = sum(bool(missing) for _, missing in results)
    print(f"hazard_scan: {len(known)} objects, {sum(count for count, _ in results)} instructions, {faults} objects with faults; "
          f"{len(paths) - len(known)} objects without rules")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
