"""Transfers that go wrong."""
import os
import pathlib
import socket
import subprocess
import time

import hub_server
from pull_testing import CONTENT, FILE, NAME, SECONDS, PullTest

__all__ = ["Cuts", "Refusals", "Networks", "TwoAtOnce"]


class Cuts(PullTest):
    def test_twenty_cuts(self):
        self.hub.faults["files"] = [hub_server.cut_after(50_000) for _ in range(20)]
        self.assertEqual(self.pull().read_bytes(), CONTENT)
        asked = [headers.get("Range") for _, headers in self.hub.asked("files")]
        self.assertEqual(asked, [None, *(f"bytes={50_000 * i}-" for i in range(1, 21))])
        self.assertEqual(self.hub.bytes_sent["files"], len(CONTENT), "no byte came twice")

    def test_if_range_names_what_came_first(self):
        self.hub.faults["files"] = [hub_server.cut_after(1000)]
        self.pull()
        self.assertEqual(self.hub.asked("files")[1][1]["If-Range"], '"first"')

    def test_a_file_that_changes_meanwhile_starts_again(self):
        def change(handler):
            self.hub.etag = "second"
            return False
        self.hub.faults["files"] = [hub_server.cut_after(1000), change]
        self.assertEqual(self.pull().read_bytes(), CONTENT)

    def test_a_killed_program_is_resumed(self):
        self.hub.pause_seconds = 0.2  # for each 64 KiB
        process = self.start("pull", NAME, "--no-fit-check")
        deadline = time.monotonic() + SECONDS
        while not (self.incomplete().exists() and self.incomplete().stat().st_size > 0):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        process.kill()
        process.communicate()
        self.hub.pause_seconds = 0
        had = self.incomplete().stat().st_size
        self.hub.requests.clear()
        self.assertEqual(self.pull().read_bytes(), CONTENT)
        self.assertEqual(self.hub.asked("files")[0][1]["Range"], f"bytes={had}-")
        self.assertFalse(self.incomplete().exists())

    def test_a_server_without_ranges(self):
        self.hub.faults["files"] = [hub_server.cut_after(700_000), hub_server.without_ranges]
        self.assertEqual(self.pull().read_bytes(), CONTENT)

    def test_a_server_that_never_comes_to_the_end(self):
        def fault(handler):
            hub_server.cut_after(1000)(handler)
            return hub_server.without_ranges(handler)
        self.hub.faults["files"] = [fault] * 1000
        self.assertRegex(self.refused(), f"bytes of {FILE} are there for the next time")
        self.assertLess(len(self.hub.asked("files")), 20)

    def test_a_wrong_sum_leaves_nothing(self):
        self.hub.contents[f"/{NAME}/{FILE}"] = b"x" * len(CONTENT)
        line = self.refused()
        self.assertIn("the checksum is", line)
        self.assertIn(hub_server.sha256(CONTENT), line)
        self.assertEqual(self.files_in_cache(), [])

    def test_wrong_bytes_of_an_earlier_time_are_thrown_away(self):
        self.incomplete().parent.mkdir(parents=True)
        self.incomplete().write_bytes(b"x" * 1000)
        self.assertEqual(self.pull().read_bytes(), CONTENT)

    def test_another_length_than_the_list_says(self):
        self.hub.contents[f"/{NAME}/{FILE}"] = CONTENT + b"x"
        self.assertIn(f"has {len(CONTENT) + 1} bytes, the list says {len(CONTENT)}", self.refused())
        self.hub.contents[f"/{NAME}/{FILE}"] = CONTENT[:-1]
        self.assertIn("bytes, the list says", self.refused())

    def test_another_part_than_was_asked_for(self):
        def wrong_part(handler):
            handler.reply(206, CONTENT[:10], {"Content-Range": f"bytes 0-9/{len(CONTENT)}"})
            return True
        self.hub.faults["files"] = [hub_server.cut_after(1000), wrong_part]
        self.assertIn("another part comes than was asked for", self.refused())

    def test_no_such_part(self):
        self.incomplete().parent.mkdir(parents=True)
        self.incomplete().write_bytes(CONTENT[:1000])
        self.hub.faults["files"] = [hub_server.status(416)]
        self.assertEqual(self.pull().read_bytes(), CONTENT)


class Refusals(PullTest):
    def test_no_token(self):
        self.hub.token = "hf_right"
        line = self.refused()
        self.assertRegex(line, r"127.0.0.1:\d+: owner/tiny-GGUF: there is no such model, or it is private or gated: set HF_TOKEN "
                               r"\(status 401: Invalid credentials\)")
        self.assertIn("the token is not accepted", self.refused(HF_TOKEN="hf_wrong"))

    def test_no_such_model(self):
        self.assertIn("there is no such model or file (status 404: Repository not found)", self.refused("owner/other"))

    def test_a_gated_model(self):
        self.hub.faults["api"] = [hub_server.status(403, X_Error_Message="ask\x1b[31m first")]
        line = self.refused(HF_TOKEN="hf_right")
        self.assertIn("the token gives no access", line)
        self.assertNotIn("\x1b", line)

    def test_the_content_is_gone(self):
        self.hub.contents.clear()
        self.assertRegex(self.refused(), r"localhost:\d+: tiny-Q4_K_M.gguf: there is no such model or file \(status 404\)")

    def test_too_many_requests(self):
        self.hub.faults["api"] = [hub_server.status(429, Retry_After="1")]
        self.hub.faults["files"] = [hub_server.status(429, Retry_After="1"), hub_server.cut_after(5), hub_server.status(429)]
        self.assertEqual(self.pull().read_bytes(), CONTENT)

    def test_a_pause_that_is_too_long(self):
        # Newer versions of libcurl accept at most six hours from the header.
        self.hub.faults["api"] = [hub_server.status(429, Retry_After="7200")]
        self.assertIn("too many requests: it asks to wait for 7200 s", self.refused())

    def test_a_server_that_recovers(self):
        self.hub.faults["api"] = [hub_server.status(503), hub_server.status(500)]
        self.hub.faults["files"] = [hub_server.status(502), hub_server.status(503)]
        self.assertEqual(self.pull().read_bytes(), CONTENT)

    def test_a_server_that_does_not(self):
        self.hub.faults["files"] = [hub_server.status(500)] * 100
        self.assertRegex(self.refused(), r"localhost:\d+: tiny-Q4_K_M.gguf: the server has failed \(status 500\)")

    def test_redirects_without_end(self):
        self.hub.faults["files"] = [hub_server.status(302, Location="/again")] * 100
        self.assertIn("more than 10 redirects", self.refused())

    def test_a_redirect_to_no_address(self):
        self.hub.faults["files"] = [hub_server.status(302, Location="file:///etc/passwd")]
        self.assertIn("which is not https", self.refused())


