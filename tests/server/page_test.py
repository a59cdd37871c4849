#!/usr/bin/env python3
"""The chat page in headless Chromium against a running server with the demo model.

usage: page_test.py ROCMFORGE MODEL [--screenshot FILE | unittest's arguments]

Exits with 77 (skipped) where Chromium, its driver or selenium are missing. --screenshot writes a picture of a short
conversation and tests nothing.
"""
import subprocess
import sys
import unittest

from page_testing import PageTest
from page_answer_cases import Answers
from page_list_cases import Conversations
from page_look_cases import Look
from page_math_cases import Mathematics
from page_settings_cases import Settings
from page_trouble_cases import Trouble

__all__ = ["Answers", "Conversations", "Look", "Mathematics", "Settings", "Trouble"]  # found by unittest


class Screenshot(PageTest):
    """Not a test: uses the page as the tests do."""

    def runTest(self):
        load = [PageTest.arguments[0], "load", self.server.url, "--concurrency", "6", "--requests", "240", "--prompt-tokens", "256",
                "--output-tokens", "20-300"]
        self.open(settings={"temperature": "0"})
        with self.screen(1200, 800), subprocess.Popen(load, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            for question in ("How do you spell butterfly?", "Sort these numbers: 45, 12, 78, 3"):
                self.say(question)
                self.finish()
                self.one("#new-conversation").click()
            process.wait()
            for question in ("What is 127 + 458?", "Fill in JSON with the keys name, age, city: Maria is 34 years old and lives in Lisbon.",
                             "Tell me a short story about a fox."):
                self.say(question)
                self.finish()
            self.one("#messages").click()
            self.script("document.getElementById('messages').scrollTop = 0")
            self.browser.save_screenshot(SCREENSHOT)


if __name__ == "__main__":
    PageTest.arguments = sys.argv[1:3]
    if sys.argv[3:4] == ["--screenshot"]:
        SCREENSHOT = sys.argv[4]
        result = unittest.TextTestRunner().run(unittest.TestSuite([Screenshot()]))
        sys.exit(0 if result.wasSuccessful() else 1)
    unittest.main(argv=sys.argv[:1] + (sys.argv[3:] or list(__all__)))
