"""OpenAI's own client, for each of the APIs that it speaks."""
import client_features as shared
from client_features import BY_NAME, MESSAGES, MODEL, QUESTION, Row, check_city, check_logprobs, same

chat, responses, completions = Row("openai, chat"), Row("openai, responses"), Row("openai, completions")
FUNCTION = {"type": "function", **shared.WEATHER["function"], "strict": True}


def prepare(url, key):
    global client, Person
    import openai
    client = openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0)
    Person = shared.person()


def ask(**more):
    return client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=0, **more)


@chat.can("answer")
def _():
    same(ask().choices[0].message.content, shared.ANSWER)


@chat.can("stream")
def _():
    with client.chat.completions.stream(model=MODEL, messages=MESSAGES, temperature=0) as stream:
        text = "".join(event.delta for event in stream if event.type == "content.delta")
        same((text, stream.get_final_completion().choices[0].message.content), (shared.ANSWER, shared.ANSWER))


@chat.can("tool call")
def _():
    message = ask(tools=[shared.WEATHER, shared.CLOCK], tool_choice=BY_NAME).choices[0].message
    same([call.function.name for call in message.tool_calls], ["get_weather"])
    check_city(message.tool_calls[0].function.arguments)
    pieces = [call for chunk in ask(tools=[shared.WEATHER, shared.CLOCK], tool_choice=BY_NAME, stream=True) if chunk.choices
              for call in chunk.choices[0].delta.tool_calls or []]
    same("".join(piece.function.arguments or "" for piece in pieces), message.tool_calls[0].function.arguments)


@chat.can("structured output")
def _():
    answer = client.chat.completions.parse(model=MODEL, messages=MESSAGES, temperature=0, response_format=Person)
    shared.check_person(answer.choices[0].message.parsed, Person)


@chat.can("embeddings")
def _():
    shared.check_vectors([item.embedding for item in client.embeddings.create(model=MODEL, input=["one", "two"]).data], 2)


@chat.can("log probabilities")
def _():
    tokens = ask(logprobs=True, top_logprobs=2).choices[0].logprobs.content
    check_logprobs(token.logprob for token in tokens)
    same(b"".join(bytes(token.bytes) for token in tokens).decode(), shared.ANSWER)


def respond(**more):
    return client.responses.create(model=MODEL, input=QUESTION, temperature=0, **more)


@responses.can("answer")
def _():
    first = respond()
    same(first.output_text, shared.ANSWER)
    same(client.responses.create(model=MODEL, input="And again?", previous_response_id=first.id).previous_response_id, first.id)


@responses.can("stream")
def _():
    with client.responses.stream(model=MODEL, input=QUESTION, temperature=0) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        same((text, stream.get_final_response().output_text), (shared.ANSWER, shared.ANSWER))


@responses.can("tool call")
def _():
    answer = respond(tools=[FUNCTION], tool_choice={"type": "function", "name": "get_weather"})
    same([(item.type, item.name) for item in answer.output], [("function_call", "get_weather")])
    check_city(answer.output[0].arguments)


@responses.can("structured output")
def _():
    shared.check_person(client.responses.parse(model=MODEL, input=QUESTION, temperature=0, text_format=Person).output_parsed, Person)


@responses.can("token count")
def _():
    same(client.responses.input_tokens.count(model=MODEL, input=QUESTION).input_tokens, respond().usage.input_tokens)


def complete(**more):
    return client.completions.create(model=MODEL, prompt="Once upon a", temperature=0, max_tokens=5, **more)


@completions.can("answer")
def _():
    same(complete(echo=True).choices[0].text, "Once upon a" + complete().choices[0].text)


@completions.can("stream")
def _():
    same("".join(chunk.choices[0].text for chunk in complete(stream=True)), complete().choices[0].text)


@completions.can("log probabilities")
def _():
    found = complete(logprobs=2).choices[0].logprobs
    check_logprobs(found.token_logprobs)
    same("".join(found.tokens), complete().choices[0].text)


shared.run(prepare)
