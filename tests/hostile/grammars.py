"""GBNF and patterns: as long, as deep and as ambiguous as they can be."""
import string

import wire
from arena import Attack
from expect import BUSY, FREE, REFUSED, answer_problems, requests

COMPLETIONS = "/v1/completions"
MILLION = 1_000_000
LARGEST = 4 << 20  # bytes of a grammar
REFUSED = REFUSED | BUSY


def constrained(name, value):
    return {"prompt": "a", "max_tokens": 8, "temperature": 0, name: value}


def gbnf(name, grammar, statuses=FREE):
    return requests(name, COMPLETIONS, lambda: constrained("grammar", grammar()), statuses, "grammar")


def pattern(name, text, statuses=FREE):
    return requests(name, COMPLETIONS, lambda: constrained("json_schema", {"type": "string", "pattern": text()}), statuses, "json_schema")


def rules(number, body):
    """Rule i is `body(i)`; the last one is a letter."""
    lines = [f"r{i} ::= {body(i)}" for i in range(number)]
    return "\n".join(["root ::= r0", *lines, f'r{number} ::= "a"'])


def ambiguous(seed):
    """A few hundred bytes, another one for each `seed`, that many readings fit."""
    letters = string.ascii_lowercase[seed % 20:][:6]
    texts = [letters[i] * (1 + (seed + i) % 3) for i in range(6)]
    choice = "|".join(f'"{text}"' for text in texts)
    return (f"root ::= ({choice}|[a-z]+|x|y)* \"{seed}\"\n"
            f"x ::= [a-z] x? [a-z]? | [a-z] (x | y)?\n"
            f"y ::= ([a-{letters[-1]}] | x [a-z]*) y? | [a-z] [a-z] [a-z] x?")


GRAMMARS = [
    gbnf("a reference a million times", lambda: "root ::= " + "a " * MILLION + '\na ::= "x"'),
    gbnf("rules that double 60 times", lambda: rules(60, lambda i: f"r{i + 1} r{i + 1}")),
    gbnf("choices that double 60 times", lambda: rules(60, lambda i: f"r{i + 1} | r{i + 1} r{i + 1}")),
    gbnf("100,000 rules", lambda: rules(100_000, lambda i: '"a"'), REFUSED),
    gbnf("19,000 rules in a row", lambda: rules(19_000, lambda i: f"r{i + 1}")),
    gbnf("19,000 rules in a circle", lambda: rules(19_000, lambda i: f"r{i + 1}").replace('"a"', "r0"), REFUSED),
    gbnf("a million empty alternatives", lambda: "root ::= " + "|" * MILLION),
    gbnf("a million empty texts", lambda: "root ::= " + '"" ' * MILLION),
    gbnf("repetitions of nothing", lambda: 'root ::= (("" | ""*)* | (""? | ("")+)*)* "a"'),
    gbnf("groups a million deep", lambda: "root ::= " + "(" * MILLION + '"a"' + ")" * MILLION, REFUSED),
    gbnf("groups a million deep that never end", lambda: "root ::= " + "(" * MILLION, REFUSED),
    gbnf("groups that repeat, 200 deep", lambda: "root ::= " + "(" * 200 + '"a"' + ")*" * 200),
    gbnf("repetitions of repetitions", lambda: 'root ::= ((("a"{1000}){1000}){1000}){1000}', REFUSED),
    gbnf("100,000 repetitions", lambda: 'root ::= [a-z]{0,100000}'),
    gbnf("100,001 repetitions", lambda: 'root ::= [a-z]{0,100001}', REFUSED),
    gbnf("1,000 stars in a row", lambda: "root ::= " + "[a-z]* " * 1_000 + '"0"'),
    gbnf("100 kinds of star in a star", lambda: "root ::= (" + "|".join(f'[a-z]* "{i}"' for i in range(100)) + ')*'),
    gbnf("a palindrome with readings", lambda: 'root ::= s\ns ::= "a" s "a" | "a" s | "aa" s? | [a-z] s [a-z] | "a"'),
    gbnf("an ambiguous grammar of 300 bytes", lambda: ambiguous(0)),
    gbnf("a text of a million bytes", lambda: f'root ::= "{"a" * MILLION}"'),
    gbnf("a class of a million characters", lambda: f'root ::= [{"a-z" * (MILLION // 3)}]'),
    gbnf("a class of 200,000 single characters", lambda: "root ::= [" + "".join(f"\\U{0x20000 + 2 * i:08x}" for i in range(100_000)) + "]"),
    gbnf("a million classes of all characters", lambda: "root ::= " + "[^a]" * MILLION),
    gbnf("the longest grammar", lambda: 'root ::= "a" #'.ljust(LARGEST, "c")),
    gbnf("a byte more than the longest grammar", lambda: 'root ::= "a" #'.ljust(LARGEST + 1, "c"), REFUSED),
    gbnf("a name of a million letters", lambda: f'root ::= {"a" * MILLION}', REFUSED),
]

PATTERNS = [
    pattern("a pattern of a million parentheses", lambda: "^" + "(" * MILLION + "a" + ")" * MILLION + "$", REFUSED),
    pattern("a pattern of a million open parentheses", lambda: "(" * MILLION, REFUSED),
    pattern("a pattern of a million alternatives", lambda: "^(" + "a|" * MILLION + "b)$"),
    pattern("a pattern of a million groups", lambda: "^" + "(a)" * MILLION + "$"),
    pattern("a pattern with stars in stars", lambda: "^((a*)*b*)*((a|aa)*c)*$"),
    pattern("a pattern of 2,000 open places", lambda: "^" + "(.*a)" * 2_000 + "$"),
    pattern("a pattern that repeats repetitions", lambda: "^((((a{100}){100}){100}){100}){100}$", REFUSED),
    pattern("a clear pattern of 20,000 letters", lambda: "^" + string.ascii_lowercase * 800 + "$"),
    pattern("a clear pattern of a million letters", lambda: "^" + string.ascii_lowercase * (MILLION // 26) + "$"),
    pattern("a pattern with a class of a million", lambda: "^[" + "a-z" * (MILLION // 3) + "]$"),
]


def many(arena, grammars):
    """64 clients at once, each with a grammar of its own."""
    def body(i):
        request = {"prompt": "a", "max_tokens": 16, "temperature": 0, "grammar": grammars[i]}
        return answer_problems(arena.exchange(wire.post(COMPLETIONS, request), i), FREE, "grammar")
    return arena.together(len(grammars), body)


ATTACKS = [*GRAMMARS, *PATTERNS,
           Attack("64 ambiguous grammars at once", many, lambda: [ambiguous(i) for i in range(64)]),
           Attack("64 grammars of 100,000 places at once", many,
                  lambda: ["root ::= [a-z]{0,100000} \"%d\"" % i for i in range(64)])]
