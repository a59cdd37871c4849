"""What a wait instruction waits for."""
import re

COUNTERS = {"loadcnt": "loads", "vmcnt": "loads", "samplecnt": None, "bvhcnt": None, "storecnt": "stores", "vscnt": "stores", "dscnt": "lds", "kmcnt": "scalar",
            "lgkmcnt": "lds scalar", "expcnt": None}


def wait_counts(instruction):
    """[(counters, how many may be outstanding)] of a wait."""
    name, found = instruction.name, []
    text = " ".join(o.text for o in instruction.operands) + " " + instruction.modifiers
    if name == "s_waitcnt":
        for counter, count in re.findall(r"(vmcnt|lgkmcnt|expcnt)\((\d+)\)", text):
            if COUNTERS[counter]:
                found.append((COUNTERS[counter], int(count)))
    elif name.startswith("s_waitcnt_"):
        counter = name.removeprefix("s_waitcnt_")
        if COUNTERS.get(counter):
            found.append((COUNTERS[counter], int(instruction.operands[-1].value or 0)))
    elif name.startswith("s_wait_"):
        parts = name.removeprefix("s_wait_").split("_")
        value = int(instruction.operands[0].value) if instruction.operands and isinstance(instruction.operands[0].value, int) else 0
        counts = (value >> 8 & 63, value & 63) if len(parts) == 2 else (value,)
        for part, count in zip(parts, counts):
            if COUNTERS.get(part):
                found.append((COUNTERS[part], count))
    return found
