"""LangChain's package for OpenAI."""
import client_features as shared
from client_features import MODEL, QUESTION, Row, same

both = {False: Row("langchain-openai, chat"), True: Row("langchain-openai, responses")}


def prepare(url, key):
    global settings
    settings = {"base_url": url + "/v1", "api_key": key, "model": MODEL}


def model(by_responses, **more):
    from langchain_openai import ChatOpenAI
    return ChatOpenAI(**settings, temperature=0, max_tokens=100, max_retries=0, use_responses_api=by_responses, **more)


def answers(api):
    same(model(api).invoke(QUESTION).text, shared.ANSWER)


def streams(api):
    same("".join(chunk.text for chunk in model(api).stream(QUESTION)), shared.ANSWER)


def calls(api):
    answer = model(api).bind_tools([shared.WEATHER], tool_choice="get_weather").invoke(QUESTION)
    same([call["name"] for call in answer.tool_calls], ["get_weather"])
    shared.check_city(answer.tool_calls[0]["args"])


def structures(api):
    kind = shared.person()
    for method in ("json_schema", "function_calling"):
        shared.check_person(model(api).with_structured_output(kind, method=method).invoke(QUESTION), kind)


for name, row in both.items():
    for feature, function in (("answer", answers), ("stream", streams), ("tool call", calls), ("structured output", structures)):
        row.can(feature)(lambda function=function, name=name: function(name))


@both[False].can("embeddings")
def _():
    from langchain_openai import OpenAIEmbeddings
    # Without this check texts are sent as text, not as ids of OpenAI's own tokenizer.
    shared.check_vectors(OpenAIEmbeddings(**settings, check_embedding_ctx_length=False).embed_documents(["one", "two"]), 2)


@both[False].can("log probabilities")
def _():
    tokens = model(False, logprobs=True, top_logprobs=2).invoke(QUESTION).response_metadata["logprobs"]["content"]
    shared.check_logprobs(token["logprob"] for token in tokens)


shared.run(prepare)
