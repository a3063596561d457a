#!/usr/bin/env python3
"""layering_test.py must fail on what it is there to find, and pass on what is allowed."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import layering_test  # noqa: E402

GOOD_TREE = {
    "ARCHITECTURE.md": "| base | `include/kirchhoff/base/` | nothing |\n"
                       "| kernels | `include/kirchhoff/kernels/` | base; oneDNN |\n"
                       "| engine | `include/kirchhoff/engine/` | kernels |\n",
    "src/CMakeLists.txt": "foreach(module base kernels engine)\nendforeach()\n",
    "src/base/CMakeLists.txt": "kirchhoff_add_module(base PUBLIC_LIBRARIES Threads::Threads)\n",
    "src/kernels/CMakeLists.txt": "kirchhoff_add_module(kernels DEPENDS base LIBRARIES DNNL::dnnl)\n",
    "src/engine/CMakeLists.txt": "kirchhoff_add_module(engine DEPENDS kernels)\n",
    "include/kirchhoff/kirchhoff.h": '#include "kirchhoff/base/error.h"\n',
    "include/kirchhoff/base/error.h": "#include <string>  // for string\n",
    "src/kernels/gemm_onednn.cc": '#include <dnnl.h>\n#include "kirchhoff/base/error.h"\n',
    "src/engine/run.cc": '#include "kirchhoff/base/error.h"\n#include "engine/tile.h"\n// exit(1) in a comment is no call\n'
                         'const char* text = "abort(now) printf(";\n',
    "src/engine/tile.h": "#include <vector>  // for vector\n",
}


class Layering(unittest.TestCase):
    def violations(self, **changes):
        """Of the good tree with some files (by a key that stands for '/' as '__' and '.' as '_dot_') replaced."""
        files = dict(GOOD_TREE)
        files.update({key.replace("__", "/").replace("_dot_", "."): text for key, text in changes.items()})
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return layering_test.violations(root)

    def assert_one(self, found, *fragments):
        self.assertEqual(len(found), 1, found)
        for fragment in fragments:
            self.assertIn(fragment, found[0])

    def test_good_tree_passes(self):
        self.assertEqual(self.violations(), [])

    def test_include_that_points_up(self):
        self.assert_one(self.violations(src__base__error_dot_cc='\n#include "kirchhoff/engine/run.h"\n'),
                        "src/base/error.cc:2", "kirchhoff/engine/run.h")

    def test_private_include_that_points_up(self):
        self.assert_one(self.violations(src__kernels__norm_dot_cc='#include "engine/tile.h"\n'), "src/kernels/norm.cc:1")

    def test_private_header_of_a_module_below(self):
        self.assert_one(self.violations(src__engine__b_dot_cc='#include "kernels/tile.h"\n'), "private headers of kernels")

    def test_include_of_a_neighbour_by_its_bare_name(self):
        self.assert_one(self.violations(src__engine__b_dot_cc='#include "tile.h"\n'), "beginning with a module")

    def test_third_party_header_outside_its_module(self):
        self.assert_one(self.violations(src__kernels__norm_dot_cc="#include <dnnl.h>\n"), "src/kernels/gemm_onednn")
        self.assert_one(self.violations(src__engine__a_dot_cc="#include <nlohmann/json.hpp>\n"), "only in")
        self.assert_one(self.violations(src__kernels__norm_dot_cc="#include <immintrin.h>\n"), "src/kernels/x86/")

    def test_unknown_third_party_header(self):
        self.assert_one(self.violations(src__engine__a_dot_cc="#include <boost/any.hpp>\n"), "not in the list")

    def test_printing_and_exiting(self):
        for call in ("exit(1);", "std::abort();", "std::cout << 1;", 'std::printf("x");', 'fmt::print("x");', 'fputs("x", stderr);'):
            self.assert_one(self.violations(src__engine__a_dot_cc=f"void f() {{ {call} }}\n"), "never prints")

    def test_names_that_only_resemble_calls(self):
        text = "void on_exit_code(int); int vexit(int); bool fail = snprintf(b, 3, f) > 0;\n"
        self.assertEqual(self.violations(src__engine__a_dot_cc=text), [])

    def test_cmake_dependency_that_points_up(self):
        found = self.violations(src__base__CMakeLists_dot_txt="kirchhoff_add_module(base DEPENDS engine)\n",
                                ARCHITECTURE_dot_md=GOOD_TREE["ARCHITECTURE.md"].replace("| nothing |", "| engine |"),
                                src__kernels__CMakeLists_dot_txt="kirchhoff_add_module(kernels DEPENDS base)\n",
                                src__engine__CMakeLists_dot_txt="kirchhoff_add_module(engine)\n")
        self.assertTrue(any("base depends on engine, which is not below it" in line for line in found), found)

    def test_table_that_disagrees_with_cmake(self):
        self.assert_one(self.violations(ARCHITECTURE_dot_md=GOOD_TREE["ARCHITECTURE.md"].replace("| kernels |\n", "| base |\n")),
                        "ARCHITECTURE.md", "engine")

    def test_header_that_the_umbrella_lacks(self):
        self.assert_one(self.violations(include__kirchhoff__base__log_dot_h="#include <string>\n"), "lacks kirchhoff/base/log.h")

    def test_foreign_words(self):
        self.assert_one(self.violations(README_dot_md="See /home/me/kirchhoff.\n"), "README.md:1", "/home/me")
        self.assert_one(self.violations(README_dot_md="Get it from https://mirror.invalid/x.\n"), "mirror.invalid")


if __name__ == "__main__":
    unittest.main()
