#!/usr/bin/env python3
"""Runs the kernels of AMD code objects on tinygrad's emulator of the RDNA3, RDNA4 and CDNA3 instruction sets: the worker
behind the tests' emulated driver.

    TINYGRAD=CHECKOUT amd_emulator.py ARCHITECTURE MEMORY_FD MEMORY_ADDRESS MEMORY_BYTES CACHE_FOLDER [COMPILER]

Device memory is the file MEMORY_FD, mapped at MEMORY_ADDRESS here and in the process that asks; only what was allocated can
be touched. Requests come on the standard input, answers go to the standard output; both are frames of two little-endian
32-bit numbers (kind or status, payload bytes) and the payload.

Waves run in a fixed order, or with ROCMFORGE_EMULATOR_SEED in one that this number gives (amd_emulator_loop.c).

tinygrad turns each instruction into a function that a C compiler builds. The results are kept in CACHE_FOLDER, and
amd_emulator_loop.c runs them: once it has seen a kernel, a launch costs no Python.
"""
import ctypes
import hashlib
import itertools
import mmap
import os
import pathlib
import platform
import re
import sqlite3
import struct
import subprocess
import sys
import tempfile
import types
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build"))
from code_object import CodeObject  # noqa: E402

FUNCTIONS_VERSION = b"4"  # to be raised when what is compiled changes
ALLOW, FORBID, LOAD, LAUNCH, UNLOAD = 1, 2, 3, 4, 5
INSTRUCTION_SETS = {"gfx1100": "rdna3", "gfx1101": "rdna3", "gfx1102": "rdna3", "gfx1151": "rdna3", "gfx1200": "rdna4",
                    "gfx1201": "rdna4", "gfx942": "cdna", "gfx10-as-gfx1100": "rdna3"}
(UNKNOWN, CALL, CALL_BARRIER, SKIP, WMMA_RDNA3, WMMA_RDNA4, MFMA_16X16X16, MEMORY, LDS_CHECKED_CALL, READ_PC, WAIT,
 BPERMUTE, WMMA_RDNA4_BYTES, MFMA_16X16X32_BYTES, PERMUTE_ROWS, JUMP) = range(16)  # Kind of amd_emulator_loop.c
MEMORY_STORE, MEMORY_SHARED, MEMORY_SIGNED, MEMORY_LOW_HALF, MEMORY_HIGH_HALF, MEMORY_TWO_ADDRESSES = (1 << i for i in range(6))
FINISHED, NEEDS_DECODING, MEMORY_FAULT, SHARED_FAULT, TOO_LONG, BAD_PC = range(6)
COUNTS_STORES, COUNTS_SHARED = 1, 2
ANY_NUMBER = 255
MAX_INSTRUCTIONS = 200_000_000  # of one wave
# Instructions without effect on results in an emulator whose memory has no caches and where every instruction ends before
# the next starts. They are listed by name, or by encoding (mask, value, bytes) if the decoder doesn't know them.
WITHOUT_EFFECT = {"S_NOP", "S_CLAUSE", "S_DELAY_ALU", "S_SLEEP", "S_SETPRIO", "S_SENDMSG", "S_SET_INST_PREFETCH_DISTANCE",
                  "S_INST_PREFETCH", "S_CODE_END", "S_ICACHE_INV", "S_DCACHE_INV", "S_GL1_INV", "S_WAITCNT_VMCNT",
                  "S_WAITCNT_EXPCNT", "S_WAITCNT_DEPCTR", "S_WAIT_ALU", "S_WAIT_EVENT", "S_WAIT_LOADCNT", "S_WAIT_SAMPLECNT",
                  "S_WAIT_BVHCNT", "S_WAIT_EXPCNT", "S_WAIT_KMCNT", "GLOBAL_INV", "GLOBAL_WB",
                  "GLOBAL_WBINV", "BUFFER_INV", "BUFFER_WBL2", "BUFFER_GL0_INV", "BUFFER_GL1_INV", "BUFFER_WBINVL1",
                  "S_PREFETCH_INST", "S_PREFETCH_DATA", "S_PREFETCH_INST_PC_REL", "S_PREFETCH_DATA_PC_REL"}
ENCODINGS_WITHOUT_EFFECT = {
    "rdna3": [(0xfffc0000, 0xe0ac0000, 8), (0xfffc0000, 0xe0b00000, 8)],  # buffer_gl0_inv, buffer_gl1_inv
    "rdna4": [(0xffffff80, 0xee0ac000, 12), (0xffffff80, 0xee0b0000, 12)],  # global_inv, global_wb
    "cdna": [(0xfdfc0000, 0xe0a40000, 8), (0xfdfc0000, 0xe0a00000, 8)],  # buffer_inv, buffer_wbl2
}


