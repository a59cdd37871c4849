"""librocmforge by ctypes: its functions (rocmforge/rocmforge.h), options as it takes them, and its errors as exceptions."""
from __future__ import annotations

import ctypes
import json
import os
import pathlib
from typing import Any, Callable, List, Mapping, Optional

from ._errors import BusyError, Error, OptionError

INVALID, FAILED, NO_MEMORY, BUSY = 1, 2, 3, 4
NO_SPECIAL, PARSE_SPECIAL = 1, 2

Handle = ctypes.c_void_p
Tokens = ctypes.POINTER(ctypes.c_int32)
Floats = ctypes.POINTER(ctypes.c_float)
Options = ctypes.POINTER(ctypes.c_char_p)
Text = ctypes.c_void_p  # a char* that is given back, which c_char_p would lose
OnPiece = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t, ctypes.c_void_p)
Out = ctypes.POINTER


class Properties(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        ("vocab_size", ctypes.c_int32),
        ("context_length", ctypes.c_int32),
        ("embedding_length", ctypes.c_int32),
        ("has_tokenizer", ctypes.c_int32),
        ("has_chat_template", ctypes.c_int32),
        ("bos_token", ctypes.c_int32),
        ("eos_token", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("parameters", ctypes.c_uint64),
        ("file_bytes", ctypes.c_uint64),
        ("architecture", ctypes.c_char * 64),
        ("device", ctypes.c_char * 128),
        ("path", ctypes.c_char * 1024),
    ]


_SIGNATURES = {
    "model_load": [ctypes.c_char_p, Options, Out(Handle)],
    "model_free": [Handle],
    "model_get_properties": [Handle, Out(Properties)],
    "tokenize": [Handle, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, Tokens, ctypes.c_size_t, Out(ctypes.c_size_t)],
    "detokenize": [Handle, Tokens, ctypes.c_size_t, ctypes.c_int, Out(Text), Out(ctypes.c_size_t)],
    "generate": [Handle, ctypes.c_char_p, Options, OnPiece, ctypes.c_void_p, Out(Text)],
    "generate_tokens": [Handle, Tokens, ctypes.c_size_t, Options, OnPiece, ctypes.c_void_p, Out(Text)],
    "chat": [Handle, ctypes.c_char_p, Options, OnPiece, ctypes.c_void_p, Out(Text)],
    "request": [Handle, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, OnPiece, ctypes.c_void_p, Out(ctypes.c_int), Out(Text)],
    "embed": [Handle, Options, ctypes.c_size_t, Floats],
    "logits": [Handle, Tokens, ctypes.c_size_t, Floats],
    "sequence_new": [Handle, Options, Out(Handle)],
    "sequence_free": [Handle],
    "sequence_append": [Handle, Tokens, ctypes.c_size_t, Floats],
    "sequence_sample": [Handle, Out(ctypes.c_int32)],
    "sequence_truncate": [Handle, ctypes.c_size_t],
    "sequence_length": [Handle, Out(ctypes.c_size_t)],
    "server_start": [Handle, Options, Out(Handle)],
    "server_address": [Handle, Out(Text), Out(ctypes.c_int)],
    "server_stop": [Handle],
}


def _open() -> ctypes.CDLL:
    """The library of the wheel, or the one that ROCMFORGE_LIBRARY names."""
    path = os.environ.get("ROCMFORGE_LIBRARY") or str(pathlib.Path(__file__).resolve().parent / "lib" / "librocmforge.so")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"the engine can't be loaded: {error}") from None
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, f"rocmforge_{name}")
        function.argtypes, function.restype = arguments, ctypes.c_int
    library.rocmforge_version.restype = ctypes.c_char_p
    library.rocmforge_last_error.restype = ctypes.c_char_p
    library.rocmforge_free.argtypes, library.rocmforge_free.restype = [ctypes.c_void_p], None
    return library


_LIBRARY = _open()


def version() -> str:
    return _LIBRARY.rocmforge_version().decode()


def call(name: str, *arguments: Any) -> None:
    """Calls rocmforge_NAME; raises what its status stands for."""
    status = getattr(_LIBRARY, f"rocmforge_{name}")(*arguments)
    if status != 0:
        message = _LIBRARY.rocmforge_last_error().decode("utf-8", "replace")
        raise {INVALID: OptionError, NO_MEMORY: MemoryError, BUSY: BusyError}.get(status, Error)(message)


def take_text(text: Text, size: Optional[int] = None) -> str:
    """What the library has given out, which goes back."""
    if not text.value:
        return ""
    try:
        data = ctypes.string_at(text.value) if size is None else ctypes.string_at(text.value, size)
        return data.decode("utf-8", "replace")
    finally:
        _LIBRARY.rocmforge_free(text)


def as_text(value: str, what: str) -> bytes:
    if "\0" in value:
        raise OptionError(f"{what} holds a zero byte")
    return value.encode("utf-8", "replace")


def as_tokens(tokens: Any) -> "ctypes.Array[ctypes.c_int32]":
    values = [int(token) for token in tokens]
    for value in values:
        if not -(2**31) <= value < 2**31:
            raise OptionError(f"{value} is no token")
    return (ctypes.c_int32 * len(values))(*values)


def _texts_of(name: str, value: Any) -> List[str]:
    if value is None:
        return []
    if isinstance(value, bool):
        return [name if value else f"{name}=false"]
    if name == "logit_bias" and isinstance(value, Mapping):
        return [f"{name}={token}={bias}" for token, bias in value.items()]
    if isinstance(value, Mapping):  # json_schema, chat_template_kwargs
        return [f"{name}={json.dumps(value)}"]
    if isinstance(value, (list, tuple)):
        return [f"{name}={one}" for one in value]
    return [f"{name}={os.fspath(value) if isinstance(value, os.PathLike) else value}"]


def as_options(options: Mapping[str, Any]) -> "ctypes.Array[ctypes.c_char_p]":
    """Keyword arguments as the library's texts: True is a flag, a list repeats, a mapping is JSON, None is not given."""
    texts = [as_text(text, f"option {name}") for name, value in options.items() for text in _texts_of(name, value)]
    return (ctypes.c_char_p * (len(texts) + 1))(*texts, None)


class Pieces:
    """A callback that hands pieces to `take`, which ends the answer by returning False. What it raises ends it too, and is
    raised again by check(): nothing may pass through the library."""

    def __init__(self, take: Callable[[str], bool]) -> None:
        self._take = take
        self._error: Optional[BaseException] = None
        self.callback = OnPiece(self._on_piece)

    def _on_piece(self, piece: Any, size: int, _user: Any) -> int:
        try:
            return 0 if self._take(ctypes.string_at(piece, size).decode("utf-8", "replace")) else 1
        except BaseException as error:  # noqa: B902, an interrupt too
            self._error = error
            return 1

    def check(self) -> None:
        if self._error is not None:
            raise self._error
