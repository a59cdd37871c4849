"""Requests as bytes, each from an address of the client's choice, and the answers to them."""
import dataclasses
import http.client
import json
import socket
import struct
import time
import unicodedata

LONGEST_MESSAGE = 500  # it repeats no long input


@dataclasses.dataclass
class Answer:
    status: int  # 0: none came
    body: bytes = b""
    headers: dict = dataclasses.field(default_factory=dict)  # by names in small letters
    trouble: str = ""  # why none came

    def json(self):
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def message(self):
        """The error's message; None when the answer has none."""
        parsed = self.json()
        error = parsed.get("error") if isinstance(parsed, dict) else None
        return error.get("message") if isinstance(error, dict) else error if isinstance(error, str) else None  # Ollama's form


def raw_characters(text, allowed=""):
    """Characters that change how a line is shown: controls, line separators, marks of direction."""
    return sorted({character for character in text if unicodedata.category(character) in ("Cc", "Zl", "Zp", "Cs") and character not in allowed
                   or character in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"})


def line_problems(text, most=LONGEST_MESSAGE):
    """What keeps `text` from being one clear line."""
    if not text or not text.strip():
        yield "the message is empty"
    elif len(text) > most:
        yield f"the message has {len(text)} characters: {text[:80]!r}..."
    elif raw := raw_characters(text):
        yield f"the message holds {raw}: {text[:80]!r}"


def head(path, length, more="", method="POST", kind="application/json"):
    return (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{more}"
            f"Content-Length: {length}\r\n\r\n").encode()


def post(path, body):
    """`body`: bytes, or what JSON is made of."""
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head(path, len(encoded)) + encoded


def post_form(path, fields):
    """`fields`: texts and bytes by their names."""
    body = b"".join(b"--edge\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n%s\r\n" % (name.encode(), content) for name, content in fields.items())
    body += b"--edge--\r\n"
    return head(path, len(body), kind="multipart/form-data; boundary=edge") + body


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


class Client:
    """A connection from `source`, whose waits end at `deadline` (of time.monotonic)."""

    def __init__(self, port, source="127.0.0.1", deadline=None):
        self.deadline = deadline or time.monotonic() + 60
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=self.left(), source_address=(source, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def left(self):
        return max(self.deadline - time.monotonic(), 0.01)

    def send(self, data):
        """False when the server takes no more, as behind an early refusal."""
        try:
            self.socket.settimeout(self.left())
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def read(self):
        self.socket.settimeout(self.left())
        response = http.client.HTTPResponse(self.socket)
        try:
            response.begin()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, response.read(), headers)
        except (OSError, http.client.HTTPException) as error:
            return Answer(0, trouble=f"{type(error).__name__}: {error}")
        finally:
            response.close()

    def read_begun(self):
        """The answer when it has begun to come."""
        self.socket.setblocking(False)
        try:
            begun = self.socket.recv(1, socket.MSG_PEEK)
        except OSError as error:
            return Answer(0, trouble=f"{type(error).__name__}: {error}")
        self.deadline = time.monotonic() + 1
        return self.read() if begun else Answer(0, trouble="closed")

    def close(self):
        self.socket.close()

    def reset(self):
        """Leaves without a farewell."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def exchange(port, data, source="127.0.0.1", deadline=None):
    """The answer to a whole request."""
    try:
        with Client(port, source, deadline) as client:
            client.send(data)
            return client.read()
    except OSError as error:
        return Answer(0, trouble=f"{type(error).__name__}: {error}")