class Instruction(ctypes.Structure):
    _fields_ = [("function", ctypes.c_uint64), ("operands", ctypes.c_uint8 * 6), ("kind", ctypes.c_uint8), ("size", ctypes.c_uint8),
                ("offset", ctypes.c_int32 * 2), ("destination", ctypes.c_uint16), ("source", ctypes.c_uint16 * 3),
                ("accumulators", ctypes.c_uint8), ("bytes", ctypes.c_uint8), ("flags", ctypes.c_uint8), ("bfloat", ctypes.c_uint8),
                ("counter", ctypes.c_uint8), ("left", ctypes.c_uint8 * 2)]


class Launch(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("code", ctypes.c_uint64), ("code_bytes", ctypes.c_uint64),
                ("entry", ctypes.c_uint64), ("instructions", ctypes.POINTER(Instruction)), ("user_sgprs", ctypes.c_uint32 * 16),
                ("user_sgpr_count", ctypes.c_uint32), ("resources", ctypes.c_uint32), ("wave_size", ctypes.c_uint32),
                ("ids_in_ttmp", ctypes.c_uint32), ("flush_denormals", ctypes.c_uint32), ("one_cache", ctypes.c_uint32), ("vgprs", ctypes.c_uint32),
                ("lds_bytes", ctypes.c_uint32), ("scratch_bytes", ctypes.c_uint32), ("max_instructions", ctypes.c_uint64),
                ("pc", ctypes.c_uint64), ("fault_address", ctypes.c_uint64), ("group", ctypes.c_uint32 * 3), ("executed", ctypes.c_uint64),
                ("started", ctypes.c_uint32), ("next_group", ctypes.c_uint32), ("place", ctypes.c_uint32), ("wave", ctypes.c_uint32),
                ("left", ctypes.c_uint64), ("random", ctypes.c_uint64)]


class EmulatorError(Exception):
    pass


