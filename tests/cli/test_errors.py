"""Exit statuses and what the messages say."""
import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from program import CLEAN, GOLDEN, KIRCHHOFF, SANITIZED, Case, read_safetensors, run, write_safetensors


class Usage(Case):
    def test_values(self):
        gpt2 = GOLDEN / "gpt2"
        self.assertIn("option '--threads': 'x' is not a whole number", self.fails(2, "--threads", "x", "doctor"))
        self.assertIn("option '--color': 'red' is not one of auto, always, never", self.fails(2, "--color", "red", "doctor"))
        self.assertIn("option '--top' needs a value", self.fails(2, "run", gpt2, "--ids", "1", "--top"))
        self.assertIn("'kirchhoff inspect' needs FILE", self.fails(2, "inspect"))
        self.assertIn("does not take a further argument 'c'", self.fails(2, "inspect", "a", "c"))
        self.assertIn("temperature is -1", self.fails(2, "run", gpt2, "--ids", "1", "-n", "1", "--temperature", "-1"))
        self.assertIn("gpt2-small", self.fails(2, "bench", "forward", "--shape", "gpt9"))
        self.assertIn("KIRCHHOFF_ISA", self.fails(2, "doctor", env={"KIRCHHOFF_ISA": "mmx"}))

    def test_ids(self):
        gpt2 = GOLDEN / "gpt2"
        self.assertIn("is not a list of token ids", self.fails(2, "run", gpt2, "--ids", "1,two"))
        self.assertIn("131", self.fails(2, "run", gpt2, "--ids", "131"))
        self.assertIn("131", self.fails(2, "dla", gpt2, "--ids", "1", "--target-id", "131"))
        self.assertIn("--target", self.fails(2, "dla", gpt2, "--ids", "1", "--foil-id", "3"))
        self.assertIn("given twice", self.fails(2, "run", gpt2, "text", "--ids", "1"))

    def test_selectors(self):
        gpt2 = GOLDEN / "gpt2"
        for selector in ("9", "1..9", "x", "2..1", "-4"):
            self.assertIn("position", self.fails(2, "lens", gpt2, "--ids", "1,2,3", "--pos", selector))
        for selector in ("9.0", "0.4", "x", "1.x", "1"):
            self.fails(2, "attn", gpt2, "--ids", "1,2,3", "--head", selector)

    def test_json_keys(self):
        message = self.fails(2, "run", GOLDEN / "gpt2", "--ids", "1", "--json=tops")
        self.assertIn("a similar key exists: 'top'", message)

    def test_explain_without_a_model(self):
        with tempfile.TemporaryDirectory() as folder:  # a program that stands alone, without its share/
            alone = pathlib.Path(folder) / "kirchhoff"
            shutil.copy(KIRCHHOFF, alone)
            for arguments in ([], ["When Mary and John went to the store"]):
                done = subprocess.run([alone, "explain", *arguments], capture_output=True, text=True, env=CLEAN,
                                      stdin=subprocess.DEVNULL)
                self.assertEqual(done.returncode, 2)
                self.assertIn("no model was given", done.stderr)
                self.assertIn("share/kirchhoff/attn-only-2l", done.stderr)


class Messages(Case):
    def test_texts_of_files_cannot_steer_the_terminal(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "t.json"
            path.write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": {
                "type": "BPE", "vocab": {"\x1b[31m\x9b2J\x07" + "n" * 100_000: 7.5}, "merges": []}}))
            message = self.fails(3, "tokens", path, "hi")
        self.assertIn("\\x1b[31m\\x9b2J\\x07nnn", message)
        self.assertLess(len(message), 3000)


    def test_twice_verbose_says_where_an_error_was_raised(self):
        self.assertNotIn("raised:", self.fails(3, "inspect", "/no/such/file"))
        self.assertRegex(self.fails(3, "-vv", "inspect", "/no/such/file"), r"\n  raised: src/io/[a-z_]+\.cc:[0-9]+\n$")

    def test_devices_that_are_not_there(self):
        self.assertIn("'cuda:0'", self.fails(6, "--device", "cuda:0", "doctor"))


