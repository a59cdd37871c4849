"""Outlines, as for OpenAI and as for vLLM."""
import client_features as shared
from client_features import MODEL, QUESTION, Row, same

both = {"openai": Row("outlines, from_openai"), "vllm": Row("outlines, from_vllm")}


def prepare(url, key):
    global models, Person
    import openai
    import outlines
    client = openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0)
    models = {"openai": outlines.from_openai(client, MODEL), "vllm": outlines.from_vllm(client, MODEL)}
    Person = shared.person()


def answers(api):
    same(models[api](QUESTION, temperature=0), shared.ANSWER)


def streams(api):
    same("".join(models[api].stream(QUESTION, temperature=0)), shared.ANSWER)


def structures(api):
    from typing import Literal
    import outlines
    shared.check_person(Person.model_validate_json(models[api](QUESTION, Person, temperature=0)), Person)
    if api == "vllm":
        shared.check(models[api](QUESTION, Literal["red", "blue"]) in ("red", "blue"), "neither red nor blue")
        shared.check(models[api](QUESTION, outlines.regex("[ab]{3}")).strip("ab") == "", "not of a and b")


for name, row in both.items():
    for feature, function in (("answer", answers), ("stream", streams), ("structured output", structures)):
        row.can(feature)(lambda function=function, name=name: function(name))

shared.run(prepare)
