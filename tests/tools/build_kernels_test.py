"""What tools/build/build_kernels.py refuses of compiled kernels: build_kernels_test.py"""
import pathlib
import sys
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/build"))
import build_kernels  # noqa: E402

SAID = """ptxas info    : Compiling entry function 'rows' for 'sm_90a'
ptxas info    : Function properties for rows
    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, {stack} bytes cumulative stack size, 512 bytes smem
"""


def task(architecture, portable=False):
    return types.SimpleNamespace(architecture=architecture, portable=portable)


class Spills(unittest.TestCase):
    def test_a_few_words_on_nvidia_are_no_fault(self):
        for stores, loads, expected in ((0, 0, False), (8, 8, False), (48, 48, False), (48, 52, True)):
            [(name, registers, spills, shared, scratch)] = build_kernels.nvidia_usage(SAID.format(stack=16, stores=stores, loads=loads))
            self.assertEqual((name, registers, shared, scratch), ("rows", "168 r", 512, 16))
            self.assertEqual(spills, f"{stores + loads} bytes" if stores else "")
            self.assertEqual(build_kernels.is_fault(task("sm_90a"), spills, scratch, strict=True), expected)

    def test_a_stack_on_nvidia_is_a_fault(self):
        self.assertTrue(build_kernels.is_fault(task("sm_90a"), "", 1024, strict=True))
        self.assertFalse(build_kernels.is_fault(task("sm_90a", portable=True), "", 1024, strict=False))

    def test_on_amd_any_spill_of_a_tuned_kernel_is_a_fault_of_strict(self):
        self.assertTrue(build_kernels.is_fault(task("gfx90a"), "2 s", 0, strict=True))
        self.assertFalse(build_kernels.is_fault(task("gfx90a"), "2 s", 0, strict=False))
        self.assertTrue(build_kernels.is_fault(task("gfx90a"), "", 4, strict=False))
        self.assertFalse(build_kernels.is_fault(task("gfx90a", portable=True), "2 s", 0, strict=True))
        self.assertTrue(build_kernels.is_fault(task("gfx90a", portable=True), "", 4, strict=True))


class Warnings(unittest.TestCase):
    def test_those_of_both_compilers_are_read(self):
        for said, expected in (("a.h:12:3: warning: unused", True), ("a.h(12): warning #20094-D: a host member", True),
                               ("ptxas info    : (C7510) Potential Performance Loss", False),
                               ("nvcc warning : incompatible redefinition", False)):
            with self.subTest(said):
                self.assertEqual(build_kernels.has_warning(said), expected)


if __name__ == "__main__":
    unittest.main()
