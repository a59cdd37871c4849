"""The waits of gfx12: where the rule finds that one is missing, what is put into assembly, and what a scan of machine code sees.

What is assembled is skipped, and so named, where no compiler or no llvm-objdump is here.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/build"))
import amd_toolchain  # noqa: E402
import gfx12_scan  # noqa: E402
from code_flow import Problem  # noqa: E402
from gfx12_hazard import parse, registers  # noqa: E402
from gfx12_waits import MARK, read_assembly, with_waits  # noqa: E402

SCALAR, VCC, VECTOR = "0xfffe", "0xfffd", "0xf1ff"


def kernel(body, name="k", is_kernel=True):
    lines = [line if line.endswith(":") else f"\t{line}" for line in body]
    end = [f"\t.amdhsa_kernel {name}", "\t\t.amdhsa_next_free_vgpr 16", "\t\t.amdhsa_next_free_sgpr 64", "\t.end_amdhsa_kernel"] if is_kernel else []
    return "\n".join(['\t.amdgcn_target "amdgcn-amd-amdhsa--gfx1201"', "\t.amdhsa_code_object_version 5", "\t.text", f"\t.globl\t{name}", "\t.p2align\t8",
                      f"\t.type\t{name},@function", f"{name}:", *lines, f".Lfunc_end_{name}:", f"\t.size\t{name}, .Lfunc_end_{name}-{name}",
                      '\t.section\t.rodata,"a",@progbits', "\t.p2align\t6, 0x0", *end, ""])


def completed(body, is_kernel=True):
    """The lines of the body with what was put in."""
    text, _ = with_waits(kernel(body, is_kernel=is_kernel))
    lines = [line.strip() for line in text.splitlines()]
    return lines[lines.index("k:") + 1:lines.index(".Lfunc_end_k:")]


class Rule(unittest.TestCase):
    def expect(self, body, is_kernel=True):
        """`body`: with the waits that must be found. Without them they are put in again, and nothing is added to it as it is."""
        bare = [line for line in body if not line.startswith("s_wait_alu")]
        self.assertEqual(completed(bare, is_kernel), body)
        self.assertEqual(completed(body, is_kernel), body)

    def test_scalar_write_of_what_a_vector_instruction_has_read(self):
        for reader in ("v_mov_b32_e32 v1, s4", "s_mov_b32 s6, s4", "s_cmp_eq_u32 s4, 0", "s_addk_co_i32 s4, 0x1", "s_bitset1_b32 s4, 0"):
            self.expect(["v_mov_b32_e32 v0, s4", "s_add_co_i32 s4, s8, 1", f"s_wait_alu {SCALAR}", reader, "s_endpgm"])

    def test_the_other_register_of_the_pair(self):
        self.expect(["v_mov_b32_e32 v0, s5", "s_mov_b32 s4, 1", f"s_wait_alu {SCALAR}", "v_mov_b32_e32 v1, s4", "s_endpgm"])
        self.expect(["v_mov_b32_e32 v0, s5", "s_mov_b32 s6, 1", "v_mov_b32_e32 v1, s6", "s_endpgm"])

    def test_what_no_vector_instruction_has_read_needs_none(self):
        self.expect(["s_mov_b32 s4, 1", "v_mov_b32_e32 v0, s4", "s_endpgm"])
        self.expect(["v_mov_b32_e32 v0, s4", "s_mov_b32 exec_lo, s4", "s_mov_b32 m0, 0", "v_mov_b32_e32 v1, m0", "s_endpgm"])

    def test_one_wait_serves_all_before_it(self):
        self.expect(["v_lshlrev_b64_e32 v[0:1], 2, s[4:5]", "s_mov_b64 s[4:5], s[8:9]", "s_nop 0", f"s_wait_alu {SCALAR}", "v_mov_b32_e32 v2, s5",
                     "v_mov_b32_e32 v3, s4", "s_endpgm"])

    def test_vector_write_is_missed_by_vector_instructions_alone(self):
        for name in ("v_readlane_b32 s4, v1, 0", "v_readfirstlane_b32 s4, v1", "v_cmp_eq_u32_e64 s4, v1, v2", "v_add_co_u32 v3, s4, v1, v2"):
            self.expect(["v_cndmask_b32_e64 v0, 0, 1, s4", name, f"s_wait_alu {VECTOR}", "v_cndmask_b32_e64 v0, 0, 1, s4", "s_endpgm"])
            self.expect(["v_cndmask_b32_e64 v0, 0, 1, s4", name, "s_and_b32 s6, s4, s8", "v_cndmask_b32_e64 v0, 0, 1, s4", "s_endpgm"])

    def test_vcc(self):
        for reader in ("v_cndmask_b32_e32 v1, v2, v3, vcc_lo", "v_div_fmas_f32 v1, v2, v3, v4", "v_add_co_ci_u32_e32 v1, vcc_lo, v2, v3, vcc_lo",
                       "v_dual_cndmask_b32 v4, v4, v6 :: v_dual_lshlrev_b32 v7, 2, v7"):
            self.expect([reader, "v_cmp_eq_u32_e32 vcc_lo, v1, v2", f"s_wait_alu {VCC}", reader, "s_endpgm"])
            self.expect([reader, "v_div_scale_f32 v1, vcc_lo, v2, v3, v2", f"s_wait_alu {VCC}", reader, "s_endpgm"])
            if "_co_" not in reader:  # which writes VCC, too
                self.expect([reader, "s_and_b32 vcc_lo, exec_lo, s4", f"s_wait_alu {SCALAR}", reader, "s_endpgm"])
        self.expect(["v_div_fmas_f32 v1, v2, v3, v4", "s_mov_b32 vcc_lo, 0", f"s_wait_alu {SCALAR}", "s_cbranch_vccnz .L", ".L:", "s_endpgm"])
        self.expect(["v_cndmask_b32_e32 v1, v2, v3, vcc_lo", "v_cmp_eq_u32_e32 vcc_lo, v1, v2", "s_cbranch_vccz .L", ".L:", "s_endpgm"])

    def test_several_reasons_are_one_wait(self):
        self.expect(["v_cndmask_b32_e64 v0, s6, v1, s4", "v_cndmask_b32_e32 v0, v1, v2, vcc_lo", "v_cmp_eq_u32_e64 s4, v1, v2",
                     "v_cmp_eq_u32_e32 vcc_lo, v1, v3", "s_mov_b32 s6, 1", "s_wait_alu 0xf1fc", "v_dual_cndmask_b32 v4, s6, v6 :: v_dual_mov_b32 v7, s4",
                     "s_endpgm"])

    def test_a_scalar_load_waits(self):
        self.expect(["v_mov_b32_e32 v0, s4", "s_mov_b32 s4, 1", "s_load_b32 s8, s[0:1], 0x0", "v_mov_b32_e32 v1, s4", "s_endpgm"])
        self.expect(["v_mov_b32_e32 v0, s4", "s_mov_b32 s4, 1", "global_load_b32 v2, v3, s[0:1]", "ds_load_b32 v4, v5", f"s_wait_alu {SCALAR}",
                     "v_mov_b32_e32 v1, s4", "s_endpgm"])

    def test_a_wait_for_something_else_does_not_count(self):
        text = ["v_mov_b32_e32 v0, s4", "s_mov_b32 s4, 1", f"s_wait_alu {VCC}", "v_mov_b32_e32 v1, s4", "s_endpgm"]
        self.assertEqual(completed(text), [*text[:3], f"s_wait_alu {SCALAR}", *text[3:]])
        self.expect(["v_mov_b32_e32 v0, s4", "s_mov_b32 s4, 1", f"s_wait_alu {SCALAR}", "v_mov_b32_e32 v1, s4", "s_endpgm"])

    def test_a_loop_brings_what_its_end_did(self):
        self.expect(["s_mov_b32 s4, 0", ".LBB0_1:", f"s_wait_alu {SCALAR}", "v_add_nc_u32_e32 v0, s4, v0", "s_add_co_i32 s4, s8, 1",
                     "s_cmp_lt_i32 s9, 8", "s_cbranch_scc1 .LBB0_1", "s_endpgm"])

    def test_a_loop_brings_a_read_from_its_end(self):
        """The pair is read at the end of the loop, so the second round's write is missed."""
        self.expect([".LBB0_1:", "s_add_co_i32 s4, s8, 1", f"s_wait_alu {SCALAR}", "s_cmp_lt_i32 s4, 8", "v_mov_b32_e32 v0, s4",
                     "s_cbranch_scc1 .LBB0_1", "s_endpgm"])

    def test_nested_loops(self):
        self.expect([".L1:", "s_mov_b32 s6, 0", ".L2:", f"s_wait_alu {SCALAR}", "s_add_co_i32 s6, s6, 1", f"s_wait_alu {SCALAR}", "s_cmp_lt_i32 s6, 4",
                     "s_cbranch_scc1 .L2", "v_mov_b32_e32 v0, s7", "s_cmp_lt_i32 s8, 4", "s_cbranch_scc1 .L1", "s_endpgm"])

    def test_either_side_of_a_branch_counts(self):
        self.expect(["v_mov_b32_e32 v0, s4", "s_cbranch_scc1 .L1", "s_mov_b32 s4, 1", "s_branch .L2", ".L1:", "v_readlane_b32 s4, v1, 0", ".L2:",
                     "s_wait_alu 0xf1fe", "v_mov_b32_e32 v1, s4", "s_endpgm"])
        self.expect(["s_cbranch_scc1 .L1", "v_mov_b32_e32 v0, s4", "s_endpgm", ".L1:", "s_mov_b32 s4, 1", "v_mov_b32_e32 v1, s4", "s_endpgm"])

    def test_calls_and_what_is_called(self):
        self.expect(["v_mov_b32_e32 v0, s4", "v_readlane_b32 s5, v1, 0", "s_mov_b32 s4, 1", "s_wait_alu 0xf1fe", "s_swappc_b64 s[30:31], s[10:11]",
                     "s_mov_b32 s40, 1", f"s_wait_alu {SCALAR}", "v_mov_b32_e32 v1, s40", "s_endpgm"])
        self.expect(["s_mov_b32 s4, 1", f"s_wait_alu {SCALAR}", "v_mov_b32_e32 v1, s4", "v_readlane_b32 vcc_lo, v1, 0", f"s_wait_alu {VCC}",
                     "s_setpc_b64 s[30:31]"], is_kernel=False)

    def test_what_is_not_known_is_refused(self):
        for text in ("q_mystery s4, s5", "s_movrels_b32 s4, s5", "v-add s4", "s_branch nowhere"):
            with self.assertRaises(Problem):
                completed([text, "s_endpgm"])

    def test_registers(self):
        self.assertEqual(registers("s3, -s[4:5], |vcc_hi|, ttmp9, v[0:1], 0x55, null, exec_lo, m0"), 1 << 3 | 3 << 4 | 1 << 107 | 1 << 117)
        self.assertEqual(parse("v_cmpx_gt_u32_e64 s4, v0").uses, 1 << 4)
        self.assertEqual(parse("s_sendmsg_rtn_b32 s4, sendmsg(MSG_RTN_GET_DOORBELL)").defines, 1 << 4)
        self.assertEqual(parse("s_wait_alu depctr_va_sdst(0) depctr_sa_sdst(0)").waits, parse("s_wait_alu 0xf1fe").waits)


