#!/usr/bin/env python3
"""Packs GPU code objects into one archive, whose layout src/device/kernel_archive.h describes.

    kernel_archive.py --output FILE [--level N] FOLDER [ARCHITECTURE...]
    kernel_archive.py --list FILE

FOLDER holds ARCHITECTURE/NAME.hsaco or .cubin, as tools/build/build_kernels.py leaves them; without ARCHITECTURE all are packed, but for
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

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAGIC = b"RFKERNL1"
ALIGNMENT = 64
LARGEST_STREAM = 128 << 20
SHARED_STREAM = 24 << 20  # bytes that cards of one generation share: a program decodes all of them for one
GENERATIONS = (r"gfx9", r"gfx10-?1", r"gfx10-?3", r"gfx11", r"gfx12")
PLAIN_WORD = re.compile(r"[a-zA-Z0-9._-]{1,255}")
OF_TESTS = re.compile(r"-as-gfx")  # architectures
TEST_OBJECTS = {"device_check"}
STAMPED, NOT_STAMPED = {".h", ".hip", ".cu"}, re.compile("/(reference|cpu)/")


class Problem(Exception):
    """One line for a person."""


def stamp(folder=ROOT / "src/kernels"):
    """Of the sources that kernels are compiled from. cmake/kernel_stamp.cmake computes the same."""
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.suffix in STAMPED)
    names = sorted(name for name in names if not NOT_STAMPED.search(name))
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
    # Instructions are words of four bytes. A dictionary is not larger than its data, because a reader allocates memory for
    # it.
    dictionary = min(max(4096, 1 << (len(raw) - 1).bit_length()), 64 << 20)
    preset = level | (lzma.PRESET_EXTREME if level == 9 else 0)
    chosen = {"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": dictionary, "lc": 2, "lp": 2, "pb": 2}
    return lzma.compress(raw, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC32, filters=[chosen])


def name_bytes(name):
    if not PLAIN_WORD.fullmatch(name):
        raise Problem(f"'{name}' is no name for an archive: letters, digits, '.', '_' and '-'")
    return struct.pack("<B", len(name)) + name.encode()


def streams_of(sizes):
    """Architectures that share a stream, by bytes of each: evenly those of a generation, as few streams as SHARED_STREAM allows."""
    generations = {}
    for name in sorted(sizes):
        generation = next((pattern for pattern in GENERATIONS if re.match(pattern, name)), name)
        generations.setdefault(generation, []).append(name)
    for names in generations.values():
        count = min(len(names), -(-sum(sizes[name] for name in names) // SHARED_STREAM))
        yield from (names[len(names) * i // count:len(names) * (i + 1) // count] for i in range(count))


def pack_stream(sections, level):
    """Stored bytes, bytes of the raw stream, and where each section begins in it."""
    raw, offsets = bytearray(), {}
    for architecture, objects in sections.items():
        offsets[architecture] = len(raw)
        raw += b"".join(padded(data) for data in objects.values())
    if len(raw) > LARGEST_STREAM:
        raise Problem(f"{', '.join(sections)}: the code objects have {len(raw)} bytes; at most {LARGEST_STREAM} are allowed")
    return compressed(bytes(raw), level), len(raw), offsets


def pack(paths, made_from, level=9, jobs=1):
    """The archive's bytes. `paths`: of objects by name, by architecture."""
    objects = {}
    for architecture in sorted(paths):
        objects[architecture] = {name: paths[architecture][name].read_bytes() for name in sorted(paths[architecture])}
        if not all(objects[architecture].values()):
            raise Problem(f"{architecture}: a code object is empty")
    groups = list(streams_of({architecture: sum(map(len, data.values())) for architecture, data in objects.items()}))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:  # liblzma runs without Python's lock
        streams = list(pool.map(lambda group: pack_stream({name: objects[name] for name in group}, level), groups))
    places, end = {}, 0
    for stored, raw_bytes, offsets in streams:
        places |= {architecture: (end, len(stored), raw_bytes, offset) for architecture, offset in offsets.items()}
        end += len(stored)

    def index(first):
        """With the streams from byte `first` of the file on."""
        text = name_bytes(made_from) + struct.pack("<I", len(objects))
        for architecture, data in objects.items():
            place, *rest = places[architecture]
            text += name_bytes(architecture) + struct.pack("<QQQQI", first + place, *rest, len(data))
            text += b"".join(name_bytes(name) + struct.pack("<Q", len(code)) for name, code in data.items())
        return text

    index_bytes = len(index(0))
    head = MAGIC + struct.pack("<I", index_bytes)
    return b"".join([head, index(len(head) + index_bytes), *(stored for stored, _, _ in streams)])


def read_index(data):
    """(stamp, sections: (architecture, (place of the stream, stored bytes, raw bytes, offset in it), [(name, bytes)])) of an archive
    that this script wrote."""
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
        architecture, place = name(), tuple(number("<Q") for _ in range(4))
        sections.append((architecture, place, [(name(), number("<Q")) for _ in range(number("<I"))]))
    return made_from, sections


def print_list(path):
    data = path.read_bytes()
    made_from, sections = read_index(data)
    print(f"kernel sources {made_from}, {len(sections)} architectures, {len(data) / 2**20:.1f} MiB")
    raw = sum(size for _, _, objects in sections for _, size in objects)
    print(f"{raw / 2**20:.1f} MiB of code objects")
    for architecture, (start, stored, _, _), objects in sections:
        shared = [name for name, place, _ in sections if place[0] == start and name != architecture]
        print(f"{architecture:<16} {len(objects):3} objects {sum(size for _, size in objects) / 2**20:6.1f} MiB, stream of "
              f"{stored / 2**20:5.2f} MiB{' with ' if shared else ''}{' '.join(shared)}")


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
