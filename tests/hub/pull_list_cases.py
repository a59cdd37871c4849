"""Lists and manifests, honest and hostile."""
import json

import hub_server
from pull_testing import CONTENT, FILE, NAME, PullTest

__all__ = ["Lists", "HostileLists", "Ollama"]


def split(base, count):
    return {f"{base}-{i:05}-of-{count:05}.gguf": f"part {i} of {base}".encode() for i in range(1, count + 1)}


class Lists(PullTest):
    def quants(self, *names):
        self.hub.add(NAME, {name: name.encode() for name in names})

    def test_the_default_quant(self):
        self.quants("README.md", "tiny-Q8_0.gguf", "tiny-Q4_K_M.gguf", "tiny-Q2_K.gguf", "mmproj-tiny-Q4_K_M.gguf")
        self.assertEqual(self.pull().name, "tiny-Q4_K_M.gguf")

    def test_the_image_encoder_beside_it(self):
        self.quants("tiny-Q4_K_M.gguf", "mmproj-F32.gguf", "mmproj-F16.gguf")
        model = self.pull()
        self.assertEqual(model.name, "tiny-Q4_K_M.gguf")
        self.assertEqual((model.parent / "mmproj-F16.gguf").read_bytes(), b"mmproj-F16.gguf")
        self.assertFalse((model.parent / "mmproj-F32.gguf").exists())

    def test_the_nearest_to_it(self):
        self.quants("tiny-BF16.gguf", "tiny-Q8_0.gguf", "tiny-Q5_K_M.gguf", "tiny-Q2_K.gguf")
        self.assertEqual(self.pull().name, "tiny-Q5_K_M.gguf")

    def test_a_quant_that_is_named(self):
        self.quants("tiny-Q8_0.gguf", "tiny-UD-Q2_K_XL.gguf", "tiny.q4_0.gguf")
        self.assertEqual(self.pull(NAME + ":ud-q2_k_xl").name, "tiny-UD-Q2_K_XL.gguf")
        self.assertEqual(self.pull("hf.co/" + NAME + ":Q4_0").name, "tiny.q4_0.gguf")
        self.assertIn("has no Q6_K; there are tiny-Q8_0.gguf, tiny-UD-Q2_K_XL.gguf, tiny.q4_0.gguf", self.refused(NAME + ":Q6_K"))

    def test_a_file_that_is_named(self):
        self.quants("deep/er/tiny-Q8_0.gguf", "tiny-Q8_0.gguf")
        self.assertEqual(self.pull(NAME + "/deep/er/tiny-Q8_0.gguf").read_bytes(), b"deep/er/tiny-Q8_0.gguf")
        address = f"https://huggingface.co/{NAME}/resolve/main/tiny-Q8_0.gguf?download=true"
        self.assertEqual(self.pull(address).read_bytes(), b"tiny-Q8_0.gguf")
        self.assertIn("has several files of Q8_0", self.refused(NAME + ":Q8_0"))
        self.assertIn("has no file tiny.gguf; there are deep/er/", self.refused(NAME + "/tiny.gguf"))

    def test_no_model(self):
        self.quants("README.md", "model.safetensors")
        self.assertIn("owner/tiny-GGUF has no GGUF model among its 2 files", self.refused())

    def test_split_files(self):
        parts = split("Q8_0/big-Q8_0", 3)
        self.hub.add(NAME, {**parts, "big-Q2_K.gguf": b"small"})
        first = self.pull(NAME + ":Q8_0")
        self.assertEqual(first.name, "big-Q8_0-00001-of-00003.gguf")
        self.assertEqual([path.read_bytes() for path in sorted(first.parent.iterdir())], list(parts.values()))
        named = self.pull(NAME + "/Q8_0/big-Q8_0-00002-of-00003.gguf")
        self.assertEqual(named, first, "a part means its model")

    def test_a_part_is_missing(self):
        parts = split("big-Q8_0", 3)
        del parts["big-Q8_0-00002-of-00003.gguf"]
        self.hub.add(NAME, parts)
        self.assertIn("part 2 of 3 is missing", self.refused())
        self.assertFalse(self.hub.asked("files"))

    def test_half_a_model_is_never_seen(self):
        self.hub.add(NAME, split("big-Q8_0", 2))
        self.hub.faults["files"] = [None, hub_server.status(404)]
        self.refused()
        self.assertFalse([path for path in self.files_in_cache() if path.endswith(".gguf")])

    def test_pages(self):
        self.hub.add(NAME, {**{f"{i}.txt": b"x" for i in range(25)}, FILE: CONTENT})
        self.hub.page_size = 10
        self.assertEqual(self.pull().read_bytes(), CONTENT)

    def test_no_room_on_the_disc(self):
        self.hub.listings[NAME][0]["size"] = self.hub.listings[NAME][0]["lfs"]["size"] = 1 << 50
        self.assertRegex(self.refused(), r"1048576.00 GiB are missing yet, and .* has .* GiB free")
        self.assertFalse(self.hub.asked("files"))

    def test_a_file_that_git_keeps_itself(self):
        import hashlib
        sum_of_git = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()
        self.hub.listings[NAME] = [{"type": "file", "oid": sum_of_git, "size": len(CONTENT), "path": FILE}]
        self.assertEqual(self.pull().resolve().name, sum_of_git)

    def test_names_that_are_none(self):
        for name in ("a b", "owner/", "/etc/passwd", "../../x", "owner/../x.gguf", "owner/repo:", "owner/repo/x/y", "a/b/../c.gguf",
                     "https://example.com/owner/repo", "owner--a/b"):
            with self.subTest(name):
                self.assertIn("names no model: OWNER/REPO[:QUANT]", self.refused(name))


