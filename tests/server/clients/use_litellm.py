"""LiteLLM, by the providers that it has for servers like this one."""
import os

import client_features as shared
from client_features import MESSAGES, MODEL, Row, same

chat, messages, ollama = Row("litellm, openai/"), Row("litellm, anthropic/"), Row("litellm, ollama_chat/")


def prepare(url, key):
    global litellm, to_chat, to_messages, to_ollama
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the Internet for prices, and waits
    import litellm
    litellm.drop_params = False
    common = {"api_key": key, "messages": MESSAGES, "temperature": 0, "max_tokens": 100}
    to_chat = {**common, "model": "openai/" + MODEL, "api_base": url + "/v1"}
    to_messages = {**common, "model": "anthropic/" + MODEL, "api_base": url}
    to_ollama = {**common, "model": "ollama_chat/" + MODEL, "api_base": url}


def declare(row, where):
    @row.can("answer")
    def _():
        same(litellm.completion(**where()).choices[0].message.content, shared.ANSWER)

    @row.can("stream")
    def _():
        same("".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(stream=True, **where())), shared.ANSWER)

    @row.can("structured output")
    def _():
        kind = shared.person()
        answer = litellm.completion(response_format=kind, **where())
        shared.check_person(kind.model_validate_json(answer.choices[0].message.content), kind)


def declare_tools(row, where):
    @row.can("tool call")
    def _():
        calls = litellm.completion(tools=[shared.WEATHER], tool_choice=shared.BY_NAME, **where()).choices[0].message.tool_calls
        same([call.function.name for call in calls], ["get_weather"])
        shared.check_city(calls[0].function.arguments)


declare(chat, lambda: to_chat)
declare_tools(chat, lambda: to_chat)
declare(messages, lambda: to_messages)
declare_tools(messages, lambda: to_messages)
declare(ollama, lambda: to_ollama)


@chat.can("embeddings")
def _():
    answer = litellm.embedding(model=to_chat["model"], api_base=to_chat["api_base"], api_key=to_chat["api_key"], input=["one", "two"])
    shared.check_vectors([item["embedding"] for item in answer.data], 2)


@chat.can("log probabilities")
def _():
    tokens = litellm.completion(logprobs=True, top_logprobs=2, **to_chat).choices[0].logprobs.content
    shared.check_logprobs(token.logprob for token in tokens)


shared.run(prepare)