class Context(Case):
    def test_prompt_longer_than_the_context(self):
        n_ctx = json.loads((GOLDEN / "gpt2" / "config.json").read_text())["n_positions"]
        ids = ",".join(["7"] * n_ctx + ["9"])
        for command in ("run", "lens", "dla", "attn", "explain", "paths"):
            message = self.fails(2, command, GOLDEN / "gpt2", "--ids", ids)
            self.assertIn(str(n_ctx + 1), message)
            self.assertIn(str(n_ctx), message)
            self.assertIn("--truncate", message)
        cut = self.json("run", GOLDEN / "gpt2", "--ids", ids, "--truncate")
        self.assertIn(f"last {n_ctx} of {n_ctx + 1}", cut["provenance"]["truncated"])
        self.assertEqual([token["id"] for token in cut["provenance"]["tokens"]], [7] * (n_ctx - 1) + [9])
        self.assertIn(f"last {n_ctx} of {n_ctx + 1}", self.ok("run", GOLDEN / "gpt2", "--ids", ids, "--truncate"))


class Circuits(Case):
    def test_what_is_wrong_is_named(self):
        gpt2 = GOLDEN / "gpt2"
        self.assertIn("--order", self.fails(2, "paths", gpt2, "--ids", "1,2", "--order", "-1"))
        self.assertIn("--top", self.fails(2, "paths", gpt2, "--ids", "1,2", "--top", "-1"))
        self.assertIn("--pos", self.fails(2, "paths", gpt2, "--ids", "1,2", "--pos", "all"))
        self.assertIn("--head", self.fails(2, "qk-terms", gpt2, "--ids", "1,2"))
        self.assertIn("--head", self.fails(2, "qk-terms", gpt2, "--ids", "1,2", "--head", "L1.*"))
        self.assertIn("--key", self.fails(2, "qk-terms", gpt2, "--ids", "1,2", "--head", "1.0", "--key", "all"))
        self.assertIn("hidden", self.fails(2, "qk-terms", gpt2, "--ids", "1,2", "--head", "1.0", "--query", "0",
                                           "--key", "1"))
        self.assertIn("--period", self.fails(2, "heads", gpt2, "--ids", "1,2,1,2"))
        self.assertIn("--ids", self.fails(2, "heads", gpt2, "--period", "2"))
        self.assertIn("position 3", self.fails(2, "heads", gpt2, "--ids", "1,2,1,3", "--period", "2"))
        self.assertIn("--repeats", self.fails(2, "heads", gpt2, "--repeats", "1000"))

    def test_attn_options_that_belong_together(self):
        prompt = ("attn", GOLDEN / "gpt2", "--ids", "1,2,3")
        for option, arguments in (("--scores", ["--scores"]), ("--flow", ["--flow", "--head", "0.1"]),
                                  ("--flow", ["--flow", "--expect", "first"]), ("--threshold", ["--threshold", "0.1"]),
                                  ("--threshold", ["--flow", "--threshold", "2"]), ("--expect", ["--exclude-first"]),
                                  ("--expect", ["--expect", "inductive"]), ("--pos", ["--flow", "--pos", "0,1"])):
            self.assertIn(f"'{option}'", self.fails(2, *prompt, *arguments))
        matrix = self.directory() / "expected.json"
        for text in ("[[1,0],[1]]", "7", "[[1,0],[0,1]]", '[["a"]]'):
            matrix.write_text(text)
            self.assertIn("expected pattern" if text == "[[1,0],[0,1]]" else "expected.json",
                          self.fails(2, *prompt, "--expect", matrix))


