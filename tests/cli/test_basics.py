"""Help, version, completion, suggestions."""
import os
import pathlib
import subprocess
import unittest

from program import CLEAN, KIRCHHOFF, Case, run

HELP = pathlib.Path(__file__).with_name("golden") / "help.txt"
COMMANDS = ["explain", "run", "lens", "dla", "attn", "paths", "qk-terms", "heads", "terms", "icl", "curves", "ablate", "patch", "ov", "qk", "compose", "virtual", "skip-trigrams", "train", "reproduce", "tokens", "model", "inspect", "bench", "doctor", "help", "completion"]


class Help(Case):
    def test_root_is_the_golden_text(self):
        text = self.ok("--help", env={"COLUMNS": "80"})
        if os.environ.get("KIRCHHOFF_UPDATE_GOLDEN"):
            HELP.write_text(text)
        self.assertEqual(text, HELP.read_text(), "KIRCHHOFF_UPDATE_GOLDEN=1 writes the golden text anew")

    def test_every_command_has_help(self):
        for command in COMMANDS:
            text = self.ok(command, "--help")
            self.assertTrue(text.startswith(f"usage: kirchhoff {command}"), text)
            if command != "tokens":  # which is a topic, too
                self.assertEqual(text, self.ok("help", command))
        for topic in ("exit-codes", "environment", "formatting", "tokens"):
            self.assertGreater(len(self.ok("help", topic)), 200)

    def test_help_fits_the_width(self):
        for line in self.ok("run", "--help", env={"COLUMNS": "60"}).splitlines():
            if not line.startswith(("usage:", "  kirchhoff")):
                self.assertLessEqual(len(line), 60, line)

    def test_nothing_to_do_is_usage(self):
        for arguments in ([], ["model"], ["bench"], ["completion"]):
            result = run(*arguments)
            self.assertEqual(result.returncode, 2)
            self.assertEqual(result.stdout, "")
            self.assertIn("usage: kirchhoff", result.stderr)

    def test_version(self):
        self.assertRegex(self.ok("--version"), r"^kirchhoff \d+\.\d+\.\d+\n$")


class Suggestions(Case):
    def test_option(self):
        self.assertIn("a similar option exists: '--top-k'", self.fails(2, "run", "model", "x", "--topk", "3"))
        self.assertIn("a similar option exists: '--color'", self.fails(2, "--colour", "always", "doctor"))
        self.assertIn("'kirchhoff run' has no option '--frobnicate'", self.fails(2, "run", "m", "x", "--frobnicate"))

    def test_command(self):
        self.assertIn("a similar command exists: 'explain'", self.fails(2, "explian", "x"))
        self.assertIn("a similar command exists: 'verify'", self.fails(2, "model", "verfiy", "x"))
        self.assertIn("a similar topic exists: 'exit-codes'", self.fails(2, "help", "exit-code"))

    def test_nothing_similar(self):
        self.assertIn("run 'kirchhoff --help'", self.fails(2, "teleport"))


class Completion(Case):
    def complete(self, *words):
        """What bash would offer for the last word."""
        script = self.ok("completion", "bash")
        line = " ".join(f"'{word}'" for word in words)
        program = f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _kirchhoff; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        return subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True, cwd="/").stdout.split()

    def test_commands_options_and_choices(self):
        self.assertLessEqual({"explain", "explain"}, set(self.complete("kirchhoff", "ex")))
        self.assertEqual(self.complete("kirchhoff", "model", "ve"), ["verify"])
        self.assertEqual(self.complete("kirchhoff", "model", "verify", "--prec"), ["--precision"])
        self.assertEqual(self.complete("kirchhoff", "--color", "a"), ["auto", "always"])
        self.assertIn("--target", self.complete("kirchhoff", "dla", "x", "--t"))
        self.assertIn("--threads", self.complete("kirchhoff", "dla", "x", "--t"))

    def test_every_option_of_help_is_known(self):
        script = self.ok("completion", "bash")
        for command in COMMANDS:
            for word in self.ok(command, "--help").split():
                if word.startswith("--") and word.rstrip(",").replace("-", "").isalpha():
                    self.assertIn(word.rstrip(","), script)


class Streams(Case):
    def test_reader_that_goes_away(self):
        command = f"'{KIRCHHOFF}' help exit-codes | head -1; echo ${{PIPESTATUS[1]}}"
        result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=CLEAN)
        self.assertEqual(result.stderr, "")
        self.assertTrue(result.stdout.endswith("\n0\n"))

    def test_ignored_sigpipe_is_quiet_too(self):
        read, write = os.pipe()
        os.close(read)
        process = subprocess.run([KIRCHHOFF, "help", "exit-codes"], stdout=write, stderr=subprocess.PIPE, env=CLEAN,
                                 restore_signals=False)
        os.close(write)
        self.assertEqual(process.stderr, b"")

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            process = subprocess.run([KIRCHHOFF, "help", "exit-codes"], stdout=full, stderr=subprocess.PIPE, env=CLEAN)
        self.assertEqual(process.returncode, 3)
        self.assertIn(b"error: cannot write the output", process.stderr)


if __name__ == "__main__":
    unittest.main()
