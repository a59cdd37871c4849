#!/usr/bin/env python3
"""Writes src/tokenizer/bert_characters.inc: what BERT's normalizer and pre-tokenizer do with each character.

    pip install tokenizers
    tools/tokenizer/bert_characters.py

The library itself is asked about each code point, so the tables have its version of Unicode. Syllables of Hangul are left
out: they are decomposed by arithmetic.
"""
import pathlib

from tokenizers import normalizers, pre_tokenizers

OUT = pathlib.Path(__file__).resolve().parents[2] / "src/tokenizer/bert_characters.inc"
HANGUL = range(0xAC00, 0xAC00 + 11172)
LONGEST = 3  # replacements have at most so many characters


def normalizer(**chosen):
    steps = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**{**steps, **chosen}).normalize_str


def ranges(points):
    """[first, last] of each run."""
    found = []
    for point in points:
        if found and found[-1][1] == point - 1:
            found[-1][1] = point
        else:
            found.append([point, point])
    return found


def lines(rows):
    line = "   "
    for row in rows:
        text = f" {{{', '.join(f'0x{number:X}' for number in row)}}},"
        if len(line) + len(text) > 124:
            yield line
            line = "   "
        line += text
    yield line


def table(name, meaning, rows):
    yield f"/// {meaning}"
    yield f"constexpr char32_t {name}[][{len(rows[0])}] = {{"
    yield from lines(rows)
    yield "};"


def replacements(points, function):
    rows = []
    for point in points:
        to = [ord(c) for c in function(chr(point))]
        if to != [point] and to:
            assert len(to) <= LONGEST, hex(point)
            rows.append([point, *to, *[0] * (LONGEST - len(to))])
    return rows


def shifts(rows):
    """Runs of single replacements with one distance and one step between them: [first, last, step, distance]."""
    found = []
    for point, to, second, _ in rows:
        distance = to - point & 0xFFFFFFFF
        assert second == 0 or point == 0x130
        if second:
            continue  # replaced by two characters: named in the code
        if found and found[-1][3] == distance:
            first, last, step, _ = found[-1]
            if point - last in (1, 2) and step in (0, point - last):
                found[-1][1:3] = point, point - last
                continue
        found.append([point, point, 0, distance])
    return [[first, last, step or 1, distance] for first, last, step, distance in found]


def main():
    points = [p for p in range(0x110000) if not 0xD800 <= p < 0xE000]
    clean, strip = normalizer(clean_text=True), normalizer(strip_accents=True)
    lower, pad = normalizer(lowercase=True), normalizer(handle_chinese_chars=True)
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    text = []
    text += table("dropped_ranges", "Control and format characters.", ranges(p for p in points if clean(f"a{chr(p)}b") == "ab"))
    text += table("space_ranges", "White space.", ranges(p for p in points if clean(f"a{chr(p)}b") == "a b"))
    text += table("punctuation_ranges", "Each is a word.", ranges(p for p in points if len(split(f"a{chr(p)}b")) == 3))
    text += table("ideograph_ranges", "Likewise.", ranges(p for p in points if pad(chr(p)) != chr(p)))
    text += table("accent_ranges", "Marks without a width.", ranges(p for p in points if strip(f"a{chr(p)}b") == "ab"))
    text += table("stripped", "A character, and what is left of it without accents.",
                  replacements([p for p in points if p not in HANGUL], strip))
    text += table("lower_runs", "First, last, step, and the distance to the lower case, modulo 2^32.",
                  shifts(replacements(points, lower)))
    OUT.write_text("\n".join(["// Written by tools/tokenizer/bert_characters.py.", *text]) + "\n")


if __name__ == "__main__":
    main()