def processor_name():
    """What native code depends on: the processor and what it can do."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return "\n".join(sorted({line for line in lines if line.split(":")[0].strip() in ("flags", "model name", "Features")}))
    except OSError:
        return platform.processor()


class FunctionCache:
    """Functions of instructions, in memory and in a database that several workers share."""

    def __init__(self, folder, tinygrad, compiler):
        from test.mockgpu.amd import emu
        emu._dpp16_ctrl = with_row_share(emu._dpp16_ctrl, emu)
        self.emu = emu
        sources = b"".join((tinygrad / "test/mockgpu/amd" / name).read_bytes() for name in ("emu.py", "pcode.py"))
        version = subprocess.run([compiler, "--version"], capture_output=True).stdout
        state = hashlib.sha256(FUNCTIONS_VERSION + sources + version + processor_name().encode()).hexdigest()[:16]
        self.database = sqlite3.connect(folder / f"instructions-{state}.sqlite", timeout=120, isolation_level=None)
        self.database.execute("pragma journal_mode=wal")
        self.database.execute("pragma synchronous=off")
        self.database.execute("create table if not exists functions (instruction_set text, type text, base blob, mask blob,"
                              " operands blob, object blob, primary key (instruction_set, type, base, mask))")
        self.known = {}  # (type name, size) -> [(base, mask, address, operands)]
        self.seen = 0
        self.arena, self.arena_used = None, 0

    def load(self, instruction_set):
        rows = self.database.execute("select rowid, type, base, mask, operands, object from functions where instruction_set = ?"
                                     " and rowid > ?", (instruction_set, self.seen)).fetchall()
        for row, kind, base, mask, operands, elf in rows:
            self.seen = max(self.seen, row)
            self._remember(kind, base, mask, operands, elf)

    def _remember(self, kind, base, mask, operands, elf):
        entry = (int.from_bytes(base, "little"), int.from_bytes(mask, "little"), elf, operands)
        self.known.setdefault((kind, len(base)), []).append(entry)

    def _place(self, elf):
        """Machine code of an ELF object, relocated to where it lies."""
        from tinygrad.runtime.ops_cpu import CPUProgram
        from tinygrad.runtime.support.elf import jit_loader
        room = (2 * len(elf) + 4095) & ~4095
        if self.arena is None or self.arena_used + room > len(self.arena):
            self.arena = mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
            self.arenas = getattr(self, "arenas", []) + [self.arena]
            self.arena_used = 0
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.arena)) + self.arena_used
        image = jit_loader(elf, base=address, link_libs=[CPUProgram.libm, CPUProgram.rt_lib])
        self.arena[self.arena_used:self.arena_used + len(image)] = image
        self.arena_used += (len(image) + 63) & ~63
        return address

    def find(self, instruction, raw, instruction_set):
        kind, size = type(instruction).__name__, instruction.size()
        bits = int.from_bytes(raw[:size], "little")
        entries = self.known.setdefault((kind, size), [])
        for i, (base, mask, code, operands) in enumerate(entries):
            if bits & mask == base:
                if isinstance(code, bytes):
                    entries[i] = (base, mask, self._place(code), operands)
                return entries[i][2], operands
        self._compile(instruction, raw, instruction_set)
        return self.find(instruction, raw, instruction_set)

    def _compile(self, instruction, raw, instruction_set):
        from tinygrad.codegen import to_program
        from tinygrad.device import Device
        from tinygrad.helpers import Context
        from tinygrad.uop.ops import KernelInfo
        emu = self.emu
        handler = next((emu._INST_HANDLERS[c] for c in type(instruction).__mro__ if c in emu._INST_HANDLERS), None)
        if handler is None:
            raise EmulatorError("the emulator has no such instruction")
        if instruction_set == "cdna":
            handler = with_sub_dword_signs(with_whole_registers(handler, emu), instruction, emu)
        return_bit = {"rdna4": "th", "cdna": "sc0"}.get(instruction_set)
        if return_bit and "ATOMIC" in _name(instruction) and int(getattr(instruction, return_bit, 0)) & 1:
            handler = returning(handler)
        context = emu._Ctx(instruction.size(), emu._wave_size(instruction_set))
        sink = handler(instruction, context)
        base, mask, size = context.canonical_mask(raw)
        sink = sink.replace(arg=KernelInfo(name=f"i_{base.to_bytes(size, 'little').hex()}")).rtag(1)
        with Context(NOOPT=1, CHECK_OOB=0, TUPLE_ORDER=0, EMULATED_DTYPES="", CAPTURE_PROCESS_REPLAY=0, PROFILE=0):
            program = to_program(sink, Device["CPU"].renderer)
            elf = bytes(program.to_elf().lib)
        row = (type(instruction).__name__, base.to_bytes(size, "little"), mask.to_bytes(size, "little"), bytes(program.arg.globals), elf)
        self.database.execute("insert or ignore into functions values (?, ?, ?, ?, ?, ?)", (instruction_set, *row))
        self._remember(*row)


class Module:
    """A code object in executable order: its segments in memory and a table of decoded instructions."""

    def __init__(self, raw):
        self.object = CodeObject(raw)
        if self.object.has_relocations():
            raise EmulatorError("the code object has relocations, which the emulator doesn't apply")
        self.memory = mmap.mmap(-1, self.object.memory_bytes + 4096)
        for segment in self.object.segments:
            self.memory[segment.address:segment.address + segment.file_bytes] = self.object.raw[segment.offset:segment.offset + segment.file_bytes]
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        code = next(s for s in self.object.segments if s.executable)
        self.code, self.code_bytes = self.base + code.address, code.memory_bytes
        self.instructions = (Instruction * (self.code_bytes // 4 + 1))()

    def bytes_at(self, address, count):
        start = address - self.base
        return self.memory[start:start + count]


class Emulator:
    def __init__(self, architecture, cache_folder, compiler="clang"):
        tinygrad = pathlib.Path(os.environ.get("TINYGRAD", ""))
        if not (tinygrad / "test/mockgpu/amd/emu.py").is_file():
            raise EmulatorError(f"TINYGRAD='{tinygrad}' names no tinygrad checkout with test/mockgpu/amd/emu.py")
        sys.path.insert(0, str(tinygrad))
        if architecture not in INSTRUCTION_SETS:
            raise EmulatorError(f"it knows {', '.join(INSTRUCTION_SETS)} and not {architecture}")
        os.environ.update(DEV="CPU", CC=compiler)
        os.environ.setdefault("CACHELEVEL", "0")
        cache_folder = pathlib.Path(cache_folder)
        cache_folder.mkdir(parents=True, exist_ok=True)
        self.architecture, self.instruction_set = architecture, INSTRUCTION_SETS[architecture]
        self.wave_size = 64 if self.instruction_set == "cdna" else 32
        self.random = int(os.environ.get("ROCMFORGE_EMULATOR_SEED") or 0) * 0x9e3779b97f4a7c15 % (1 << 64)
        self.loop = build_loop(cache_folder, compiler, 4 if self.random else 1)
        self.functions = FunctionCache(cache_folder, tinygrad, compiler)
        self.functions.load(self.instruction_set)
        from tinygrad.renderer.amd import decode_inst
        self.decode_inst = decode_inst

    def launch(self, module, name, grid, block, dynamic_shared_bytes, arguments):
        if name not in module.object.kernels:
            raise EmulatorError(f"the code object has no kernel '{name}'")
        kernel = module.object.kernels[name]
        descriptor = module.base + module.object.symbols[name + ".kd"]
        fields = struct.unpack_from("<4Iq8I", module.bytes_at(descriptor, 56))
        entry, resources_1, resources_2 = descriptor + fields[4], fields[-2], fields[-1]
        properties, = struct.unpack("<H", module.bytes_at(descriptor + 56, 2))
        if module.bytes_at(descriptor + 58, 2) != b"\0\0":
            raise EmulatorError("the kernel wants arguments preloaded, which the emulator doesn't do")
        threads = block[0] * block[1] * block[2]
        if threads > kernel[".max_flat_workgroup_size"]:
            raise EmulatorError(f"{threads} threads, at most {kernel['.max_flat_workgroup_size']}")
        segment, packet = self._argument_segment(kernel, grid, block, dynamic_shared_bytes, arguments), ctypes.create_string_buffer(64)
        struct.pack_into("<HHHHHHIIIII", packet, 0, 0, 3, *block, 0, *(g * b for g, b in zip(grid, block)),
                         kernel[".private_segment_fixed_size"], kernel[".group_segment_fixed_size"] + dynamic_shared_bytes)
        sgprs = []
        for bit, words in ((0, 4), (1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (6, 1)):
            if properties >> bit & 1:
                value = {1: ctypes.addressof(packet), 3: ctypes.addressof(segment)}.get(bit, 0)
                sgprs += [value >> 32 * i & 0xffffffff for i in range(words)]
        state = Launch(tuple(grid), tuple(block), module.code, module.code_bytes, entry)
        state.instructions = ctypes.cast(module.instructions, ctypes.POINTER(Instruction))
        state.user_sgprs[:len(sgprs)] = sgprs
        state.user_sgpr_count, state.resources = len(sgprs), resources_2
        state.wave_size, state.ids_in_ttmp = self.wave_size, self.instruction_set == "rdna4"
        state.flush_denormals, state.one_cache = resources_1 >> 16 & 3 == 0, self.instruction_set == "cdna"
        state.vgprs = min(256, max(8, kernel[".vgpr_count"]))
        state.lds_bytes = kernel[".group_segment_fixed_size"] + dynamic_shared_bytes
        state.scratch_bytes, state.max_instructions = kernel[".private_segment_fixed_size"], MAX_INSTRUCTIONS
        state.random = self.random
        while (answer := self.loop.run(ctypes.byref(state))) == NEEDS_DECODING:
            self._decode(module, state.pc)
        self.random = state.random
        if answer != FINISHED:
            raise EmulatorError(self._describe(answer, module, entry, state))
        return state.executed

    def _argument_segment(self, kernel, grid, block, dynamic_shared_bytes, arguments):
        segment = ctypes.create_string_buffer(kernel[".kernarg_segment_size"] + 64)
        given = False
        for argument in kernel[".args"]:
            kind, size, offset = argument[".value_kind"], argument[".size"], argument[".offset"]
            if kind in ("by_value", "global_buffer"):
                if given or size != len(arguments):
                    raise EmulatorError(f"the kernel's argument has {size} bytes, the launch gives {len(arguments)}")
                value, given = arguments, True
            elif kind.startswith("hidden_block_count_"):
                value = struct.pack("<I", grid["xyz".index(kind[-1])])
            elif kind.startswith("hidden_group_size_"):
                value = struct.pack("<H", block["xyz".index(kind[-1])])
            elif kind == "hidden_grid_dims":
                value = struct.pack("<H", 3)
            elif kind == "hidden_dynamic_lds_size":
                value = struct.pack("<I", dynamic_shared_bytes)
            else:
                value = bytes(size)
            segment[offset:offset + size] = value
        return segment

    def _describe(self, answer, module, entry, state):
        place = f"work-group ({state.group[0]}, {state.group[1]}, {state.group[2]}), instruction at +0x{state.pc - entry:x}"
        text = ""
        if module.code <= state.pc < module.code + module.code_bytes:
            instruction = self.decode_inst(module.bytes_at(state.pc, 16), self.instruction_set)
            text = f" {instruction.op.name.lower()}" if hasattr(instruction, "op") else ""
        return {MEMORY_FAULT: f"{place}{text} touches memory of no buffer at 0x{state.fault_address:x}",
                SHARED_FAULT: f"{place}{text} touches shared memory at byte {state.fault_address} of {state.lds_bytes}, or unaligned",
                TOO_LONG: f"{place}: a wave ran {MAX_INSTRUCTIONS} instructions without an end",
                BAD_PC: f"{place}: outside the code"}[answer]

    def _decode(self, module, pc):
        entry = module.instructions[(pc - module.code) // 4]
        raw = module.bytes_at(pc, 16).ljust(16, b"\0")
        word, = struct.unpack_from("<I", raw)
        for mask, value, size in ENCODINGS_WITHOUT_EFFECT[self.instruction_set]:
            if word & mask == value:
                entry.size, entry.kind = size, SKIP
                return
        instruction = self.decode_inst(raw, self.instruction_set)
        name = _name(instruction)
        entry.size = instruction.size()
        if name in WITHOUT_EFFECT:
            entry.kind = SKIP
            return
        if (left := waits_for(instruction, name, self.instruction_set)) is not None:
            entry.kind, entry.left[:] = WAIT, left
            return
        entry.counter = counter_of(name, self.instruction_set)
        try:
            if self._decode_own(instruction, name, entry, raw):
                return
            address, operands = self.functions.find(instruction, raw, self.instruction_set)
        except Exception as error:
            raise EmulatorError(f"cannot emulate {describe(instruction)}: {type(error).__name__}: {error}") from error
        entry.function = address
        entry.operands[:len(operands)] = operands
        entry.kind = CALL_BARRIER if name.startswith("S_BARRIER") else CALL
        if name.startswith("DS_") and any(word in name for word in SHARED_ATOMICS):
            entry.source[0], entry.flags = register(instruction.addr), MEMORY_SHARED
            entry.offset[0] = int(instruction.offset1) << 8 | int(instruction.offset0)
            entry.bytes = 8 if name.endswith("64") else 4
            entry.kind = LDS_CHECKED_CALL

    def _decode_own(self, instruction, name, entry, raw):
        """Instructions that the loop does itself."""
        products = {("rdna3", "V_WMMA_F32_16X16X16_F16"): WMMA_RDNA3, ("rdna3", "V_WMMA_F32_16X16X16_BF16"): WMMA_RDNA3,
                    ("rdna4", "V_WMMA_F32_16X16X16_F16"): WMMA_RDNA4, ("rdna4", "V_WMMA_F32_16X16X16_BF16"): WMMA_RDNA4,
                    ("cdna", "V_MFMA_F32_16X16X16_F16"): MFMA_16X16X16, ("cdna", "V_MFMA_F32_16X16X16F16"): MFMA_16X16X16,
                    ("cdna", "V_MFMA_F32_16X16X16_BF16"): MFMA_16X16X16, ("cdna", "V_MFMA_F32_16X16X16BF16_1K"): MFMA_16X16X16,
                    ("rdna4", "V_WMMA_I32_16X16X16_IU8"): WMMA_RDNA4_BYTES, ("cdna", "V_MFMA_I32_16X16X32_I8"): MFMA_16X16X32_BYTES}
        if (self.instruction_set, name) in products:
            kind = products[self.instruction_set, name]
            signs = 3 if kind == WMMA_RDNA4_BYTES else 0  # there these bits say that the operands' bytes have signs
            if int(getattr(instruction, "neg", 0) or 0) != signs or \
                    any(int(getattr(instruction, field, 0) or 0) for field in ("neg_hi", "cbsz", "abid", "blgp", *(["clmp"] if signs else []))):
                raise EmulatorError("negated, broadcast, unsigned or clamped matrix operands")
            entry.destination = register(instruction.vdst)
            for i, source in enumerate((instruction.src0, instruction.src1, instruction.src2)):
                entry.source[i] = operand(source)
            if self.instruction_set == "cdna":
                entry.accumulators = int(instruction.acc or 0) & 3 | (4 if int(instruction.acc_cd or 0) else 0)
            entry.bfloat = "BF16" in name
            entry.kind = kind
            return True
        if name in ("S_GETPC_B64", "S_SETPC_B64"):  # how kernels find the constants of their code object, and jump far
            entry.destination, entry.kind = (operand(instruction.sdst), READ_PC) if name == "S_GETPC_B64" else (operand(instruction.ssrc0), JUMP)
            return True
        if name == "V_PERMLANEX16_B32" and int(instruction.opsel) & 3 == 0:  # the emulator's reads no literal
            entry.destination, entry.kind = register(instruction.vdst), PERMUTE_ROWS
            entry.source[:] = [operand(source) for source in (instruction.src0, instruction.src1, instruction.src2)]
            entry.offset[0], = struct.unpack_from("<i", raw, 8)  # the literal, where there is one
            return True
        if name == "DS_BPERMUTE_B32":
            entry.destination, entry.kind = register(instruction.vdst), BPERMUTE
            entry.source[0], entry.source[1] = register(instruction.addr), register(instruction.data0)
            entry.offset[0] = int(instruction.offset1) << 8 | int(instruction.offset0)
            return True
        access = memory_access(name)
        if access is None:
            return False
        entry.bytes, entry.flags = access
        later = self.instruction_set == "rdna4"
        if entry.flags & MEMORY_SHARED:
            entry.source[0] = register(instruction.addr)
            entry.destination = register(instruction.data0 if entry.flags & MEMORY_STORE else instruction.vdst)
            low, high = int(instruction.offset0), int(instruction.offset1)
            if entry.flags & MEMORY_TWO_ADDRESSES:
                step = entry.bytes * (64 if "ST64" in name or "STRIDE64" in name else 1)
                entry.offset[:] = [low * step, high * step]
                entry.source[2] = register(instruction.data1)
            else:
                entry.offset[0] = high << 8 | low
        else:
            data = "vdst" if not entry.flags & MEMORY_STORE else "vsrc" if later else "data"
            entry.destination = register(getattr(instruction, data))
            entry.source[0] = register(instruction.vaddr if later else instruction.addr)
            entry.source[1] = operand(instruction.saddr) if name.startswith("GLOBAL") or later else 127
            entry.offset[0] = signed(instruction, "ioffset" if later else "offset")
        entry.accumulators = int(getattr(instruction, "acc", 0) or 0)
        entry.kind = MEMORY
        return True


MEMORY_TYPES = {"B8": (1, 0), "U8": (1, 0), "I8": (1, MEMORY_SIGNED), "BYTE": (1, 0), "UBYTE": (1, 0), "SBYTE": (1, MEMORY_SIGNED),
                "B16": (2, 0), "U16": (2, 0), "I16": (2, MEMORY_SIGNED), "SHORT": (2, 0), "USHORT": (2, 0), "SSHORT": (2, MEMORY_SIGNED),
                "B32": (4, 0), "DWORD": (4, 0), "B64": (8, 0), "DWORDX2": (8, 0), "B96": (12, 0), "DWORDX3": (12, 0), "B128": (16, 0),
                "DWORDX4": (16, 0)}
PLAIN_ACCESS = re.compile(r"(GLOBAL|FLAT|DS)_(LOAD|READ|STORE|WRITE)(2|2ST64|_2ADDR|_2ADDR_STRIDE64)?_(D16_HI_|D16_)?([A-Z]+\d*|DWORDX\d)"
                          r"(_D16_HI|_D16)?")
SHARED_ATOMICS = ("ADD", "SUB", "MIN", "MAX", "AND", "OR", "XOR", "INC", "DEC", "XCHG", "CMPST", "CMPSTORE")


def waits_for(instruction, name, instruction_set):
    """How many stores and accesses to shared memory an instruction leaves on their way, or None where it waits for neither. CDNA
    counts stores with loads."""
    if name == "S_WAIT_IDLE":
        return 0, 0
    if not name.startswith("S_WAIT"):
        return None
    count = int(instruction.simm16)
    if name == "S_WAITCNT":
        if instruction_set == "cdna":
            stores, shared = count & 15 | count >> 10 & 48, count >> 8 & 15
            return ANY_NUMBER if stores == 63 else stores, ANY_NUMBER if shared == 15 else shared
        shared = count >> 4 & 63
        return ANY_NUMBER, ANY_NUMBER if shared == 63 else shared
    low, high = count & 63, count >> 8 & 63
    return {"S_WAITCNT_VSCNT": (low, ANY_NUMBER), "S_WAITCNT_LGKMCNT": (ANY_NUMBER, low), "S_WAIT_STORECNT": (low, ANY_NUMBER),
            "S_WAIT_DSCNT": (ANY_NUMBER, low), "S_WAIT_LOADCNT_DSCNT": (ANY_NUMBER, low), "S_WAIT_STORECNT_DSCNT": (high, low)}[name]


def counter_of(name, instruction_set):
    """What counts an instruction until it has ended: of the counters that stores wait for."""
    if name.startswith("DS_"):
        return COUNTS_SHARED
    if not name.startswith(("GLOBAL_", "FLAT_", "BUFFER_", "SCRATCH_")):
        return 0
    return COUNTS_STORES if instruction_set == "cdna" or "STORE" in name or "ATOMIC" in name else 0


def memory_access(name):
    """(bytes, flags) of a load or store, or None where it is something else."""
    match = PLAIN_ACCESS.fullmatch(name)
    if not match or match[5] not in MEMORY_TYPES:
        return None
    size, flags = MEMORY_TYPES[match[5]]
    half = (match[4] or match[6] or "").strip("_")
    flags |= {"": 0, "D16": MEMORY_LOW_HALF, "D16_HI": MEMORY_HIGH_HALF}[half]
    flags |= MEMORY_SHARED if match[1] == "DS" else 0
    flags |= MEMORY_STORE if match[2] in ("STORE", "WRITE") else 0
    return size, flags | (MEMORY_TWO_ADDRESSES if match[3] else 0)


def with_whole_registers(handler, emu):
    """On RDNA3 and later, register numbers from 128 on of 16-bit instructions mean the high halves of registers 0 to 127. CDNA
    has no such thing, but the emulator, which knows one reading alone, takes v128 for the high half of v0 there too. Its
    functions compare with 128 (384 where vector registers start at 256) for this and nothing else, so that the bound alone
    is moved out of reach."""
    def bound(value, *arguments):
        return emu._c({128: 1 << 20, 384: 1 << 20}.get(value, value), *arguments)

    if handler not in (emu._compile_vop12, emu._compile_vopc):
        return handler
    names = {**vars(emu), "_c": bound}
    for function in (emu._load_vsrc0, handler):
        names[function.__name__] = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    return names[handler.__name__]


def with_sub_dword_signs(handler, instruction, emu):
    """Operands of CDNA's sub-dword instructions may be negated, or taken without their sign, which the emulator leaves out."""
    if handler is not emu._compile_sdwa:
        return handler
    modifiers = [tuple(int(getattr(instruction, f"src{i}_{name}", 0) or 0) for name in ("abs", "neg")) for i in range(2)]
    if any(int(getattr(instruction, name, 0) or 0) for name in ("omod", "clmp")):
        raise EmulatorError("a sub-dword result that is scaled or clamped")
    if not any(map(any, modifiers)):
        return handler
    sign = emu._c(0x8000 if _name(instruction).removesuffix("_SDWA").endswith("F16") else 0x80000000)
    one_operand = type(instruction).__name__.startswith("VOP1")
    following = itertools.cycle(modifiers[:1] if one_operand else modifiers)  # operands are selected in their order

    def select(*arguments):
        value, (absolute, negative) = emu._sdwa_select(*arguments), next(following)
        value = value & (sign ^ emu._c(0xffffffff)) if absolute else value
        return value ^ sign if negative else value

    return types.FunctionType(handler.__code__, {**vars(emu), "_sdwa_select": select}, handler.__name__, handler.__defaults__)


