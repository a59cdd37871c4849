"""What the scripts of single clients share: the rows of the table, and what they ask for.

A script declares rows and, for each, what its client can do: `@row.can("stream")` above a function that does it against the server at
URL and fails unless the answer is right. The names of the columns are FEATURES. Run with --list a script prints its rows; otherwise
its arguments are URL and KEY, and it prints a line of JSON for each feature.
"""
import faulthandler
import json
import sys
import traceback

SECONDS = 300  # one script may take
FEATURES = ["answer", "stream", "tool call", "structured output", "embeddings", "token count", "log probabilities"]

MODEL = "forge-demo"
QUESTION = "What is 127 + 458?"
ANSWER = "585"
MESSAGES = [{"role": "user", "content": QUESTION}]
CITY = {"type": "object", "required": ["city"], "additionalProperties": False,
        "properties": {"city": {"type": "string", "maxLength": 12}}}
DESCRIPTION = "The weather of a city."
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": DESCRIPTION, "parameters": CITY}}
CLOCK = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}
BY_NAME = {"type": "function", "function": {"name": "get_weather"}}

rows = []


class Row:
    """A line of the table: a client, or one of the APIs that it speaks."""

    def __init__(self, name):
        self.name = name
        self.features = {}
        rows.append(self)

    def can(self, feature):
        assert feature in FEATURES and feature not in self.features, feature

        def declare(function):
            self.features[feature] = function
            return function
        return declare


def person():
    """What a structured output is asked to be. Its parts are bounded: a model that knows no end gives an answer all the same."""
    from typing import Annotated
    from pydantic import BaseModel, Field

    class Person(BaseModel):
        name: Annotated[str, Field(max_length=12)]
        age: Annotated[int, Field(ge=0, le=150)]
    return Person


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def same(found, expected):
    check(found == expected, f"{found!r} is not {expected!r}")


def check_person(found, kind):
    check(isinstance(found, kind), f"{found!r} is no person")
    kind.model_validate(found.model_dump())


def check_city(arguments):
    found = json.loads(arguments) if isinstance(arguments, str) else arguments
    check(list(found) == ["city"] and isinstance(found["city"], str) and len(found["city"]) <= 12, f"{arguments!r} is no city")


def check_logprobs(values, least=1):
    values = list(values)
    check(len(values) >= least and all(value <= 1e-6 for value in values), f"{values!r} are no logarithms of probabilities")


def check_vectors(vectors, count):
    check(len(vectors) == count and all(abs(sum(x * x for x in vector) - 1) < 1e-3 for vector in vectors), f"no {count} vectors of length 1")


def run(prepare):
    """Runs the script's rows; `prepare(url, key)` makes what they share."""
    if sys.argv[1:] == ["--list"]:
        print(json.dumps({row.name: list(row.features) for row in rows}))
        return
    faulthandler.dump_traceback_later(SECONDS, exit=True)  # where it stands, if it stands still
    prepare(*sys.argv[1:3])
    for row in rows:
        for feature, function in row.features.items():
            error = ""
            try:
                function()
            except Exception as problem:  # whatever a client throws is its answer
                traceback.print_exc()
                error = f"{type(problem).__name__}: {problem}".splitlines()[0]
            print(json.dumps({"row": row.name, "feature": feature, "error": error}), flush=True)
