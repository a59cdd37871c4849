#!/usr/bin/env python3
"""Writes the manual page from the program's own description: make_man_page.py HELP.json rocmforge.1

HELP.json is what `rocmforge help --json` prints: every command, argument and option. Only what the program does not say of
itself (files, exit codes) stands here."""
import json
import pathlib
import sys

FILES = [
    ("../share/rocmforge/forge-demo.gguf", "The demo model, looked for beside the folder of the program."),
    ("../share/rocmforge/mmproj-forge-demo.gguf", "Its image encoder."),
    ("/etc/default/rocmforge", "Arguments and environment of the service rocmforge.service."),
    ("/var/lib/rocmforge", "Home of that service; a place for its models."),
]
EXIT_CODES = [("0", "Success."), ("1", "Failure, said in one line on standard error."), ("2", "A command line that asks for what there is not.")]
ENVIRONMENT = [
    ("ROCMFORGE_MODELS_DIR", "Folder where models that are named without a path are looked for first."),
    ("HF_HUB_CACHE, HF_HOME", "Folder of downloaded models; without them ~/.cache/huggingface/hub, or hub in HF_HOME."),
    ("HF_TOKEN", "Token for private and gated models; without it the file token in HF_HOME, or the one that HF_TOKEN_PATH names."),
    ("HF_ENDPOINT", "Address of the hub; without it https://huggingface.co."),
    ("HF_HUB_OFFLINE", "1: nothing is downloaded, and no hub is asked."),
    ("https_proxy, http_proxy, all_proxy, no_proxy", "Proxies for downloads."),
]


def plain(text):
    """Text as roff prints it: no character of it is a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("^", "\\(ha").replace("~", "\\(ti")
    lines = [("\\&" + line if line.startswith(".") else line) for line in text.split("\n")]
    return "\n".join(line for line in lines if line.strip())


def walk(command, path):
    yield path, command
    for below in command["commands"]:
        yield from walk(below, (*path, below["name"]))


def synopsis(path, command):
    arguments = "".join(f" \\fI{plain(a['name'])}\\fR" if a.get("required") else f" [\\fI{plain(a['name'])}\\fR]" for a in command["arguments"])
    below = " \\fICOMMAND\\fR ..." if command["commands"] and not command["arguments"] else ""
    return f"\\fB{plain(' '.join(path))}\\fR{arguments}{below} [\\fIoptions\\fR]"


def explained(item):
    """The meaning with its limits, default and variable."""
    more = []
    if "choices" in item:
        more.append("one of " + ", ".join(item["choices"]))
    elif "least" in item or "most" in item:
        limits = [f"at least {item['least']:g}" if "least" in item else "", f"at most {item['most']:g}" if "most" in item else ""]
        more.append(", ".join(limit for limit in limits if limit))
    if item.get("repeats"):
        more.append("may be repeated")
    if "default" in item:
        more.append(f"default: {item['default']}")
    if "environment" in item:
        more.append(f"also ${item['environment']}")
    return plain(item["meaning"].rstrip(".") + (f" ({'; '.join(more)})" if more else "") + ".")


def option_text(option):
    names = ", ".join(f"\\fB{plain(name)}\\fR" for name in option["names"])
    value = f" \\fI{plain(option['value'])}\\fR" if option.get("value") else ""
    return f".TP\n{names}{value}\n{explained(option)}\n"


def command_text(path, command):
    text = f".SS {plain(' '.join(path[1:]))}\n{plain(command['summary'])}.\n.PP\n{synopsis(path, command)}\n"
    text += "".join(f".TP\n\\fI{plain(a['name'])}\\fR\n{explained(a)}\n" for a in command["arguments"])
    text += "".join(option_text(option) for option in command["options"] if "--help" not in option["names"])
    if command.get("notes"):
        text += f".PP\n{plain(command['notes'])}\n"
    return text + examples(command)


def examples(command):
    return ".PP\n.EX\n" + plain("\n".join(command["examples"])) + "\n.EE\n" if command["examples"] else ""


def table(title, rows):
    return f".SH {title}\n" + "".join(f".TP\n\\fB{plain(name)}\\fR\n{plain(meaning)}\n" for name, meaning in rows)


def environment(program):
    """Variables that stand for options, each with the options it stands for."""
    found = {}
    for _, command in walk(program, ()):
        for option in command["options"]:
            if "environment" in option:
                found.setdefault(option["environment"], set()).add(next(n for n in option["names"] if n.startswith("--")))
    return [*ENVIRONMENT, *((name, f"In the absence of {', '.join(sorted(options))}.") for name, options in sorted(found.items()))]


def page(program):
    summary = program["summary"].split(".")[0]
    text = f".TH ROCMFORGE 1 \"\" \"rocmforge {plain(program['version'])}\" \"User Commands\"\n"
    text += f".SH NAME\nrocmforge \\- {plain(summary[0].lower() + summary[1:])}\n"
    text += ".SH SYNOPSIS\n\\fBrocmforge\\fR \\fICOMMAND\\fR [\\fIarguments\\fR]\n"
    text += f".SH DESCRIPTION\n{plain(program['summary'])}\n.PP\n"
    text += "Every command takes \\fB\\-h\\fR and \\fB\\-\\-help\\fR. Where an option is repeated, the last one counts unless it says otherwise.\n"
    text += ".SH COMMANDS\n" + "".join(command_text(path, command) for path, command in walk(program, ("rocmforge",)) if len(path) > 1)
    text += table("ENVIRONMENT", environment(program)) + table("FILES", FILES) + table("EXIT STATUS", EXIT_CODES)
    return text + ".SH EXAMPLES" + examples(program).removeprefix(".PP") + ".SH SEE ALSO\n\\fBsystemctl\\fR(1)\n"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    pathlib.Path(sys.argv[2]).write_text(page(json.loads(pathlib.Path(sys.argv[1]).read_text())))
