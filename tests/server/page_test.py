#!/usr/bin/env python3
"""The chat page in headless Chromium against a running server with the demo model.

usage: page_test.py ROCMFORGE MODEL

Exits with 77 (skipped) where Chromium, its driver or selenium are missing.
"""
import contextlib
import json
import re
import shutil
import subprocess
import sys
import unittest

from demo_server import DemoServer

try:
    from selenium import webdriver
    from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    print("skipped: the Python package selenium is missing (Debian: python3-selenium)")
    sys.exit(77)

BROWSER = shutil.which("chromium")
BROWSER_DRIVER = shutil.which("chromedriver")
HOSTILE = '<script>document.title = "broken"</script> <img src="x" onerror="document.title = 1"> [press](javascript:alert(1))'
SECONDS = 40


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = DemoServer(*ARGUMENTS)
        cls.addClassCleanup(cls.stop_server)
        options = webdriver.ChromeOptions()
        options.binary_location = BROWSER
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1100,800"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        cls.browser = webdriver.Chrome(service=Service(BROWSER_DRIVER), options=options)
        cls.addClassCleanup(cls.browser.quit)

    @classmethod
    def stop_server(cls):
        assert cls.server.stop() == 0, "the server ends with 0"

    def setUp(self):
        self.browser.get(self.server.url + "/")
        self.browser.execute_script("localStorage.clear()")
        self.reload()

    def tearDown(self):
        complaints = [line for line in self.browser.get_log("browser") if line["level"] == "SEVERE"]
        self.assertEqual(complaints, [], "nothing is refused by the page's content security policy, nothing is missing")

    def reload(self):
        self.browser.refresh()
        self.wait(lambda: self.one("#model").text not in ("", "…"))

    def wait(self, condition):
        # Messages are drawn anew while they are looked at.
        missing = [NoSuchElementException, StaleElementReferenceException]
        return WebDriverWait(self.browser, SECONDS, 0.02, missing).until(lambda _: condition())

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def set(self, **settings):
        self.browser.execute_script("localStorage.setItem('rocmforge.settings', arguments[0])", json.dumps(settings))
        self.reload()

    def say(self, text):
        self.one("#prompt").send_keys(text, Keys.ENTER)

    def finish(self):
        self.wait(lambda: self.one("#send").is_displayed())

    def answers(self):
        return [node.text for node in self.all(".message.assistant .body")]

    def test_a_conversation_survives_a_reload(self):
        self.set(temperature="0")
        self.say("What is 127 + 458?")
        self.finish()
        self.assertIn("585", self.answers()[0])
        self.assertRegex(self.one(".message.assistant .facts").text, r"\d+ tokens? · .*first after \d+\.\d\d s")
        self.wait(lambda: "%" in self.one("#load-cache").text)
        self.say("What is 2 + 3?")
        self.finish()
        before = self.answers()
        self.assertIn("5", before[1])
        self.reload()
        self.assertEqual(self.answers(), before)
        self.assertIn("127 + 458", self.one("#conversations .current").text)

    def test_retry_asks_again(self):
        self.set(temperature="0")
        self.say("What is 2 + 3?")
        self.finish()
        first = self.answers()
        self.one(".message.assistant .retry").click()
        self.wait(lambda: self.answers() and self.answers() != [""])
        self.finish()
        self.assertEqual(self.answers(), first)
        self.assertEqual(len(self.all(".message")), 2)

    @contextlib.contextmanager
    def slow_network(self):
        """Answers come so slowly that there is time to do something meanwhile."""
        self.browser.set_network_conditions(offline=False, latency=0, download_throughput=1500, upload_throughput=100000)
        try:
            yield
        finally:
            self.browser.delete_network_conditions()

    def facts(self):
        return self.one(".message.assistant .facts").text

    def test_speed_is_shown_while_the_answer_comes(self):
        with self.slow_network():
            self.say("Tell me a story.")
            self.wait(lambda: re.fullmatch(r"\d+ tokens · \d+\.\d tokens/s · first after \d+\.\d\d s", self.facts()))
            self.assertTrue(self.one("#stop").is_displayed(), "the answer still comes")
            self.assertFalse(self.one(".message.assistant .retry").is_displayed())
            self.one("#stop").click()
            self.finish()

    def test_stop_ends_the_request_on_the_server(self):
        with self.slow_network():
            self.say("Tell me a story.")
            self.wait(lambda: self.answers() and self.answers()[0] != "")
            self.one("#stop").click()
            self.finish()
        self.assertIn("stopped", self.facts())
        self.wait(lambda: self.server.metric("num_requests_running") == 0)

    def test_leaving_the_page_keeps_what_has_come_of_an_answer(self):
        with self.slow_network():
            self.say("Tell me a story.")
            self.wait(lambda: self.answers() and len(self.answers()[0]) > 20)
            before = self.answers()[0]
            self.browser.get("about:blank")
        self.browser.get(self.server.url + "/")
        self.wait(lambda: self.answers())
        self.assertTrue(self.answers()[0].startswith(before[:20]), self.answers())
        self.assertIn("stopped", self.facts())
        self.wait(lambda: self.server.metric("num_requests_running") == 0)

    def test_the_plot_shows_the_load(self):
        with subprocess.Popen([ARGUMENTS[0], "load", self.server.url, "--concurrency", "3", "--duration", "60"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as load:
            try:
                self.wait(lambda: self.one("#load-most-running").text == "3")
                self.wait(lambda: re.fullmatch(r"[\d.]+", self.one("#load-rate").text) and float(self.one("#load-rate").text) > 0)
                self.wait(lambda: re.fullmatch(r"\d+\.\d %", self.one("#load-cache").text) and self.one("#load-cache").text != "0.0 %")
                self.wait(lambda: self.one("#load-plot polyline").get_attribute("points").count(",") >= 2)
                self.assertGreaterEqual(len(self.all("#load-plot rect")), 2)
            finally:
                load.kill()
        self.server.wait_until_idle()

    def test_a_models_text_never_becomes_markup(self):
        conversation = {"id": "1", "title": HOSTILE, "messages": [{"role": "user", "content": HOSTILE},
                                                                  {"role": "assistant", "content": HOSTILE}]}
        self.browser.execute_script("localStorage.setItem('rocmforge.conversations', arguments[0])", json.dumps([conversation]))
        self.reload()
        self.assertEqual(self.browser.title, "ROCmForge")
        self.assertEqual(self.all("#messages script, #messages img, #messages a, #conversations script"), [])
        self.assertIn("<script>", self.answers()[0])

    def test_a_users_text_never_becomes_markup(self):
        self.say(HOSTILE)
        self.finish()
        self.assertEqual(self.one(".message.user .body").text, HOSTILE)
        self.assertEqual(self.browser.title, "ROCmForge")
        self.assertEqual(self.all("#messages script, #messages img, #messages a, #conversations script, #conversations img"), [])

    def test_hostile_text_that_comes_letter_by_letter(self):
        found = self.browser.execute_async_script("""
            const [text, done] = arguments;
            import('./page/markdown.js').then(({ MarkdownStream }) => {
              const body = document.createElement('div');
              document.getElementById('messages').append(body);
              const stream = new MarkdownStream(body);
              const seen = new Set();
              for (const letter of text + '\\n\\n' + text) {
                stream.append(letter);
                for (const node of body.querySelectorAll('*')) seen.add(node.localName);
              }
              done([[...seen].sort(), body.textContent]);
            });""", HOSTILE)
        self.assertEqual(found[0], ["p"])
        self.assertEqual(found[1].count("<script>"), 2)
        self.assertEqual(self.browser.title, "ROCmForge")

    def save_settings(self, **settings):
        self.one("#open-settings").click()
        for name, value in settings.items():
            field = self.one(f"#settings [name={name}]")
            field.clear()
            field.send_keys(value)
        self.one("#settings button[value=save]").click()

    def test_settings_are_sent_and_kept(self):
        self.save_settings(max_tokens="7", temperature="0")
        self.say("Tell me a story.")
        self.finish()
        self.assertRegex(self.facts(), r"^7 tokens .* cut at the limit$")
        self.reload()
        self.one("#open-settings").click()
        self.assertEqual(self.one("#settings [name=max_tokens]").get_attribute("value"), "7")
        self.browser.switch_to.active_element.send_keys(Keys.ESCAPE)

    def test_a_key_is_asked_for(self):
        guarded = DemoServer(*ARGUMENTS, "--api-key", "secret")
        try:
            self.browser.get(guarded.url + "/")
            self.say("What is 2 + 3?")
            self.finish()
            self.assertIn("key", self.one(".message.assistant .failure").text)
            self.save_settings(api_key="secret", temperature="0")
            self.one(".message.assistant .retry").click()
            self.wait(lambda: self.answers() == ["5"])
            self.finish()
            self.wait(lambda: "%" in self.one("#load-cache").text)
            self.browser.get_log("browser")  # the refusals
        finally:
            self.browser.get("about:blank")
            guarded.stop()

    def test_markdown(self):
        text = "# Title\n\nA **bold** [link](https://example.org).\n\n- one\n  - two\n\n```\na < b\n```\n\n| x | y |\n|---|--:|\n| 1 | 2 |\n"
        conversation = {"id": "1", "title": "t", "messages": [{"role": "assistant", "content": text}]}
        self.browser.execute_script("localStorage.setItem('rocmforge.conversations', arguments[0])", json.dumps([conversation]))
        self.reload()
        for selector, shown in {"h1": "Title", "strong": "bold", "a[rel~=noopener]": "link", "li li": "two", "pre code": "a < b",
                                "td.right": "2"}.items():
            self.assertEqual(self.one(".message.assistant .body " + selector).text, shown)

    def test_everything_is_reached_by_keyboard(self):
        self.assertEqual(self.browser.switch_to.active_element.get_attribute("id"), "prompt")
        reached = set()
        for _ in range(20):
            webdriver.ActionChains(self.browser).send_keys(Keys.TAB).perform()
            reached.add(self.browser.switch_to.active_element.get_attribute("id"))
        self.assertLessEqual({"new-conversation", "open-settings", "prompt", "send"}, reached)

    def test_a_phone_sees_no_sideways_scrolling(self):
        size = self.browser.get_window_size()
        self.browser.set_window_size(390, 800)
        try:
            self.wait(lambda: self.one("#open-sidebar").is_displayed())
            self.assertFalse(self.browser.execute_script("return document.documentElement.scrollWidth > innerWidth"))
            self.wait(lambda: re.search(r"running · [\d.]+ tokens/s · KV cache [\d.]+ %", self.one("#load-line").text))
            self.one("#open-sidebar").click()
            self.wait(lambda: self.one("#new-conversation").is_displayed())
            self.browser.execute_script("document.elementFromPoint(innerWidth - 5, innerHeight / 2).click()")
            self.wait(lambda: not self.one("#new-conversation").is_displayed())
        finally:
            self.browser.set_window_size(size["width"], size["height"])

    def test_dark_mode(self):
        background = "return getComputedStyle(document.body).backgroundColor"
        light = self.browser.execute_script(background)
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        try:
            self.assertNotEqual(self.browser.execute_script(background), light)
        finally:
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


if __name__ == "__main__":
    if BROWSER is None or BROWSER_DRIVER is None:
        print("skipped: Chromium or its driver is missing (Debian: chromium chromium-driver)")
        sys.exit(77)
    ARGUMENTS = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
