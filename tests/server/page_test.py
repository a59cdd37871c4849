#!/usr/bin/env python3
"""The chat page in headless Chromium against a running server with the demo model.

usage: page_test.py ROCMFORGE MODEL [--pictures FOLDER | unittest's arguments]

Exits with 77 (skipped) where Chromium, its driver or selenium are missing. --pictures writes
pictures of two conversations and tests nothing.
"""
import pathlib
import sys
import unittest

from page_testing import PageTest
from page_access_cases import Access
from page_answer_cases import Answers
from page_image_cases import Blind, Images
from page_list_cases import Conversations
from page_look_cases import Look
from page_math_cases import Mathematics
from page_settings_cases import Settings
from page_trouble_cases import Trouble

__all__ = ["Access", "Answers", "Blind", "Conversations", "Images", "Look", "Mathematics", "Settings", "Trouble"]  # found by unittest


if __name__ == "__main__":
    PageTest.arguments = sys.argv[1:3]
    if sys.argv[3:4] == ["--pictures"]:
        from page_pictures import Pictures
        Pictures.folder = pathlib.Path(sys.argv[4])
        result = unittest.TextTestRunner().run(unittest.TestSuite([Pictures()]))
        sys.exit(0 if result.wasSuccessful() else 1)
    unittest.main(argv=sys.argv[:1] + (sys.argv[3:] or list(__all__)))
