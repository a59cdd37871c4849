"""Where the compiler of AMD's kernels lies, and what belongs to it: HIP's headers and the device libraries.

A toolchain is one of
  - the folder that ROCM_PATH names (HIP_PATH may name another one for the headers), and then no other;
  - the distribution's packages, one toolchain for each of its compilers, the newest first (Debian: clang-19 lld-19 libamdhip64-dev, and
    rocm-device-libs or rocm-device-libs-17);
  - ROCm's own folder, the newest of /opt/rocm and /opt/rocm-*.
The device libraries are bitcode, which an older compiler can't read: those of a toolchain serve its own compiler alone. A toolchain is
taken only if it compiles a small kernel; otherwise the next one is tried.
"""
import dataclasses
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

DISTRIBUTION_COMPILERS = ("clang++-22", "clang++-21", "clang++-20", "clang++-19")
DISTRIBUTION_PACKAGES = "clang-19 lld-19 libamdhip64-dev rocm-device-libs (clang and lld 19 to 22; rocm-device-libs-17 to -22)"
# What needs the headers' wave size, the device libraries and the linker.
PROBE = """#include <hip/hip_runtime.h>
extern "C" __global__ void probe(float* values) {
  const float value = expf(values[blockIdx.x]);
  __syncthreads();
  values[threadIdx.x] = __shfl_xor(value, 1);
  __threadfence();
}
"""
# Paths in a folder of ROCm: llvm in ROCm 5, lib/llvm since ROCm 6, with a link from the older path.
COMPILERS = ("lib/llvm/bin/clang++", "llvm/bin/clang++")
BITCODE = ("amdgcn/bitcode", "lib/amdgcn/bitcode", "lib/*-linux-gnu/amdgcn/bitcode", "lib/llvm/lib/clang/*/lib/amdgcn/bitcode",
           "llvm/lib/clang/*/lib/amdgcn/bitcode", "lib/llvm/amdgcn/bitcode", "llvm/amdgcn/bitcode")
# Debian 13: /usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode. The number is the compiler's that made it.
VERSIONED_BITCODE = "lib/llvm-*/lib/clang/*/amdgcn/bitcode"
HEADERS = (".", "hip")  # with include/hip/hip_runtime.h; ROCm 5 has a folder hip, too
ABI_VERSIONS = {400, 500, 600}


class Problem(Exception):
    """One line for a person."""


@dataclasses.dataclass(frozen=True)
class Toolchain:
    name: str  # "clang++-19", "/opt/rocm-6.4.1"
    clang: str
    root: pathlib.Path  # of ROCm: --rocm-path
    headers: pathlib.Path  # has include/hip: --hip-path
    bitcode: pathlib.Path  # has ocml.bc

    @functools.cached_property
    def processors(self):
        """What the compiler knows, generic targets included."""
        listed = subprocess.run([self.clang, "--target=amdgcn-amd-amdhsa", "-nogpulib", "--print-supported-cpus"], capture_output=True,
                                text=True)
        return set(re.findall(r"^\s+(gfx[0-9a-z-]+)\s*$", listed.stderr + listed.stdout, re.MULTILINE))

    @functools.cached_property
    def names_wave_size(self):
        """Whether there is the macro that the headers of ROCm 5 use. Newer compilers have none."""
        macros = subprocess.run([self.clang, "-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib", "--offload-arch=gfx1100", "-dM", "-E",
                                 os.devnull], capture_output=True, text=True)
        return "#define __AMDGCN_WAVEFRONT_SIZE " in macros.stdout

    def flags(self, libraries, wave_size):
        macro = [] if self.names_wave_size else [f"-D__AMDGCN_WAVEFRONT_SIZE={wave_size}"]
        return [f"--rocm-path={self.root}", f"--hip-path={self.headers}", f"--rocm-device-lib-path={libraries}", *macro]

    def library_folder(self, parent):
        """Folder below `parent` for make_device_libraries: one for each toolchain."""
        return parent / (re.sub(r"\W+", "-", self.name).strip("-"))

    def problem(self, parent, architecture, isa_versions):
        """What the compiler says where it can't compile a small kernel; nothing where it can, which is noted beside the device libraries."""
        folder, compiler = self.library_folder(parent), pathlib.Path(self.clang).resolve()
        note, identity = folder / "compiles", f"{compiler} {compiler.stat().st_mtime_ns} {self.headers} {self.bitcode}\n"
        if note.exists() and note.read_text() == identity:
            return ""
        make_device_libraries(self, folder, isa_versions)
        with tempfile.TemporaryDirectory() as name:
            source = pathlib.Path(name) / "probe.hip"
            source.write_text(PROBE)
            flags = self.flags(folder, 64 if architecture.startswith("gfx9") else 32)
            done = subprocess.run([self.clang, "-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-O1", f"--offload-arch={architecture}",
                                   *flags, str(source), "-o", f"{name}/probe.hsaco"], capture_output=True, text=True)
        if done.returncode == 0:
            note.write_text(identity)
            return ""
        lines = [line for line in done.stderr.splitlines() if "error: " in line] or done.stderr.splitlines() or [f"exit status {done.returncode}"]
        return lines[0]


def _first(root, patterns, file):
    """The first folder, of those that the patterns name in `root`, that has the file; the newest where one names several."""
    for pattern in patterns:
        folders = [root] if pattern == "." else sorted(root.glob(pattern), key=_version, reverse=True)
        for folder in folders:
            if (folder / file).exists():
                return folder
    return None


def _version(path):
    """Numbers of a path, for comparison: /opt/rocm-6.10.0 is newer than /opt/rocm-6.9.3."""
    return [int(number) for number in re.findall(r"\d+", str(path))]


