"""Every malformed file is refused with status 3 and a message that names it; the legal oddities are read."""
import json
import os
import unittest

from program import HOSTILE, Case, run

MANIFEST = json.loads((HOSTILE / "manifest.json").read_text())["files"]


class Hostile(Case):
    def check(self, entry, *arguments):
        path = HOSTILE / entry["file"]
        result = run(*arguments, path, cwd=self.scratch)
        described = f"{entry['file']} ({entry['wrong']}): {result.returncode} {result.stderr}"
        allowed = {"ok": {0}, "error": {3}}[entry["expect"]]
        if entry.get("or_ok"):
            allowed = allowed | {0}
        if entry.get("or_clear_error"):
            allowed = allowed | {3}
        if entry.get("container_ok") and arguments[0] == "inspect":
            allowed = {0}
        self.assertIn(result.returncode, allowed, described)
        if result.returncode == 3:
            self.assertTrue(result.words.startswith("error: "), described)
            self.assertIn(path.name, result.stderr, described)
            self.assertEqual(result.stdout, "", described)
        else:
            self.assertEqual(result.words, "", described)

    def setUp(self):
        self.scratch = self.directory()

    def test_inspect(self):
        for entry in MANIFEST:
            with self.subTest(entry["file"]):
                self.check(entry, "inspect")
        self.assertEqual(os.listdir(self.scratch), [], "a pickle was executed")

    def test_loading(self):
        for entry in MANIFEST:
            if entry["file"].startswith(("safetensors/", "gguf/", "torch/", "numpy/")) and entry["expect"] == "error":
                with self.subTest(entry["file"]):
                    path = HOSTILE / entry["file"]
                    message = self.fails(3, "run", path, "--ids", "1", cwd=self.scratch)
                    self.assertIn(path.name, message)
        self.assertEqual(os.listdir(self.scratch), [], "a pickle was executed")

    def test_tokenizers(self):
        for entry in MANIFEST:
            if entry["file"].startswith("tokenizer/"):
                with self.subTest(entry["file"]):
                    result = run("tokens", HOSTILE / entry["file"], "ab")
                    allowed = {0} if entry["expect"] == "ok" else {3}
                    if entry.get("or_ok") or entry.get("or_clear_error"):
                        allowed = {0, 3}
                    self.assertIn(result.returncode, allowed, result.stderr)
                    if result.returncode == 3:
                        self.assertIn((HOSTILE / entry["file"]).name, result.stderr)


if __name__ == "__main__":
    unittest.main()
