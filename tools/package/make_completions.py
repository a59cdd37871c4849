#!/usr/bin/env python3
"""Writes completions for bash, zsh and fish from the program's own description: make_completions.py HELP.json FOLDER

HELP.json is what `rocmforge help --json` prints. Writes rocmforge.bash, _rocmforge and rocmforge.fish into FOLDER."""
import json
import pathlib
import sys

MADE = "# Made by tools/package/make_completions.py from `rocmforge help --json`."
MODEL_ARGUMENTS = {"MODEL"}
COMMAND_ARGUMENTS = {"COMMAND"}
FILE_VALUES, FOLDER_VALUES = {"FILE"}, {"DIR"}


def walk(command, path=()):
    """Each command with the words that lead to it; the program itself has none."""
    yield path, command
    for below in command["commands"]:
        yield from walk(below, (*path, below["name"]))


def takes(command, names):
    return any(argument["name"] in names for argument in command["arguments"])


def single_quoted(text, escape="'\\''"):
    return "'" + text.replace("'", escape) + "'"


# bash

def bash_values(path, option):
    """The branch that completes what follows this option; none for a flag."""
    if option["type"] == "flag":
        return ""
    labels = "|".join(f'"{" ".join(path)}:{name}"' for name in option["names"])
    if "choices" in option:
        action = f'_rocmforge_words "{" ".join(option["choices"])}"'
    elif option["value"] in FILE_VALUES:
        action = "_rocmforge_files"
    elif option["value"] in FOLDER_VALUES:
        action = "_rocmforge_folders"
    else:
        action = ":"
    return f"    {labels}) {action}; return ;;\n"


def bash_command(path, command):
    options = " ".join(name for option in command["options"] for name in option["names"])
    names = " ".join(below["name"] for below in command["commands"])
    branch = f'    "{" ".join(path)}")\n      if [[ $cur == -* ]]; then _rocmforge_words "{options}"; return; fi\n'
    if takes(command, MODEL_ARGUMENTS):
        branch += "      _rocmforge_files '*.gguf'\n"
    if takes(command, FOLDER_VALUES):
        branch += '      _rocmforge_folders\n'
    if names:
        branch += f'      _rocmforge_words "{names}"\n'
    if takes(command, COMMAND_ARGUMENTS):
        branch += '      _rocmforge_words "$commands"\n'
    return branch + "      ;;\n"


def bash(program):
    commands = list(walk(program))
    deeper = [" ".join(path) for path, _ in commands if len(path) > 1]
    names = " ".join(below["name"] for below in program["commands"])
    values = "".join(bash_values(path, option) for path, command in commands for option in command["options"])
    branches = "".join(bash_command(path, command) for path, command in commands)
    return f"""{MADE}
_rocmforge_words() {{ mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -W "$1" -- "$cur"); }}

# Folders, and the files that match a pattern.
_rocmforge_files() {{
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -d -- "$cur"; compgen -f -X "!${{1:-*}}" -- "$cur" | while read -r f; do [ -d "$f" ] || echo "$f"; done)
}}

_rocmforge_folders() {{
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -d -- "$cur")
}}

_rocmforge() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} option=${{COMP_WORDS[COMP_CWORD - 1]}} command= i
  local commands="{names}"
  COMPREPLY=()
  # --option=value comes as three words.
  if [ "$cur" = = ]; then cur=; elif [ "$option" = = ]; then option=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
  if [ "$COMP_CWORD" -gt 1 ]; then
    command=${{COMP_WORDS[1]}}
    for i in {" ".join(single_quoted(name) for name in deeper)}; do
      [ "$COMP_CWORD" -gt 2 ] && [ "$i" = "$command ${{COMP_WORDS[2]}}" ] && command=$i && break
    done
  fi
  case $command:$option in
{values}  esac
  case $command in
{branches}  esac
}}
complete -F _rocmforge rocmforge
"""


# zsh

def zsh_text(text):
    for character in "\\[]:":
        text = text.replace(character, "\\" + character)
    return text


def zsh_value(option):
    if option["type"] == "flag":
        return ""
    action = " "
    if "choices" in option:
        action = "(" + " ".join(option["choices"]) + ")"
    elif option["value"] in FILE_VALUES:
        action = "_files"
    elif option["value"] in FOLDER_VALUES:
        action = "_files -/"
    return f":{zsh_text(option['value'] or 'value')}:{action}"


def zsh_option(option):
    names = option["names"]
    meaning, value = f"[{zsh_text(option['meaning'])}]", zsh_value(option)
    repeated = "*" if option["repeats"] else ""
    others = "" if repeated or len(names) == 1 else f"({' '.join(names)})"
    return [single_quoted(f"{others}{repeated}{name}{'=' if value and name.startswith('--') else ''}{meaning}{value}")
            for name in names]