def _missing(root, clang, headers, bitcode):
    parts = [(clang, "llvm/bin/clang++"), (headers, "include/hip/hip_runtime.h"), (bitcode, "amdgcn/bitcode/ocml.bc")]
    return f"{root} has no {' and no '.join(name for found, name in parts if not found)}"


def rocm_toolchain(root, hip_path=None):
    """Throws Problem that names what the folder lacks."""
    root = pathlib.Path(root)
    clang = next((root / path for path in COMPILERS if os.access(root / path, os.X_OK)), None)
    headers = _first(root, HEADERS, "include/hip/hip_runtime.h")
    if hip_path and (pathlib.Path(hip_path) / "include/hip/hip_runtime.h").exists():
        headers = pathlib.Path(hip_path)
    bitcode = _first(root, BITCODE, "ocml.bc")
    if not (clang and headers and bitcode):
        raise Problem(_missing(root, clang, headers, bitcode))
    return Toolchain(str(root), str(clang), root, headers, bitcode)


def distribution_toolchains(usr="/usr"):
    """The newest compiler first; none where packages are missing."""
    root, found = pathlib.Path(usr), []
    path = os.pathsep.join((f"{usr}/bin", os.environ.get("PATH", "")))
    for name in DISTRIBUTION_COMPILERS:
        clang = shutil.which(name, path=path)
        bitcode = _first(root, BITCODE, "ocml.bc")
        if clang and not bitcode:
            readable = [folder for folder in root.glob(VERSIONED_BITCODE)
                        if (folder / "ocml.bc").exists() and _version(folder.relative_to(root))[0] <= _version(name)[0]]
            bitcode = max(readable, key=lambda folder: _version(folder.relative_to(root)), default=None)
        if clang and bitcode and (root / "include/hip/hip_runtime.h").exists():
            found.append(Toolchain(name, clang, root, root, bitcode))
    return found


def rocm_folders(opt="/opt"):
    """Newest first. /opt/rocm is a link to one of the others, or the only one; its version stands in a file."""
    found = {}
    for folder in pathlib.Path(opt).glob("rocm*"):
        if folder.name == "rocm" or re.fullmatch(r"rocm-[\d.]+", folder.name):
            file = folder / ".info/version"
            text = file.read_text() if file.exists() else folder.resolve().name
            found.setdefault(folder.resolve(), (_version(text.split("-")[0] if file.exists() else text), folder))
    return [folder for _, folder in sorted(found.values(), reverse=True)]


def find_toolchains(environment=os.environ, usr="/usr", opt="/opt"):
    """Those of this machine, the preferred one first. Throws Problem when there is none, or when what the environment names is none."""
    hip_path = environment.get("HIP_PATH")
    if root := environment.get("ROCM_PATH"):
        try:
            return [rocm_toolchain(root, hip_path)]
        except Problem as problem:
            raise Problem(f"ROCM_PATH: {problem}") from None
    found, incomplete = distribution_toolchains(usr), []
    for folder in rocm_folders(opt):
        try:
            found.append(rocm_toolchain(folder, hip_path))
        except Problem as problem:
            incomplete.append(str(problem))
    if not found:
        raise Problem("; ".join([f"no compiler for AMD's kernels: neither the packages {DISTRIBUTION_PACKAGES} (names of Debian) nor "
                                 f"{opt}/rocm", *incomplete]))
    return found


def toolchain_for(architecture, toolchains, problem_of=lambda toolchain, architecture: ""):
    """The first that knows the architecture and has no problem, None where none does."""
    return next((one for one in toolchains if architecture in one.processors and not problem_of(one, architecture)), None)


def find_disassembler(usr="/usr", opt="/opt"):
    """The newest llvm-objdump of the distribution that knows gfx12, else ROCm's; None where there is none."""
    found = [path for path in pathlib.Path(usr).glob("lib/llvm-*/bin/llvm-objdump") if _version(path.relative_to(usr))[0] >= 18]
    if found:
        return str(max(found, key=_version))
    found = [folder / path for folder in rocm_folders(opt) for path in ("lib/llvm/bin/llvm-objdump", "llvm/bin/llvm-objdump")]
    return next((str(path) for path in found if os.access(path, os.X_OK)), None)


def make_device_libraries(toolchain, folder, isa_versions):
    """The toolchain's device libraries, and those of newer architectures beside them: each is one constant.
    `isa_versions`: architecture and number. Libraries of an earlier run whose files are gone are made again."""
    folder.mkdir(parents=True, exist_ok=True)
    for link in folder.glob("*.bc"):
        if link.is_symlink() and link.resolve() != (toolchain.bitcode / link.name).resolve():
            link.unlink()
    for file in toolchain.bitcode.glob("*.bc"):
        link = folder / file.name
        if not link.is_symlink():
            link.unlink(missing_ok=True)
            link.symlink_to(file)
    constants = {f"oclc_isa_version_{architecture[3:]}": f"__oclc_ISA_version = {version}" for architecture, version in isa_versions.items()}
    constants |= {f"oclc_abi_version_{version}": f"__oclc_ABI_version = {version}" for version in ABI_VERSIONS}
    for name, constant in constants.items():
        library = folder / f"{name}.bc"
        if library.exists():
            continue
        unfinished = library.with_suffix(f".{os.getpid()}")
        code = f"const __attribute__((address_space(4), visibility(\"protected\"))) int {constant};"
        subprocess.run([toolchain.clang, "-target", "amdgcn-amd-amdhsa", "-x", "c", "-nogpulib", "-Xclang", "-mcode-object-version=none",
                        "-emit-llvm", "-c", "-", "-o", unfinished], input=code.encode(), check=True)
        unfinished.rename(library)
