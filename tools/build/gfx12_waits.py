"""Puts the waits of gfx12_hazard.py into assembly that clang wrote for gfx12, and a mark that says so.

Compilers before LLVM 20 put none in, LLVM 20 some, later ones all. Whatever the compiler, programs load no object of gfx12 without the mark.
"""
import re

from code_flow import Function, Problem
from gfx12_hazard import parse, places

# src/device/kernel_library.cpp looks for it. The number is the rule's: raise it in both where the rule becomes stricter.
MARK = "rocmforge: gfx12 waits 1"
NEEDED = re.compile(r"gfx12(\d\d|-generic)")  # architectures
LABEL = re.compile(r"([\w.$@]+):")
OFFSET = re.compile(r"(rel32@(?:lo|hi)\+)(\d+)")
SKIPPED = ("SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4")
DELAY = re.compile(r"\| instskip\((\w+)\) \| (instid1\(\w+\))")
WAIT_BYTES = 4


def read_assembly(lines):
    """(functions, for each the numbers of its instructions' lines)"""
    text = "\n".join(lines)
    kernels = set(re.findall(r"^\s*\.amdhsa_kernel\s+(\S+)", text, re.MULTILINE))
    names = set(re.findall(r"^\s*\.type\s+([^\s,]+),\s*@function", text, re.MULTILINE))
    found, function, numbers, in_metadata = [], None, [], False
    for number, line in enumerate(lines):
        if "amdgpu_metadata" in line:  # what stands between .amdgpu_metadata and .end_amdgpu_metadata is YAML
            in_metadata = line.strip() == ".amdgpu_metadata"
        if in_metadata:
            continue
        code = line.split(";", 1)[0].strip()
        if label := LABEL.match(code):
            name, code = label[1], code[label.end():].strip()
            if name in names:
                function, numbers = Function(name, name in kernels), []
                found.append((function, numbers))
            elif name.startswith(".Lfunc_end"):
                function = None
            elif function:
                function.labels[name] = len(function.instructions)
        if not code or code.startswith("."):
            continue
        if not function:
            raise Problem(f"line {number + 1}: the instruction '{code}' is in no function")
        function.instructions.append(parse(code))
        numbers.append(number)
    return found


def _block_starts(function):
    starts = {0, *function.labels.values()}
    return starts | {i + 1 for i, one in enumerate(function.instructions) if one.target}


def with_waits(text):
    """(the assembly with waits and mark, the number of waits added)"""
    lines = text.splitlines()
    before, added = {}, 0
    for function, numbers in read_assembly(lines):
        starts, inserted = _block_starts(function), []
        for index, fields in places(function):
            # Not between s_delay_alu and the instruction that it is about.
            while index not in starts and function.instructions[index - 1].name == "s_delay_alu":
                index -= 1
            inserted.append(index)
            before[numbers[index]] = before.get(numbers[index], 0) | fields
        added += len(inserted)
        _correct_distances(lines, function, numbers, starts, set(inserted))
    out = []
    for number, line in enumerate(lines):
        if number in before:
            out.append(f"\ts_wait_alu 0x{0xffff & ~before[number]:x}")
        out.append(line)
    return "\n".join([*out, '\t.section\t.comment,"MS",@progbits,1', f'\t.asciz\t"{MARK}"', ""]), added


def _correct_distances(lines, function, numbers, starts, inserted):
    """Offsets from s_getpc_b64, and the second instruction of s_delay_alu, are told in instructions between, waits included."""
    counter = -1  # waits since s_getpc_b64 in this block
    for index, number in enumerate(numbers):
        if index in starts:
            counter = -1
        counter += index in inserted and counter >= 0
        name, line = function.instructions[index].name, lines[number]
        if name.startswith("s_getpc"):
            counter = 0
        elif "rel32@" in line:
            if counter < 0:
                raise Problem(f"{function.name}: '{line.strip()}' without s_getpc_b64 before it")
            lines[number] = OFFSET.sub(lambda match: f"{match[1]}{int(match[2]) + WAIT_BYTES * counter}", line)
        elif name == "s_delay_alu" and (delay := DELAY.search(line)):
            skipped = SKIPPED.index(delay[1])
            skipped += sum(index + 1 < at <= index + 1 + skipped for at in range(index + 2, index + 2 + skipped) if at in inserted)
            second = f"| instskip({SKIPPED[skipped]}) | {delay[2]}" if skipped < len(SKIPPED) else ""
            lines[number] = (line[:delay.start()] + second + line[delay.end():]).rstrip()
