#!/usr/bin/env python3
"""`rocmforge pull` and -hf against a server that behaves like the hub.

usage: pull_test.py ROCMFORGE MODEL [TEST...]
"""
import io
import multiprocessing
import sys
import unittest

import pull_testing
from pull_list_cases import *  # noqa: F403
from pull_model_cases import *  # noqa: F403
from pull_name_cases import *  # noqa: F403
from pull_trouble_cases import *  # noqa: F403

AT_ONCE = 4  # most of them wait: for servers that are slow, and before they try again


def tests_of(suite):
    for test in suite:
        yield from tests_of(test) if isinstance(test, unittest.TestSuite) else [test]


def run(index):
    """What one test says, and whether it passed. Each has a hub, a cache and a process of its own."""
    out = io.StringIO()
    return unittest.TextTestRunner(out, verbosity=2).run(tests[index]).wasSuccessful(), out.getvalue()


def main():
    failed = 0
    with multiprocessing.get_context("fork").Pool(AT_ONCE) as pool:
        for passed, text in pool.imap(run, range(len(tests)), chunksize=1):
            failed += not passed
            print(text.splitlines()[0] if passed else text, flush=True)
    print(f"{len(tests)} tests, {failed} failed")
    return 1 if failed or not tests else 0


if __name__ == "__main__":
    pull_testing.PullTest.program, pull_testing.PullTest.model, *names = sys.argv[1:]
    loader, module = unittest.defaultTestLoader, sys.modules["__main__"]
    tests = list(tests_of(loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)))
    sys.exit(main())
