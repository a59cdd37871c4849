"""Reads what llvm-objdump prints of AMD code objects."""
import re
import subprocess

from code_flow import Function, Problem
from code_object import CodeObject

START = re.compile(r"[0-9a-f]+ <([^>]+)>:")
LINE = re.compile(r"\t(.*?)\s*// ([0-9A-F]+):.*?(?:<([^>]+)>)?$")
# A jump that is too far for a branch.
FAR = re.compile(r"\ts_getpc_b64 s\[(\d+):\d+\]\s*// ([0-9A-F]+):.*\n(?:\ts_(?:wait|nop).*\n)*\ts_add(?:_co)?_u32 s\1, s\1, (0x[0-9a-f]+|-?\d+) ")
GETPC_BYTES = 4


def far_targets(text):
    """Addresses of instructions that jumps lead to whose targets the disassembly does not name."""
    found = set()
    for _, address, offset in FAR.findall(text):
        low = int(offset, 0) & 0xffffffff
        found.add(int(address, 16) + GETPC_BYTES + low - (low >> 31 << 32))
    return found


def read_disassembly(text, kernels, parse):
    """Functions of what llvm-objdump -d prints. Labels are written as its comments name a branch's target: NAME+0x1c.
    `parse`: makes an instruction of its text."""
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


def functions_of(path, disassembler, parse):
    """(functions, the object) of a file."""
    code_object = CodeObject(path.read_bytes())
    done = subprocess.run([disassembler, "-d", str(path)], capture_output=True, text=True)
    functions = read_disassembly(done.stdout, code_object.kernels, parse)
    if done.returncode or not functions:
        raise Problem(f"{disassembler} finds no code: {done.stderr.strip()}")
    return functions, code_object
