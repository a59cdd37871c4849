#!/usr/bin/env python3
"""The rooms and families of kernels/ in tools/checks/check_layers.py."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/checks"))
import check_layers  # noqa: E402


class Rooms(unittest.TestCase):
    def breach(self, path, target):
        return check_layers.breach_of_room(pathlib.Path(path), pathlib.Path(target), check_layers.read_rules())

    def test_what_may_be_included(self):
        for path, target in (("kernels/matmul/amd/matmul.cpp", "kernels/tile/amd/tile.h"), ("kernels/matmul/amd/matmul.cpp", "kernels/matmul/portable/matmul_args.h"),
                             ("kernels/register_all.cpp", "kernels/attention/kernels.h"), ("kernels/check/comparison.cpp", "kernels/check/arguments/arguments.h")):
            self.assertIsNone(self.breach(path, target))

    def test_breaches_are_named(self):
        for path, target, words in (("kernels/tile/tile.h", "kernels/matmul/portable/matmul.h", "tile must not include"),
                                    ("kernels/check/arguments/arguments.cpp", "kernels/check/comparison.h", "check/arguments must not include"),
                                    ("kernels/matmul/portable/matmul.h", "kernels/tile/amd/tile.h", "the family portable must not include"),
                                    ("kernels/matmul/hopper/matmul.cpp", "kernels/formats/amd/pack.h", "the family hopper must not include"),
                                    ("kernels/cellar/a.h", "kernels/tile/tile.h", "room 'cellar' is not in"), ("kernels/launch/parallel.h", "kernels/register_all.h", "launch must not include")):
            self.assertIn(words, self.breach(path, target) or "")


if __name__ == "__main__":
    unittest.main()
