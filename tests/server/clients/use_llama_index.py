"""LlamaIndex's package for servers that speak OpenAI's API."""
import client_features as shared
from client_features import MODEL, QUESTION, Row, same

row = Row("llama-index")


def prepare(url, key):
    global settings
    settings = {"model": MODEL, "api_base": url + "/v1", "api_key": key, "is_chat_model": True, "is_function_calling_model": True,
                "temperature": 0, "max_tokens": 100, "max_retries": 0}


def model(**more):
    from llama_index.llms.openai_like import OpenAILike
    return OpenAILike(**settings, **more)


def question():
    from llama_index.core.llms import ChatMessage
    return [ChatMessage(role="user", content=QUESTION)]


@row.can("answer")
def _():
    same(model().chat(question()).message.content, shared.ANSWER)
    same(model().complete(QUESTION).text, shared.ANSWER)


@row.can("stream")
def _():
    same("".join(part.delta or "" for part in model().stream_chat(question())), shared.ANSWER)


@row.can("tool call")
def _():
    from typing import Annotated
    from llama_index.core.tools import FunctionTool
    from pydantic import Field

    def get_weather(city: Annotated[str, Field(max_length=12)]) -> str:
        return "rain"
    tool = FunctionTool.from_defaults(get_weather)
    answer = model().chat_with_tools([tool], chat_history=question(), tool_choice="get_weather")
    calls = model().get_tool_calls_from_response(answer)
    same([call.tool_name for call in calls], ["get_weather"])
    shared.check_city(calls[0].tool_kwargs)


@row.can("structured output")
def _():
    kind = shared.person()
    shared.check_person(model().as_structured_llm(kind).chat(question()).raw, kind)


@row.can("log probabilities")
def _():
    found = model(logprobs=True, top_logprobs=2).chat(question()).logprobs
    shared.check_logprobs(max(token.logprob for token in tokens) for tokens in found)


shared.run(prepare)