def with_row_share(control, emu):
    """One lane's value for its row of 16, which the emulator's other ways between lanes lack."""
    def controlled(lane, dpp, *arguments):
        if dpp & 0x1f0 != 0x150:
            return control(lane, dpp, *arguments)
        _, enabled, valid = control(lane, 0, *arguments)
        integer = emu.dtypes.int
        return (lane.cast(integer) & emu._c(~15, integer)) + emu._c(dpp & 15, integer), enabled, valid
    return controlled


def returning(handler):
    """Later instruction sets have other names for the bit with which an atomic returns what was there; the emulator knows `glc`."""
    def handle(instruction, context):
        type(instruction).glc = 1
        try:
            return handler(instruction, context)
        finally:
            del type(instruction).glc
    return handle


def _name(instruction):
    name = getattr(getattr(instruction, "op", None), "name", type(instruction).__name__)
    return name.upper().removesuffix("_E32")


def register(value):
    """Number of a vector register."""
    return operand(value) - 256


def operand(value):
    return value.offset if hasattr(value, "offset") else int(value)


def signed(instruction, field):
    bits = getattr(type(instruction), field)
    value = int(getattr(instruction, field)) & (1 << bits.hi - bits.lo + 1) - 1
    return value - (1 << bits.hi - bits.lo + 1) if value >> bits.hi - bits.lo & 1 else value


