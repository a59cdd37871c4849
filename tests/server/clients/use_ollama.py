"""Ollama's own client."""
import client_features as shared
from client_features import MESSAGES, MODEL, Row, same

row = Row("ollama")


def prepare(url, key):
    global client
    import ollama
    client = ollama.Client(host=url, headers={"Authorization": f"Bearer {key}"})


def ask(**more):
    return client.chat(model=MODEL, messages=MESSAGES, options={"temperature": 0}, **more)


@row.can("answer")
def _():
    same(ask().message.content, shared.ANSWER)


@row.can("stream")
def _():
    same("".join(part.message.content for part in ask(stream=True)), shared.ANSWER)


@row.can("structured output")
def _():
    kind = shared.person()
    shared.check_person(kind.model_validate_json(ask(format=kind.model_json_schema()).message.content), kind)


@row.can("embeddings")
def _():
    shared.check_vectors(client.embed(model=MODEL, input=["one", "two"]).embeddings, 2)


@row.can("log probabilities")
def _():
    tokens = ask(logprobs=True, top_logprobs=2).logprobs
    shared.check_logprobs(token.logprob for token in tokens)
    same("".join(token.token for token in tokens), shared.ANSWER)


shared.run(prepare)
