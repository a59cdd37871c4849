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
sys.path.insert(0, str(ROOT / "tools/build"))
import build_kernels  # noqa: E402
from amd_toolchain import (Problem, distribution_toolchains, find_toolchains, make_device_libraries, rocm_folders,  # noqa: E402
                           rocm_toolchain, toolchain_for)
from code_object import CodeObject  # noqa: E402

PACKAGES = next(iter(distribution_toolchains()), None)
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
                done = subprocess.run([sys.executable, ROOT / "tools/build/build_kernels.py", "--output", output, "--only", "device_check", "gfx1100"],
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
        self.assertEqual([toolchain.name for toolchain in found], [one.name for one in distribution_toolchains()] + [str(self.opt / "rocm-7.0.2")])
        self.assertEqual(toolchain_for("gfx1100", found), found[0])
        vars(found[0])["processors"] = {"gfx1030"}  # an older compiler
        self.assertEqual(toolchain_for("gfx1100", found), found[1])
        self.assertEqual(toolchain_for("gfx1100", found, lambda one, architecture: "broken" if one is found[1] else ""), found[2] if len(found) > 2 else None)
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
        self.assertEqual(distribution_toolchains(self.usr), [])
        for version in (15, 17, 99):  # 99: more than this compiler can read
            link(self.usr / f"lib/llvm-{version}/lib/clang/{version}/amdgcn/bitcode", PACKAGES.bitcode)
        found = next(one for one in distribution_toolchains(self.usr) if one.name == PACKAGES.name)
        self.assertEqual(found.bitcode, self.usr / "lib/llvm-17/lib/clang/17/amdgcn/bitcode")

    def compiler(self, name, text):
        path = self.usr / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def test_every_compiler_of_the_distribution_the_newest_first(self):
        link(self.usr / "include/hip", PACKAGES.headers / "include/hip")
        link(self.usr / "lib/llvm-17/lib/clang/17/amdgcn/bitcode", PACKAGES.bitcode)
        link(self.usr / "lib/llvm-21/lib/clang/21/amdgcn/bitcode", PACKAGES.bitcode)
        for name in ("clang++-22", "clang++-21", "clang++-20", "clang++-18"):
            self.compiler(name, "")
        found = distribution_toolchains(self.usr)
        self.assertEqual([one.name for one in found][:3], ["clang++-22", "clang++-21", "clang++-20"])
        self.assertNotIn("clang++-18", [one.name for one in found])
        self.assertEqual([one.bitcode.parts[-3] for one in found[:3]], ["21", "21", "17"])

    def test_a_compiler_that_does_not_compile_is_passed_over(self):
        """One that knows the architecture, but finds no linker."""
        link(self.usr / "include/hip", PACKAGES.headers / "include/hip")
        link(self.usr / "lib/llvm-17/lib/clang/17/amdgcn/bitcode", PACKAGES.bitcode)
        self.compiler("clang++-22", f'case "$*" in *--offload-arch*) echo "clang: error: no ld.lld-22" >&2; exit 1;; esac\nexec {PACKAGES.clang} "$@"')
        self.compiler("clang++-21", f'exec {PACKAGES.clang} "$@"')
        machine = build_kernels.Toolchains.__new__(build_kernels.Toolchains)
        machine.device_libraries, machine.found, machine.problems = self.usr / "device-libs", distribution_toolchains(self.usr), {}
        self.assertEqual(machine.for_architecture("gfx1100").name, "clang++-21")
        self.assertEqual(machine.refusal().split("; ")[1], "clang++-22 does not compile: clang: error: no ld.lld-22")
        self.assertTrue((machine.device_libraries / "clang-21/compiles").exists())
        self.assertFalse((machine.device_libraries / "clang-22/compiles").exists())
        machine.found, machine.problems = machine.found[:1], {}
        self.assertIsNone(machine.for_architecture("gfx1100"))
        self.assertIn("not known to any compiler here; clang++-22 does not compile", machine.refusal())

    def test_a_compiler_without_the_macro_of_the_wave_size(self):
        """The headers of ROCm 5 use it, and newer compilers have it no more."""
        link(self.usr / "include/hip", PACKAGES.headers / "include/hip")
        link(self.usr / "lib/llvm-17/lib/clang/17/amdgcn/bitcode", PACKAGES.bitcode)
        self.compiler("clang++-22", f'case "$*" in *-dM*) exit 0;; esac\nexec {PACKAGES.clang} "$@"')
        without, *_ = distribution_toolchains(self.usr)
        self.assertIn("-D__AMDGCN_WAVEFRONT_SIZE=64", without.flags("libraries", 64))
        if PACKAGES.name in ("clang++-19", "clang++-20"):
            self.assertEqual(len(PACKAGES.flags("libraries", 64)), 3)

    def test_a_warning_fails_a_strict_build_alone(self):
        root = make_rocm(self.opt / "rocm-7.0.2", "7.0.2")
        (root / "lib/llvm/bin/clang++").unlink()
        clang = root / "lib/llvm/bin/clang++"
        clang.write_text(f'#!/bin/sh\ncase "$*" in *device_check*) echo "a.hip:3:1: warning: new in this version" >&2;; esac\nexec {PACKAGES.clang} "$@"\n')
        clang.chmod(0o755)
        command = [sys.executable, ROOT / "tools/build/build_kernels.py", "--output", self.opt / "kernels", "--only", "device_check", "gfx1100"]
        for options, status in (([], 0), (["--strict"], 1), ([], 0)):  # what was compiled before is judged, too
            done = subprocess.run([*command, *options], env=os.environ | {"ROCM_PATH": str(root)}, capture_output=True, text=True)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            self.assertEqual("compiles with warnings" in done.stderr, bool(options))

    def test_a_compiler_before_llvm_19_orders_all_memory(self):
        source = self.opt / "k.hip"
        source.parent.mkdir(exist_ok=True)
        source.write_text('#include "kernels/tile/device_code.h"\nextern "C" __global__ void k(const float* from, float* to) {\n'
                          "  const float value = from[threadIdx.x];\n  rocmforge::gpu::sync_shared();\n  to[threadIdx.x] = value;\n}\n")
        one_space = []
        for version in ([], ["-Wno-builtin-macro-redefined", "-D__clang_major__=18"]):
            done = subprocess.run([PACKAGES.clang, "-x", "hip", "--cuda-device-only", "-O3", "-std=c++20", "--offload-arch=gfx942", "-nogpulib",
                                   f"--rocm-path={PACKAGES.root}", f"--hip-path={PACKAGES.headers}", "-DROCMFORGE_WAVE_SIZE=64", f"-I{ROOT / 'src'}",
                                   *version, "-emit-llvm", "-S", "-o", "-", str(source)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            fences = [line for line in done.stdout.splitlines() if line.strip().startswith("fence")]
            self.assertEqual(len(fences), 2)
            one_space.append(["!mmra" in line for line in fences])
        self.assertEqual(one_space, [[True, True], [False, False]])

    def test_a_work_group_writes_the_cache_back_once(self):
        """tile/arrival.h on CDNA, where a release of the device writes back a whole second cache; stores have arrived there before."""
        source = self.opt / "k.hip"
        source.parent.mkdir(exist_ok=True)
        source.write_text('#include "kernels/tile/arrival.h"\nextern "C" __global__ void k(float* parts, unsigned* done, float* sum) {\n'
                          "  parts[blockIdx.x * 256 + threadIdx.x] = 1;\n  if (rocmforge::gpu::last_to_arrive(done, gridDim.x)) {\n"
                          "    sum[threadIdx.x] = parts[threadIdx.x];\n  }\n}\n")
        done = subprocess.run([PACKAGES.clang, "-x", "hip", "--cuda-device-only", "-O3", "-std=c++20", "--offload-arch=gfx942", "-nogpulib",
                               *PACKAGES.flags(PACKAGES.bitcode, 64), "-DROCMFORGE_WAVE_SIZE=64", f"-I{ROOT / 'src'}", "-S", "-o", "-", str(source)],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        names = [line.strip() for line in done.stdout.splitlines() if not line.strip().startswith(";")]
        self.assertEqual([sum(name.startswith(fence) for name in names) for fence in ("buffer_wbl2", "buffer_inv")], [1, 1])
        arrival = names[next(i for i, name in enumerate(names) if name.startswith("global_store")):names.index("s_barrier")]
        self.assertIn("s_waitcnt vmcnt(0)", arrival)

    def test_architectures_that_no_other_test_compiles(self):
        """One object of each: waves of both sizes, shared memory, work-groups that wait for the last one. Whole archives would take an hour."""
        architectures = ["gfx906", "gfx908", "gfx1013", "gfx1102", "gfx1151", "gfx1200"]
        output = self.opt / "kernels"
        done = subprocess.run([sys.executable, ROOT / "tools/build/build_kernels.py", "--strict", "--output", output, "--only", "route_rows", *architectures],
                              capture_output=True, text=True, env={**os.environ, "ROCM_PATH": ""})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(sorted(path.parent.name for path in output.glob("*/route_rows.hsaco")), sorted(architectures))

    def test_products_of_gfx906_keep_their_rows_in_registers(self):
        """Of those that need the most: the formats that spill where two work-groups share a multiprocessor."""
        self.opt.mkdir()
        source, found = self.opt / "few.hip", self.opt / "few.hsaco"
        source.write_text('#include "kernels/matmul/portable/matvec.h"\nusing namespace rocmforge;\n' + "".join(
            f"ROCMFORGE_KERNEL __launch_bounds__(gpu::matvec_threads, gpu::matvec_groups({tokens})) {block}_{tokens}(gpu::MatvecArgs args) {{\n"
            f"  gpu::matvec<{block}, {tokens}, gpu::matvec_wave_rows({tokens}, {rows})>(args);\n}}\n"
            for block, tokens, rows in (("BlockF32", 1, 2), ("BlockQ4_K", 1, 4), ("BlockQ4_K", 2, 4))))
        toolchains = build_kernels.Toolchains(self.opt / "device-libs")
        toolchain = toolchains.for_architecture("gfx906")
        libraries = toolchain.library_folder(toolchains.device_libraries)
        make_device_libraries(toolchain, libraries, build_kernels.ISA_VERSIONS)
        flags = build_kernels.amd_flags("gfx906", toolchain, libraries)
        subprocess.run([toolchain.clang, *flags, f"-I{ROOT / 'src'}", str(source), "-o", str(found)], check=True)
        kernels = CodeObject(found.read_bytes()).kernels
        self.assertEqual({name: kernel[".private_segment_fixed_size"] for name, kernel in kernels.items()},
                         {"BlockF32_1": 0, "BlockQ4_K_1": 0, "BlockQ4_K_2": 0})

    def test_all_has_generic_objects_for_cards_not_yet_known(self):
        class Known:
            """One that knows everything but gfx1153."""
            def for_architecture(self, architecture):
                return None if architecture == "gfx1153" else "clang"

            def refusal(self):
                return "not known to clang"
        every, note = build_kernels.every_architecture(Known())
        self.assertEqual([name for name in every if name.endswith("generic")], ["gfx11-generic", "gfx10-3-generic", "gfx12-generic"])
        self.assertEqual(note, "gfx1153: not known to clang; gfx11-generic in place of them")
        self.assertEqual(len(every), len(set(every)))

    def test_packages_are_installed_in_groups(self):
        """Compiler, linker and tools of one version, the first that the distribution has all of."""
        forge = (ROOT / "forge").read_text()
        functions = "".join(forge[forge.index(f"\n{name}()"):].split("\n}\n")[0] + "\n}\n" for name in ("any_installed", "first_known"))
        lists = forge[forge.index("amd_compilers="):forge.index("cuda_wheels=")]
        for has, expected in (("clang-19 lld-19 llvm-19 clang-20 lld-20 llvm-20", "no clang-19 lld-19 llvm-19"),
                              ("clang-19 clang-21 lld-21 llvm-21", "no clang-21 lld-21 llvm-21"), ("", "no clang-19 lld-19 llvm-19")):
            script = (f'{lists}{functions}\napt-cache() {{ [[ " {has} " != *" $2 "* ]] || echo known; }}\ninstalled() {{ [[ " clang-22 lld-22 " == *" $1 "* ]]; }}\n'
                      'any_installed "$amd_compilers" && echo yes || echo no $(first_known "$amd_compilers")')
            self.assertEqual(subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout.strip(), expected)
        script = f'{lists}{functions}\ninstalled() {{ [[ " clang-22 lld-22 llvm-22 " == *" $1 "* ]]; }}\nany_installed "$amd_compilers" && echo yes'
        self.assertEqual(subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout.strip(), "yes")

    def test_the_cards_that_kernels_are_compiled_for(self):
        forge = (ROOT / "forge").read_text()
        function = forge[forge.index("\ngpu_architectures()"):].split("  if command -v nvidia-smi")[0] + "}\n"
        for node, (version, units) in enumerate(((0, 0), (110000, 96), (100306, 2), (90402, 304), (110000, 96))):
            folder = self.opt / f"nodes/{node}"
            folder.mkdir(parents=True)
            folder.joinpath("properties").write_text(f"cpu_cores_count {0 if version else 16}\nsimd_count {2 * units}\nsimd_per_cu {2 if units else 0}\n"
                                                     f"gfx_target_version {version}\n")
        for override, expected in (("", ["gfx1100", "gfx942"]), ("10.3.0", ["gfx1030"])):
            done = subprocess.run(["bash", "-c", function + "gpu_architectures"], capture_output=True, text=True,
                                  env=os.environ | {"KFD_TOPOLOGY": str(self.opt / "nodes"), "HSA_OVERRIDE_GFX_VERSION": override})
            self.assertEqual(done.stdout.split(), expected, done.stderr)

    def test_rocminfo_names_the_cards_where_the_kernel_driver_does_not(self):
        """As in WSL."""
        forge = (ROOT / "forge").read_text()
        function = forge[forge.index("\ngpu_architectures()"):].split("  if command -v nvidia-smi")[0] + "}\n"
        self.compiler("rocminfo", "printf '%s\\n' '  Name:                    AMD Ryzen 7' '  Name:                    gfx1100' '      Name:       amdgcn-amd-amdhsa--gfx1100'")
        for path, expected in ((f"{self.usr}/bin:{os.environ['PATH']}", ["gfx1100"]), (os.environ["PATH"], [])):
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", function + "gpu_architectures"], capture_output=True, text=True,
                                  env=os.environ | {"KFD_TOPOLOGY": "/nowhere", "PATH": path})
            self.assertEqual((done.returncode, done.stdout.split()), (0, expected), done.stderr)

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
