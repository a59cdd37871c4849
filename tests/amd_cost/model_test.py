#!/usr/bin/env python3
"""The cost model of tools/cost/amd_cost: a kernel made worse on purpose is predicted slower; what it counts is what is there.

Needs clang++-19 and llvm-objdump-19, or is skipped (77). With TINYGRAD naming a checkout, traces are compared with the emulator's.
"""
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools/cost"))
SKIPPED = 77
CHIPS = {"gfx1100": "rx7900xtx", "gfx1201": "rx9070xt", "gfx942": "mi300x"}


class Kernels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.objects = {}
        for architecture in CHIPS:
            cls.objects[architecture] = pathlib.Path(cls.folder.name) / f"{architecture}.hsaco"
            subprocess.run(["clang++-19", "-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc", "-O3",
                            f"--offload-arch={architecture}", str(ROOT / "tests/amd_cost/kernels.hip"), "-o", cls.objects[architecture]], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def launch(self, architecture, name, grid, threads, arguments):
        kernel = Kernel(self.objects[architecture], name)
        return kernel, Launch(kernel, (grid, 1, 1), (threads, 1, 1), arguments)

    def predict(self, architecture, name, grid, threads, arguments):
        return predict(*self.launch(architecture, name, grid, threads, arguments), chips.CHIPS[CHIPS[architecture]])

    def compare(self, better, worse, at_least, *launch, inputs=1):
        for architecture in CHIPS:
            grid, threads, count = launch
            costs = [self.predict(architecture, name, grid, threads, [Buffer() for _ in range(inputs)] + [count]) for name in (better, worse)]
            self.assertGreater(costs[1].microseconds, at_least * costs[0].microseconds, architecture)
            yield architecture, costs

    def test_bank_conflicts_are_counted_and_slower(self):
        for architecture, (free, conflicts) in self.compare("lds_free", "lds_conflicts", 2, 960, 256, 256):
            self.assertAlmostEqual(free.lds_conflicts, 1.0, delta=0.05, msg=architecture)
            self.assertGreater(conflicts.lds_conflicts, 5, msg=architecture)
            self.assertEqual(conflicts.bound, "LDS", msg=architecture)

    def test_a_dependent_chain_is_slower(self):
        for architecture in ("gfx1100", "gfx1201"):  # a wave of CDNA takes four cycles for each anyway
            costs = [self.predict(architecture, name, 16, 64, [Buffer(), 64]) for name in ("chains", "chain")]
            self.assertGreater(costs[1].microseconds, 1.5 * costs[0].microseconds)

    def test_one_wave_a_simd_is_slower(self):
        for architecture, (many, one) in self.compare("many_waves", "one_wave", 1.5, 4000, 64, 16, inputs=2):
            self.assertLess(one.waves_per_simd, 2, msg=architecture)
            self.assertGreater(many.waves_per_simd, 4, msg=architecture)
            self.assertEqual(one.limit, "LDS", msg=architecture)

    def test_scattered_reads_are_slower_and_move_more(self):
        for architecture, (near, far) in self.compare("coalesced", "scattered", 1.5, 960, 256, 32, inputs=2):
            self.assertEqual(near.bytes_asked, far.bytes_asked, msg=architecture)
            self.assertGreater(far.bytes_from_l2, near.bytes_from_l2, msg=architecture)
            self.assertEqual((near.unknown, near.assumed), (0, 0), msg=architecture)

    def test_fences_of_every_wave_write_a_cache_back_many_times(self):
        costs = [self.predict("gfx942", name, 304, 256, [Buffer(), 0]) for name in ("fence_of_one", "fence_of_each")]
        walk = chips.WALK / chips.CHIPS["mi300x"].clock_ghz / 1000
        self.assertEqual([cost.counts["fence"] > 0 for cost in costs], [True, True])
        self.assertAlmostEqual(costs[1].microseconds - costs[0].microseconds, 3 * walk, delta=0.5 * walk)

    def test_each_second_cache_reads_a_table_of_its_own(self):
        import dataclasses
        kernel, launch = self.launch("gfx942", "shared_table", 304, 256, [Buffer(), Buffer(), 64])
        chip = chips.CHIPS["mi300x"]
        one, eight = (trace_groups(kernel, launch, l2s)[0] for l2s in (1, 8))
        reads = [at for at, access in enumerate(one.accesses) if access is not None and kernel.code[one.steps[at]].kind == "load"]
        self.assertEqual({(one.shares[at], one.reaches[at]) for at in reads}, {(1 / 304, 1 / 304)})
        self.assertEqual({(eight.shares[at], eight.reaches[at]) for at in reads}, {(1 / 304, 8 / 304)})
        self.assertGreater(predict(kernel, launch, chip).microseconds, predict(kernel, launch, dataclasses.replace(chip, l2s=1)).microseconds)
        self.assertEqual([caches_of(*found) for found in ((304, 1, 8), (304, 8, 8), (3, 1, 8), (16, 4, 8), (16, 3, 8))], [8, 1, 3, 2, 8])

    def test_groups_are_launched_as_hip_counts_units(self):
        self.assertEqual([chips.CHIPS[name].groups for name in ("rx7900xtx", "rx9070xt", "strix-halo", "mi300x")], [48, 32, 20, 304])

    def test_the_launches_of_a_step(self):
        for chip, most in (("rx7900xtx", (69, 68)), ("rx9070xt", (69, 68)), ("mi300x", (164, 164))):
            packed = OwnPacked(types.SimpleNamespace(chip=chips.CHIPS[chip]))
            for name, chained in zip(("Llama 2 7B Q4_0", "Llama 3 8B Q4_K_M"), most):
                self.assertEqual((packed.launches(MODELS[name], False), packed.launches(MODELS[name])), (164, chained), f"{chip} {name}")

    def test_the_launches_of_a_step_with_experts(self):
        steps = ExpertSteps(types.SimpleNamespace(chip=chips.CHIPS["rx7900xtx"], has_packed=False, folder=pathlib.Path()))
        self.assertEqual((steps.launches(False), steps.launches(True)), (292, 100))

    def test_a_far_jump_leads_to_its_target(self):
        wave = trace.Wave.__new__(trace.Wave)
        wave.pair = lambda operand: trace.CODE_BASE + 0x1000
        jump = types.SimpleNamespace(kind="branch", name="s_setpc_b64", operands=("s[4:5]",))
        self.assertEqual(wave.step(jump), 0x1000)

    def test_a_hand_over_takes_less_than_a_launch(self):
        for chip in CHIPS.values():
            packed = OwnPacked(types.SimpleNamespace(chip=chips.CHIPS[chip]))
            self.assertLess(packed.handover_us(), chips.CHIPS[chip].launch_us)

    def test_instructions_follow_the_arguments(self):
        for architecture in CHIPS:
            with self.subTest(architecture):
                counts = [len(trace_groups(*self.launch(architecture, "chain", 1, 64, [Buffer(), count]))[0].steps) for count in (4, 8, 12)]
                self.assertEqual(counts[1] - counts[0], counts[2] - counts[1])
                self.assertGreaterEqual(counts[1] - counts[0], 4 * 32)

    def test_the_size_of_a_work_group_is_known(self):
        for architecture in CHIPS:
            with self.subTest(architecture):
                stores = []
                for count in (4, 8):
                    kernel = Kernel(self.objects[architecture], "strided")
                    stores.append(predict(kernel, Launch(kernel, (2, 1, 1), (128, 1, 1), [Buffer(), 256 * count, 2]), chips.CHIPS[CHIPS[architecture]]))
                waves = 128 // stores[0].counts.get("end", 1)
                self.assertEqual([cost.counts["store"] * waves for cost in stores], [4 * 128, 8 * 128])
                self.assertEqual([(cost.unknown, cost.assumed) for cost in stores], [(0, 0)] * 2)

    def test_a_chip_of_twice_the_rate_reads_faster(self):
        import dataclasses
        kernel, launch = self.launch("gfx1100", "many_waves", 20000, 64, [Buffer(), Buffer(), 16])
        chip = chips.CHIPS["rx7900xtx"]
        slow = predict(kernel, launch, dataclasses.replace(chip, memory_gbs=chip.memory_gbs / 2))
        fast = predict(kernel, launch, chip)
        self.assertEqual(slow.bound, "memory")
        self.assertGreater(slow.microseconds, 1.5 * fast.microseconds)

    def test_what_is_asked_is_read_once(self):
        """The bytes that DRAM gives are those of the input: every group reads its own."""
        cost = self.predict("gfx1100", "many_waves", 4000, 64, [Buffer(), Buffer(), 16])
        read = 4000 * 16 * 64 * 4
        self.assertLess(abs(cost.bytes_from_memory - read), 0.1 * read)

    def test_what_waves_read_after_they_parted_is_followed(self):
        """Down a column of groups, where only the first wave is traced again: it executes other instructions before its reads than the others do."""
        for architecture in CHIPS:
            kernel = Kernel(self.objects[architecture], "parting")
            cost = predict(kernel, Launch(kernel, (1, 4000, 1), (256, 1, 1), [Buffer(), Buffer(), 16]), chips.CHIPS[CHIPS[architecture]])
            read = 4000 * 16 * 256 * 4
            self.assertLess(abs(cost.bytes_from_memory - read), 0.1 * read, architecture)

    def test_a_step_is_the_sum_of_its_launches(self):
        entry = {"object": "gfx1100.hsaco", "kernel": "coalesced", "grid": [96, 1, 1], "block": [256, 1, 1], "arguments": ["buffer", "buffer", 8], "count": 3}
        path = pathlib.Path(self.folder.name) / "step.json"
        path.write_text(json.dumps({"chip": "rx7900xtx", "launch_us": 5, "launches": [entry, {"bytes": 960_000_000, "count": 2}]}))
        chip, launch_us, found = step.costs(path)
        single = self.predict("gfx1100", "coalesced", 96, 256, [Buffer(), Buffer(), 8]).microseconds
        self.assertEqual([count for count, *_ in found], [3, 2])
        self.assertAlmostEqual(found[0][2], single)
        self.assertAlmostEqual(found[1][2], 1000 / chip.memory_share, delta=1)
        self.assertIn("5 launches at 5 us each take 25.0", step.report(path))

    def test_mistakes_get_one_line(self):
        program = [sys.executable, "-m", "amd_cost"]
        for arguments, words in ((["kernel", self.objects["gfx1100"], "no_such", "--chip", "rx7900xtx", "--grid", "1", "1", "1", "--block", "64", "1", "1"], "no kernel"),
                                 (["kernel", self.objects["gfx1100"], "coalesced", "--chip", "rx1", "--grid", "1", "1", "1", "--block", "64", "1", "1"], "no chip"),
                                 (["kernel", self.objects["gfx1100"], "coalesced", "--chip", "rx7900xtx", "--grid", "1", "1", "1", "--block", "64", "1", "1"], "too few"),
                                 (["step", "/nowhere.json"], "nowhere.json"), (["calibrate", "--tinygrad", "/nowhere"], "no tinygrad checkout")):
            done = subprocess.run([*program, *map(str, arguments)], cwd=ROOT / "tools/cost", capture_output=True, text=True)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            self.assertIn(words, done.stderr)

    def test_lines_and_banks(self):
        lanes = np.arange(32, dtype=np.int64)
        self.assertEqual(memory.lds_access(lanes * 4, 4).lds_cycles, 1)
        self.assertEqual(memory.lds_access(lanes * 128, 4).lds_cycles, 32)
        self.assertEqual(memory.lds_access(lanes * 0, 4).lds_cycles, 1)
        self.assertEqual(memory.lds_access(lanes * 16, 16).lds_cycles, 4)
        self.assertEqual(memory.lds_access(lanes * 8, 4).lds_cycles, 2)
        self.assertEqual(memory.global_access(lanes * 4, 4, 128).sectors, 4)
        self.assertEqual(len(memory.global_access(lanes * 4 + 64, 4, 128).lines), 2)
        self.assertEqual(len(memory.global_access(lanes * 128, 4, 128).lines), 32)

    def test_matrix_instructions(self):
        """Cycles of a SIMD, as AMD's matrix instruction calculator has them."""
        for name, architecture, cycles in (("v_mfma_i32_16x16x32_i8", "gfx942", 16), ("v_mfma_i32_32x32x16_i8", "gfx942", 32),
                                           ("v_mfma_f32_16x16x16_f16", "gfx942", 16), ("v_mfma_i32_16x16x16i8", "gfx90a", 32),
                                           ("v_wmma_i32_16x16x16_iu8", "gfx1201", 8), ("v_wmma_f32_16x16x16_f16", "gfx1201", 16),
                                           ("v_wmma_i32_16x16x16_iu8", "gfx1100", 32)):
            self.assertEqual(chips.matrix_cycles(name, architecture), cycles, (name, architecture))

    def test_what_is_known_of_single_lanes_stays(self):
        """Unknown values reach neither the other half of a pair nor lanes that are not active."""
        wave = object.__new__(trace.Wave)
        wave.lanes, wave.full, wave.vectors, wave.scalars, wave.unknown, wave.doubt = 32, 2**32 - 1, [None] * 512, [0] * 256, {}, None
        wave.write_exec(wave.full)
        for register in (2, 5):
            wave.write_vector(isa.VECTOR + register, np.arange(32, dtype=np.uint32))
        upper = np.arange(32) >= 16
        wave.write_exec(0xffff0000)
        wave.write_vector(isa.VECTOR + 5, None)
        wave.write_exec(wave.full)
        wave.step(isa.parse_line("\tv_dual_mov_b32 v1, v2 :: v_dual_add_f32 v4, v5, v5 // 000000000000: C9100300 00000080"))
        self.assertNotIn(isa.VECTOR + 1, wave.unknown)
        self.assertEqual(wave.unknown[isa.VECTOR + 4].tolist(), upper.tolist())
        wave.step(isa.parse_line("\tv_mov_b64 v[8:9], v[2:3] // 000000000000: 7E107102"))
        self.assertEqual(wave.vectors[8].tolist(), list(range(32)))
        self.assertIsNone(wave.vectors[9])

    def test_occupancy(self):
        """Waves a SIMD by registers, as the compiler states them for a work-group of 64."""
        for architecture, table in (("gfx1100", {96: 16, 126: 10, 160: 9, 192: 8, 256: 5}), ("gfx1102", {96: 10, 126: 8, 160: 6, 192: 5, 256: 4}),
                                    ("gfx942", {128: 4, 256: 2})):
            for registers, waves in table.items():
                kernel = object.__new__(Kernel)
                kernel.timing, kernel.vgprs, kernel.lds_bytes = chips.TIMINGS[architecture], registers, 0
                self.assertEqual(int(kernel.waves_per_simd(64)[0]), waves, (architecture, registers))

    @unittest.skipUnless(os.environ.get("TINYGRAD"), "TINYGRAD names no checkout")
    def test_the_emulator_executes_as_many_instructions(self):
        import ctypes
        import amd_emulator
        memory_of = {name: (ctypes.c_float * (1 << 16))() for name in ("in", "out")}
        emulator = amd_emulator.Emulator("gfx1100", pathlib.Path(self.folder.name) / "emulator", shutil.which("clang") or "clang-19")
        module = amd_emulator.Module(self.objects["gfx1100"].read_bytes())
        for name, threads, inputs, count in (("lds_conflicts", 256, 1, 5), ("chain", 64, 1, 3), ("many_waves", 64, 2, 4), ("scattered", 64, 2, 3)):
            arguments = [memory_of["in"], memory_of["out"]][:inputs] + [count]
            with self.subTest(name):
                emulator._argument_segment = lambda kernel, grid, block, lds, values: segment(kernel, values)
                executed = emulator.launch(module, name, (1, 1, 1), (threads, 1, 1), 0, arguments)
                traces = trace_groups(*self.launch("gfx1100", name, 1, threads, [Buffer() for _ in range(inputs)] + [count]))
                self.assertEqual(executed, sum(len(trace.steps) for trace in traces))


def segment(kernel, values):
    import ctypes
    import struct
    room = ctypes.create_string_buffer(kernel[".kernarg_segment_size"] + 64)
    for argument, value in zip(kernel[".args"], values):
        raw = struct.pack("<i", value) if isinstance(value, int) else struct.pack("<Q", ctypes.addressof(value))
        room[argument[".offset"]:argument[".offset"] + len(raw)] = raw
    return room


if __name__ == "__main__":
    missing = [name for name in ("clang++-19", "llvm-objdump-19") if not shutil.which(name)]
    missing += [] if importlib.util.find_spec("numpy") else ["numpy"]
    if missing:
        print(f"skipped: {', '.join(missing)} missing (Debian: clang-19 lld-19 llvm-19 python3-numpy)")
        sys.exit(SKIPPED)
    import numpy as np
    from amd_cost import chips, isa, memory, step, trace
    from amd_cost.cost import caches_of, predict, trace_groups
    from amd_cost.kernel import Buffer, Kernel, Launch
    from amd_cost.models import MODELS
    from amd_cost.own_chains import ExpertSteps
    from amd_cost.own_packed import OwnPacked
    unittest.main()
