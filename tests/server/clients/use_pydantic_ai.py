"""Pydantic AI, by chat completions and by Responses."""
import client_features as shared
from client_features import MODEL, QUESTION, Row, same

both = {"chat": Row("pydantic-ai, chat"), "responses": Row("pydantic-ai, responses")}


def prepare(url, key):
    global models, Person
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider
    provider = OpenAIProvider(base_url=url + "/v1", api_key=key)
    models = {"chat": OpenAIChatModel(MODEL, provider=provider), "responses": OpenAIResponsesModel(MODEL, provider=provider)}
    Person = shared.person()


def agent(api, **more):
    from pydantic_ai import Agent
    return Agent(models[api], model_settings={"temperature": 0, "max_tokens": 100}, **more)


def answers(api):
    same(agent(api).run_sync(QUESTION).output, shared.ANSWER)


def streams(api):
    import asyncio

    async def text():
        async with agent(api).run_stream(QUESTION) as result:
            return "".join([piece async for piece in result.stream_text(delta=True)])
    same(asyncio.run(text()), shared.ANSWER)


def calls(api):
    """The output by a call: pydantic-ai demands one and refuses what does not fit."""
    from pydantic_ai import ToolOutput
    shared.check_person(agent(api, output_type=ToolOutput(Person, name="person")).run_sync(QUESTION).output, Person)


def structures(api):
    from pydantic_ai import NativeOutput
    shared.check_person(agent(api, output_type=NativeOutput(Person)).run_sync(QUESTION).output, Person)


for name, row in both.items():
    for feature, function in (("answer", answers), ("stream", streams), ("tool call", calls), ("structured output", structures)):
        row.can(feature)(lambda function=function, name=name: function(name))

shared.run(prepare)