class Networks(PullTest):
    def test_slow_heads(self):
        self.hub.faults["api"] = [hub_server.slow_head] * 10
        self.assertRegex(self.refused(HF_HUB_ETAG_TIMEOUT="1"), r"127.0.0.1:\d+: .*timed out")
        self.hub.faults["api"].clear()
        self.hub.faults["files"] = [hub_server.slow_head] * 10
        self.assertRegex(self.refused(HF_HUB_DOWNLOAD_TIMEOUT="1"), r"localhost:\d+: nothing has come for 1 s")

    def test_no_such_host(self):
        self.assertRegex(self.refused(HF_ENDPOINT="http://no-such-host.invalid"), "no-such-host.invalid: .*resolve")

    def test_nobody_listens(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.assertRegex(self.refused(HF_ENDPOINT=f"http://127.0.0.1:{port}"), rf"127.0.0.1:{port}: .*connect")

    def test_endpoints_that_are_none(self):
        self.assertIn("HF_ENDPOINT: 'ftp://host' is no address", self.refused(HF_ENDPOINT="ftp://host"))
        self.assertIn("HF_HUB_ETAG_TIMEOUT: 'soon' is no number", self.refused(HF_HUB_ETAG_TIMEOUT="soon"))
        self.assertIn("HF_TOKEN: what stands there is no token", self.refused(HF_TOKEN="a\r\nHost: b"))

    def test_a_proxy(self):
        proxy = self.hub.url("api")  # takes whole addresses too
        self.hub.faults["api"] = [None, None]
        self.pull(HF_ENDPOINT="http://hub.invalid", http_proxy=proxy, no_proxy="localhost")
        self.assertTrue(self.hub.asked("api")[0][0].startswith("http://hub.invalid/api/models/"))

    def test_certificates(self):
        certificate = self.home / "certificate.pem"
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                               "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", certificate, "-out",
                               self.home / "public.pem"], capture_output=True, check=False)
        if made.returncode != 0:
            self.skipTest("openssl makes no certificate")
        certificate.write_text(certificate.read_text() + (self.home / "public.pem").read_text())
        safe = hub_server.Hub(certificate)
        self.addCleanup(safe.stop)
        safe.add(NAME, {FILE: CONTENT})
        self.assertRegex(self.refused(HF_ENDPOINT=safe.url("api")), r"127.0.0.1:\d+: .*certificate")
        found = self.pull(HF_ENDPOINT=safe.url("api"), SSL_CERT_FILE=str(self.home / "public.pem"))
        self.assertEqual(found.read_bytes(), CONTENT)
        back = self.hub.url("files") + "/" + NAME
        self.hub.faults["api"] = []
        safe.faults["files"] = [hub_server.status(302, Location=back)]
        self.cache = self.home / "another"
        self.assertIn("which is not https", self.refused(HF_ENDPOINT=safe.url("api"), SSL_CERT_FILE=str(self.home / "public.pem")))


class TwoAtOnce(PullTest):
    def test_one_waits_for_the_other(self):
        self.hub.pause_seconds = 0.05
        both = [self.start("pull", NAME, "--no-fit-check") for _ in range(2)]
        for process in both:
            out, err = process.communicate(timeout=SECONDS)
            self.assertEqual(process.returncode, 0, err)
            self.assertEqual(pathlib.Path(out.strip()).read_bytes(), CONTENT)
        self.assertEqual(self.hub.bytes_sent["files"], len(CONTENT), "it came once")

    def test_who_waits_goes_on_when_the_other_is_killed(self):
        self.hub.pause_seconds = 0.1
        first = self.start("pull", NAME, "--no-fit-check")
        deadline = time.monotonic() + SECONDS
        while not self.hub.asked("files"):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        second = self.start("pull", NAME, "--no-fit-check")
        time.sleep(0.3)
        first.kill()
        first.communicate()
        out, err = second.communicate(timeout=SECONDS)
        self.assertEqual(second.returncode, 0, err)
        self.assertEqual(pathlib.Path(out.strip()).read_bytes(), CONTENT)

    def test_the_lock_is_the_one_of_other_tools(self):
        import fcntl
        lock = self.cache / ".locks" / self.folder().name / (hub_server.sha256(CONTENT) + ".lock")
        lock.parent.mkdir(parents=True)
        with open(lock, "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            process = self.start("pull", NAME, "--no-fit-check")
            with self.assertRaises(subprocess.TimeoutExpired):
                process.wait(timeout=1.5)
            self.assertEqual(self.hub.asked("files"), [])
        out, err = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0, err)
        self.assertTrue(os.path.samefile(out.strip(), self.folder() / "blobs" / hub_server.sha256(CONTENT)))
