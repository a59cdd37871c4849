"""OpenAI's agents, which speak Responses and chat completions."""
import client_features as shared
from client_features import MODEL, QUESTION, Row, same

both = {"responses": Row("openai-agents, responses"), "chat": Row("openai-agents, chat")}


def prepare(url, key):
    global settings, Person
    import agents
    agents.set_tracing_disabled(True)
    settings = {"base_url": url + "/v1", "api_key": key, "max_retries": 0}
    Person = shared.person()


def agent(api, choice=None, **more):
    from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel
    from openai import AsyncOpenAI
    kind = {"responses": OpenAIResponsesModel, "chat": OpenAIChatCompletionsModel}[api]
    return Agent(name="a", model=kind(MODEL, AsyncOpenAI(**settings)), model_settings=ModelSettings(temperature=0, max_tokens=100, tool_choice=choice), **more)


def answers(api):
    from agents import Runner
    same(Runner.run_sync(agent(api), QUESTION).final_output, shared.ANSWER)


def streams(api):
    import asyncio
    from agents import Runner

    async def text():
        result = Runner.run_streamed(agent(api), QUESTION)
        pieces = [event.data.delta async for event in result.stream_events()
                  if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"]
        return "".join(pieces), result.final_output
    same(asyncio.run(text()), (shared.ANSWER, shared.ANSWER))


def calls(api):
    from typing import Annotated
    from agents import Runner, function_tool
    from pydantic import Field
    asked = []

    @function_tool
    def get_weather(city: Annotated[str, Field(max_length=12)]) -> str:
        asked.append(city)
        return "rain"
    result = Runner.run_sync(agent(api, "get_weather", tools=[get_weather]), QUESTION)
    same(len(asked), 1)
    shared.check_city({"city": asked[0]})
    shared.check(isinstance(result.final_output, str), "no answer after the call")


def structures(api):
    from agents import Runner
    shared.check_person(Runner.run_sync(agent(api, output_type=Person), QUESTION).final_output, Person)


for name, row in both.items():
    for feature, function in (("answer", answers), ("stream", streams), ("tool call", calls), ("structured output", structures)):
        row.can(feature)(lambda function=function, name=name: function(name))

shared.run(prepare)
