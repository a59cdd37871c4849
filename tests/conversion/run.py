#!/usr/bin/env python3
"""Files as people get them: transformers' classes with random weights, through llama.cpp's converter and quantiser, against transformers.

usage: run.py PROGRAM MODEL FOLDER [--seed N] [--draws N] [--only NAME,...]

Takes the converter and the quantiser from the archive of PyPI's llama-cpp-python and the classes from PyPI's transformers, keeps both
in FOLDER, and builds the quantiser there once. Every model of tools/goldens/model_golden.py is drawn in --draws (3) sizes from --seed (1).
F32 is compared with transformers; F16, Q8_0 and Q4_K_M with the same file whose tensors are written in F32, by the reference products
and by the fast ones. Prints a table of the greatest relative errors ||ours - theirs|| / ||theirs||, and counts. PROGRAM says where librocmforge is; MODEL is not read.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ARCHIVE = "llama-cpp-python==0.3.36"
REQUIREMENTS = ("torch==2.15.0", "transformers==5.24.0", "numpy==2.4.6", "sentencepiece==0.2.3", "gguf", "protobuf", "safetensors")
KINDS = ("F32", "F16", "Q8_0", "Q4_K_M")
ALLOWED = 1e-4
# The fast kernels round activations to 8 bits where weights are quantised; random weights pass on every error, and a token may get
# another expert. Products of experts have no other kernel that can be asked for.
ALLOWED_ROUNDED = 0.3


class Skipped(Exception):
    """Something from PyPI cannot be had, or the quantiser cannot be built: the reason."""


def command(arguments, **more):
    done = subprocess.run([str(part) for part in arguments], capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise Skipped(((done.stderr or done.stdout).strip().splitlines() or ["no reason given"])[-1])


def once(folder, wanted, make):
    """Makes a folder unless it is there for the same requirements."""
    ready = folder / "ready"
    if not ready.exists() or ready.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder)
        ready.write_text(wanted)
    return folder


def install(folder):
    command([sys.executable, "-m", "venv", folder])
    command([folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", *REQUIREMENTS])


def unpack(folder):
    command([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", folder, ARCHIVE])
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")


def build_quantiser(sources, folder):
    quick = [f"-DCMAKE_{language}_FLAGS_RELEASE=-O1" for language in ("C", "CXX")]
    command(["cmake", "-S", sources, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", *quick, "-DBUILD_SHARED_LIBS=OFF", "-DGGML_NATIVE=OFF",
             "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_BUILD_TOOLS=ON", "-DLLAMA_CURL=OFF",
             "-DLLAMA_OPENSSL=OFF"])
    command(["cmake", "--build", folder, "--target", "llama-quantize", "--parallel", os.cpu_count() or 1])


def results_of(python, sources, quantiser, library, folder, arguments):
    more = ["--seed", str(arguments.seed), "--draws", str(arguments.draws), "--only", arguments.only]
    settings = {**os.environ, "ROCMFORGE_LIBRARY": str(library), "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1", "TQDM_DISABLE": "1",
                "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen([python, HERE / "compare.py", sources, folder, "--quantiser", quantiser, *more], env=settings,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in process.stdout:
        if line.startswith("{"):
            yield json.loads(line)
    if process.wait() != 0:
        yield {"name": "compare.py", "index": 0, "problem": f"ended with {process.returncode}"}


def table(results):
    """The greatest errors of each model."""
    kinds = [*KINDS, *(f"{kind}, fast" for kind in KINDS[2:]), *(f"{kind} and transformers" for kind in KINDS[1:])]
    lines = ["| model | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for name in dict.fromkeys(result["name"] for result in results):
        own = [result for result in results if result["name"] == name and "problem" not in result]
        cells = [max((result[kind] for result in own if kind in result), default=None) for kind in kinds]
        lines.append(f"| {name} | " + " | ".join("" if cell is None else f"{cell:.1e}" for cell in cells) + " |")
    return "\n".join(lines)


def problems_of(result):
    if "problem" in result:
        return [result["problem"]]
    allowed = {kind: ALLOWED_ROUNDED if kind.startswith("Q") and result["experts"] else ALLOWED for kind in KINDS}
    allowed |= {f"{kind}, fast": ALLOWED_ROUNDED if kind.startswith("Q") else ALLOWED for kind in KINDS}
    return [f"{kind}: an error of {result[kind]:.1e}, allowed are {most:g}" for kind, most in allowed.items()
            if kind in result and not result[kind] <= most]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("model")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    try:
        home = once(folder / "environment", " ".join(REQUIREMENTS), install)
        [sources] = once(folder / "archive", ARCHIVE, unpack).glob("llama_cpp_python-*/vendor/llama.cpp")
        quantiser = once(folder / "quantiser", ARCHIVE, lambda built: build_quantiser(sources, built)) / "bin" / "llama-quantize"
    except Skipped as reason:
        print(f"SKIPPED: converted files: {reason}\n0 passed, 0 failed, 1 skipped")
        return 0
    library = arguments.program.absolute().parents[2] / "library" / "librocmforge.so"
    results, passed, failed = [], 0, 0
    for result in results_of(home / "bin" / "python", sources, quantiser, library, folder / "models", arguments):
        results.append(result)
        problems = problems_of(result)
        passed, failed = passed + (not problems), failed + bool(problems)
        print("\n".join(f"FAILED: {result['name']} {result['index']}: {problem}" for problem in problems) or f"{result['name']} {result['index']}", flush=True)
    print(f"\n{table(results)}\n\n{passed} passed, {failed} failed, 0 skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
