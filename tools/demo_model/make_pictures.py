"""Draws held-out pictures and writes a question about each: questions.json names the pictures beside it."""
import argparse
import json
import pathlib
import random

from pictures import DIGITS, THINGS, Painter, questions, subject


def subjects(count, rng):
    """As many of each thing, as far as possible."""
    wanted = {thing: count // len(THINGS) + (i < count % len(THINGS)) for i, thing in enumerate(THINGS)}
    while any(wanted.values()):
        found = subject(rng, True)
        if wanted[found[0]]:
            wanted[found[0]] -= 1
            yield found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=48)
    parser.add_argument("--fonts", default="/usr/share/fonts/truetype/dejavu")
    parser.add_argument("--seed", type=int, default=20262)
    args = parser.parse_args()
    rng, painter, entries = random.Random(args.seed), Painter(args.fonts), []
    args.folder.mkdir(parents=True, exist_ok=True)
    for number, (thing, color, style) in enumerate(subjects(args.count, rng)):
        name = f"{number:03}-{color}-{style}.png"
        painter.picture(thing, color, style, rng).save(args.folder / name, optimize=True)
        entries.append({"skill": "digit" if thing in DIGITS else "shape", "picture": name,
                        "question": rng.choice(questions(thing)), "expect": thing})
    with open(args.folder / "questions.json", "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n")


if __name__ == "__main__":
    main()
