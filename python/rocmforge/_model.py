from __future__ import annotations

import ctypes
import json
import os
import queue
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, Iterable, List, Literal, Mapping, Optional, Tuple, TypeVar, Union, overload
from typing import Sequence as Many

from . import _library
from ._library import as_options, as_text, as_tokens, call, take_text

if TYPE_CHECKING:
    import numpy

Piece = TypeVar("Piece")
Prompt = Union[str, Iterable[int]]


class Answer(str):
    """The text of an answer, with what else is known of it."""

    finish_reason: str  #: "stop", "length", "context" or "cancelled"
    shifted: bool  #: the context was full and older tokens were dropped
    prompt_tokens: int
    cached_tokens: int  #: of the prompt, not computed for this answer
    generated_tokens: int
    drafted_tokens: int  #: computed as drafts
    accepted_tokens: int  #: of these, part of the answer
    prompt_seconds: float
    decode_seconds: float

    @classmethod
    def _of(cls, result: str) -> "Answer":
        values = json.loads(result)
        answer = cls(values.pop("text"))
        answer.__dict__.update(values)
        return answer


class Stream(Generic[Piece]):
    """The pieces of an answer as they come. Leaving it (close(), the end of a with statement, or of its life) ends the answer."""

    def __init__(self, run: Callable[[Any], str], read: Callable[[str], Piece]) -> None:
        self._read = read
        self._pieces: "queue.SimpleQueue[Tuple[bool, Any]]" = queue.SimpleQueue()  # holds at most one answer
        self._left = threading.Event()
        self._done = False
        self.result: str = ""  #: what the whole call gave, once all pieces have been read
        pieces, left = self._pieces, self._left  # the thread must not keep this object

        def take(piece: str) -> bool:
            pieces.put((False, piece))
            return not left.is_set()

        def work() -> None:
            handler = _library.Pieces(take)
            try:
                pieces.put((True, run(handler.callback)))
            except BaseException as error:  # noqa: B902, the reader raises it
                pieces.put((True, error))

        self._thread = threading.Thread(target=work, name="rocmforge answer", daemon=True)
        self._thread.start()

    def __iter__(self) -> "Stream[Piece]":
        return self

    def __next__(self) -> Piece:
        if self._done:
            raise StopIteration
        last, value = self._pieces.get()
        if not last:
            return self._read(value)
        self._done = True
        self._thread.join()
        if isinstance(value, BaseException):
            raise value
        self.result = value
        raise StopIteration

    def close(self) -> None:
        self._left.set()
        self._done = True
        self._thread.join()

    def __enter__(self) -> "Stream[Piece]":
        return self

    def __exit__(self, *_error: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_left"):
            self._left.set()


class _Owner:
    """Holds a handle and gives it back once."""

    _free: str

    def __init__(self) -> None:
        self._handle = _library.Handle()

    def close(self) -> None:
        handle, self._handle = self._handle, _library.Handle()
        if handle:
            call(self._free, handle)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_error: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()


class Model(_Owner):
    """A loaded model. Any number of threads may use it: their answers are computed together.

    `path` is a GGUF file, or a name as the program takes it; "" is the demo model. `options` are those of `rocmforge run`
    (device, context, threads, kv_type, ...); those of sampling, prompts and templates hold where a call says nothing."""

    _free = "model_free"

    def __init__(self, path: Union[str, "os.PathLike[str]"] = "", **options: Any) -> None:
        super().__init__()
        call("model_load", as_text(os.fspath(path), "the path"), as_options(options), ctypes.byref(self._handle))
        properties = _library.Properties(struct_bytes=ctypes.sizeof(_library.Properties))
        call("model_get_properties", self._handle, ctypes.byref(properties))
        self.vocab_size: int = properties.vocab_size
        self.context_length: int = properties.context_length
        self.embedding_length: int = properties.embedding_length
        self.has_tokenizer: bool = bool(properties.has_tokenizer)
        self.has_chat_template: bool = bool(properties.has_chat_template)
        self.bos_token: int = properties.bos_token
        self.eos_token: int = properties.eos_token
        self.threads: int = properties.threads
        self.parameters: int = properties.parameters
        self.file_bytes: int = properties.file_bytes
        self.architecture: str = properties.architecture.decode("utf-8", "replace")
        self.device: str = properties.device.decode("utf-8", "replace")
        self.path: str = properties.path.decode("utf-8", "replace")

    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[False] = False, **options: Any) -> Answer: ...
    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[True], **options: Any) -> Stream[str]: ...
    def generate(self, prompt: Prompt, *, stream: bool = False, **options: Any) -> Union[Answer, Stream[str]]:
        """Answers a prompt as `rocmforge run` does: a user's message where the model has a chat template, text to go on with
        where it has none or with raw=True. Token ids are gone on with as they are. With `stream` the text as it comes."""
        given = as_options(options)
        if isinstance(prompt, str):
            text = as_text(prompt, "the prompt")
            run = self._runner("generate", text, given)
        else:
            tokens = as_tokens(prompt)
            run = self._runner("generate_tokens", tokens, len(tokens), given)
        return Stream(run, str) if stream else Answer._of(self._run(run))

    @overload
    def chat(self, messages: Many[Mapping[str, Any]], *, stream: Literal[False] = False, **more: Any) -> Dict[str, Any]: ...
    @overload
    def chat(self, messages: Many[Mapping[str, Any]], *, stream: Literal[True], **more: Any) -> Stream[Dict[str, Any]]: ...
    def chat(
        self,
        messages: Many[Mapping[str, Any]],
        *,
        stream: bool = False,
        tools: Optional[Many[Mapping[str, Any]]] = None,
        tool_choice: Any = None,
        response_format: Optional[Mapping[str, Any]] = None,
        fields: Optional[Mapping[str, Any]] = None,
        **options: Any,
    ) -> Union[Dict[str, Any], Stream[Dict[str, Any]]]:
        """Answers a conversation as the server does at /v1/chat/completions: what comes back is its answer, or with `stream` its
        chunks. `fields` are further members of such a request; `options` those of `generate`."""
        request: Dict[str, Any] = {"messages": list(messages), **(fields or {})}
        for name, value in (("tools", tools), ("tool_choice", tool_choice), ("response_format", response_format)):
            if value is not None:
                request[name] = value
        body = json.dumps(request).encode()
        given = as_options(options)
        run = self._runner("chat", body, given)
        if stream:
            return Stream(run, json.loads)
        result = _library.Text()
        call("chat", self._handle, body, given, _library.OnPiece(), None, ctypes.byref(result))
        return json.loads(take_text(result))

    def request(self, method: str, path: str, body: Optional[Mapping[str, Any]] = None) -> Tuple[int, Any]:
        """Any request that the server answers, such as "POST", "/v1/rerank": the status, and the answer as it is read from JSON."""
        status, result = ctypes.c_int(), _library.Text()
        data = None if body is None else json.dumps(body).encode()
        parts: List[str] = []
        handler = _library.Pieces(lambda part: parts.append(part) is None)
        call("request", self._handle, as_text(method, "the method"), as_text(path, "the path"), data, handler.callback, None,
             ctypes.byref(status), ctypes.byref(result))
        handler.check()
        text = take_text(result) or "".join(parts)
        try:
            return status.value, json.loads(text)
        except ValueError:
            return status.value, text

    def embed(self, texts: Union[str, Many[str]]) -> "numpy.ndarray":
        """Embeddings of length 1 as float32: [texts, embedding_length], or [embedding_length] of one text."""
        import numpy

        many = [texts] if isinstance(texts, str) else list(texts)
        out = numpy.empty((len(many), self.embedding_length), numpy.float32)
        given = (ctypes.c_char_p * len(many))(*[as_text(text, "a text") for text in many])
        call("embed", self._handle, given, len(many), out.ctypes.data_as(_library.Floats))
        return out[0] if isinstance(texts, str) else out

    def tokenize(self, text: str, *, special: bool = True, parse_special: bool = False) -> List[int]:
        """Token ids. `special`: with BOS and EOS where the model asks for them. `parse_special`: control tokens written in the text
        become their ids."""
        data = text.encode("utf-8", "replace")
        flags = (0 if special else _library.NO_SPECIAL) | (_library.PARSE_SPECIAL if parse_special else 0)
        capacity, count = len(data) + 8, ctypes.c_size_t()
        while True:
            tokens = (ctypes.c_int32 * capacity)()
            call("tokenize", self._handle, data, len(data), flags, tokens, capacity, ctypes.byref(count))
            if count.value <= capacity:
                return tokens[: count.value]
            capacity = count.value

    def detokenize(self, tokens: Iterable[int], *, special: bool = True) -> str:
        """The text of token ids. `special`: with control tokens."""
        given, text, size = as_tokens(tokens), _library.Text(), ctypes.c_size_t()
        flags = 0 if special else _library.NO_SPECIAL
        call("detokenize", self._handle, given, len(given), flags, ctypes.byref(text), ctypes.byref(size))
        return take_text(text, size.value)

    def logits(self, tokens: Iterable[int]) -> "numpy.ndarray":
        """The logits of the token behind `tokens`, as the model gives them: float32 [vocab_size]."""
        import numpy

        given, out = as_tokens(tokens), numpy.empty(self.vocab_size, numpy.float32)
        call("logits", self._handle, given, len(given), out.ctypes.data_as(_library.Floats))
        return out

    def sequence(self, **options: Any) -> "Sequence":
        """A text that grows token by token; `options` say how its sample() draws."""
        return Sequence(self, options)

    def serve(self, host: str = "127.0.0.1", port: int = 8080, **options: Any) -> "Server":
        """Serves the model over HTTP as `rocmforge serve` does, from threads of its own; port 0 is a free one. `options` are those of
        `rocmforge serve` for connections, keys, limits and logs. The model may be used meanwhile."""
        return Server(self, {"host": host, "port": port, **options})

    def _runner(self, name: str, *arguments: Any) -> Callable[[Any], str]:
        handle = self._handle

        def run(callback: Any) -> str:
            result = _library.Text()
            call(name, handle, *arguments, callback, None, ctypes.byref(result))
            return take_text(result)

        return run

    @staticmethod
    def _run(run: Callable[[Any], str]) -> str:
        with Stream(run, str) as stream:  # in a thread of its own, so that an interrupt is seen here
            for _piece in stream:
                pass
        return stream.result


