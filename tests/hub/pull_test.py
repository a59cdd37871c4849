#!/usr/bin/env python3
"""`rocmforge pull` and -hf against a server that behaves like the hub.

usage: pull_test.py ROCMFORGE MODEL [TEST...]
"""
import sys
import unittest

import pull_testing
from pull_list_cases import *  # noqa: F403
from pull_model_cases import *  # noqa: F403
from pull_name_cases import *  # noqa: F403
from pull_trouble_cases import *  # noqa: F403

if __name__ == "__main__":
    pull_testing.PullTest.program, pull_testing.PullTest.model = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
