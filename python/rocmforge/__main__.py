"""Runs the program that the package holds: `rocmforge`, `python3 -m rocmforge`."""
import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).resolve().parent / "bin" / "rocmforge"
    if not program.is_file():
        sys.exit(f"rocmforge: there is no program at {program}; only an installed wheel has one")
    os.execv(program, ["rocmforge", *sys.argv[1:]])


if __name__ == "__main__":
    main()
