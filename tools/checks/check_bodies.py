#!/usr/bin/env python3
"""Checks that the object files given define no function that the linker may share between translation units (weak symbols):
bodies are compiled for instruction sets a machine may lack, and the copy that is kept would serve everybody."""
import subprocess
import sys


def main(objects):
    shared = []
    for path in objects:
        listed = subprocess.run(["nm", "-C", "--defined-only", path], capture_output=True, text=True, check=True).stdout
        shared += [f"{path}: {line.split(maxsplit=2)[2]}" for line in listed.splitlines() if line.split()[1] == "W"]
    print("\n".join(shared) if shared else f"{len(objects)} objects share no function")
    return 1 if shared or not objects else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