def zsh_command(command, indent):
    """What completes the words behind this command."""
    specs = [spec for option in command["options"] for spec in zsh_option(option)]
    lines = ["local curcontext=$curcontext state line ret=1", "typeset -A opt_args"]
    if command["commands"]:
        specs += ["'1: :->command'", "'*:: :->behind'"]
    elif takes(command, MODEL_ARGUMENTS):
        specs += ["'*:model:_files -g \"*.gguf\"'"]
    elif takes(command, FOLDER_VALUES):
        specs += ["'*:folder:_files -/'"]
    elif takes(command, COMMAND_ARGUMENTS):
        specs += ["'1:command:_rocmforge_commands'"]
    else:
        specs += ["'*: :_default'"] if command["arguments"] else []
    lines += ["_arguments -C \\"] + [f"  {spec} \\" for spec in specs] + ["  && ret=0"]
    if command["commands"]:
        described = " ".join(single_quoted(f"{below['name']}:{below['summary']}") for below in command["commands"])
        lines += ["case $state in", f"  command) local -a names=({described})", "    _describe command names && ret=0"]
        lines += ["    _files -g '*.gguf' && ret=0"] if takes(command, MODEL_ARGUMENTS) else []
        lines += ["    ;;", "  behind) case $words[1] in"]
        for below in command["commands"]:
            lines += [f"      {below['name']}) _rocmforge_{zsh_name(command)}{zsh_name(below)} && ret=0 ;;"]
        lines += ["    esac ;;", "esac"]
    return "".join(f"{indent}{line}\n" for line in [*lines, "return ret"])


def zsh_name(command):
    return "" if command["name"] == "rocmforge" else command["name"].replace("-", "_") + "_"


def zsh(program):
    functions = ""
    for path, command in walk(program):
        name = "_rocmforge" + "".join(["_", *(word.replace("-", "_") + "_" for word in path)] if path else [])
        functions += f"{name}() {{\n{zsh_command(command, '  ')}}}\n\n"
    described = " ".join(single_quoted(f"{below['name']}:{below['summary']}") for below in program["commands"])
    return (f"#compdef rocmforge\n{MADE}\n\n_rocmforge_commands() {{\n  local -a names=({described})\n  _describe command names\n}}\n\n"
            f"{functions}_rocmforge \"$@\"\n")


# fish

def fish_text(text):
    return single_quoted(text.replace("\\", "\\\\"), "\\'")


def fish_option(condition, option):
    line = f"complete -c rocmforge -n {condition}"
    for name in option["names"]:
        bare = name.lstrip("-")
        line += f" -l {bare}" if name.startswith("--") else f" -s {bare}" if len(bare) == 1 else f" -o {bare}"
    if option["type"] != "flag":
        if "choices" in option:
            line += f" -x -a {fish_text(' '.join(option['choices']))}"
        elif option["value"] in FILE_VALUES:
            line += " -r -F"
        elif option["value"] in FOLDER_VALUES:
            line += " -x -a '(__fish_complete_directories)'"
        else:
            line += " -x"
    return f"{line} -d {fish_text(option['meaning'])}\n"


def fish(program):
    deeper = " ".join(fish_text(" ".join(path)) for path, _ in walk(program) if len(path) > 1)
    lines = f"""{MADE}
function __rocmforge_at -d 'whether the command line stands behind this command'
  set -l words (commandline -opc)
  set -l command "$words[2]"
  contains -- "$words[2] $words[3]" {deeper}; and set command "$words[2] $words[3]"
  test "$command" = "$argv[1]"
end

complete -c rocmforge -f
"""
    for path, command in walk(program):
        condition = '"__rocmforge_at ' + fish_text(" ".join(path)) + '"'
        for below in [*command["commands"], *(program["commands"] if takes(command, COMMAND_ARGUMENTS) else [])]:
            lines += f"complete -c rocmforge -n {condition} -a {below['name']} -d {fish_text(below['summary'])}\n"
        if takes(command, MODEL_ARGUMENTS):
            lines += f"complete -c rocmforge -n {condition} -k -a '(__fish_complete_suffix .gguf)'\n"
        if takes(command, FOLDER_VALUES):
            lines += f"complete -c rocmforge -n {condition} -a '(__fish_complete_directories)'\n"
        lines += "".join(fish_option(condition, option) for option in command["options"])
    return lines


def main(description, folder):
    program = json.loads(pathlib.Path(description).read_text())
    folder = pathlib.Path(folder)
    for name, make in (("rocmforge.bash", bash), ("_rocmforge", zsh), ("rocmforge.fish", fish)):
        (folder / name).write_text(make(program))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
