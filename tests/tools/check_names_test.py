#!/usr/bin/env python3
"""What tools/checks/check_names.py finds missing, and what it takes for declared."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/checks"))
import check_names  # noqa: E402

LOW = '#pragma once\n#define LOW_MACRO 1\nstruct Low {\n  int depth() const;\n};\nusing Lowest = Low;\nenum class Kind { Deep };\nint low_depth(const Low& low);\n'


class Names(unittest.TestCase):
    def faults(self, text, name="src/base/user.cpp", **others):
        texts = {"src/base/low.h": LOW, "src/base/low.cpp": '#include "base/low.h"\n', name: text}
        texts |= {f"src/base/{file}.h": content for file, content in others.items()}
        if name.endswith(".h"):
            texts["src/base/reader.cpp"] = f'#include "{name.removeprefix("src/")}"\n'
        return [(file, missing) for file, missing, _ in check_names.faults(texts)]

    def test_names_of_all_kinds_are_missed(self):
        for text, name in (("Low low;", "Low"), ("std::vector<Lowest> all;", "Lowest"), ("auto kind = Kind::Deep;", "Kind"), ("int one = LOW_MACRO;", "LOW_MACRO"),
                           ("int two() { return low_depth({}); }", "low_depth"), ("auto three = rocmforge::low_depth(x);", "low_depth")):
            self.assertEqual(self.faults(text + "\n"), [("src/base/user.cpp", name)])
            self.assertEqual(self.faults(text + "\n", "src/base/user.h"), [("src/base/user.h", name)])
            self.assertEqual(self.faults('#include "base/low.h"\n' + text + "\n"), [])

    def test_another_header_may_bring_them(self):
        self.assertEqual(self.faults('#include "base/middle.h"\nLow low;\n', middle='#include "base/low.h"\n'), [])
        self.assertEqual(self.faults('#include "base/middle.h"\nLow low;\n', middle='#include "base/end.h"\n', end="struct End {};\n"),
                         [("src/base/user.cpp", "Low")])

    def test_the_headers_that_have_it_are_named(self):
        texts = {"src/base/low.h": LOW, "src/base/a.cpp": "Low low;\n"}
        self.assertEqual(list(check_names.faults(texts)), [("src/base/a.cpp", "Low", ["src/base/low.h"])])

    def test_what_is_declared_otherwise_is_found(self):
        for text in ("struct Low;\nLow* low;", "template <typename Low>\nvoid take(Low low);", "enum class Size { High, Low };\n", "namespace other { using high::Low; }\nLow low;",
                     "// Low\nauto text = \"Low\";", "auto depth = x.Low;", "auto kind = other::Kind;", "int two() { return low.low_depth(); }"):
            self.assertEqual(self.faults(text + "\n"), [])

    def test_functions_with_the_name_of_a_member_are_not_judged(self):
        self.assertEqual(self.faults("int two() { return low_depth({}); }\n", other="struct Other {\n  int low_depth(int x);\n};\n"), [])

    def test_folders_of_programs_are_places_of_headers(self):
        texts = {"apps/hub/name.h": "#pragma once\nstruct Name {};\n", "apps/hub/a.cpp": '#include "hub/name.h"\nName name;\n'}
        self.assertEqual(list(check_names.faults(texts)), [])


if __name__ == "__main__":
    unittest.main()
