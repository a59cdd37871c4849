"""Shaken kernels: the seed in their objects, and what is read from the output of a test program.

Skipped (77) where no compiler for AMD is here.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/build"))
import shake  # noqa: E402
from amd_toolchain import find_toolchains  # noqa: E402


class Objects(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        for name, options in (("usual", []), ("shaken", ["--shaken"])):
            command = [sys.executable, ROOT / "tools/build/build_kernels.py", "--output", cls.folder / name, "--only", "device_check", *options, "gfx1100"]
            subprocess.run(command, check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def test_a_copy_has_the_seed_and_nothing_else_changes(self):
        raw = (self.folder / "shaken/gfx1100/device_check.hsaco").read_bytes()
        place = shake.CodeObject(raw).place_of(shake.SEED)
        for seed in (0, 0x01020304):
            to = self.folder / f"seed{seed}"
            to.mkdir()
            shake.write_seeded(self.folder / "shaken", seed, to)
            expected = raw[:place] + seed.to_bytes(4, "little") + raw[place + 4:]
            self.assertEqual((to / "gfx1100/device_check.hsaco").read_bytes(), expected)
        self.assertEqual(raw[place:place + 4], bytes([1, 0, 0, 0]))

    def test_the_usual_objects_are_refused(self):
        with self.assertRaisesRegex(shake.Problem, "device_check.hsaco is not shaken"):
            shake.write_seeded(self.folder / "usual", 1, self.folder)
        with self.assertRaisesRegex(shake.Problem, "has no code objects"):
            shake.write_seeded(self.folder / "nowhere", 1, self.folder)


class Outputs(unittest.TestCase):
    def failures_of(self, output, status):
        tally = shake.Tally("A.*")
        tally.add(3, output, status, 1.0)
        return tally.failures.get(3)

    def test_what_counts_as_failed(self):
        ran = "[==========] 2 tests from 1 test suite ran. (5 ms total)\n"
        self.assertIsNone(self.failures_of(ran, 0))
        self.assertEqual(self.failures_of(ran + "[  FAILED  ] A.b (3 ms)\n[  FAILED  ] A.b\n", 1), ["A.b"])
        self.assertEqual(self.failures_of("[ RUN      ] A.c\n", None), ["A.c never ends"])
        self.assertEqual(self.failures_of("[ RUN      ] A.c\n", -6), ["A.c ends with status -6"])
        self.assertEqual(self.failures_of(ran.replace("2 tests", "0 tests"), 0), ["no test of this name"])


if __name__ == "__main__":
    if not find_toolchains():
        print("skipped: no compiler for AMD's kernels")
        sys.exit(77)
    unittest.main()
