#!/usr/bin/env python3
"""Packs GPU code objects into one archive, whose layout src/device/kernel_archive.h describes.

    kernel_archive.py --output FILE [--level N] FOLDER [ARCHITECTURE...]
    kernel_archive.py --list FILE

FOLDER holds ARCHITECTURE/NAME.hsaco or .cubin, as tools/build_kernels.py leaves them; without ARCHITECTURE all are packed, but for
what is of tests alone. The same objects give the same bytes. Level 0 to 9: 9 for what is to be distributed.
"""
import argparse
import concurrent.futures
import hashlib
import lzma
import os
import pathlib
import re
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAGIC = b"RFKERNL1"
ALIGNMENT = 64
LARGEST_SECTION = 256 << 20
PLAIN_WORD = re.compile(r"[a-zA-Z0-9._-]{1,255}")
OF_TESTS = re.compile(r"-as-gfx")  # architectures
TEST_OBJECTS = {"device_check"}
STAMPED = {"amd": (".h", ".hip"), "gpu": (".h", ".hip"), "hopper": (".h", ".cu")}


class Problem(Exception):
    """One line for a person."""


def stamp(folder=ROOT / "src/kernels"):
    """Of the sources that kernels are compiled from. cmake/kernel_stamp.cmake computes the same."""
    names = sorted(f"{part}/{path.name}" for part, suffixes in STAMPED.items() for path in (folder / part).iterdir() if path.suffix in suffixes)
    lines = "".join(f"{name} {hashlib.sha256((folder / name).read_bytes()).hexdigest()}\n" for name in names)
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def find_objects(folder, architectures=()):
    """Paths by name, by architecture. Throws Problem when there are none, or none for an architecture that was asked for."""
    found = {}
    for path in [*folder.glob("gfx*/*.hsaco"), *folder.glob("sm_*/*.cubin")]:
        architecture = path.parent.name
        if path.stem not in TEST_OBJECTS and not OF_TESTS.search(architecture) and (not architectures or architecture in architectures):
            found.setdefault(architecture, {})[path.stem] = path
    if missing := [architecture for architecture in architectures if architecture not in found]:
        raise Problem(f"{folder} holds no code objects for {', '.join(missing)}")
    if not found:
        raise Problem(f"{folder} holds no code object such as gfx1100/NAME.hsaco or sm_90a/NAME.cubin")
    return found


def padded(data):
    return data + bytes(-len(data) % ALIGNMENT)


def compressed(raw, level):
    # Instructions are words of four bytes. No dictionary is longer than what it is for: a reader takes memory for it.
    dictionary = min(max(4096, 1 << (len(raw) - 1).bit_length()), 64 << 20)
    preset = level | (lzma.PRESET_EXTREME if level == 9 else 0)
    chosen = {"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": dictionary, "lc": 2, "lp": 2, "pb": 2}
    return lzma.compress(raw, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC32, filters=[chosen])


def name_bytes(name):
    if not PLAIN_WORD.fullmatch(name):
        raise Problem(f"'{name}' is no name for an archive: letters, digits, '.', '_' and '-'")
    return struct.pack("<B", len(name)) + name.encode()


def pack_section(architecture, paths, level):
    """Index entry without its offset, in two parts, and stored bytes."""
    objects = [(name, paths[name].read_bytes()) for name in sorted(paths)]
    raw = b"".join(padded(data) for _, data in objects)
    if not raw or len(raw) > LARGEST_SECTION:
        raise Problem(f"{architecture}: the code objects have {len(raw)} bytes; 1 to {LARGEST_SECTION} are allowed")
    stored = compressed(raw, level)
    rest = struct.pack("<QQI", len(stored), len(raw), len(objects))
    rest += b"".join(name_bytes(name) + struct.pack("<Q", len(data)) for name, data in objects)
    return name_bytes(architecture), rest, stored


def pack(objects, made_from, level=9, jobs=1):
    """The archive's bytes."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:  # liblzma runs without Python's lock
        sections = list(pool.map(lambda name: pack_section(name, objects[name], level), sorted(objects)))
    head = name_bytes(made_from) + struct.pack("<I", len(sections))
    index_bytes = len(head) + sum(len(name) + 8 + len(rest) for name, rest, _ in sections)
    offset = len(MAGIC) + 4 + index_bytes
    index = head
    for name, rest, stored in sections:
        index += name + struct.pack("<Q", offset) + rest
        offset += len(stored)
    return b"".join([MAGIC, struct.pack("<I", index_bytes), index, *(stored for _, _, stored in sections)])


def read_index(data):
    """(stamp, sections: (architecture, offset, stored bytes, raw bytes, [(name, bytes)])) of an archive that this script wrote."""
    if data[:len(MAGIC)] != MAGIC:
        raise Problem(f"not an archive of GPU kernels (it does not begin with {MAGIC.decode()})")
    at = len(MAGIC) + 4

    def number(form):
        nonlocal at
        value, = struct.unpack_from(form, data, at)
        at += struct.calcsize(form)
        return value

    def name():
        nonlocal at
        size = number("<B")
        at += size
        return data[at - size:at].decode()

    made_from = name()
    sections = []
    for _ in range(number("<I")):
        section = [name(), number("<Q"), number("<Q"), number("<Q")]
        sections.append((*section, [(name(), number("<Q")) for _ in range(number("<I"))]))
    return made_from, sections


def print_list(path):
    data = path.read_bytes()
    made_from, sections = read_index(data)
    print(f"kernel sources {made_from}, {len(sections)} architectures, {len(data) / 2**20:.1f} MiB")
    for architecture, _, stored, raw, objects in sections:
        print(f"{architecture:<16} {len(objects):3} objects {raw / 2**20:6.1f} MiB, packed {stored / 2**20:6.2f} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("architectures", nargs="*", metavar="ARCHITECTURE")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--level", type=int, default=9, choices=range(10))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", type=pathlib.Path, metavar="FILE", help="what an archive holds")
    arguments = parser.parse_args()
    try:
        if arguments.list:
            print_list(arguments.list)
            return 0
        if not arguments.folder or not arguments.output:
            parser.error("FOLDER and --output FILE are needed")
        data = pack(find_objects(arguments.folder, arguments.architectures), stamp(), arguments.level, max(1, arguments.jobs))
    except (Problem, OSError) as problem:
        print(f"kernel_archive: {problem}", file=sys.stderr)
        return 1
    unfinished = arguments.output.with_name(f"{arguments.output.name}.{os.getpid()}")
    unfinished.write_bytes(data)
    unfinished.rename(arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
