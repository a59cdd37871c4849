"""The time of a step: a description of its launches, summed.

    {"chip": "rx7900xtx", "launch_us": 3.3, "launches": [
      {"object": "k.hsaco", "kernel": "name", "grid": [128, 1, 1], "block": [256, 1, 1], "lds": 0, "count": 32,
       "arguments": ["buffer", null, 4096, 1.0, {"struct": "<QQii", "values": ["buffer", null, 4096, 1]}]},
      {"bytes": 8388608, "count": 64}]}

A pointer is "buffer" (memory whose contents do not matter) or {"int32": [...]} (integers that addresses or branches depend on); a launch of
bytes alone stands for a kernel that streams them. Paths are beside the description.
"""
import json
import pathlib
import struct

import numpy as np

from .chips import CHIPS
from .cost import predict
from .isa import Unknown
from .kernel import Buffer, Kernel, Launch
from .peers import stream_us


def buffer_of(value):
    if value == "buffer":
        return Buffer()
    if isinstance(value, dict) and set(value) == {"int32"}:
        return Buffer(np.array(value["int32"], dtype=np.int32))
    return None


def argument(value, pointers):
    if buffer := buffer_of(value):
        return buffer
    if value is None or isinstance(value, (int, float)):
        return value
    if not isinstance(value, dict) or set(value) != {"struct", "values"}:
        raise Unknown(f"an argument is {json.dumps(value)[:80]}, which is no pointer, number or struct")
    form, fields, offset = value["struct"], [], 0
    codes = [code for code in form if code.isalpha()]
    if len(codes) != len(value["values"]) or form[:1] != "<":
        raise Unknown(f"struct '{form}' starts with '<' and has one letter for each of its values")
    for i, (code, field) in enumerate(zip(codes, value["values"])):
        offset = struct.calcsize("<" + "".join(codes[:i]))
        if buffer := buffer_of(field):
            pointers.append((offset, buffer))
            field = 0
        fields.append(0 if field is None else field)
    return struct.pack("<" + "".join(codes), *fields)


def launch_of(entry, folder, chip, kernels):
    path = folder / entry["object"]
    key = (path, entry["kernel"])
    if key not in kernels:
        if not path.exists():
            raise Unknown(f"{path} is missing")
        kernels[key] = Kernel(path, entry["kernel"], chip.architecture)
    pointers = []
    arguments = [argument(value, pointers) for value in entry.get("arguments", [])]
    return kernels[key], Launch(kernels[key], entry["grid"], entry["block"], arguments, entry.get("lds", 0), pointers)


def read(path):
    path = pathlib.Path(path)
    try:
        description = json.loads(path.read_text())
        chip = CHIPS[description["chip"]]
        launches = description["launches"]
    except (OSError, ValueError) as problem:
        raise Unknown(f"{path}: {problem}") from problem
    except KeyError as problem:
        raise Unknown(f"{path}: {problem} is missing or no chip of {', '.join(CHIPS)}") from problem
    return path.parent, chip, description.get("launch_us", chip.launch_us), launches


def costs(path):
    """(chip, microseconds of a launch, [(count, cost or None, microseconds)])"""
    folder, chip, launch_us, launches = read(path)
    kernels, found = {}, []
    for i, entry in enumerate(launches):
        count = entry.get("count", 1)
        if "bytes" in entry:
            found.append((count, None, stream_us(chip, entry["bytes"])))
            continue
        try:
            cost = predict(*launch_of(entry, folder, chip, kernels), chip)
        except (KeyError, TypeError, struct.error) as problem:
            raise Unknown(f"{path}: launch {i}: {problem}") from problem
        found.append((count, cost, cost.microseconds))
    return chip, launch_us, found


def report(path):
    chip, launch_us, found = costs(path)
    lines = ["| launches | kernel | us each | us | bound |", "|---:|---|---:|---:|---|"]
    for count, cost, microseconds in found:
        name, bound = (cost.kernel, cost.bound) if cost else ("bytes alone", "memory")
        lines.append(f"| {count} | `{name}` | {microseconds:.1f} | {count * microseconds:.1f} | {bound} |")
    launches = sum(count for count, *_ in found)
    total = sum(count * microseconds for count, _, microseconds in found) + launches * launch_us
    lines.append(f"\n{chip.name}: {total:.1f} us modelled, of which {launches} launches at {launch_us:g} us each take {launches * launch_us:.1f}")
    return "\n".join(lines)
