"""A server that behaves like huggingface.co and Ollama's registry, with a second one beside it that holds the files' contents.

Models are dictionaries of paths and contents. A test makes requests go wrong by queueing faults for "api" or "files": each request
to that server takes the first of them.
"""
import hashlib
import http.server
import json
import re
import ssl
import threading
import time
import urllib.parse

COMMIT = "c0ffee" + "0" * 34


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def entry(path, content, **more):
    """What the list of a repository says of a file."""
    pointer = {"oid": sha256(content), "size": len(content), "pointerSize": 134}
    return {"type": "file", "oid": "0" * 40, "size": len(content), "path": path, "lfs": pointer, **more}


# Faults. Each gets the handler, and returns whether it has answered.

def status(code, **headers):
    def fault(handler):
        handler.reply(code, b"", {name.replace("_", "-"): value for name, value in headers.items()})
        return True
    return fault


def cut_after(count):
    def fault(handler):
        handler.most_bytes = count
        return False
    return fault


def without_ranges(handler):
    handler.ranges = False
    return False


def body(text, **headers):
    def fault(handler):
        handler.reply(200, text, {name.replace("_", "-"): value for name, value in headers.items()})
        return True
    return fault


def slow_head(handler):
    """An endless head, a line at a time."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(200):
        if handler.server.hub.stopped.wait(0.1):
            break
        handler.wfile.write(b"X-Line-%d: 1\r\n" % number)
        handler.wfile.flush()
    return True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    most_bytes = None  # of a content, before the connection is cut
    ranges = True

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except OSError:  # who asked is gone
            self.close_connection = True

    def reply(self, code, content, headers=None):
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if "Content-Length" not in (headers or {}):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.most_bytes is not None and len(content) > self.most_bytes:
            content = content[:self.most_bytes]
            self.close_connection = True
        pause, size = self.server.hub.pause_seconds, self.server.hub.piece_bytes
        for begin in range(0, len(content), size):
            self.wfile.write(content[begin:begin + size])
            self.server.hub.bytes_sent[self.server.name] += len(content[begin:begin + size])
            time.sleep(pause)

    def reply_json(self, document, headers=None):
        self.reply(200, json.dumps(document).encode(), {"Content-Type": "application/json", **(headers or {})})

    def do_GET(self):
        self.most_bytes, self.ranges = None, True
        hub = self.server.hub
        url = urllib.parse.urlsplit(self.path)  # of a proxy's request a whole address
        self.path_only, self.query = urllib.parse.unquote(url.path), urllib.parse.parse_qs(url.query)
        hub.requests.append((self.server.name, self.path, dict(self.headers)))
        with hub.lock:
            fault = hub.faults[self.server.name].pop(0) if hub.faults[self.server.name] else None
        if fault and fault(self):
            return
        if self.server.name == "files":
            self.send_content()
        else:
            self.answer_api()

    def send_content(self):
        content = self.server.hub.contents.get(self.path_only)
        if content is None:
            self.reply(404, b"")
            return
        headers = {"ETag": f'"{self.server.hub.etag}"', "Accept-Ranges": "bytes"}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")) if self.ranges else None
        if self.headers.get("If-Range") not in (None, headers["ETag"]):
            asked = None
        if not asked:
            self.reply(200, content, headers)
            return
        begin, end = int(asked[1]), min(int(asked[2] or len(content) - 1), len(content) - 1)
        if begin >= len(content):
            self.reply(416, b"", {"Content-Range": f"bytes */{len(content)}"})
            return
        headers["Content-Range"] = f"bytes {begin}-{end}/{len(content)}"
        self.reply(206, content[begin:end + 1], headers)

    def answer_api(self):
        hub = self.server.hub
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            self.reply(401, b"", {"X-Error-Message": "Invalid credentials"})
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", self.path_only):
            self.send_model(found[1], lambda listing: self.reply_json({"id": found[1], "sha": COMMIT}))
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/(.+)", self.path_only):
            self.send_model(found[1], self.send_page)
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path_only):
            self.redirect(f"/{found[1]}/{found[3]}")
        elif found := re.fullmatch(r"/v2/([^/]+/[^/]+)/manifests/([^/]+)", self.path_only):
            self.send_manifest(found[1], found[2])
        elif found := re.fullmatch(r"/v2/([^/]+/[^/]+)/blobs/sha256:(.+)", self.path_only):
            self.redirect(f"/{found[1]}/{found[2]}")
        else:
            self.reply(404, b"")

    def redirect(self, path):
        target = self.server.hub.url("files") + urllib.parse.quote(path) + "?X-Signature=secret"
        self.reply(302, b"moved", {"Location": target})

    def send_model(self, name, send):
        listing = self.server.hub.listings.get(name)
        if listing is None:
            self.reply(404, b"", {"X-Error-Message": "Repository not found"})
        else:
            send(listing)

    def send_page(self, listing):
        begin = int(self.query.get("cursor", ["0"])[0])
        end = begin + self.server.hub.page_size
        headers = {}
        if end < len(listing):
            headers["Link"] = f'<{self.server.hub.url("api")}{self.path_only}?recursive=true&cursor={end}>; rel="next"'
        self.reply_json(listing[begin:end], headers)

    def send_manifest(self, name, tag):
        content = self.server.hub.ollama.get((name, tag))
        if content is None:
            self.reply(404, b"")
            return
        kind = "application/vnd.ollama.image."
        layers = [{"mediaType": kind + "license", "digest": "sha256:" + "0" * 64, "size": 1},
                  {"mediaType": kind + "model", "digest": "sha256:" + sha256(content), "size": len(content)}]
        self.reply_json({"schemaVersion": 2, "layers": layers})


class Hub:
    def __init__(self, certificate=None):
        self.listings, self.contents, self.ollama = {}, {}, {}
        self.requests, self.faults = [], {"api": [], "files": []}
        self.bytes_sent = {"api": 0, "files": 0}
        self.token, self.etag, self.page_size, self.pause_seconds, self.piece_bytes = "", "first", 1000, 0, 65536
        self.lock, self.stopped = threading.Lock(), threading.Event()
        self.scheme, self.servers = "https" if certificate else "http", {}
        for name, host in (("api", "127.0.0.1"), ("files", "localhost")):
            server = http.server.ThreadingHTTPServer((host, 0), Handler)
            server.hub, server.name, server.daemon_threads = self, name, True
            if certificate:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(certificate)
                server.socket = context.wrap_socket(server.socket, server_side=True)
            self.servers[name] = server
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def url(self, name):
        host = "127.0.0.1" if name == "api" else "localhost"
        return f"{self.scheme}://{host}:{self.servers[name].server_address[1]}"

    def add(self, name, files):
        """A repository OWNER/REPO of these paths and contents."""
        self.listings[name] = [entry(path, content) for path, content in files.items()]
        self.contents.update({f"/{name}/{path}": content for path, content in files.items()})

    def add_ollama(self, name, tag, content):
        self.ollama[name, tag] = content
        self.contents[f"/{name}/{sha256(content)}"] = content

    def asked(self, server):
        """The requests to one of the two servers: path and headers."""
        return [(path, headers) for name, path, headers in self.requests if name == server]

    def stop(self):
        self.stopped.set()
        for server in self.servers.values():
            server.shutdown()
            server.server_close()
