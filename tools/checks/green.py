"""Keys of what an earlier run found right, kept between runs and between checkouts in $XDG_CACHE_HOME/rocmforge/green.

A key is a digest of everything that a result depends on: what has the same key need not be run again. FORGE_GREEN=0 forgets all of them.
"""
import hashlib
import os
import pathlib

KEPT = 20000  # keys of each kind, the newest


def folder():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "rocmforge/green"


def digest(*parts):
    """Of texts and bytes. Each is preceded by its length, so that no two lists have the same digest."""
    found = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        found.update(b"%d:" % len(data) + data)
    return found.hexdigest()[:32]


class Green:
    def __init__(self, kind):
        self.path = folder() / kind
        self.keys = []
        if os.environ.get("FORGE_GREEN") != "0" and self.path.is_file():
            self.keys = self.path.read_text().split()

    def __contains__(self, key):
        return key in set(self.keys)

    def unknown(self, keyed):
        """The items of {item: key} whose key is not known."""
        known = set(self.keys)
        return [item for item, key in keyed.items() if key not in known]

    def add(self, keys):
        new = set(keys)
        self.keys = [key for key in self.keys if key not in new] + sorted(new)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_suffix(f".{os.getpid()}")
        unfinished.write_text("".join(f"{key}\n" for key in self.keys[-KEPT:]))
        unfinished.replace(self.path)
