#!/usr/bin/env python3
"""Packs the build as a wheel, installs it in a virtual environment of its own, without a network, and uses it there: wheel_test.py BUILD"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith(("ROCMFORGE_", "PYTHON", "LD_", "PIP_"))}
OF_THE_SYSTEM = re.compile(r"^(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|nsl|anl|gcc_s|stdc\+\+))\.so")


def run(*command, **options):
    result = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT,
                            **options)
    if result.returncode == 77:
        print(result.stdout, end="")
        sys.exit(77)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {result.returncode}\n{result.stdout}")
    return result.stdout


def expect(true, message):
    if not true:
        sys.exit(f"wheel_test: {message}")


def check_contents(wheel):
    expect(re.fullmatch(r"rocmforge-[0-9.]+-py3-none-manylinux_2_\d+_\w+\.whl", wheel.name), f"the wheel is called {wheel.name}")
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("py.typed", "bin/rocmforge", "lib/librocmforge.so", "share/rocmforge/forge-demo.gguf",
                 "share/rocmforge/mmproj-forge-demo.gguf"):
        expect(f"rocmforge/{name}" in names, f"the wheel has no {name}")


def check_libraries(package):
    """All but the system's own come from the wheel."""
    for file in (package / "lib/librocmforge.so", package / "bin/rocmforge"):
        for line in run("ldd", file).splitlines():
            name, _, path = line.strip().partition(" => ")
            if not OF_THE_SYSTEM.match(pathlib.Path(name.split()[0]).name):
                expect(str(package) in str(pathlib.Path(path.split()[0]).resolve()), f"{file.name} takes {name} from {path}")


def readme_example():
    fences = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    expect(len(fences) == 1, f"README.md has {len(fences)} examples in Python, not one")
    return fences[0]


def main():
    build = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        wheel = pathlib.Path(run(sys.executable, ROOT / "tools/package/make_wheel.py", build, folder).split()[-1])
        check_contents(wheel)
        if subprocess.run([sys.executable, "-c", "import ensurepip"], capture_output=True).returncode != 0:
            print("python3-venv is missing")
            return 77
        run(sys.executable, "-m", "venv", "--system-site-packages", folder / "environment")
        python = folder / "environment/bin/python"
        run(python, "-m", "pip", "install", "--no-index", "--no-deps", wheel)
        package = pathlib.Path(run(python, "-c", "import rocmforge; print(rocmforge.__path__[0])", cwd=folder).strip())
        expect(str(package).startswith(str(folder)), f"the package that is used lies in {package}")
        check_libraries(package)
        said = run(python, "-c", readme_example(), cwd=folder)
        expect("585" in said, f"the example of README.md said {said!r}")
        said = run(folder / "environment/bin/rocmforge", "run", "--greedy", "-p", "What is 127 + 458?", cwd=folder)
        expect("585" in said, f"the program said {said!r}")
        print(f"{wheel.name}: {wheel.stat().st_size} bytes, installed and used")
    return 0


if __name__ == "__main__":
    sys.exit(main())
