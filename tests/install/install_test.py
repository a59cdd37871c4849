#!/usr/bin/env python3
"""Installs a build into a folder of its own and uses what lies there: install_test.py CMAKE BUILD CONSUMER COMPILER

The program answers with the installed demo model, and takes GPU kernels that lie beside it; a program of somebody else is built with the library, by CMake and by
pkg-config; the manual page and the completions know every command and option."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPLETE = r"""
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_rocmforge
printf '%s\n' "${COMPREPLY[@]}"
"""
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
    answer = run(program, "run", "--greedy", "-i", ROOT / "examples/seven.png", "-p", "Which digit is this?", cwd=folder)
    expect(answer.startswith("7\n"), f"the installed program sees {answer!r} in examples/seven.png")
    checked = run(program, "check", "--device", "cpu", "--seconds", "2", cwd=folder)
    expect(" right, 0 wrong, 0 hung" in checked, f"the installed program checked itself and said:\n{checked}")
    listed = run(program, "models", cwd=folder)
    expect(str(prefix / "share/rocmforge") in listed, f"the installed program has its models elsewhere:\n{listed}")
    return json.loads(run(program, "help", "--json"))


def check_kernels(prefix, folder):
    """An archive that lies beside the program serves it; a damaged one is named."""
    code_object, archive = folder / "objects/gfx1013/a.hsaco", prefix / "share/rocmforge/kernels.archive"
    code_object.parent.mkdir(parents=True)
    code_object.write_bytes(b"\x7fELF of a test")
    run(sys.executable, ROOT / "tools/build/kernel_archive.py", "--output", archive, folder / "objects")

    def devices():
        said = run(prefix / "bin/rocmforge", "devices", "--json", cwd=folder)
        return json.loads(said[said.index("{"):])  # behind what it says of its progress

    listed = devices()
    expect(listed["code_objects"].get("gfx1013") == ["a"], f"the program does not see {archive}: {listed['code_objects']}")
    expect(listed["code_objects_problem"] == "", f"the program refuses {archive}: {listed['code_objects_problem']}")
    archive.write_bytes(archive.read_bytes()[:-1])
    problem = devices()["code_objects_problem"]
    expect(problem.startswith(f"{archive}: gfx1013: cut short"), f"of a damaged archive the program says '{problem}'")
    archive.unlink()


def check_library(prefix, consumer, folder, cmake, compiler):
    for name in ("librocmforge.so", "librocmforge_attention.so"):
        library = next(prefix.glob(f"lib*/**/{name}"))
        expect(library.is_symlink() and re.search(r"\.so\.\d+\.\d+$", os.readlink(library)), f"{library} has no versioned name")
        exported = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]
        strangers = [name for name in exported if not name.startswith("rocmforge_")]
        expect(exported and not strangers, f"{name} exports {strangers[:3]} beside its interface")

    built = folder / "by-cmake"
    run(cmake, "-S", consumer, "-B", built, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}")
    run(cmake, "--build", built)
    for program in ("consumer", "consumer_c"):
        print(run(built / program).strip(), "(CMake)")
    answer = run(built / "consumer_model")
    expect("\n585\n" in answer, f"the installed library answered {answer!r}")

    pkgconfig = {"PKG_CONFIG_PATH": str(next(prefix.glob("lib*/**/pkgconfig")))}
    for package, source in (("rocmforge-attention", "consumer.cpp"), ("rocmforge", "model.c")):
        flags = run("pkg-config", "--cflags", "--libs", package, env=pkgconfig).split()
        program = folder / f"by-pkg-config-{package}"
        language = ["-std=c++20"] if source.endswith(".cpp") else ["-x", "c"]
        run(compiler, *language, consumer / source, *flags, "-o", program)
        print(run(program, env={"LD_LIBRARY_PATH": str(library.parent)}).strip(), "(pkg-config)")


def walk(command, path=()):
    yield path, command
    for below in command["commands"]:
        yield from walk(below, (*path, below["name"]))


def check_manual_page(prefix, program):
    page = prefix / "share/man/man1/rocmforge.1"
    text = page.read_text().replace("\\-", "-")
    for path, command in walk(program):
        expect(not path or f".SS {' '.join(path)}\n" in text, f"the manual page does not know {' '.join(path)}")
        for name in (name for option in command["options"] for name in option["names"]):
            expect(f"\\fB{name}\\fR" in text, f"the manual page does not know {name} of {' '.join(path)}")
    if shutil.which("groff"):
        warnings = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", str(page)], text=True, capture_output=True).stderr
        expect(not warnings, f"the manual page is faulty: {warnings}")


def check_completions(prefix, program):
    script = prefix / "share/bash-completion/completions/rocmforge"

    def completed(*words):
        return run("bash", "-c", COMPLETE, "bash", script, "rocmforge", *words, cwd=prefix / "share/rocmforge").split()

    for path, command in walk(program):
        missing = {below["name"] for below in command["commands"]} - set(completed(*path, ""))
        expect(not missing, f"bash does not complete {path} with {missing}")
        missing = {name for option in command["options"] for name in option["names"]} - set(completed(*path, "-"))
        expect(not missing, f"bash does not complete {path} with {missing}")
        for option in command["options"]:
            if "choices" in option:
                expect(completed(*path, option["names"][0], "") == option["choices"], f"the values of {option['names'][0]}")
    expect("forge-demo.gguf" in completed("run", "for"), "bash does not complete models")
    expect(completed("no-such-command", "") == [], "bash completes behind a command that does not exist")
    for shell, name in (("zsh", "zsh/*/_rocmforge"), ("fish", "fish/vendor_completions.d/rocmforge.fish")):
        if shutil.which(shell):
            run(shell, "-n", next((prefix / "share").glob(name)))
    if shutil.which("fish"):
        script = prefix / "share/fish/vendor_completions.d/rocmforge.fish"
        for path, command in walk(program):
            line = " ".join(["rocmforge", *path, "--"])
            listed = run("fish", "--no-config", "-c", f"source {script}; complete -C '{line}'").split()
            missing = {n for option in command["options"] for n in option["names"] if n.startswith("--")} - set(listed)
            expect(not missing, f"fish does not complete {line} with {missing}")


def main(cmake, build, consumer, compiler):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        prefix = folder / "prefix"
        run(cmake, "--install", build, "--prefix", prefix)
        program = check_program(prefix, folder)
        check_kernels(prefix, folder)
        check_library(prefix, pathlib.Path(consumer), folder, cmake, compiler)
        check_manual_page(prefix, program)
        check_completions(prefix, program)
        print("the service:", run("sed", "-n", "s/^ExecStart=//p", prefix / "lib/systemd/system/rocmforge.service").strip())


if __name__ == "__main__":
    main(*sys.argv[1:])
