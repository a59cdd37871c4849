"""What the tests of `rocmforge pull` share: a hub, a cache of its own, and the program."""
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

import hub_server

SECONDS = 300  # anything may take, also on a slow machine beside other tests
NAME = "owner/tiny-GGUF"
FILE = "tiny-Q4_K_M.gguf"
CONTENT = random.Random(1).randbytes(1_500_000)
VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE",
             "HF_HUB_DISABLE_IMPLICIT_TOKEN", "XDG_CACHE_HOME", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "http_proxy", "https_proxy",
             "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY")


class PullTest(unittest.TestCase):
    program = model = None  # set by main()

    def setUp(self):
        self.hub = hub_server.Hub()
        self.addCleanup(self.hub.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.cache = self.home / "cache"
        self.hub.add(NAME, {FILE: CONTENT})

    def environment(self, **more):
        mine = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        return {**mine, "HOME": str(self.home), "HF_HOME": str(self.home / "hf"), "HF_HUB_CACHE": str(self.cache),
                "HF_ENDPOINT": self.hub.url("api"), "ROCMFORGE_OLLAMA_ENDPOINT": self.hub.url("api"),
                "ROCMFORGE_DEVICE": "cpu", **more}

    def rocmforge(self, *arguments, **variables):
        return subprocess.run([self.program, *arguments], env=self.environment(**variables), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=SECONDS)

    def start(self, *arguments, **variables):
        return subprocess.Popen([self.program, *arguments], env=self.environment(**variables), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)

    def pull(self, name=NAME, **variables):
        """The path that it prints. The contents of most tests are no models, whose fit could be checked."""
        done = self.rocmforge("pull", name, "--no-fit-check", **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return pathlib.Path(done.stdout.strip())

    def refused(self, name=NAME, *flags, **variables):
        """The one line that it says."""
        done = self.rocmforge("pull", name, *(flags or ["--no-fit-check"]), **variables)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("rocmforge: "), done.stderr)
        return done.stderr.strip()

    def files_in_cache(self):
        """All but folders and locks, as paths inside the cache."""
        return sorted(str(path.relative_to(self.cache)) for path in self.cache.rglob("*")
                      if (path.is_symlink() or path.is_file()) and ".locks" not in path.parts)

    def folder(self, name=NAME):
        return self.cache / ("models--" + name.replace("/", "--"))

    def incomplete(self, content=CONTENT):
        return self.folder() / "blobs" / (hub_server.sha256(content) + ".incomplete")
