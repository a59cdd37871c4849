#!/usr/bin/env python3
"""The page's modules in node, without a browser: page_modules_test.py unit|growth

"unit": what they make of ordinary text; "growth": no text makes them do more than linear work. Exits with 77 (skipped) where
node is missing.
"""
import os
import pathlib
import shutil
import subprocess
import sys

SECONDS = 500  # quadratic work on a text of ten thousand characters and more
here = pathlib.Path(__file__).resolve().parent
node = shutil.which("node")
if node is None:
    print("skipped: node is missing (Debian: nodejs)")
    sys.exit(77)
environment = dict(os.environ, PAGE_FOLDER=str(here.parents[1] / "src" / "server" / "page"))
command = [node, str(here / "page_modules" / f"{sys.argv[1]}_test.mjs")]
try:
    sys.exit(subprocess.run(command, env=environment, timeout=SECONDS, check=False).returncode)
except subprocess.TimeoutExpired:
    print(f"not done in {SECONDS} s")
    sys.exit(1)