class Sequence(_Owner):
    """A text that grows token by token, for those who choose tokens themselves. For one thread at a time."""

    _free = "sequence_free"

    def __init__(self, model: Model, options: Mapping[str, Any]) -> None:
        super().__init__()
        self._vocab_size = model.vocab_size
        call("sequence_new", model._handle, as_options(options), ctypes.byref(self._handle))

    def append(self, tokens: Union[int, Iterable[int]]) -> "numpy.ndarray":
        """Adds tokens; returns the logits of the token behind them, float32 [vocab_size]."""
        import numpy

        given = as_tokens([tokens] if isinstance(tokens, int) else tokens)
        out = numpy.empty(self._vocab_size, numpy.float32)
        call("sequence_append", self._handle, given, len(given), out.ctypes.data_as(_library.Floats))
        return out

    def sample(self) -> int:
        """Draws the token behind the sequence with the program's sampler, without adding it; -1 where every token is forbidden."""
        token = ctypes.c_int32()
        call("sequence_sample", self._handle, ctypes.byref(token))
        return token.value

    def truncate(self, count: int) -> None:
        """Takes away all but the first `count` tokens."""
        if count < 0:
            raise _library.OptionError(f"the sequence can't have {count} tokens")
        call("sequence_truncate", self._handle, count)

    def __len__(self) -> int:
        count = ctypes.c_size_t()
        call("sequence_length", self._handle, ctypes.byref(count))
        return count.value


class Server(_Owner):
    """A server of a model, until stop() or the end of a with statement."""

    _free = "server_stop"

    def __init__(self, model: Model, options: Mapping[str, Any]) -> None:
        super().__init__()
        call("server_start", model._handle, as_options(options), ctypes.byref(self._handle))
        url, port = _library.Text(), ctypes.c_int()
        call("server_address", self._handle, ctypes.byref(url), ctypes.byref(port))
        self.url: str = take_text(url)
        self.port: int = port.value

    def stop(self) -> None:
        """Takes no more requests, and gives running ones the time of option drain_seconds."""
        self.close()
