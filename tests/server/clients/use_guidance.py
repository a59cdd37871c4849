"""Guidance's model for OpenAI's API."""
import json

import client_features as shared
from client_features import MODEL, QUESTION, Row, same

row = Row("guidance")


def prepare(url, key):
    global settings, Person
    settings = {"base_url": url + "/v1", "api_key": key, "max_retries": 0, "echo": False}
    Person = shared.person()


def ask(*parts):
    from guidance import assistant, models, user
    state = models.OpenAI(MODEL, **settings)
    with user():
        state += QUESTION
    with assistant():
        for part in parts:
            state += part
    return state


@row.can("answer")
def _():
    from guidance import gen
    same(ask(gen("answer", temperature=0))["answer"], shared.ANSWER)


@row.can("structured output")
def _():
    import guidance
    found = ask(guidance.json("person", schema=Person))["person"]
    Person.model_validate(json.loads(found) if isinstance(found, str) else found)


shared.run(prepare)
