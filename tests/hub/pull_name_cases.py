"""Where files come to lie, and who is told the token."""
import os

import hub_server
from pull_testing import CONTENT, FILE, NAME, PullTest

__all__ = ["Layout", "Tokens", "WithoutNetwork"]


class Layout(PullTest):
    def test_the_cache_is_the_hubs(self):
        path = self.pull()
        folder, total = self.folder(), hub_server.sha256(CONTENT)
        self.assertEqual(path, folder / "snapshots" / hub_server.COMMIT / FILE)
        self.assertEqual(os.readlink(path), f"../../blobs/{total}")
        self.assertEqual(self.files_in_cache(), [f"{folder.name}/{rest}" for rest in (
            f"blobs/{total}", "refs/main", f"snapshots/{hub_server.COMMIT}/{FILE}")])
        self.assertEqual((folder / "refs" / "main").read_text(), hub_server.COMMIT)

    def test_what_is_there_is_not_downloaded(self):
        first = self.pull()
        self.hub.requests.clear()
        done = self.rocmforge("pull", NAME, "--json")
        self.assertIn('"downloaded_bytes": 0', done.stdout)
        self.assertEqual(done.stderr, "")
        self.assertEqual((self.pull(), self.hub.asked("files")), (first, []))

    def test_a_link_to_a_blob_that_is_gone(self):
        path = self.pull()
        path.resolve().unlink()
        self.assertEqual(self.pull().read_bytes(), CONTENT)

    def test_a_file_of_a_folder(self):
        self.hub.add(NAME, {"a/b/x.gguf": CONTENT})
        self.assertTrue(os.readlink(self.pull()).startswith("../../../../blobs/"))

    def test_the_folders_of_the_variables(self):
        for variable, value, folder in (("HUGGINGFACE_HUB_CACHE", "old", "old"), ("HF_HOME", "home", "home/hub"),
                                        ("XDG_CACHE_HOME", "xdg", "xdg/huggingface/hub"), ("HOME", "user", "user/.cache/huggingface/hub")):
            unset = {name: "" for name in ("HF_HUB_CACHE", "HF_HOME")}
            path = self.pull(**{**unset, variable: str(self.home / value)})
            self.assertTrue(path.is_relative_to(self.home / folder), path)

    def test_a_cache_that_can_not_be_written(self):
        self.cache.write_text("no folder")
        self.assertIn(str(self.cache), self.refused())

    def test_the_list_of_models_has_it(self):
        self.hub.add(NAME, {FILE: self.model_bytes()})
        path = self.pull()
        self.assertIn(str(path), self.rocmforge("models", "--json").stdout)

    def model_bytes(self):
        with open(self.model, "rb") as file:
            return file.read()


class Tokens(PullTest):
    def authorizations(self, server):
        return {headers.get("Authorization") for _, headers in self.hub.asked(server)}

    def test_only_the_hub_is_told(self):
        self.hub.token = "hf_secret"
        self.assertEqual(self.pull(HF_TOKEN="hf_secret").read_bytes(), CONTENT)
        self.assertEqual(self.authorizations("api"), {"Bearer hf_secret"})
        self.assertEqual(self.authorizations("files"), {None})

    def test_the_file_of_the_token(self):
        self.hub.token = "hf_secret"
        (self.home / "hf").mkdir()
        (self.home / "hf" / "token").write_text("hf_secret\n")
        self.pull()
        self.assertEqual(self.authorizations("files"), {None})
        self.assertIn("set HF_TOKEN", self.refused(HF_HUB_DISABLE_IMPLICIT_TOKEN="1"))

    def test_no_message_says_it(self):
        self.hub.faults["files"] = [hub_server.status(404)]
        line = self.refused(HF_TOKEN="hf_secret")
        self.assertNotIn("hf_secret", line)
        self.assertNotIn("X-Signature", line)


class WithoutNetwork(PullTest):
    def test_what_is_there_is_enough(self):
        first = self.pull()
        self.hub.stop()
        self.assertEqual(self.pull(HF_HUB_OFFLINE="1"), first)
        self.assertEqual(self.pull(NAME + ":Q4_K_M", HF_HUB_OFFLINE="true"), first)

    def test_what_is_not(self):
        self.assertRegex(self.refused(HF_HUB_OFFLINE="1"), "HF_HUB_OFFLINE is set: owner/tiny-GGUF is not in the cache .*/cache")
        self.pull()
        self.hub.requests.clear()
        self.assertIn("has no Q8_0; there are " + FILE, self.refused(NAME + ":Q8_0", HF_HUB_OFFLINE="1"))
        self.assertEqual(self.hub.requests, [])
