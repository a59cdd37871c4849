"""Instructions that follow each other too closely: each rule finds its fault, and nothing where the distance is right.

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
import gfx9_hazard  # noqa: E402
import hazard_scan  # noqa: E402
import rdna_hazard  # noqa: E402
from code_flow import Function, Problem  # noqa: E402
from disassembly import functions_of  # noqa: E402
from operands import EXEC, FIRST, LDS, M0, MEMORY, parse, registers  # noqa: E402

CDNA2, CDNA3, CDNA4 = map(gfx9_hazard.Card, ("gfx90a", "gfx942", "gfx950"))
EVERY = (CDNA2, CDNA3, CDNA4)
OF = {"gfx90a": "v_mfma_f32_16x16x16f16", "gfx942": "v_mfma_f32_16x16x16_f16", "gfx950": "v_mfma_f32_16x16x16_f16"}
RDNA3 = hazard_scan.RDNA3_0


def function(lines):
    found = Function("k", True)
    for line in lines:
        if line.endswith(":"):
            found.labels[line[:-1]] = len(found.instructions)
        else:
            found.instructions.append(parse(line))
    return found


class Registers(unittest.TestCase):
    def test_sets(self):
        self.assertEqual(registers("v3, -s[4:5], |vcc_hi|, a[0:1], m0, 0x55, off, exec"),
                         1 << FIRST["v"] + 3 | 3 << 4 | 1 << 107 | 3 << FIRST["a"] | M0 | EXEC)

    def test_results_and_sources(self):
        for text, written, read in (
                ("v_add_f32_e32 v0, v1, v2", "v0", "v1 v2"), ("v_mad_u64_u32 v[0:1], s[6:7], s5, v2, v[4:5]", "v[0:1] s[6:7]", "s5 v2 v[4:5]"),
                ("v_cmp_eq_u32_e64 s[4:5], v1, s6", "s[4:5]", "v1 s6"), ("v_cmpx_gt_i32_e64 s25, v26", "exec", "s25 v26"),
                ("v_div_fmas_f32 v0, v1, v2, v3", "v0", "v1 v2 v3 vcc"), ("v_fmac_f32_e32 v0, v1, v2", "v0", "v0 v1 v2"),
                ("v_dot4c_i32_i8_e32 v0, v1, v2", "v0", "v0 v1 v2"), ("v_writelane_b32 v0, s1, s2", "v0", "v0 s1 s2"),
                ("v_swap_b32 v0, v1", "v0 v1", "v0 v1"), ("v_readlane_b32 s4, v1, s2", "s4", "v1 s2"),
                ("v_add_co_u32 v0, vcc, v1, v2", "v0 vcc", "v1 v2"), ("global_load_dwordx4 v[0:3], v4, s[2:3]", "v[0:3]", "v4 s[2:3]"),
                ("global_store_dwordx2 v[0:1], v[2:3], off", "", "v[0:1] v[2:3]"), ("global_atomic_add v0, v1, v2, s[0:1] sc0", "v0", "v1 v2 s[0:1]"),
                ("global_atomic_add v1, v2, s[0:1]", "", "v1 v2 s[0:1]"), ("ds_bpermute_b32 v0, v1, v2", "v0", "v1 v2"),
                ("ds_add_f32 v0, v1", "", "v0 v1"), ("ds_add_rtn_u32 v0, v1, v2", "v0", "v1 v2"),
                ("global_load_short_d16_hi v0, v1, s[0:1]", "v0", "v0 v1 s[0:1]"),
                ("v_mov_b32_dpp v0, v1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf", "v0", "v0 v1"),
                ("v_dual_fmac_f32 v0, v1, v2 :: v_dual_mov_b32 v3, s4", "v0 v3", "v0 v1 v2 s4"), ("s_mov_b32 m0, s4", "m0", "s4")):
            one = parse(text)
            self.assertEqual((one.defines, one.uses), (registers(written), registers(read)), text)

    def test_what_is_not_known_is_refused(self):
        for text in ("q_mystery s4", "v-add v4", "exp mrt0 v0, v1, v2, v3", "global_load_lds_dword v0, s[0:1]",
                     "buffer_load_dword v0, s[0:3], 0 offen lds", "ds_add_u32 v0, v1 gds"):
            with self.assertRaises(Problem, msg=text):
                parse(text)

    def test_kinds(self):
        self.assertEqual([parse(text).kind for text in ("ds_read_b32 v0, v1", "flat_load_dword v0, v[2:3]")], [LDS, MEMORY])


class Distances(unittest.TestCase):
    """Of CDNA: after `first`, `later` needs these wait states."""

    def missing(self, lines, card):
        return [(states, why) for _, states, why in gfx9_hazard.places(function([*lines, "s_endpgm"]), card)]

    def expect(self, first, later, states, cards=EVERY):
        for card in cards:
            pair = [line.format(mfma=OF[card.name]) for line in (first, later)]
            with self.subTest(card=card.name, first=pair[0], later=pair[1]):
                if not states:
                    self.assertEqual(self.missing(pair, card), [])
                    continue
                self.assertEqual([count for count, _ in self.missing(pair, card)], [states])
                self.assertEqual(self.missing([pair[0], f"s_nop {states - 1}", pair[1]], card), [])
                if states > 1:
                    self.assertEqual([count for count, _ in self.missing([pair[0], f"s_nop {states - 2}", pair[1]], card)], [1])

    def test_a_scalar_of_a_vector_instruction_in_an_address(self):
        self.expect("v_readlane_b32 s4, v1, 0", "global_load_dword v2, v3, s[4:5]", 5)
        self.expect("v_readfirstlane_b32 s4, v1", "buffer_store_dword v2, v3, s[4:7], 0 offen", 5)
        self.expect("v_readlane_b32 s4, v1, 0", "global_load_dword v2, v3, s[6:7]", 0)
        self.expect("s_mov_b32 s4, 0", "global_load_dword v2, v3, s[4:5]", 0)

    def test_lanes(self):
        dpp = "quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf"
        self.expect("v_mov_b32_e32 v1, v0", f"v_add_f32_dpp v2, v1, v3 {dpp}", 2)
        self.expect("v_cmpx_eq_u32_e32 vcc, v0, v1", f"v_mov_b32_dpp v2, v3 {dpp}", 5)
        self.expect("v_readlane_b32 s4, v1, 0", "v_writelane_b32 v5, s8, s4", 4)
        self.expect("v_readfirstlane_b32 s4, v1", "v_readlane_b32 s6, v5, s4", 4)
        self.expect("v_mov_b32_e32 v1, v0", "v_readlane_b32 s6, v1, 3", 1, (CDNA3, CDNA4))
        self.expect("v_mov_b32_e32 v1, v0", "v_readfirstlane_b32 s6, v1", 0, (CDNA2,))
        self.expect("v_cmpx_eq_u32_e32 vcc, v0, v1", "v_readfirstlane_b32 s6, v2", 4, (CDNA3, CDNA4))

    def test_vcc(self):
        self.expect("v_div_scale_f32 v0, vcc, v1, v2, v1", "v_div_fmas_f32 v3, v4, v5, v6", 4)
        self.expect("v_cmp_eq_u32_e32 vcc, v0, v1", "v_cndmask_b32_e32 v2, v3, v4, vcc", 2, (CDNA3, CDNA4))
        self.expect("v_cmp_eq_u32_e32 vcc, v0, v1", "v_cndmask_b32_e32 v2, v3, v4, vcc", 0, (CDNA2,))

    def test_results_that_are_forwarded_on_cdna3(self):
        both = (CDNA3, CDNA4)
        self.expect("v_readlane_b32 s4, v1, 0", "v_add_u32_e32 v2, s4, v3", 2, both)
        self.expect("v_exp_f32_e32 v0, v1", "v_add_f32_e32 v2, v0, v3", 1, both)
        self.expect("v_exp_f32_e32 v0, v1", "v_rcp_f32_e32 v2, v0", 0, both)
        self.expect("v_exp_f32_e32 v0, v1", "v_add_f32_e32 v2, v0, v3", 0, (CDNA2,))
        shifted = "v_or_b32_sdwa v0, v1, v2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD src1_sel:DWORD"
        self.expect(shifted, "v_add_f32_e32 v3, v0, v4", 1, both)
        self.expect("v_fma_mixhi_f16 v0, v1, v2, v3", "v_fma_mixlo_f16 v0, v4, v5, v6", 1, both)  # which keeps the rest
        self.expect(shifted.replace("WORD_1", "DWORD").replace("PRESERVE", "PAD"), "v_add_f32_e32 v3, v0, v4", 0, both)
        self.expect("v_add_f16_e64 v0, v1, v2 op_sel:[0,0,1]", "v_add_f32_e32 v3, v0, v4", 1, both)

    def test_dot_products(self):
        dot = "v_dot4c_i32_i8_e32 v0, v1, v2"
        self.expect(dot, "v_add_u32_e32 v3, v0, v4", 3)
        self.expect(dot, "v_mov_b32_e32 v0, v4", 3)
        self.expect(dot, "ds_write_b32 v4, v0", 3)
        self.expect(dot, "v_dot4c_i32_i8_e32 v5, v0, v2", 3)
        self.expect(dot, "v_dot4c_i32_i8_e32 v0, v3, v4", 0)

    def test_the_data_of_a_wide_store(self):
        for store in ("global_store_dwordx4 v8, v[0:3], s[0:1]", "flat_store_dwordx3 v[8:9], v[0:2]",
                      "buffer_store_dwordx4 v[0:3], v8, s[0:3], s4 offen"):
            self.expect(store, "v_mov_b32_e32 v2, v9", 1, (CDNA2,))
            self.expect(store, "v_mov_b32_e32 v2, v9", 2, (CDNA3, CDNA4))
            self.expect(store, "v_mov_b32_e32 v8, v9", 0)
        self.expect("global_store_dwordx2 v8, v[0:1], s[0:1]", "v_mov_b32_e32 v1, v9", 0)

    def test_what_a_matrix_instruction_reads(self):
        product = "{mfma} a[0:3], v[0:1], v[2:3], a[0:3]"
        self.expect("v_mov_b32_e32 v1, v9", product, 2)
        self.expect("v_accvgpr_write_b32 a2, v9", product, 2)
        self.expect("v_cmpx_eq_u32_e32 vcc, v8, v9", product, 4)

    def test_what_reads_or_writes_a_matrix_product(self):
        product = "{mfma} v[0:3], v[4:5], v[6:7], v[0:3]"
        for card, states in ((CDNA2, 11), (CDNA3, 7), (CDNA4, 8)):
            self.expect(product, "v_add_f32_e32 v8, v3, v9", states, (card,))
            self.expect(product, "v_mov_b32_e32 v3, v9", states, (card,))
            self.expect(product, "global_store_dword v8, v0, s[0:1]", states, (card,))
            self.expect(product, "ds_read_b32 v1, v9", states, (card,))
            self.expect(product, "{mfma} v[8:11], v[2:3], v[6:7], v[8:11]", states, (card,))
        self.expect(product, "{mfma} v[0:3], v[8:9], v[10:11], v[0:3]", 0)
        for card, states in ((CDNA2, 8), (CDNA3, 5), (CDNA4, 6)):
            self.expect(product, "{mfma} v[2:5], v[8:9], v[10:11], v[2:5]", states, (card,))
        self.expect(product, "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]", 6, (CDNA4,))
        self.expect(product, "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]", 0, (CDNA3,))

    def test_the_sum_that_a_matrix_instruction_reads(self):
        product = "{mfma} v[0:3], v[4:5], v[6:7], v[12:15]"
        self.expect(product, "v_mov_b32_e32 v13, v9", 7, (CDNA2,))
        self.expect(product, "v_mov_b32_e32 v13, v9", 3, (CDNA3, CDNA4))
        self.expect(product, "v_mov_b32_e32 v5, v9", 0)

    def test_the_worst_of_several_counts(self):
        lines = ["v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]", "v_exp_f32_e32 v8, v9", "v_add_f32_e32 v10, v8, v0"]
        self.assertEqual(self.missing(lines, CDNA3), [(6, "a matrix product outside of matrix instructions")])

    def test_every_path_counts(self):
        first, later = "v_readlane_b32 s4, v1, 0", "global_load_dword v2, v3, s[4:5]"
        self.assertEqual(len(self.missing(["s_cbranch_scc1 .L1", first, "s_branch .L2", ".L1:", "s_nop 7", ".L2:", later], CDNA3)), 1)
        self.assertEqual(len(self.missing([".L1:", later, first, "s_cbranch_scc1 .L1"], CDNA3)), 1)
        self.assertEqual(self.missing([".L1:", later, first, "s_nop 3", "s_cbranch_scc1 .L1"], CDNA3), [])
        self.assertEqual(self.missing([first, "s_branch .L2", ".L1:", later, "s_endpgm", ".L2:", "s_nop 0"], CDNA3), [])

    def test_hazards_without_a_rule_are_refused(self):
        for text in ("v_mfma_f64_16x16x4_f64 a[0:7], v[0:1], v[2:3], a[0:7]", "v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]",
                     "s_sendmsg sendmsg(1)", "s_setreg_imm32_b32 hwreg(1), 0", "s_movrels_b32 s0, s1"):
            with self.assertRaises(Problem, msg=text):
                self.missing([text], CDNA3)


class Rdna(unittest.TestCase):
    EXP, ADD, OTHER = "v_exp_f32_e32 v0, v1", "v_add_f32_e32 v2, v0, v3", "v_mov_b32_e32 v8, v9"

    def places(self, lines, card=RDNA3):
        return [why for _, why in rdna_hazard.places(function([*lines, "s_endpgm"]), card)]

    def test_a_transcendental_result(self):
        why = ["a transcendental result"]
        self.assertEqual(self.places([self.EXP, self.ADD]), why)
        self.assertEqual(self.places([self.EXP, *[self.OTHER] * 5, self.ADD]), why)
        self.assertEqual(self.places([self.EXP, *[self.OTHER] * 6, self.ADD]), [])
        self.assertEqual(self.places([self.EXP, "v_rcp_f32_e32 v8, v9", self.ADD]), why)
        self.assertEqual(self.places([self.EXP, *["v_rcp_f32_e32 v8, v9"] * 2, self.ADD]), [])
        self.assertEqual(self.places([self.EXP, "s_nop 7", "s_waitcnt_depctr 0xf0ff", self.ADD]), why)
        for wait in ("s_waitcnt_depctr 0xfff", "ds_load_b32 v9, v8", "global_load_b32 v9, v8, s[0:1]"):
            self.assertEqual(self.places([self.EXP, wait, self.ADD]), [])
        self.assertEqual(self.places([self.EXP, self.ADD], hazard_scan.cards_of("gfx1151")[0]), [])
        self.assertEqual(self.places([".L1:", self.ADD, self.EXP, "s_cbranch_scc1 .L1"]), why)

    def test_a_matrix_product_as_a_factor(self):
        first = "v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]"
        later = "v_wmma_f32_16x16x16_f16 v[24:31], v[0:7], v[16:23], v[24:31]"
        for card in (RDNA3, *hazard_scan.cards_of("gfx1201")):
            self.assertEqual(self.places([first, later], card), ["a matrix product as a factor"])
            self.assertEqual(self.places([first, "s_nop 7", later], card), ["a matrix product as a factor"])
            self.assertEqual(self.places([first, "v_nop", later], card), [])
            self.assertEqual(self.places([first, first], card), [])

    def test_v_cmpx_before_an_exchange_of_lanes(self):
        first, later = "v_cmpx_eq_u32_e32 v0, v1", "v_permlanex16_b32 v2, v3, s0, s1"
        for between, count in (([], 1), (["v_nop"], 1), (["s_nop 7"], 1), (["v_mov_b32_e32 v3, v3"], 0)):
            self.assertEqual(len(self.places([first, *between, later])), count)
        self.assertEqual(self.places([first, later], hazard_scan.cards_of("gfx1201")[0]), [])

    def test_a_product_of_64_bits_in_a_register_that_it_reads(self):
        for text, count in (("v_mad_u64_u32 v[0:1], null, v2, v3, v[4:5]", 0), ("v_mad_u64_u32 v[0:1], null, v1, v3, v[4:5]", 1),
                            ("v_mad_i64_i32 v[0:1], null, s1, s3, v[0:1]", 1), ("v_mad_u64_u32 v[2:3], null, s1, v5, v[1:2]", 0)):
            self.assertEqual(len(self.places([text])), count, text)

    def test_loads_to_vector_instructions_are_refused(self):
        with self.assertRaises(Problem):
            self.places(["lds_direct_load v0"])


class MachineCode(unittest.TestCase):
    def setUp(self):
        self.clang = next((toolchain.clang for toolchain in toolchains()), None)
        self.disassembler = amd_toolchain.find_disassembler()
        if not self.clang or not self.disassembler:
            self.skipTest("no compiler that knows gfx942, or no llvm-objdump")
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def assembled(self, lines, architecture="gfx942"):
        source, found = self.folder / "k.s", self.folder / architecture / "k.hsaco"
        found.parent.mkdir(exist_ok=True)
        source.write_text("\n".join(['\t.text', "\t.globl\tk", "\t.p2align\t8", "\t.type\tk,@function", "k:", *lines, "\ts_endpgm", ""]))
        subprocess.run([self.clang, "-x", "assembler", "-target", "amdgcn-amd-amdhsa", f"-mcpu={architecture}", str(source), "-o", str(found)],
                       check=True)
        return found

    def test_a_scan_sees_what_is_too_early(self):
        product, later = "v_mfma_f32_16x16x16_f16 a[0:3], v[0:1], v[2:3], a[0:3]", "v_accvgpr_read_b32 v4, a1"
        self.assertEqual(hazard_scan.scan(self.assembled([product, "s_nop 5", later]), self.disassembler), (4, [
            "k: 1 places, the first is instruction 2, 'v_accvgpr_read_b32': a matrix product outside of matrix instructions, "
            "1 wait states too early"]))
        self.assertEqual(hazard_scan.scan(self.assembled([product, "s_nop 6", later]), self.disassembler), (4, []))

    def test_a_generic_object_has_the_rules_of_all_its_cards(self):
        lines = ["v_mfma_f32_16x16x16_f16 a[0:3], v[0:1], v[2:3], a[0:3]", "s_nop 6", "v_accvgpr_read_b32 v4, a1"]
        card = self.assembled(lines)
        self.assertEqual(hazard_scan.scan(card, self.disassembler)[1], [])
        generic = self.folder / "gfx9-4-generic" / card.name
        generic.parent.mkdir()
        self.assertEqual(len(hazard_scan.scan(card.rename(generic), self.disassembler)[1]), 1)

    def test_rdna(self):
        lines = ["v_exp_f32_e32 v0, v1", "v_add_f32_e32 v2, v0, v3"]
        self.assertEqual(len(hazard_scan.scan(self.assembled(lines, "gfx1100"), self.disassembler)[1]), 1)

    def test_no_flat_instruction_stands_beside_shared_memory(self):
        output = self.folder / "kernels"
        command = [sys.executable, ROOT / "tools/build/build_kernels.py", "--output", output, "--only", "sample", "--only", "delta_net", "gfx1010"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name in ("sample", "delta_net"):
            functions, _ = functions_of(output / f"gfx1010/{name}.hsaco", self.disassembler, lambda text: text)
            names = [text.split()[0] for function in functions for text in function.instructions]
            self.assertEqual([one for one in names if one.startswith("flat_")], [], name)
            self.assertTrue(any(one.startswith("ds_") for one in names), name)

    def test_the_script(self):
        script = [sys.executable, ROOT / "tools/build/hazard_scan.py", self.folder]
        self.assertEqual(subprocess.run(script, capture_output=True).returncode, 2, "there is no object yet")
        self.assembled(["s_nop 0"], "gfx1030")
        self.assertEqual(subprocess.run(script, capture_output=True).returncode, 2, "there is none with rules")
        self.assembled(["v_exp_f32_e32 v0, v1", "v_add_f32_e32 v2, v0, v3"])
        self.assertEqual(subprocess.run(script, capture_output=True).returncode, 1)
        self.assembled(["s_setreg_imm32_b32 hwreg(1), 0"])
        self.assertEqual(subprocess.run(script, capture_output=True).returncode, 1)
        self.assembled(["v_exp_f32_e32 v0, v1", "s_nop 0", "v_add_f32_e32 v2, v0, v3"])
        done = subprocess.run(script, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "hazard_scan: 1 objects, 4 instructions, 0 objects with faults; 1 objects without rules\n"))


def toolchains():
    try:
        return [one for one in amd_toolchain.find_toolchains() if "gfx942" in one.processors]
    except amd_toolchain.Problem:
        return []


if __name__ == "__main__":
    unittest.main()
