#!/usr/bin/env python3
"""Installs a build into a folder of its own and uses what lies there: install_test.py CMAKE BUILD CONSUMER COMPILER

The program answers with the installed demo model; a program of somebody else is built with the library, by CMake and by
pkg-config."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith(("ROCMFORGE_", "CMAKE_", "PKG_CONFIG"))}


def run(*command, **options):
    result = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env={**ENVIRONMENT, **options.pop("env", {})}, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {result.returncode}\n{result.stdout}")
    return result.stdout


def expect(true, message):
    if not true:
        sys.exit(f"install_test: {message}")


def check_program(prefix, folder):
    program = prefix / "bin/rocmforge"
    answer = run(program, "run", "--greedy", "-p", "What is 127 + 458?", cwd=folder)
    expect("585" in answer, f"the installed program answered {answer!r}")
    listed = run(program, "models", cwd=folder)
    expect(str(prefix / "share/rocmforge") in listed, f"the installed program has its models elsewhere:\n{listed}")


def check_library(prefix, consumer, folder, cmake, compiler):
    library = next(prefix.glob("lib*/**/librocmforge_attention.so"))
    expect(library.is_symlink() and re.search(r"\.so\.\d+\.\d+$", os.readlink(library)), f"{library} has no versioned name")
    exported = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]
    strangers = [name for name in exported if not name.startswith("rocmforge_")]
    expect(exported and not strangers, f"the library exports {strangers[:3]} beside its interface")

    built = folder / "by-cmake"
    run(cmake, "-S", consumer, "-B", built, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}")
    run(cmake, "--build", built)
    for program in ("consumer", "consumer_c"):
        print(run(built / program).strip(), "(CMake)")

    pkgconfig = {"PKG_CONFIG_PATH": str(next(prefix.glob("lib*/**/pkgconfig")))}
    flags = run("pkg-config", "--cflags", "--libs", "rocmforge", env=pkgconfig).split()
    program = folder / "by-pkg-config"
    run(compiler, "-std=c++20", consumer / "consumer.cpp", *flags, "-o", program)
    print(run(program, env={"LD_LIBRARY_PATH": str(library.parent)}).strip(), "(pkg-config)")


def main(cmake, build, consumer, compiler):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        prefix = folder / "prefix"
        run(cmake, "--install", build, "--prefix", prefix)
        check_program(prefix, folder)
        check_library(prefix, pathlib.Path(consumer), folder, cmake, compiler)
        print("the service:", run("sed", "-n", "s/^ExecStart=//p", prefix / "lib/systemd/system/rocmforge.service").strip())


if __name__ == "__main__":
    main(*sys.argv[1:])
