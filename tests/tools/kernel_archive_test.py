"""Archives that tools/build/kernel_archive.py writes: kernel_archive_test.py [PROGRAM]

With the program: what it lists of an archive, whose stamp must be that of its own kernels."""
import json
import lzma
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/build"))
import kernel_archive  # noqa: E402

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
SCRIPT = ROOT / "tools/build/kernel_archive.py"
GOLDEN = ROOT / "tests/device/golden.archive"
ELF = b"\x7fELF"


def write_golden():
    """What tests/device/kernel_archive_test.cpp reads; python3 -c 'import kernel_archive_test; kernel_archive_test.write_golden()'"""
    with tempfile.TemporaryDirectory() as name:
        GOLDEN.write_bytes(kernel_archive.pack(write_objects(pathlib.Path(name)), "golden"))


def write_objects(folder):
    for name, filling, size in (("gfx1100/a.hsaco", b"a", 100), ("gfx1101/a.hsaco", b"a", 100), ("gfx1101/b.hsaco", b"b", 64), ("sm_90a/a.cubin", b"c", 500)):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(ELF + filling * (size - 4))
    return kernel_archive.find_objects(folder)


class KernelArchives(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.objects = write_objects(self.folder)
        self.file = self.folder / "kernels.archive"

    def write(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, "--output", self.file, self.folder, *arguments], capture_output=True, text=True)

    def test_holds_what_was_packed(self):
        for path in (self.folder / "gfx1100/device_check.hsaco", self.folder / "gfx10-as-gfx1100/a.hsaco", self.folder / "gfx1100/notes.json"):
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(ELF)  # none of programs
        self.assertEqual(self.write().returncode, 0)
        data = self.file.read_bytes()
        made_from, sections = kernel_archive.read_index(data)
        self.assertEqual(made_from, kernel_archive.stamp())
        self.assertEqual([section[0] for section in sections], ["gfx1100", "gfx1101", "sm_90a"])
        raw = [ELF + b"a" * 96 + bytes(28), ELF + b"a" * 96 + bytes(28) + ELF + b"b" * 60]
        start, stored, raw_bytes, offset = sections[1][1]
        self.assertEqual((sections[0][1], offset), ((start, stored, raw_bytes, 0), 128))
        self.assertEqual(sections[1][2], [("a", 100), ("b", 64)])
        self.assertEqual(lzma.decompress(data[start:start + stored]), b"".join(raw))
        self.assertEqual(raw_bytes, 320)
        self.assertEqual(sum(sections[2][1][:2]), len(data))

    def test_same_objects_give_the_same_bytes(self):
        once = kernel_archive.pack(self.objects, "golden")
        for paths in self.objects.values():
            for path in paths.values():
                os.utime(path, (1, 1))
        again = {name: dict(reversed(self.objects[name].items())) for name in reversed(self.objects)}
        self.assertEqual(kernel_archive.pack(again, "golden", jobs=2), once)
        # Another liblzma may compress to another number of bytes.
        now, golden = ([(name, place[2:], objects) for name, place, objects in kernel_archive.read_index(data)[1]]
                       for data in (once, GOLDEN.read_bytes()))
        self.assertEqual(now, golden)

    def test_cards_of_a_generation_share_streams(self):
        sizes = {name: 6 << 20 for name in ("gfx90a", "gfx1010", "gfx10-1-generic", *(f"gfx11{i:02}" for i in range(6)), "sm_80", "sm_90a")}
        self.assertEqual(sorted(kernel_archive.streams_of({**sizes, "sm_90a": 50 << 20})),
                         [["gfx10-1-generic", "gfx1010"], ["gfx1100", "gfx1101", "gfx1102"], ["gfx1103", "gfx1104", "gfx1105"],
                          ["gfx90a"], ["sm_80"], ["sm_90a"]])

    def test_the_stamp_is_that_of_the_sources(self):
        for folder in ("tile", "matmul/amd", "matmul/cpu/body", "matmul/reference"):
            (self.folder / folder).mkdir(parents=True)
        stamped = [self.folder / name for name in ("tile/a.h", "matmul/amd/a.hip", "matmul/amd/a.cu")]
        for path in stamped:
            path.write_text("1")
        first = kernel_archive.stamp(self.folder)
        for name in ("matmul/amd/host.cpp", "matmul/cpu/body/a.h", "matmul/reference/a.h"):
            (self.folder / name).write_text("of no matter")
        self.assertEqual(kernel_archive.stamp(self.folder), first)
        for path in stamped:
            path.write_text("2")
            self.assertNotEqual(kernel_archive.stamp(self.folder), first)
            path.write_text("1")

    def test_says_what_is_missing(self):
        done = self.write("gfx1201")
        self.assertEqual((done.returncode, done.stderr), (1, f"kernel_archive: {self.folder} holds no code objects for gfx1201\n"))
        with self.assertRaisesRegex(kernel_archive.Problem, "'a b' is no name"):
            kernel_archive.pack({"gfx1100": {"a b": self.objects["gfx1100"]["a"]}}, "golden")

    @unittest.skipUnless(PROGRAM, "without the program")
    def test_the_program_takes_it(self):
        self.write()
        listed = subprocess.run([PROGRAM, "devices", "--json", "--kernel-dir", self.file], capture_output=True, text=True)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertEqual(json.loads(listed.stdout)["code_objects"], {"gfx1100": ["a"], "gfx1101": ["a", "b"], "sm_90a": ["a"]})


if __name__ == "__main__":
    unittest.main()
