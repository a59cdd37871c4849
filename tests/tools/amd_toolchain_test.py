"""Finds AMD's compiler in folders laid out like /opt/rocm, made of the distribution's files, and compiles with each.

Skipped (77) where the distribution's packages are missing.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from amd_toolchain import Problem, distribution_toolchain, find_toolchains, rocm_folders, rocm_toolchain, toolchain_for  # noqa: E402
from code_object import CodeObject  # noqa: E402

PACKAGES = distribution_toolchain()
# The paths of compiler, headers and device libraries; and links within the folder.
LAYOUTS = {
    "5.7.1": ("llvm/bin/clang++", "hip/include/hip", "amdgcn/bitcode", {}),
    "6.0.2": ("llvm/bin/clang++", "include/hip", "amdgcn/bitcode", {}),
    "6.4.1": ("lib/llvm/bin/clang++", "include/hip", "amdgcn/bitcode", {"llvm": "lib/llvm"}),
    "7.0.2": ("lib/llvm/bin/clang++", "include/hip", "lib/llvm/lib/clang/20/lib/amdgcn/bitcode", {"llvm": "lib/llvm"}),
    "7.2.0": ("lib/llvm/bin/clang++", "include/hip", "lib/llvm/amdgcn/bitcode", {}),
}


def link(path, target):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def make_rocm(folder, version):
    compiler, headers, bitcode, links = LAYOUTS[version]
    link(folder / compiler, PACKAGES.clang)
    link(folder / headers, PACKAGES.headers / "include/hip")
    link(folder / bitcode, PACKAGES.bitcode)
    for name, target in links.items():
        link(folder / name, target)
    (folder / ".info").mkdir()
    (folder / ".info/version").write_text(f"{version}-98\n")
    return folder


class Toolchains(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.opt = pathlib.Path(self.folder.name) / "opt"
        self.usr = pathlib.Path(self.folder.name) / "usr"  # without packages

    def found(self, environment=None, usr=None):
        return [toolchain.name for toolchain in find_toolchains(environment or {}, usr or self.usr, self.opt)]

    def test_each_layout_compiles(self):
        for version, (compiler, headers, bitcode, _) in LAYOUTS.items():
            with self.subTest(version):
                root = make_rocm(self.opt / f"rocm-{version}", version)
                toolchain = rocm_toolchain(root)
                self.assertEqual(pathlib.Path(toolchain.clang).resolve(), (root / compiler).resolve())
                self.assertEqual(toolchain.headers / "include/hip", root / headers)
                self.assertEqual(toolchain.bitcode.resolve(), (root / bitcode).resolve())
                self.assertTrue(str(toolchain.bitcode).startswith(str(root)))
                output = self.opt / version / "kernels"
                environment = {name: value for name, value in os.environ.items() if name != "HIP_PATH"} | {"ROCM_PATH": str(root)}
                done = subprocess.run([sys.executable, ROOT / "tools/build_kernels.py", "--output", output, "--only", "device_check", "gfx1100"],
                                      env=environment, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertTrue(CodeObject((output / "gfx1100/device_check.hsaco").read_bytes()).kernels)
                self.assertIn(f"--rocm-path={root}", (output / ".state/gfx1100/device_check.json").read_text())

    def test_the_newest_of_several(self):
        for version, layout in (("5.7.1", "5.7.1"), ("6.9.3", "6.4.1"), ("6.10.0", "6.4.1")):
            root = make_rocm(self.opt / f"rocm-{version}", layout)
            (root / ".info/version").write_text(f"{version}-7\n")
        self.assertEqual(self.found(), [str(self.opt / f"rocm-{version}") for version in ("6.10.0", "6.9.3", "5.7.1")])

    def test_a_link_is_its_folder(self):
        make_rocm(self.opt / "rocm-6.4.1", "6.4.1")
        link(self.opt / "rocm", "rocm-6.4.1")
        self.assertEqual(len(rocm_folders(self.opt)), 1)
        make_rocm(self.opt / "rocm-7.0.2", "7.0.2")
        self.assertEqual(self.found()[0], str(self.opt / "rocm-7.0.2"))

    def test_the_folder_may_have_no_version(self):
        root = make_rocm(self.opt / "rocm", "7.0.2")
        (root / ".info/version").unlink()
        self.assertEqual(self.found(), [str(root)])

    def test_packages_come_first_and_then_who_knows_the_architecture(self):
        make_rocm(self.opt / "rocm-7.0.2", "7.0.2")
        found = find_toolchains({}, "/usr", self.opt)
        self.assertEqual([toolchain.name for toolchain in found], [PACKAGES.name, str(self.opt / "rocm-7.0.2")])
        self.assertEqual(toolchain_for("gfx1100", found), found[0])
        vars(found[0])["processors"] = {"gfx1030"}  # an older compiler
        self.assertEqual(toolchain_for("gfx1100", found), found[1])
        self.assertIsNone(toolchain_for("gfx9999", found))

    def test_the_environment_decides(self):
        make_rocm(self.opt / "rocm-7.0.2", "7.0.2")
        older = make_rocm(self.opt / "rocm-6.0.2", "6.0.2")
        self.assertEqual(self.found({"ROCM_PATH": str(older)}, "/usr"), [str(older)])
        headers = self.opt / "other"
        link(headers / "include/hip", PACKAGES.headers / "include/hip")
        chosen, = find_toolchains({"ROCM_PATH": str(older), "HIP_PATH": str(headers)}, self.usr, self.opt)
        self.assertEqual(chosen.headers, headers)
        with self.assertRaises(Problem) as caught:
            self.found({"ROCM_PATH": "/nowhere"})
        self.assertEqual(str(caught.exception),
                         "ROCM_PATH: /nowhere has no llvm/bin/clang++ and no include/hip/hip_runtime.h and no amdgcn/bitcode/ocml.bc")

    def test_device_libraries_of_an_older_compiler(self):
        link(self.usr / "include/hip", PACKAGES.headers / "include/hip")
        self.assertIsNone(distribution_toolchain(self.usr))
        for version in (15, 17, 99):  # 99: more than this compiler can read
            link(self.usr / f"lib/llvm-{version}/lib/clang/{version}/amdgcn/bitcode", PACKAGES.bitcode)
        found = distribution_toolchain(self.usr)
        self.assertEqual(found.bitcode, self.usr / "lib/llvm-17/lib/clang/17/amdgcn/bitcode")

    def test_what_is_missing_is_named(self):
        root = make_rocm(self.opt / "rocm", "6.4.1")
        (root / "amdgcn/bitcode").unlink()
        with self.assertRaises(Problem) as caught:
            self.found()
        self.assertIn("neither the packages clang-19", str(caught.exception))
        self.assertIn(f"{root} has no amdgcn/bitcode/ocml.bc", str(caught.exception))


if __name__ == "__main__":
    if PACKAGES is None:
        print("skipped: clang-19, libamdhip64-dev or the package of device libraries is missing")
        sys.exit(77)
    unittest.main()