class Files(Case):
    def test_not_there(self):
        for command in ("run", "explain", "lens", "dla", "attn"):
            self.assertIn("/no/such/model", self.fails(3, command, "/no/such/model", "text"))
        self.assertIn("/no/such/file", self.fails(3, "inspect", "/no/such/file"))
        self.assertIn("/no/such/file", self.fails(3, "tokens", "/no/such/file", "text"))

    def test_hub_name_says_how_to_get_it(self):
        message = self.fails(3, "run", "no-such-owner/no-such-model", "text", env={"HF_HUB_CACHE": str(self.directory())})
        self.assertIn("no-such-owner/no-such-model", message)
        self.assertIn("download", message)

    def test_no_tokenizer(self):
        message = self.fails(2, "run", GOLDEN / "gpt2", "some text")
        self.assertIn("has no tokenizer", message)
        self.assertIn("--ids", message)
        self.assertIn("has no tokenizer", self.fails(3, "tokens", GOLDEN / "gpt2", "text"))
        self.assertIn("has no tokenizer", self.fails(2, "dla", GOLDEN / "gpt2", "--ids", "1", "--target", "x"))

    def test_wrong_shape_names_the_tensor(self):
        path = self.directory()
        shutil.copy(GOLDEN / "gpt2" / "model.safetensors", path)
        config = json.loads((GOLDEN / "gpt2" / "config.json").read_text())
        config["vocab_size"] += 1
        (path / "config.json").write_text(json.dumps(config))
        message = self.fails(3, "run", path, "--ids", "1")
        self.assertIn("wte.weight", message)
        self.assertIn("[131, 32]", message)


class Numbers(Case):
    def test_nan_weights(self):
        path = self.directory()
        shutil.copy(GOLDEN / "gpt2" / "config.json", path)
        tensors = read_safetensors(GOLDEN / "gpt2" / "model.safetensors")
        name = next(n for n in tensors if n.endswith("h.1.mlp.c_fc.weight"))
        dtype, shape, data = tensors[name]
        tensors[name] = (dtype, shape, struct.pack("<f", float("nan")) * 3 + data[12:])
        write_safetensors(path / "model.safetensors", tensors)
        message = self.fails(4, "run", path, "--ids", "1,2")
        self.assertIn(name, message)
        self.assertIn("3", message)
        self.assertIn("--allow-nonfinite", message)
        self.assertEqual(run("run", path, "--ids", "1,2", "--allow-nonfinite").returncode, 0)

    @unittest.skipIf(SANITIZED, "a sanitizer reserves more address space than the limit")
    def test_out_of_memory(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))

        message = self.fails(5, "bench", "forward", "--shape", "gemma-2-2b", preexec_fn=limit)
        self.assertIn("memory", message)


class Interrupt(Case):
    def interrupt(self, *arguments, stdin=subprocess.DEVNULL, after=1.0):
        process = subprocess.Popen([KIRCHHOFF, *map(str, arguments)], stdin=stdin, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=CLEAN)
        time.sleep(after)
        self.assertIsNone(process.poll(), process.communicate() if process.poll() is not None else "")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def test_long_work(self):
        status, out, err = self.interrupt("bench", "forward", "--tokens", "1024", "--repeats", "100000")
        self.assertEqual((status, out), (130, b""), err)
        self.assertIn(b"error: interrupted", err)

    def test_waiting_for_input(self):
        for arguments in (["run", GOLDEN / "gpt2", "--ids", "1", "-p", "-"], ["tokens", self.spelling_model(), "--jsonl"],
                          ["tokens", self.spelling_model()]):
            if "--ids" in arguments:
                continue
            status, out, _ = self.interrupt(*arguments, stdin=subprocess.PIPE, after=2.0 if SANITIZED else 0.7)
            self.assertEqual((status, out), (130, b""))


class Documented(Case):
    def test_every_status_is_in_the_help(self):
        text = self.ok("help", "exit-codes")
        for status in (0, 1, 2, 3, 4, 5, 6, 70, 130):
            self.assertRegex(text, rf"(?m)^ +{status}  ")


if __name__ == "__main__":
    unittest.main()
