"""Walks a wave through a kernel: which instructions it executes, and which addresses they touch.

Values that follow from the launch (arguments, ids, what given arrays hold) are computed exactly; everything else is unknown, above all what
is loaded from memory and floating-point results. A branch on an unknown condition is not taken unless the launch says so, an unknown mask leaves the lanes as they are;
both are counted (`assumed`, by address).
"""
import re

import numpy as np

from . import integers
from .integers import U32, U64
from .isa import EXEC, M0, NULL, SCC, TTMP, VCC, VECTOR

MAX_INSTRUCTIONS = 2_000_000
CODE_BASE = 1 << 40  # where the code object is taken to lie


class Wave:
    def __init__(self, kernel, launch, group, wave):
        self.kernel, self.launch, self.timing = kernel, launch, kernel.timing
        self.lanes = self.timing.wave
        self.scalars, self.vectors = [None] * 256, [None] * 512
        self.unknown = {}  # lanes of a vector register that are not known while others are
        self.doubt = None  # lanes whose operands the current instruction does not know
        self.full = (1 << self.lanes) - 1
        self.steps, self.accesses, self.assumed = [], [], {}
        self._start(group, wave)

    def _start(self, group, wave):
        kernel, launch = self.kernel, self.launch
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        flat = np.arange(self.lanes, dtype=np.uint32) + U32(wave * self.lanes)
        self.active = flat < threads
        self.write_exec(int(sum(1 << int(i) for i in np.nonzero(self.active)[0])))
        x, y, z = flat % launch.block[0], flat // launch.block[0] % launch.block[1], flat // (launch.block[0] * launch.block[1])
        self.vectors[0] = (x | y << U32(10) | z << U32(20)).astype(np.uint32)
        user = kernel.user_scalars(launch)
        self.scalars[:len(user)] = user
        at = kernel.resources_2 >> 1 & 31  # the ids stand behind as many as the descriptor says
        if kernel.architecture.startswith("gfx12"):
            self.scalars[TTMP + 9], self.scalars[TTMP + 7] = group[0], group[1] | group[2] << 16
        else:
            for axis in range(3):
                if kernel.resources_2 >> 7 + axis & 1:
                    self.scalars[at] = group[axis]
                    at += 1
        self.scalars[M0] = self.scalars[SCC] = 0

    # --- operands ---
    def word(self, operand, part=0):
        """32 bits of an operand: an array, a number, or None where it is unknown."""
        if operand.register is None:
            value = operand.value
            if value is None:
                return None
            if isinstance(value, float):
                value = int(np.float32(value).view(U32))
            value = U32((value >> 32 * part) & 0xffffffff)
        else:
            register = operand.register + min(part, operand.count - 1) if operand.register != NULL else NULL
            if register == NULL:
                return U32(0)
            value = self.vectors[register - VECTOR] if register >= VECTOR else self.scalars[register]
            if value is None or part >= operand.count > 0 and register >= VECTOR:
                return None
            if register in self.unknown and (missing := self.unknown[register] & self.active).any():
                self.doubt = missing if self.doubt is None else self.doubt | missing
            value = value if register >= VECTOR else U32(value)
        if operand.negative or operand.absolute:
            value = value & U32(0x7fffffff) if operand.absolute else value
            value = value ^ U32(0x80000000) if operand.negative else value
        return value

    def pair(self, operand):
        if operand.register is None:
            return U64(operand.value & 0xffffffffffffffff) if isinstance(operand.value, int) else None
        if operand.count == 1 and operand.register != NULL:
            low = self.word(operand)
            return None if low is None else np.asarray(low, U32).astype(U64)
        low, high = self.word(operand, 0), self.word(operand, 1)
        return None if low is None or high is None else np.asarray(low).astype(U64) | np.asarray(high).astype(U64) << U64(32)

    def write(self, operand, value, words=1):
        if operand.register is None or operand.register == NULL:
            return
        for part in range(min(words, operand.count) if operand.count else words):
            register = operand.register + part
            piece = None if value is None else (np.asarray(value) if words == 1 else np.asarray(value, U64) >> U64(32 * part)).astype(U32)
            if register >= VECTOR:
                self.write_vector(register, piece)
            else:
                self.write_scalar(register, None if piece is None or self.doubt is not None else int(piece))

    def write_vector(self, register, value):
        """Lanes that are not active keep what they have."""
        old, missing = self.vectors[register - VECTOR], self.unknown.get(register)
        known = self.active if self.doubt is None else self.active & ~self.doubt
        if value is not None and not known.any():
            value = None
        if self.active.all() or old is None:
            self.vectors[register - VECTOR] = None if value is None else np.broadcast_to(value, (self.lanes,))
            missing = None if value is None or known.all() else ~known
        elif value is None:
            missing = self.active if missing is None else missing | self.active
        else:
            self.vectors[register - VECTOR] = np.where(self.active, value, old)
            missing = ~known & self.active if missing is None else missing & ~self.active | ~known & self.active
            missing = missing if missing.any() else None
        if missing is None or self.vectors[register - VECTOR] is None:
            self.unknown.pop(register, None)
        else:
            self.unknown[register] = missing

    def write_scalar(self, register, value):
        if register == EXEC or register == EXEC + 1:
            if value is not None:  # an unknown mask leaves the lanes as they are
                self.scalars[register] = value
                self.write_exec(self.scalars[EXEC] | (self.scalars[EXEC + 1] or 0) << 32)
        else:
            self.scalars[register] = value

    def write_exec(self, mask):
        mask &= self.full
        self.scalars[EXEC], self.scalars[EXEC + 1] = mask & 0xffffffff, mask >> 32
        self.active = (U64(mask) >> np.arange(self.lanes, dtype=np.uint64) & U64(1)).astype(bool)

    def mask_of(self, operand):
        value = self.word(operand) if self.lanes == 32 else self.pair(operand)
        return None if value is None else (U64(value) >> np.arange(self.lanes, dtype=np.uint64) & U64(1)).astype(bool)

    def write_mask(self, register, lanes):
        value = None if lanes is None or self.doubt is not None else int(np.sum((np.broadcast_to(lanes, self.lanes) & self.active).astype(U64) << np.arange(self.lanes, dtype=np.uint64)))
        if register in (VCC, EXEC) or register < VECTOR:
            if register == EXEC:
                if value is not None:
                    self.write_exec(value)
                return
            self.write_scalar(register, None if value is None else value & 0xffffffff)
            if self.lanes == 64:
                self.write_scalar(register + 1, None if value is None else value >> 32)

    # --- execution ---
    def run(self):
        code, at = self.kernel.code, 0
        with np.errstate(all="ignore"):
            while True:
                instruction = code[at]
                self.steps.append(at)
                self.accesses.append(None)
                if instruction.kind == "end":
                    return self
                if len(self.steps) > MAX_INSTRUCTIONS:
                    raise ValueError(f"a wave of {self.kernel.name} runs more than {MAX_INSTRUCTIONS} instructions: give a smaller launch")
                target = self.step(instruction)
                at = at + 1 if target is None else self.kernel.at_address(target)

    def step(self, instruction):
        kind, self.doubt = instruction.kind, None
        if kind == "branch":
            if instruction.name == "s_setpc_b64":
                return self.far_target(instruction)
            if self.taken(instruction):
                return instruction.target
        elif kind == "dual":
            found = []
            for part in instruction.parts:  # both read before one writes, and each has doubts of its own
                self.doubt = None
                found.append((part.operands[0], self.vector_value(part), self.doubt))
            for destination, value, self.doubt in found:
                self.write(destination, value)
        elif kind in ("salu", "smem"):
            self.scalar(instruction)
        elif kind in ("load", "store", "atomic", "lds"):
            self.memory(instruction)
        elif kind not in ("wait", "hint", "barrier", "fence"):
            self.vector(instruction)
        return None

    def far_target(self, instruction):
        """Of a jump that is too far for a branch: an address from s_getpc_b64."""
        address = self.pair(instruction.operands[0])
        if address is None:
            raise ValueError(f"{self.kernel.name} jumps to an address that is not known")
        return int(address) - CODE_BASE

    def taken(self, instruction):
        name = instruction.name
        if name == "s_branch":
            return True
        if "execz" in name or "execnz" in name:
            return bool(self.active.any()) == ("execnz" in name)
        value = self.scalars[SCC] if "scc" in name else self.scalars[VCC]
        if "vcc" in name and self.lanes == 64 and value is not None:
            value = None if self.scalars[VCC + 1] is None else value | self.scalars[VCC + 1] << 32
        if value is None:
            self.assumed[instruction.address] = self.assumed.get(instruction.address, 0) + 1
            return self.launch.unknown_taken
        return (value != 0) == (name.endswith(("scc1", "vccnz")))

    def vector_value(self, instruction):
        name, operands = integers.plain_name(instruction.name), instruction.operands
        if name == "cndmask_b32":
            mask = self.mask_of(operands[3]) if len(operands) > 3 else self.mask_of_register(VCC)
            a, b = self.word(operands[1]), self.word(operands[2])
            return None if mask is None or a is None or b is None else np.where(mask, b, a)
        if name in ("accvgpr_read_b32", "accvgpr_write_b32", "accvgpr_mov_b32"):
            return self.word(operands[1])
        if name.startswith("mbcnt"):
            mask, base = self.word(operands[1]), self.word(operands[2])
            if mask is None or base is None:
                return None
            first = 32 if name.startswith("mbcnt_hi") else 0
            below = [bin(int(mask) & (1 << max(0, min(32, i - first))) - 1).count("1") for i in range(self.lanes)]
            return np.array(below, dtype=U32) + base
        function = integers.WORDS.get(name)
        if function is None or instruction.suffix == "_dpp":
            return None
        values = [self.word(operand) for operand in operands[1:]]
        return None if any(value is None for value in values) else function(*(np.asarray(value, U32) for value in values))

    def mask_of_register(self, register):
        low, high = self.scalars[register], self.scalars[register + 1]
        if low is None or self.lanes == 64 and high is None:
            return None
        return (U64(low | (high << 32 if self.lanes == 64 else 0)) >> np.arange(self.lanes, dtype=np.uint64) & U64(1)).astype(bool)

    def vector(self, instruction):
        name, operands = instruction.name, instruction.operands
        if not operands:
            return
        if match := re.match(r"v_cmp(x?)_(eq|ne|lg|lt|gt|le|ge)_([ui](16|32|64))$", name):
            sources = operands[-2:]
            values = [self.pair(o) if match[3].endswith("64") else self.word(o) for o in sources]
            result = None if any(v is None for v in values) else integers.compare(match[2], match[3], *(np.asarray(v) for v in values))
            if match[1]:
                self.write_mask(EXEC, result)
            if not match[1] or len(operands) > 2:
                self.write_mask(operands[0].register, result)
        elif name.startswith("v_cmp"):
            if not name.startswith("v_cmpx"):
                self.write_mask(operands[0].register, None)
        elif match := re.match(r"v_(add|sub|subrev|addc|subb|add_co_ci|sub_co_ci)(_co)?_u32$", name):
            self.carry(operands, match[1]) if len(operands) > 3 else self.write(operands[0], self.vector_value(instruction))
        elif match := re.match(r"v_mad_(?:co_)?([ui])64_[ui]32$", name):
            a, b, c = self.word(operands[2]), self.word(operands[3]), self.pair(operands[4])
            extend = integers.wide if match[1] == "u" else integers.wide_signed
            low = self.word(operands[4])  # before the result, which may take its place
            self.write(operands[0], None if a is None or b is None or c is None else extend(a) * extend(b) + c, 2)
            if c is None and not (a is None or b is None or low is None):  # the upper half may be anything: the lower is used alone
                self.write_vector(operands[0].register, np.broadcast_to(np.asarray(a) * np.asarray(b) + low, self.lanes).astype(U32))
        elif name in ("v_readfirstlane_b32", "v_readlane_b32"):
            value, lane = self.word(operands[1]), int(np.argmax(self.active))
            if name == "v_readlane_b32":
                where = self.word(operands[2])
                lane = int(where) % self.lanes if where is not None else 0
            self.write(operands[0], None if value is None else np.broadcast_to(value, self.lanes)[lane])
        elif name == "v_mov_b64":
            self.move_pair(operands)
        elif integers.plain_name(name) in integers.PAIRS:
            self.write(operands[0], self.pairs(instruction), 2)
        elif instruction.kind in ("wmma", "mfma"):
            self.forget(operands[0])
        elif operands[0].count > 1:
            self.forget(operands[0])
        else:
            self.write(operands[0], self.vector_value(instruction))

    def move_pair(self, operands):
        """Half of a pair may be known."""
        halves = [self.word(operands[1], part) for part in (0, 1)]
        for part, half in enumerate(halves):
            if operands[0].register >= VECTOR:
                self.write_vector(operands[0].register + part, None if half is None else np.asarray(half, U32))
            else:
                self.write_scalar(operands[0].register + part, None if half is None else int(half))

    def pairs(self, instruction):
        name = integers.plain_name(instruction.name)
        values = [self.pair(o) for o in instruction.operands[1:]]
        return None if any(v is None for v in values) else integers.PAIRS[name](*(np.asarray(v, U64) for v in values))

    def carry(self, operands, verb):
        a, b = self.word(operands[2]), self.word(operands[3])
        carried = self.mask_of(operands[4]) if len(operands) > 4 else np.zeros(self.lanes, bool)
        if a is None or b is None or carried is None:
            self.write(operands[0], None)
            return self.write_mask(operands[1].register, None)
        a, b = np.asarray(a).astype(np.int64), np.asarray(b).astype(np.int64)
        if verb == "subrev":
            a, b = b, a
        total = a + b + carried if verb.startswith("add") else a - b - carried
        self.write(operands[0], total.astype(np.uint64).astype(U32))
        self.write_mask(operands[1].register, (total > 0xffffffff) | (total < 0))

    def forget(self, operand):
        for register in operand.registers():
            if register >= VECTOR:
                self.write_vector(register, None)
            elif register not in (EXEC, EXEC + 1, NULL):
                self.scalars[register] = None

    def scalar(self, instruction):
        from .scalar import execute
        execute(self, instruction)

    def memory(self, instruction):
        from .addresses import access
        access(self, instruction)
