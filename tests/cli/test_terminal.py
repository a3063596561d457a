"""Colour, width, terminals, progress."""
import json
import os
import pty
import re
import select
import subprocess
import unicodedata
import unittest

from program import CLEAN, GOLDEN, KIRCHHOFF, Case

PROMPT = ("--ids", "5,6,7,8,5,6")
PAIR = ("--clean-ids", "5,6,7,8,5,6", "--corrupt-ids", "5,6,9,8,5,6", "--target-id", "3", "--foil-id", "4")
SCREENS = [("explain", GOLDEN / "gpt2", *PROMPT), ("run", GOLDEN / "gpt2", *PROMPT, "--loss"),
           ("lens", GOLDEN / "gpt2", *PROMPT), ("dla", GOLDEN / "gpt2", *PROMPT), ("attn", GOLDEN / "gpt2", *PROMPT),
           ("attn", GOLDEN / "gpt2", *PROMPT, "--head", "0.0"),
           ("paths", GOLDEN / "gpt2", *PROMPT), ("qk-terms", GOLDEN / "gpt2", *PROMPT, "--head", "1.2"),
           ("heads", GOLDEN / "gpt2", "--block", "4", "--repeats", "2", "--samples", "2", "--threshold", "0.1"),
           ("ablate", GOLDEN / "gpt2", *PROMPT, "--all"),
           ("patch", GOLDEN / "gpt2", *PAIR, "--site", "resid"), ("patch", GOLDEN / "gpt2", *PAIR, "--site", "head-pos"),
           ("model", "info", GOLDEN / "gpt2"),
           ("model", "verify", GOLDEN / "gpt2"), ("inspect", GOLDEN / "gpt2" / "model.safetensors", "--stats"),
           ("inspect", GOLDEN / "gpt2" / "config.json"), ("doctor",), ("help", "tokens")]


def width(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def on_a_terminal(*arguments, env=None, stdout_too=True):
    """(status, what the terminal shows, stdout) of a run whose stderr, and stdout if wanted, is a pseudo-terminal."""
    master, slave = pty.openpty()
    process = subprocess.Popen([KIRCHHOFF, *map(str, arguments)], stdin=subprocess.DEVNULL, stderr=slave,
                               stdout=slave if stdout_too else subprocess.PIPE,
                               env={**CLEAN, "TERM": "xterm-256color", **(env or {})})
    os.close(slave)
    shown, out = b"", b""
    streams = [master] + ([] if stdout_too else [process.stdout])
    while streams:
        for stream in select.select(streams, [], [], 120)[0]:
            try:
                data = os.read(stream if stream == master else stream.fileno(), 65536)
            except OSError:  # the other end of the terminal is closed
                data = b""
            if not data:
                streams.remove(stream)
            elif stream == master:
                shown += data
            else:
                out += data
    os.close(master)
    if process.stdout:
        process.stdout.close()
    return process.wait(30), shown.decode(), out.decode()


class Colour(Case):
    def test_none_through_a_pipe(self):
        for screen in SCREENS:
            self.assertNotIn("\x1b", self.ok(*screen), screen)

    def test_rules(self):
        screen = SCREENS[1]
        self.assertIn("\x1b[", self.ok("--color", "always", *screen))
        self.assertIn("\x1b[", self.ok(*screen, env={"CLICOLOR_FORCE": "1"}))
        self.assertNotIn("\x1b[", self.ok(*screen, env={"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}))
        self.assertIn("\x1b[", self.ok("--color", "always", *screen, env={"NO_COLOR": "1"}))
        self.assertNotIn("\x1b[", self.ok(*screen, env={"CLICOLOR_FORCE": "0"}))

    def test_on_a_terminal(self):
        screen = SCREENS[1]
        self.assertIn("\x1b[", on_a_terminal(*screen)[1])
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"CLICOLOR": "0"}):
            self.assertNotIn("\x1b[", on_a_terminal(*screen, env=env)[1], env)
        self.assertNotIn("\x1b[", on_a_terminal("--color", "never", *screen)[1])

    def test_colour_changes_nothing_else(self):
        for screen in SCREENS[:8]:
            coloured = self.ok("--color", "always", *screen)
            self.assertEqual(re.sub(r"\x1b\[[0-9;]*m", "", coloured), self.ok(*screen))


class Width(Case):
    def test_tables_fit(self):
        for columns in (40, 80, 100):
            for screen in SCREENS[:12]:
                for line in self.ok(*screen, env={"COLUMNS": str(columns)}).splitlines():
                    if str(GOLDEN) not in line and not line.startswith(("next:", "expected values", "agrees", "tokenizer", "fingerprint")):
                        self.assertLessEqual(width(line), columns, f"{screen}: {line}")

    def test_no_trailing_spaces(self):
        for screen in SCREENS[:12]:
            for line in self.ok(*screen).splitlines():
                self.assertEqual(line, line.rstrip(), screen)


class Streams(Case):
    def test_json_parses_while_stderr_is_a_terminal(self):
        status, shown, out = on_a_terminal("-vv", "run", GOLDEN / "gpt2", *PROMPT, "--json", stdout_too=False)
        self.assertEqual(status, 0, shown)
        self.assertEqual(json.loads(out)["schema"], "kirchhoff.run")

    def test_progress_is_on_the_terminal_and_goes_away(self):
        arguments = ("bench", "forward", "--tokens", "64", "--repeats", "12")
        status, shown, out = on_a_terminal(*arguments, "--json", stdout_too=False)
        self.assertEqual(status, 0)
        self.assertRegex(shown, r"bench \d+/12")
        self.assertTrue(shown.endswith("\r\x1b[K"), repr(shown[-40:]))
        json.loads(out)
        self.assertEqual(on_a_terminal("-q", *arguments, "--json", stdout_too=False)[1], "")

    def test_errors_are_coloured_only_there(self):
        self.assertIn("\x1b[1;31merror:\x1b[0m", on_a_terminal("inspect", "/no/such/file")[1])


if __name__ == "__main__":
    unittest.main()
