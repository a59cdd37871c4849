"""What the tests of the chat page share: a server with the demo model, headless Chromium, and ways to use the page."""
import contextlib
import json
import shutil
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
if BROWSER is None or BROWSER_DRIVER is None:
    print("skipped: Chromium or its driver is missing (Debian: chromium chromium-driver)")
    sys.exit(77)

SECONDS = 60  # anything may take
FAR_ADDRESS = "192.0.2.7"  # reaches this machine, and a browser takes it for another one

# Answers of the chat route that a test writes itself. Each request takes the next of `answers`: a list of events, in which
# null means a wait until release() is called.
SCRIPTED_ANSWERS = """
const answers = arguments[0];
const real = window.fetch;
let waiting = [];
window.asked = [];
window.release = () => { waiting.forEach((go) => go()); waiting = []; };
window.fetch = async (url, options) => {
  if (!String(url).includes('chat/completions')) return real(url, options);
  window.asked.push(JSON.parse(options.body));
  const events = answers.shift();
  const encoder = new TextEncoder();
  const body = new ReadableStream({
    async start(controller) {
      options.signal.addEventListener('abort', () => controller.error(options.signal.reason));
      for (const event of events) {
        if (event === null) await new Promise((go) => waiting.push(go));
        else if (event === 'lost') return controller.error(new TypeError('network error'));
        else controller.enqueue(encoder.encode(`data: ${typeof event === 'string' ? event : JSON.stringify(event)}\\n\\n`));
      }
      controller.close();
    },
  });
  return new Response(body, { status: 200 });
};
"""


def piece(text, **fields):
    """An event that brings text."""
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **fields}


def end(reason="stop", **fields):
    return [{"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], **fields}, "[DONE]"]


def start_browser(*flags):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1100,800",
                 f"--host-resolver-rules=MAP {FAR_ADDRESS} 127.0.0.1", *flags):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(BROWSER_DRIVER), options=options)


class PageTest(unittest.TestCase):
    arguments = ()  # of DemoServer
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.server = DemoServer(*PageTest.arguments, *cls.flags)
        cls.addClassCleanup(cls.stop_server)
        cls.browser = start_browser()
        cls.addClassCleanup(cls.browser.quit)

    @classmethod
    def stop_server(cls):
        assert cls.server.stop() == 0, "the server ends with 0"

    def tearDown(self):
        complaints = [line for line in self.browser.get_log("browser")
                      if line["level"] == "SEVERE" and "favicon.ico" not in line["message"]]  # of open()'s first address
        self.assertEqual(complaints, [], "nothing is refused by the page's content security policy, nothing is missing")

    def open(self, conversations=(), settings=None, url=None):
        """Opens the page with what this browser is to have kept."""
        url = url or self.server.url
        self.browser.get(url + "/version")
        self.browser.execute_script("""
            localStorage.clear();
            for (const item of arguments[0]) localStorage.setItem('rocmforge.conversation.' + item.id, JSON.stringify(item));
            localStorage.setItem('rocmforge.settings', JSON.stringify(arguments[1]));""", list(conversations), settings or {})
        self.browser.get(url + "/")
        self.wait_for_model()

    def reload(self):
        self.browser.refresh()
        self.wait_for_model()

    def wait_for_model(self):
        self.wait(lambda: self.one("#model").text not in ("", "…"))

    def wait(self, condition):
        # Messages may be drawn again during the search.
        missing = [NoSuchElementException, StaleElementReferenceException]
        return WebDriverWait(self.browser, SECONDS, 0.02, missing).until(lambda _: condition())

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def script(self, text, *arguments):
        return self.browser.execute_script(text, *arguments)

    def say(self, text):
        self.one("#prompt").send_keys(text, Keys.ENTER)

    def paste(self, text):
        """As say() without the sending, for long texts."""
        self.script("const box = document.getElementById('prompt'); box.value = arguments[0]; box.dispatchEvent(new Event('input'))", text)

    def finish(self):
        self.wait(lambda: self.one("#send").is_displayed())

    def answers(self):
        return [node.text for node in self.all(".message.assistant .body")]

    def questions(self):
        return [node.text for node in self.all(".message.user .body")]

    def facts(self):
        return self.one(".message.assistant .facts").text

    def notice(self):
        return self.one("#notice p").text

    def prompt(self):
        return self.one("#prompt").get_attribute("value")

    def answer_with(self, *answers):
        self.script(SCRIPTED_ANSWERS, list(answers))

    @contextlib.contextmanager
    def slow_network(self):
        """Answers come so slowly that there is time to do something meanwhile."""
        self.browser.set_network_conditions(offline=False, latency=0, download_throughput=1500, upload_throughput=100000)
        try:
            yield
        finally:
            self.browser.delete_network_conditions()

    @contextlib.contextmanager
    def scheme(self, name):
        """The colours that the visitor likes: "light" or "dark"."""
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})
        try:
            yield
        finally:
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    @contextlib.contextmanager
    def screen(self, width, height):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
        try:
            yield
        finally:
            self.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def conversation(*texts, id="1", title="t"):
    """Kept messages, the first by the user."""
    roles = ("user", "assistant")
    return {"id": id, "title": title, "messages": [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]}