class Assembly(unittest.TestCase):
    def test_a_wait_stands_before_the_delay_of_its_instruction(self):
        self.assertEqual(completed(["v_mov_b32_e32 v0, s4", "s_mov_b32 s4, 1", "s_delay_alu instid0(SALU_CYCLE_1)", "v_mov_b32_e32 v1, s4", "s_endpgm"])[2:4],
                         [f"s_wait_alu {SCALAR}", "s_delay_alu instid0(SALU_CYCLE_1)"])

    def test_a_delay_skips_the_waits_too(self):
        body = ["v_mov_b32_e32 v0, s4", "s_mov_b32 s4, 1", "s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_2)",
                "v_add_f32_e32 v1, v2, v0", "v_mov_b32_e32 v3, s4", "s_endpgm"]
        self.assertEqual(completed(body)[2], "s_delay_alu instid0(VALU_DEP_1) | instskip(SKIP_1) | instid1(VALU_DEP_2)")
        body[2] = body[2].replace("NEXT", "SKIP_4")
        body[4:4] = ["s_nop 0"] * 4
        self.assertEqual(completed(body)[2], "s_delay_alu instid0(VALU_DEP_1)")

    def test_distances_from_the_program_counter(self):
        found = completed(["v_mov_b32_e32 v0, s4", "s_getpc_b64 s[4:5]", "s_sext_i32_i16 s5, s5", "s_add_co_u32 s4, s4, t@rel32@lo+8",
                           "s_add_co_ci_u32 s5, s5, t@rel32@hi+16", "s_endpgm"])
        self.assertEqual(found[1:], ["s_getpc_b64 s[4:5]", f"s_wait_alu {SCALAR}", "s_sext_i32_i16 s5, s5", "s_add_co_u32 s4, s4, t@rel32@lo+12",
                                     f"s_wait_alu {SCALAR}", "s_add_co_ci_u32 s5, s5, t@rel32@hi+24", "s_endpgm"])
        with self.assertRaises(Problem):
            completed(["s_add_co_u32 s4, s4, t@rel32@lo+8", "s_endpgm"])

    def test_what_is_not_code(self):
        text = kernel(["s_endpgm ; comment, s4", "; s_mov_b32 s4, 1", ";;#ASMSTART"]) + "\t.amdgpu_metadata\n---\namdhsa.kernels:\n  - x\n...\n\t.end_amdgpu_metadata\n"
        (function, _), = read_assembly(text.splitlines())
        self.assertEqual([one.name for one in function.instructions], ["s_endpgm"])

    def test_the_mark_is_what_the_program_looks_for(self):
        text, added = with_waits(kernel(["s_endpgm"]))
        self.assertEqual(added, 0)
        self.assertIn(f'.asciz\t"{MARK}"', text)
        self.assertIn(f'"{MARK}"', (ROOT / "src/device/kernel_library.cpp").read_text())