class HostileLists(PullTest):
    def hostile(self, path):
        self.hub.listings[NAME].append(hub_server.entry(path, b"evil"))
        line = self.refused()
        self.assertIn("is no path inside a repository", line)
        self.assertTrue(line.isprintable(), line)
        self.hub.listings[NAME].pop()
        self.assertEqual(self.files_in_cache(), [])

    def test_paths_that_lead_out(self):
        for path in ("../evil.gguf", "a/../../evil.gguf", "/etc/evil.gguf", "a//evil.gguf", "./evil.gguf", "..", "", "a\\..\\b.gguf",
                     "evil\n.gguf", "evil\x1b[2J.gguf", "evil\u202e.gguf", "x" * 300 + ".gguf", "a/" * 600 + "evil.gguf"):
            with self.subTest(path):
                self.hostile(path)

    def test_sums_that_lead_out(self):
        for oid in ("../../../evil", "0" * 63, "A" * 64, "", None, 5):
            self.hub.listings[NAME][0]["lfs"]["oid"] = oid
            self.assertIn("gives no size and checksum of " + FILE, self.refused())
        self.assertEqual(self.files_in_cache(), [])

    def test_sizes_that_are_none(self):
        for size in (-1, 1.5, "5", None, 1 << 62, 10 ** 30):
            self.hub.listings[NAME][0]["lfs"]["size"] = size
            self.assertIn("gives no size and checksum of " + FILE, self.refused())

    def test_sizes_whose_sum_has_no_type(self):
        part = hub_server.entry("", b"x")
        self.hub.listings[NAME] = [part | {"path": f"tiny-Q4_K_M-{i + 1:05}-of-16384.gguf", "lfs": part["lfs"] | {"size": 1 << 50}}
                                   for i in range(16_384)]
        self.assertIn("the hub says that its 16384 files have more than 1024 TiB", self.refused())
        self.assertEqual(self.files_in_cache(), [])

    def test_commits_that_lead_out(self):
        for sha in ("../../evil", "", None, 5, "c0ffee"):
            self.hub.faults["api"] = [hub_server.body(json.dumps({"sha": sha}).encode())]
            self.assertIn("names no commit", self.refused())

    def test_answers_that_are_none(self):
        for text in (b"", b"[", b"<html>", b"\xff", b'"text"', b"[" * 1_000_000, b'{"sha": ' + b"[" * 100_000):
            self.hub.faults["api"] = [hub_server.body(text)]
            self.refused()
            self.hub.faults["api"] = [None, hub_server.body(text)]
            self.refused()
        for entries in ([None], [[]], [5], [{}], {"type": "file"}):
            self.hub.faults["api"] = [None, hub_server.body(json.dumps(entries).encode())]
            self.refused()

    def test_an_answer_of_any_size(self):
        self.hub.faults["api"] = [None, hub_server.body(b"[" + b"1," * (9 << 20) + b"1]")]
        self.assertIn("is longer than 16 MiB", self.refused())

    def test_a_head_of_any_size(self):
        self.hub.faults["api"] = [hub_server.status(200, **{f"X_{i}": "x" * 60_000 for i in range(8)})]
        self.refused()

    def test_pages_without_end(self):
        def again(handler):
            again.count += 1
            link = f'<{handler.path}&page={again.count}>; rel="next"'
            handler.reply_json([{"type": "directory", "path": "a"}], {"Link": link})
            return True
        again.count = 0
        self.hub.faults["api"] = [None] + [again] * 1000
        self.assertIn("has more than 100 pages", self.refused())

    def test_a_list_that_goes_on_elsewhere(self):
        page = hub_server.body(b"[]", Link=f'<{self.hub.url("files")}/steal>; rel="next"')
        self.hub.faults["api"] = [None, page]
        self.assertIn("goes on at another host, localhost:", self.refused(HF_TOKEN="hf_secret"))
        self.assertFalse(self.hub.asked("files"))

    def test_a_file_twice(self):
        self.hub.listings[NAME] *= 2
        self.assertIn("names a file twice: " + FILE, self.refused())


class Ollama(PullTest):
    def test_a_name_and_a_tag(self):
        self.hub.add_ollama("library/tiny", "latest", CONTENT)
        self.hub.add_ollama("someone/tiny", "8b-q8_0", b"another")
        first = self.pull("tiny", HF_TOKEN="hf_secret")
        self.assertEqual((first.name, first.read_bytes()), ("tiny-latest.gguf", CONTENT))
        self.assertEqual(self.pull("ollama.com/someone/tiny:8b-q8_0").read_bytes(), b"another")
        self.assertTrue((self.cache / "models--ollama.com--library--tiny" / "refs" / "latest").is_file())
        self.assertFalse([headers for _, _, headers in self.hub.requests if "Authorization" in headers])

    def test_a_tag_that_is_not_there(self):
        self.assertIn("ollama.com/library/tiny:7b: there is no such model or file", self.refused("tiny:7b"))

    def test_manifests_that_are_none(self):
        kind = "application/vnd.ollama.image.model"
        for manifest in ({}, [], {"layers": 5}, {"layers": []}, {"layers": [None]},
                         {"layers": [{"mediaType": kind, "digest": "sha256:../../../evil", "size": 4}]},
                         {"layers": [{"mediaType": kind, "digest": "sha256:" + "0" * 64}]},
                         {"layers": [{"mediaType": kind, "digest": "sha256:" + "0" * 64, "size": 4}] * 2}):
            self.hub.faults["api"] = [hub_server.body(json.dumps(manifest).encode())]
            self.assertIn("the manifest of ollama.com/library/tiny:latest", self.refused("tiny"))
        self.assertEqual(self.files_in_cache(), [])
