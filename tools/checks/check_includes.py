#!/usr/bin/env python3
"""Checks that sources include what they use of the headers that builds precompile, by themselves or through headers of the project.

A precompiled header would hide what is missing from a compiler. The list of precompiled headers is that of cmake/precompiled.cmake:
one that stands there and not here is an error. Prints each file with the header it lacks and the name that wants it."""
import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("src", "library", "apps")
INCLUDE_ROOTS = [ROOT / folder for folder in ("src", "library/include", "library", "apps", "apps/options", "apps/rocmforge")]
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.M)
COMMENTS_AND_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', re.S)
STD = r"\bstd::"
ALGORITHMS = (r"(?:ranges::)?(?:sort|stable_sort|partial_sort|nth_element|find|find_if|find_if_not|any_of|all_of|none_of|count|count_if|copy_n"
              r"|copy_if|copy_backward|fill_n|transform|remove|remove_if|replace|reverse|unique|equal_range|lower_bound|upper_bound"
              r"|binary_search|max_element|min_element|minmax|clamp|generate|is_sorted|merge|mismatch|search|partition|rotate|for_each"
              r"|push_heap|pop_heap|make_heap|includes|set_intersection)\s*\(|\bstd::(?:max|min|copy|fill|equal)\s*[<(]")
MATHS = r"(?:sqrt|exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tanh|erf|floor|ceil|round|lround|llround|trunc|fma|fmod|isnan|isinf|isfinite|ldexp|nearbyint|lrint)\s*\("
NAMES = {  # what stands behind std:: or, in a tuple, the whole expression
    # Not precompiled, and no header of this table brings them.
    "bitset": r"bitset\s*<",
    "charconv": r"(?:from_chars|to_chars)\b",
    "condition_variable": r"condition_variable\b",
    "deque": r"deque\s*<",
    "fstream": r"[io]?fstream\b",
    "future": r"(?:future|promise|async)\b",
    "iomanip": r"(?:setw|setprecision|setfill)\b",
    "iostream": r"(?:cin|cout|cerr)\b",
    "list": r"list\s*<",
    "queue": r"(?:priority_)?queue\s*<",
    "random": r"(?:mt19937|random_device|\w+_distribution)\b",
    "regex": r"(?:regex|smatch|cmatch)\b",
    "set": r"(?:multi)?set\s*<",
    "shared_mutex": r"shared_(?:mutex|lock)\b",
    "sstream": r"[io]?stringstream\b",
    "unordered_set": r"unordered_set\b",
    "variant": r"(?:variant\s*<|visit\s*\(|get_if\s*<|holds_alternative|monostate)",
    # Those that builds precompile.
    "algorithm": ALGORITHMS,
    "array": r"(?:array\s*[<{]|to_array)",
    "atomic": r"(?:atomic\b|memory_order)",
    "chrono": r"chrono::",
    "cmath": MATHS,
    "cstdint": r"u?int(?:8|16|32|64|ptr)_t\b",
    "filesystem": r"filesystem::",
    "functional": r"(?:function\s*<|hash\s*<|less\s*<|greater\s*<|reference_wrapper|invoke\s*\()",
    "map": r"(?:multi)?map\s*<",
    "memory": r"(?:unique_ptr|shared_ptr|weak_ptr|make_unique|make_shared|enable_shared_from_this)\b",
    "mutex": r"(?:mutex|lock_guard|unique_lock|scoped_lock|call_once)\b",
    "optional": r"(?:optional|nullopt)\b",
    "span": r"(?:span|as_bytes|as_writable_bytes)\b",
    "string": r"(?:string\b|to_string\s*\(|getline)",
    "string_view": r"string_view\b",
    "thread": r"(?:thread|jthread|this_thread)\b",
    "typeindex": r"type_index\b",
    "unordered_map": r"unordered_map\b",
    "utility": r"(?:move\s*\((?![^()]*,)|forward\s*<|exchange\s*\(|pair\s*[<{(]|swap\s*\()",
    "vector": r"vector\s*<",
    "fmt/format.h": (r"\bfmt::(?:format|format_to|to_string|memory_buffer|join|print|runtime)\b",),
    "nlohmann/json.hpp": (r"\bordered_json\s*[({]|\bordered_json::(?:parse|array|object)\b",),
}
# Headers that provide another header's names, by the rules of the language or of a library.
HOLD = {"string_view": {"string"}, "string": {"filesystem"}, "utility": {"map", "unordered_map"},
        "fmt/format.h": {"fmt/core.h"}, "cstdint": {"stdint.h"}}
PATTERNS = {header: re.compile(names[0] if isinstance(names, tuple) else STD + names) for header, names in NAMES.items()}


def precompiled():
    text = (ROOT / "cmake/precompiled.cmake").read_text()
    return re.findall(r"<([^>]+)>", re.search(r"set\(ROCMFORGE_COMMON_HEADERS([^)]*)\)", text).group(1))


@functools.lru_cache(maxsize=None)
def includes(file):
    own, others = [], set()
    for quoted, angled in INCLUDE.findall(file.read_text()):
        if angled:
            others.add(angled)
            continue
        found = next((folder / quoted for folder in [file.parent, *INCLUDE_ROOTS] if (folder / quoted).is_file()), None)
        if found:
            own.append(found.resolve())
    return own, others


def reached(file):
    files, waiting, headers = {file}, [file], set()
    while waiting:
        own, others = includes(waiting.pop())
        headers |= others
        new = set(own) - files
        files |= new
        waiting += new
    return headers


def main():
    faults = [f"cmake/precompiled.cmake: <{header}> has no names in tools/checks/check_includes.py" for header in precompiled() if header not in NAMES]
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix not in {".h", ".cpp"} or "body" in file.parts:
                continue
            headers, text = reached(file.resolve()), COMMENTS_AND_TEXT.sub('""', file.read_text())
            for header, pattern in PATTERNS.items():
                use = pattern.search(text)
                if use and header not in headers and not HOLD.get(header, set()) & headers:
                    faults.append(f"{file.relative_to(ROOT)}: <{header}> is missing, for {use.group(0)}")
    print(*faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
