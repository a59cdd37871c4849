#!/usr/bin/env python3
"""Packs a build as a Python wheel: make_wheel.py BUILD OUTPUT

The wheel holds the package of python/, the library, the program, the demo model, and the shared libraries that these two need beside those
of every system (the C and C++ libraries), which they find beside themselves. It is for the C library of this system or a later one.
Needs patchelf, and setuptools (before 70.1 with wheel). Prints the wheel's path; exits with 77 where one of them is missing."""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Libraries of every system that a wheel may be installed on (PEP 600).
OF_THE_SYSTEM = re.compile(r"^(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|nsl|anl|gcc_s|stdc\+\+))\.so")
BACKEND = "import sys, setuptools.build_meta as b; print(b.build_wheel(sys.argv[1]))"


def missing_tool():
    if shutil.which("patchelf") is None:
        return "patchelf"
    for module in ("setuptools", "wheel"):
        if importlib.util.find_spec(module) is None and not (module == "wheel" and
                                                             importlib.util.find_spec("setuptools.command.bdist_wheel")):
            return f"python3-{module}"
    return None


def version():
    return re.search(r"project\(rocmforge VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, stdout=subprocess.PIPE, **options).stdout


def needed_libraries(file):
    """Paths by name of the shared libraries that a file needs, and those that these need."""
    found = {}
    for line in run("ldd", file).splitlines():
        name, _, path = line.strip().partition(" => ")
        name = pathlib.Path(name.split()[0]).name
        if OF_THE_SYSTEM.match(name):
            continue
        if "not found" in path:
            sys.exit(f"make_wheel: {file} needs {name}, which is not found")
        found[name] = pathlib.Path(path.split()[0])
    return found


def stage(build, package):
    """Copies what is built into the package, with each other's places in it."""
    library, program = build / "library/librocmforge.so", build / "apps/rocmforge/rocmforge"
    for folder in ("lib", "bin", "share/rocmforge"):
        (package / folder).mkdir(parents=True)
    shutil.copy(library, package / "lib/librocmforge.so")
    shutil.copy(program, package / "bin/rocmforge")
    for model in ("forge-demo.gguf", "mmproj-forge-demo.gguf"):
        shutil.copy(ROOT / "models" / model, package / "share/rocmforge")
    for name, path in {**needed_libraries(library), **needed_libraries(program)}.items():
        shutil.copy(path, package / "lib" / name)
    for file in (package / "lib").iterdir():
        file.chmod(0o644)
        run("strip", "--strip-unneeded", file)
        run("patchelf", "--set-rpath", "$ORIGIN", file)
    run("strip", package / "bin/rocmforge")
    run("patchelf", "--set-rpath", "$ORIGIN/../lib", package / "bin/rocmforge")


def main():
    build, output = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    if tool := missing_tool():
        print(f"make_wheel: {tool} is missing")
        return 77
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "rocmforge"
        shutil.copytree(ROOT / "python", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
        shutil.copy(ROOT / "LICENSE", source)
        stage(build, source / "rocmforge")
        environment = {**os.environ, "ROCMFORGE_VERSION": version(), "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "946684800")}
        said = run(sys.executable, "-c", BACKEND, output, cwd=source, env=environment, stderr=subprocess.DEVNULL)
    print(output / said.split()[-1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