class MachineCode(unittest.TestCase):
    LOOP = ["s_load_b64 s[2:3], s[0:1], 0x0", "v_cndmask_b32_e32 v1, 0, v0, vcc_lo", ".LBB0_1:", "v_add_nc_u32_e32 v0, s4, v0", "s_add_co_i32 s4, s4, 1",
            "s_cmp_lt_i32 s4, 8", "s_cbranch_scc1 .LBB0_1", "v_cmp_eq_u32_e32 vcc_lo, 0, v0", "v_cndmask_b32_e32 v0, 0, v0, vcc_lo",
            "global_store_b32 v1, v0, s[2:3]", "s_endpgm"]

    def setUp(self):
        self.clang = next((toolchain.clang for toolchain in toolchains()), None)
        self.disassembler = amd_toolchain.find_disassembler()
        if not self.clang or not self.disassembler:
            self.skipTest("no compiler that knows gfx1201, or no llvm-objdump")
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def assembled(self, text):
        source, found = self.folder / "k.s", self.folder / "gfx1201/k.hsaco"
        found.parent.mkdir(exist_ok=True)
        source.write_text(text)
        subprocess.run([self.clang, "-x", "assembler", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx1201", str(source), "-o", str(found)], check=True)
        return found

    def test_a_scan_sees_what_the_assembly_lacks(self):
        text = metadata(kernel(self.LOOP))
        count, missing = gfx12_scan.scan(self.assembled(text), self.disassembler)
        self.assertEqual(count, len(self.LOOP) - 1)
        self.assertEqual(missing[0], f"not marked as '{MARK}'")
        self.assertEqual(missing[1:], ["k: 2 places without s_wait_alu, the first before instruction 4, 's_cmp_lt_i32', which needs 0xfffe"])
        done_text, added = with_waits(text)
        self.assertEqual(added, 2)
        self.assertEqual(gfx12_scan.scan(self.assembled(done_text), self.disassembler), (count + added, []))

    def test_what_a_far_jump_leads_to_is_reached(self):
        far = ["s_getpc_b64 s[8:9]", ".Lpost_getpc0:", "s_add_co_u32 s8, s8, (.LBB0_2-.Lpost_getpc0)&4294967295",
               "s_add_co_ci_u32 s9, s9, (.LBB0_2-.Lpost_getpc0)>>32", "s_setpc_b64 s[8:9]"]
        # The first instruction of LBB0_2 needs no wait: nothing on the way there has written s4.
        lines = ["s_cbranch_scc1 .LBB0_1", *far, ".LBB0_1:", "s_endpgm", ".LBB0_2:", "s_add_co_i32 s4, s4, 1", "s_mov_b32 s5, s4", "s_endpgm"]
        text, added = with_waits(metadata(kernel(lines)))
        self.assertNotIn("s_wait_alu", text.split(".LBB0_2:")[1].split("s_add_co_i32")[0])
        self.assertEqual(gfx12_scan.scan(self.assembled(text), self.disassembler), (9 + added, []))

    def test_the_script(self):
        script = [sys.executable, ROOT / "tools/build/gfx12_scan.py", self.folder]
        self.assertEqual(subprocess.run(script, capture_output=True).returncode, 2, "there is no object yet")
        self.assembled(metadata(kernel(self.LOOP)))
        self.assertEqual(subprocess.run(script, capture_output=True).returncode, 1)
        self.assembled(with_waits(metadata(kernel(self.LOOP)))[0])
        self.assertEqual(subprocess.run(script, capture_output=True).returncode, 0)

    def test_the_build_leaves_nothing_missing(self):
        output = self.folder / "kernels"
        done = subprocess.run([sys.executable, ROOT / "tools/build/build_kernels.py", "--output", output, "--only", "sample", "gfx1201", "gfx12-generic"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for path in output.glob("gfx12*/*.hsaco"):
            count, missing = gfx12_scan.scan(path, self.disassembler)
            self.assertEqual(missing, [], path)
            self.assertGreater(count, 100)


def metadata(text):
    """With what names the kernel k in the object."""
    return text + "\n".join(["\t.amdgpu_metadata", "---", "amdhsa.kernels:", "  - .name: k", "    .symbol: k.kd", "    .kernarg_segment_size: 8",
                             "    .group_segment_fixed_size: 0", "    .private_segment_fixed_size: 0", "    .kernarg_segment_align: 8",
                             "    .wavefront_size: 32", "    .sgpr_count: 64", "    .vgpr_count: 16", "    .max_flat_workgroup_size: 256",
                             "amdhsa.version:", "  - 1", "  - 2", "...", "\t.end_amdgpu_metadata", ""])


def toolchains():
    try:
        return [one for one in amd_toolchain.find_toolchains() if "gfx1201" in one.processors]
    except amd_toolchain.Problem:
        return []


if __name__ == "__main__":
    unittest.main()