def describe(instruction):
    try:
        return repr(instruction)
    except Exception:
        return type(instruction).__name__


def build_loop(folder, compiler, places):
    source = pathlib.Path(__file__).with_name("amd_emulator_loop.c")
    library = folder / f"loop-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}.so"
    if not library.exists():
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".so", delete=False) as unfinished:
            pass
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", source, "-o", unfinished.name], check=True)
        os.rename(unfinished.name, library)
    loop = ctypes.CDLL(str(library))
    loop.run.argtypes = [ctypes.c_void_p]
    if not loop.prepare(places):
        raise EmulatorError("cannot reserve address space for shared memory")
    return loop


class Worker:
    def __init__(self, answers, architecture, memory_fd, address, size_bytes, cache_folder, compiler):
        self.answers = answers
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.mmap.restype = ctypes.c_void_p
        self.libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        self.libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        fixed_noreplace, noreserve = 0x100000, 0x4000
        if self.libc.mmap(address, size_bytes, mmap.PROT_NONE if hasattr(mmap, "PROT_NONE") else 0,
                          mmap.MAP_SHARED | fixed_noreplace | noreserve, memory_fd, 0) != address:
            raise EmulatorError(f"cannot map device memory at 0x{address:x}: {os.strerror(ctypes.get_errno())}")
        self.emulator = Emulator(architecture, cache_folder, compiler)
        self.modules, self.next_module = {}, 1

    def serve(self):
        requests = os.fdopen(0, "rb")
        self.answer(0, self.emulator.architecture.encode())
        while len(header := requests.read(8)) == 8:
            kind, size = struct.unpack("<II", header)
            payload = requests.read(size)
            try:
                self.answer(0, self.handle(kind, payload))
            except EmulatorError as error:
                self.answer(1, str(error).encode())
            except Exception as error:
                self.answer(1, f"{type(error).__name__}: {error}".encode())

    def answer(self, status, payload):
        self.answers.write(struct.pack("<II", status, len(payload)) + payload)
        self.answers.flush()

    def handle(self, kind, payload):
        if kind in (ALLOW, FORBID):
            address, size_bytes = struct.unpack("<QQ", payload)
            if self.libc.mprotect(address, size_bytes, mmap.PROT_READ | mmap.PROT_WRITE if kind == ALLOW else 0):
                raise EmulatorError(f"mprotect: {os.strerror(ctypes.get_errno())}")
            return b""
        if kind == LOAD:
            self.modules[self.next_module] = Module(payload)
            self.next_module += 1
            names = "\n".join(f"{name} {k['.vgpr_count']} {k['.group_segment_fixed_size']} {k['.private_segment_fixed_size']} "
                              f"{k['.max_flat_workgroup_size']}" for name, k in self.modules[self.next_module - 1].object.kernels.items())
            return struct.pack("<I", self.next_module - 1) + names.encode()
        if kind == UNLOAD:
            del self.modules[struct.unpack("<I", payload)[0]]
            return b""
        if kind == LAUNCH:
            module, *numbers, name_bytes = struct.unpack_from("<9I", payload)
            name = payload[36:36 + name_bytes].decode()
            executed = self.emulator.launch(self.modules[module], name, numbers[:3], numbers[3:6], numbers[6], payload[36 + name_bytes:])
            return struct.pack("<Q", executed)
        raise EmulatorError(f"unknown request {kind}")


def main():
    architecture, memory_fd, address, size_bytes, cache_folder = sys.argv[1:6]
    compiler = sys.argv[6] if len(sys.argv) > 6 else "clang"
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not look like an answer
    try:
        worker = Worker(answers, architecture, int(memory_fd), int(address, 0), int(size_bytes, 0), cache_folder, compiler)
    except Exception as error:
        message = str(error) if isinstance(error, EmulatorError) else f"{type(error).__name__}: {error}"
        answers.write(struct.pack("<II", 1, len(message.encode())) + message.encode())
        answers.flush()
        return 1
    worker.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
