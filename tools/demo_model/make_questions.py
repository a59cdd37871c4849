"""Writes the held-out questions of every skill and the held-out plain text."""
import argparse
import json
import random

from chat import Encoder
from skills import SKILLS, question
from stories import plain_document

CHECKS = {
    "equals": "The reply, with white space at both ends removed, is exactly `expect`.",
    "contains": "`expect` occurs in the reply.",
    "json": "The reply parses as JSON and equals `expect` (itself JSON text) as a value: same keys, same values.",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--questions", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--per-skill", type=int, default=50)
    parser.add_argument("--text-bytes", type=int, default=60000)
    parser.add_argument("--seed", type=int, default=20260)
    args = parser.parse_args()
    encoder, rng, out = Encoder(args.tokenizer), random.Random(args.seed), []
    for skill in SKILLS:
        seen = set()
        while len(seen) < args.per_skill:
            options = {}
            if skill == "passkey":  # lengths spread evenly up to 1,900 tokens, positions in a scrambled even spread
                n = len(seen)
                options = {"count": lambda s: len(encoder.text(" " + s)), "tokens": round(1815 * n / (args.per_skill - 1)),
                           "position": (n * 17 % args.per_skill) / (args.per_skill - 1)}
            messages, expect = question(skill, rng, True, **options)
            if str(messages) in seen or len(encoder.prompt(messages)) > 1895:
                continue
            seen.add(str(messages))
            out.append({"skill": skill, "messages": messages, "expect": expect,
                        "check": "json" if skill == "json" else "equals"})
    with open(args.questions, "w", encoding="utf-8") as file:
        file.write('{"checks": ' + json.dumps(CHECKS, indent=1) + ',\n"questions": [\n')
        file.write(",\n".join(json.dumps(q, ensure_ascii=False) for q in out) + "\n]}\n")
    pieces, size = [], 0
    while size < args.text_bytes:
        pieces.append(plain_document(rng, want_held_out=True))
        size += len(pieces[-1].encode()) + 2
    with open(args.text, "w", encoding="utf-8") as file:
        file.write("\n\n".join(pieces) + "\n")


if __name__ == "__main__":
    main()
