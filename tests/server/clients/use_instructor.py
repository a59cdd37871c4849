"""Instructor in its default mode, TOOLS."""
import client_features as shared
from client_features import MESSAGES, MODEL, Row

row = Row("instructor, TOOLS")


def prepare(url, key):
    global client, Person
    import instructor
    import openai
    client = instructor.from_openai(openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0), mode=instructor.Mode.TOOLS)
    Person = shared.person()


SETTINGS = {"model": MODEL, "messages": MESSAGES, "temperature": 0, "max_retries": 0}


@row.can("tool call")
def _():
    found, answer = client.chat.completions.create_with_completion(response_model=Person, **SETTINGS)
    shared.check_person(found, Person)
    shared.same(len(answer.choices[0].message.tool_calls), 1)


@row.can("structured output")
def _():
    from typing import List
    found = client.chat.completions.create(response_model=List[Person], max_tokens=600, **{**SETTINGS, "temperature": 1})
    for one in found:
        shared.check_person(one, Person)


@row.can("stream")
def _():
    parts = list(client.chat.completions.create_partial(response_model=Person, **SETTINGS))
    shared.check(len(parts) > 1, "nothing came piece by piece")
    Person.model_validate(parts[-1].model_dump())


shared.run(prepare)
