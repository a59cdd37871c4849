#!/usr/bin/env python3
"""Checks that files include, by themselves or through others, the headers of the project whose names they use.

A compilation of several files hides an include that one of them lacks: the name comes from a file before it. This reads all files, in
seconds; tools/checks/check_headers.py compiles some of them by themselves. It knows types, macros, and functions outside of classes whose
names no member has. A name counts as found where the file, or anything it includes, declares it in any way, also as a member or a
parameter of a template. Prints each file with the name that it lacks and the headers that have it."""
import collections
import re
import sys

from check_headers import host_files
from check_includes import COMMENTS_AND_TEXT
from include_graph import Includes, texts_now

TYPE = re.compile(r"\b(?:struct|class|enum(?:\s+(?:struct|class))?|union|concept)\s+(?:alignas\s*\([^)]*\)\s*|\[\[[^]]*\]\]\s*)?([A-Z]\w+)\s*"
                  r"(?:final\s*)?([{;:=]?)|\busing\s+([A-Z]\w+)\s*=")
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Z]\w+)", re.M)
# A parameter of a template; an enumerator; `using a::Name`; a constant, a constructor or a member.
OTHERWISE = re.compile(r"\b(?:class|typename)\s*(?:\.\.\.)?\s*([A-Z]\w+)|[{,]\s*([A-Z]\w+)\s*(?=[,}=])|\busing\s+[\w:]*::([A-Z]\w+)\s*;"
                       r"|\b\w+[&*>]*\s+([A-Z]\w+)\s*(?=[({=;])")
USED = re.compile(r"(?<![\w.:])(?<!->)([A-Z]\w+)")  # not behind `::`: a nested type is found through an object, its class is named
FUNCTION = re.compile(r"^(?!return |using |namespace |#)[\w:<>,&*\[\] ]*[\w>&*\]][ &*]+([a-z]\w+)\(", re.M)
MEMBER = re.compile(r"(?:\.|->|[A-Z]\w*::)([a-z]\w+)|^[ \t]+(?!return )[\w:<>,&*\[\] ]*[\w>&*\]][ &*]+([a-z]\w+)[ \t]*[({=;]", re.M)
CALLED = re.compile(r"(?<![\w.:>])(?:(?!std|fmt)[a-z]\w*::)?([a-z]\w+)\s*\(")


def matches(pattern, text):
    return {name for found in pattern.findall(text) for name in ([found] if isinstance(found, str) else found) if name}


class Names:
    """What a file declares for others, and what it declares at all."""

    def __init__(self, text):
        types = TYPE.findall(text)
        self.types = {name or alias for name, sign, alias in types if alias or sign in ("{", ":", "=")} | matches(MACRO, text)
        self.functions = matches(FUNCTION, text)
        self.any = self.types | self.functions | {name for name, *_ in types} | matches(OTHERWISE, text)


def owners_of(names, codes):
    """{name: the headers that declare it}"""
    members = set().union(*(matches(MEMBER, code) for code in codes.values()))
    owners = collections.defaultdict(list)
    for file, found in names.items():
        if file.endswith(".h"):
            for name in found.types | (found.functions - members):
                owners[name].append(file)
    return owners


def faults(texts):
    """(file, name, headers that have it) of each name that a file uses and lacks."""
    includes = Includes(texts)
    codes = {file: COMMENTS_AND_TEXT.sub('""', text) for file, text in texts.items()}
    names = {file: Names(code) for file, code in codes.items()}
    owners = owners_of(names, codes)
    for file in host_files(includes):
        found = set().union(*(names[part].any for part in {file} | includes.any[file] if part in names))
        for name in sorted((matches(USED, codes[file]) | matches(CALLED, codes[file])) & owners.keys() - found):
            yield file, name, owners[name]


def main():
    lines = [f"{file}: nothing that it includes declares {name}, as {' or '.join(headers[:3])} does" for file, name, headers in faults(texts_now())]
    print(*lines, sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
