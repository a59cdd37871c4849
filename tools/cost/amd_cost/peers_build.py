"""Compiles the kernels of ik_llama.cpp that are modelled beside the figures people measured with this family of kernels.

The source stays where its checkout is; headers of libraries that the kernels' files include and do not need are empty ones, written beside the output.
"""
import pathlib
import subprocess

from .isa import Unknown

MATVEC = {"q4_0": "GGML_TYPE_Q4_0", "q4_k": "GGML_TYPE_Q4_K", "q6_k": "GGML_TYPE_Q6_K"}
# Object: the file of templates and the kernels that are instantiated. MMQ takes tiles of 64 columns on AMD, the vector kernel one wave (RDNA) or four.
SOURCES = {
    **{f"matvec_{name}": ("mmvq-templates.cuh", [f"mul_mat_vec_q<{kind}, 1, {waves}>" for waves in (1, 4)]) for name, kind in MATVEC.items()},
    **{f"mmq_{name}": ("mmq.cuh", [f"mul_mat_q<{kind}, 64, 8, false>"]) for name, kind in MATVEC.items()},
}
STATUS = ("SUCCESS", "NOT_INITIALIZED", "ALLOC_FAILED", "INVALID_VALUE", "ARCH_MISMATCH", "MAPPING_ERROR", "EXECUTION_FAILED", "INTERNAL_ERROR", "NOT_SUPPORTED")
SHIM = {
    "hipblas/hipblas.h": "#pragma once\ntypedef void* hipblasHandle_t; typedef int hipblasDatatype_t, hipblasOperation_t, hipblasGemmAlgo_t;\n"
                         "enum hipblasStatus_t { " + ", ".join(f"HIPBLAS_STATUS_{name}" for name in STATUS) + " };\n"
                         "inline hipblasStatus_t hipblasCreate(hipblasHandle_t*) { return HIPBLAS_STATUS_SUCCESS; }\n"
                         "inline hipblasStatus_t hipblasDestroy(hipblasHandle_t) { return HIPBLAS_STATUS_SUCCESS; }\n",
    "rocblas/rocblas.h": "#pragma once\n",
    "hip/hip_bf16.h": "#pragma once\n#include <hip/hip_fp16.h>\ntypedef __bf16 __hip_bfloat16; typedef __bf16 nv_bfloat16;\n"
                      "struct nv_bfloat162 { __bf16 x, y; };\n"
                      "static __device__ inline __bf16 __float2bfloat16(float x) { return (__bf16)x; }\n"
                      "static __device__ inline float __bfloat162float(__bf16 x) { return (float)x; }\n"
                      "#define GGML_CUDA_FUSION 1\n#define GGML_CUDA_MIN_BATCH_OFFLOAD 32\n"
                      "static __device__ inline __half __hmax(__half a, __half b) { return a > b ? a : b; }\n",
}
# Macros for architectures that the source does not know: RDNA4 has the dot products of RDNA3, CDNA3 those of CDNA1.
DEFINES = {"gfx1201": ["-DRDNA3"], "gfx1200": ["-DRDNA3"], "gfx942": ["-D__gfx908__"]}


def build(checkout, architecture, folder, toolchain, libraries, names=tuple(SOURCES)):
    """Objects by name, compiled where they are not there yet."""
    source = pathlib.Path(checkout) / "ggml/src/ggml-cuda"
    if not source.is_dir():
        raise Unknown(f"{checkout} is no checkout of ik_llama.cpp: it has no ggml/src/ggml-cuda")
    folder = pathlib.Path(folder)
    for name, text in SHIM.items():
        header = folder / "shim" / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(text)
    objects = {}
    for name in names:
        template, kernels = SOURCES[name]
        objects[name] = folder / architecture / f"{name}.hsaco"
        if objects[name].exists():
            continue
        objects[name].parent.mkdir(parents=True, exist_ok=True)
        file = folder / f"{name}.cu"
        file.write_text(f'#include "{template}"\n' + "".join(f"void* keep_{i}() {{ return (void*){kernel}; }}\n" for i, kernel in enumerate(kernels)))
        unfinished = objects[name].with_suffix(".unfinished")
        command = [toolchain.clang, "-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-O3", "-std=c++17", "-w",
                   f"--offload-arch={architecture}", *toolchain.flags(libraries, 64 if architecture.startswith("gfx9") else 32), "-DGGML_USE_HIPBLAS", "-DGGML_USE_HIP", "-DGGML_USE_CUDA",
                   *DEFINES.get(architecture, []),
                   *(f"-I{path}" for path in (folder / "shim", source, source.parent, source.parent.parent / "include")), str(file), "-o", str(unfinished)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
            raise Unknown(f"{name} does not compile for {architecture}: {first}")
        unfinished.rename(objects[name])
    return objects
