"""Which files tools/checks/check_headers.py chooses, in a checkout of its own, and what it says of them: check_headers_test.py COMPILER"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILER = sys.argv.pop(1)
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
        return done.stdout.strip()

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

    def test_recent_commits_where_there_is_no_other_checkout(self):
        self.git("update-ref", "-d", "refs/remotes/origin/main")
        for number in range(40):
            self.write("note", f"{number}\n")
            self.git("add", ".")
            self.git("commit", "-qm", "note")
        self.write("src/base/other.h", FILES["src/base/other.h"] + "// changed\n")
        self.assertEqual(self.check(), "1 files compile alone, 0 have before; of 5")
        self.git("commit", "-qam", "change")
        self.assertEqual(self.check(cache="another"), "1 files compile alone, 0 have before; of 5")

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
