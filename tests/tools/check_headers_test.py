"""Which files tools/checks/check_headers.py chooses, in a checkout of its own, and what it says of them: check_headers_test.py COMPILER"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILER = sys.argv.pop(1)
sys.path.insert(0, str(ROOT / "tools/checks"))
from check_headers import MOST, part_of  # noqa: E402
TOOLS = ("check_headers.py", "check_includes.py", "compile_alone.py", "green.py", "include_graph.py")
FILES = {"src/base/low.h": "#pragma once\nstruct Low {};\n",
         "src/base/high.h": '#pragma once\n#include "base/low.h"\nstruct High : Low {};\n',
         "src/base/other.h": "#pragma once\nstruct Other {};\n",
         "src/base/high.cpp": '#include "base/high.h"\n',
         "src/base/other.cpp": '#include "base/other.h"\n',
         "cmake/precompiled.cmake": "set(ROCMFORGE_COMMON_HEADERS <vector>)\n"}


class Headers(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.checkout = self.folder / "checkout"
        for name, text in FILES.items():
            self.write(name, text)
        (self.checkout / "tools/checks").mkdir(parents=True)
        for name in TOOLS:
            shutil.copy(ROOT / "tools/checks" / name, self.checkout / "tools/checks")
        self.write(".gitignore", "__pycache__\n")
        for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "begin"], ["update-ref", "refs/remotes/origin/main", "HEAD"]):
            self.git(*command)

    def write(self, name, text):
        path = self.checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def git(self, *command):
        who = ["-c", "user.name=tests", "-c", "user.email=tests@localhost"]
        subprocess.run(["git", *who, *command], cwd=self.checkout, check=True, capture_output=True)

    def check(self, *options, cache="cache"):
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.folder / cache)}
        environment.pop("FORGE_GREEN", None)
        done = subprocess.run([sys.executable, "tools/checks/check_headers.py", *options, COMPILER], cwd=self.checkout, env=environment,
                              capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return re.sub(r"(; of \d+), .*$", r"\1", done.stdout.strip())

    def test_all_headers_where_nothing_has_changed(self):
        self.assertEqual(self.check(), "3 files compile alone, 0 have before; of 5")
        self.assertEqual(self.check(), "0 files compile alone, 3 have before; of 5")
        self.assertEqual(self.check("--all"), "2 files compile alone, 3 have before; of 5")

    def test_a_changed_header_is_checked_alone(self):
        self.write("src/base/low.h", FILES["src/base/low.h"] + "// changed\n")
        self.assertEqual(self.check(), "1 files compile alone, 0 have before; of 5")
        self.git("commit", "-qam", "change")
        self.assertEqual(self.check(cache="another"), "1 files compile alone, 0 have before; of 5")

    def test_what_includes_a_header_that_has_lost_an_include_is_checked_too(self):
        self.write("src/base/high.h", "#pragma once\nstruct High {};\n")
        self.write("src/base/top.h", '#pragma once\n#include "base/high.h"\nstruct Top : Low {};\n')
        self.git("add", ".")
        self.git("commit", "-qm", "begin again")
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        self.assertIn("src/base/top.h: does not compile alone:", self.check())
        self.write("src/base/high.h", FILES["src/base/high.h"])
        self.assertEqual(self.check(), "1 files compile alone, 0 have before; of 6")
        self.git("commit", "-qam", "change")
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        self.write("src/base/high.h", "#pragma once\nstruct High {};\n")
        self.assertIn("src/base/top.h: does not compile alone:", self.check())

    def commit_notes(self, count):
        for number in range(count):
            self.write("note", f"{number}\n")
            self.git("add", ".")
            self.git("commit", "-qm", "note")

    def test_recent_commits_where_there_is_no_other_checkout(self):
        self.git("update-ref", "-d", "refs/remotes/origin/main")
        self.commit_notes(40)
        self.write("src/base/other.h", FILES["src/base/other.h"] + "// changed\n")
        self.assertEqual(self.check(), "1 files compile alone, 0 have before; of 5")
        self.git("commit", "-qam", "change")
        self.assertEqual(self.check(cache="another"), "1 files compile alone, 0 have before; of 5")

    def test_recent_commits_where_this_is_what_the_other_checkout_has(self):
        self.commit_notes(40)
        self.write("src/base/other.h", FILES["src/base/other.h"] + "// changed\n")
        self.git("commit", "-qam", "change")
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        self.assertEqual(self.check(), "1 files compile alone, 0 have before; of 5")

    def write_many(self, count):
        """Each includes the one before it, so that one compilation is enough."""
        self.write("src/base/many_0.h", "#pragma once\n")
        for number in range(1, count):
            self.write(f"src/base/many_{number}.h", f'#pragma once\n#include "base/many_{number - 1}.h"\n')
        self.write("src/base/many.cpp", f'#include "base/many_{count - 1}.h"\n')
        self.git("add", ".")
        self.git("commit", "-qm", "many")

    def test_fewer_commits_where_more_change_too_much(self):
        self.write_many(MOST)
        self.commit_notes(10)
        self.write("src/base/other.h", FILES["src/base/other.h"] + "// changed\n")
        self.assertEqual(self.check(), f"1 files compile alone, 0 have before; of {MOST + 6}")

    def test_a_part_where_no_commit_leaves_few_enough(self):
        self.write_many(MOST)
        self.assertEqual(self.check(), f"{MOST} files compile alone, 0 have before; of {MOST + 6}")

    def test_another_part_with_each_state_of_the_files(self):
        files = [f"{number}.h" for number in range(5 * MOST)]
        tried = set()
        for state in range(30):
            part = part_of(files, {"a.h": str(state)})
            self.assertEqual((len(part), part), (MOST, part_of(files[::-1], {"a.h": str(state)})))
            tried |= set(part)
        self.assertEqual(tried, set(files))

    def test_an_include_that_another_header_brings_is_not_lost(self):
        self.write("src/base/top.h", '#pragma once\n#include "base/high.h"\n#include "base/low.h"\nstruct Top : High {};\n')
        self.write("src/base/user.h", '#pragma once\n#include "base/top.h"\nstruct User : Low {};\n')
        self.git("add", ".")
        self.git("commit", "-qm", "begin again")
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        self.write("src/base/top.h", '#pragma once\n#include "base/high.h"\nstruct Top : High {};\n')
        self.assertEqual(self.check(), "1 files compile alone, 0 have before; of 7")
        self.write("src/base/high.h", "#pragma once\nstruct High {};\n")
        self.assertIn("src/base/user.h: does not compile alone:", self.check())

    def test_a_file_gets_nothing_from_those_that_are_compiled_with_it(self):
        self.write("src/base/user.h", "#pragma once\nstruct User : Low {};\n")
        self.write("src/base/user.cpp", '#include "base/low.h"\n#include "base/user.h"\n')
        self.assertIn("src/base/user.h: does not compile alone:", self.check("--all"))
        self.write("src/base/user.h", '#pragma once\n#if 0\n#include "base/low.h"\n#endif\nstruct User : Low {};\n')
        self.assertIn("src/base/user.h: does not compile alone:", self.check("--all"))
        self.write("src/base/user.h", '#pragma once\n#include "base/low.h"\nstruct User : Low {};\n')
        self.assertEqual(self.check("--all"), "2 files compile alone, 5 have before; of 7")
        self.write("src/base/user.h", '#include "base/low.h"\nstruct User : Low {};\n')
        self.assertIn("src/base/user.h: does not compile alone:", self.check("--all"))

    def test_a_broken_file_is_named_each_time(self):
        self.check()
        self.write("src/base/low.h", "#pragma once\nstruct Low : Lower {};\n")
        for _ in range(2):
            self.assertIn("src/base/low.h: does not compile alone:", self.check())
        self.write("src/base/low.h", FILES["src/base/low.h"])
        self.write("src/base/high.cpp", '#include "base/other.h"\nHigh high;\n')
        self.assertIn("src/base/high.cpp: does not compile alone:", self.check())

    def test_each_broken_file_of_a_chain_is_named(self):
        self.write("src/base/json.h", '#pragma once\n#include "base/low.h"\nstruct Json : Low {};\n')  # is precompiled for eight
        for number in range(8):
            self.write(f"src/base/user_{number}.cpp", f'#include "base/json.h"\nJson json_{number};\n')
        self.assertEqual(self.check("--all"), "14 files compile alone, 0 have before; of 14")
        self.write("src/base/low.h", "#pragma once\nstruct Low {}\n")
        self.write("src/base/other.cpp", "Other other;\n")
        said = self.check("--all")
        for name in ("low.h", "high.h", "json.h", "user_0.cpp", "user_7.cpp", "other.cpp"):
            self.assertIn(f"src/base/{name}: does not compile alone:", said)
        self.assertNotIn("src/base/other.h", said)

    def test_a_new_header_counts_as_changed(self):
        self.write("src/base/new.h", "struct New {};\n")
        self.assertIn("src/base/new.h: does not compile alone:", self.check())


if __name__ == "__main__":
    unittest.main()
