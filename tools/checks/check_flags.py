#!/usr/bin/env python3
"""Checks that the flags which README.md and docs/ name are the program's. usage: check_flags.py ROCMFORGE

In code (fences and spans) a line that calls `rocmforge COMMAND` may name that command's flags; a flag that stands alone must be some
command's. Calls of other programs are passed over, and what a launcher of ranks is told before it names the program."""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = re.compile(r"```[a-z]*\n(.*?)```|`([^`\n]+)`", re.S)
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
CALL = re.compile(r"(?:^|[\s/|$(])(?:rocmforge|\./forge run)\s+([a-z]+)(?:\s+([a-z]+))?")
LAUNCHER = re.compile(r"^\s*(?:mpirun|srun)\b.*?(?=rocmforge\b|$)")
OTHER = re.compile(r"^\s*(?:sudo\s+)?(?:systemctl|\./forge test|cc|c\+\+|ninja|cmake|ctest|python3|git|cpack|apt|dpkg|pip|docker|nvcc|clang|build/bench/|\S*/test\w*|tests/|tools/|build/\S*test_|TINYGRAD=)")


def flags_of(command):
    return {name for option in command["options"] for name in option["names"]} | {"--help"}


def read_commands(program):
    """Flags by the names of a command, 'bench step' for a command below another, and those of the program itself by ''."""
    top = json.loads(subprocess.run([program, "help", "--json"], capture_output=True, text=True, check=True).stdout)
    flags = {"": flags_of(top) | {"--version"}}
    for command in top["commands"]:
        flags[command["name"]] = flags_of(command)
        for below in command.get("commands", []):
            flags[f"{command['name']} {below['name']}"] = flags_of(below)
    return flags


def problems(flags):
    everything = set().union(*flags.values())
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for fence, span in CODE.findall(path.read_text()):
            for line in (fence or span).splitlines():
                line = LAUNCHER.sub("", line.split(" # ")[0])
                named = set(FLAG.findall(line))
                if not named or OTHER.match(line):
                    continue
                call = CALL.search(line)
                names = call.groups() if call else (line.split()[0], None)
                command = next((c for c in (f"{names[0]} {names[1]}", names[0]) if c in flags), None)
                if call and command is None:
                    yield f"{path.relative_to(ROOT)}: no command '{names[0]}': {line.strip()}"
                for flag in sorted(named - (flags[command] if command else everything)):
                    yield f"{path.relative_to(ROOT)}: {command or 'rocmforge'} has no flag {flag}: {line.strip()}"


def main():
    found = list(problems(read_commands(sys.argv[1])))
    print("\n".join(found) if found else "flags: every one named is the program's")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
