"""The README's commands print what the README says."""
import re
import shlex
import unittest

from program import ROOT, Case, run

README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
# Numbers may differ in the last digit between processors; closures are rounding itself.
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
BAR = re.compile(r"[█▏▎▍▌▋▊▉]+")


def printed_after(command):
    """The fenced block that follows 'which prints' behind this command."""
    behind = README.split(command, 1)[1]
    return behind.split("which prints\n\n```\n", 1)[1].split("\n```", 1)[0]


class Readme(Case):
    def assert_same_output(self, said, printed):
        said, printed = ([line.rstrip() for line in text.splitlines()] for text in (said, printed))
        self.assertEqual(len(said), len(printed), "\n".join(printed))
        for ours, theirs in zip(said, printed):
            words = [re.sub(r"\s+", " ", NUMBER.sub("#", BAR.sub("", line))) for line in (ours, theirs)]
            self.assertEqual(words[0], words[1])
            closure = "closure" in ours
            for a, b in zip(NUMBER.findall(ours), NUMBER.findall(theirs)):
                if closure and "e" in a:
                    self.assertLess(abs(float(b)), 1e-5)
                    continue
                digits = len(a.split(".")[1]) if "." in a else 0
                self.assertLessEqual(abs(float(a) - float(b)), 2.01 * 10**-digits, f"{ours}\n{theirs}")

    def test_the_main_command(self):
        block = re.search(r"^```\n(build/release/kirchhoff explain .*?)\n```$", README, re.MULTILINE | re.DOTALL).group(1)
        program, *arguments = shlex.split(block.replace("\\\n", " "))
        self.assertIn(" ".join(block.split()), " ".join(MAKEFILE.replace("$(KIRCHHOFF)", program).split()))
        printed = run(*arguments, env={"COLUMNS": "100"}, cwd=ROOT)
        self.assertEqual((printed.returncode, printed.words), (0, ""))
        self.assert_same_output(printed_after(block), printed.stdout.rstrip("\n"))


if __name__ == "__main__":
    unittest.main()
