"""kirchhoff patch: its grid, its formats, its errors."""
import csv
import io
import json
import os
import signal
import subprocess
import time
import unittest
import zipfile

from program import CLEAN, GOLDEN, KIRCHHOFF, SMOLLM2, Case, doubles, read_safetensors

GPT2 = GOLDEN / "gpt2"
TARGET = ("--target-id", "3", "--foil-id", "4")
PAIR = ("--clean-ids", "5,6,7,8", "--corrupt-ids", "5,6,9,8", *TARGET)
IOI = ("--clean", "When Mary and John went to the store, John gave a drink to",
       "--corrupt", "When Mary and John went to the store, Mary gave a drink to", "--target", " Mary", "--foil", " John")


def ids_of(tokens):
    return ",".join(map(str, tokens))


def npz(path):
    """name -> (shape, bytes)."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            size = int.from_bytes(data[8:10], "little")
            header = eval(data[10:10 + size].decode(), {})  # a literal dictionary
            arrays[name.removesuffix(".npy")] = (header["shape"], data[10 + size:])
    return arrays


class Grid(Case):
    def test_golden_values(self):
        """tests/data/golden/README.md, patch/*: TransformerLens's own grids."""
        folder = GOLDEN / "tl-ln-mlp"
        facts = json.loads((folder / "expected.json").read_text())
        golden = read_safetensors(folder / "analysis.safetensors")
        common = ("patch", folder, "--clean-ids", ids_of(facts["tokens"]), "--corrupt-ids", ids_of(facts["corrupt_tokens"]),
                  "--target-id", facts["metric"]["a"], "--foil-id", facts["metric"]["b"], "--site", "head-pos")
        for name, options in (("resample", ("--direction", "noise")), ("restore", ()), ("zero", ("--ablation", "zero"))):
            result = self.json(*common, *options)
            self.assertEqual(result["axes"], ["layer", "head", "pos"])
            self.assertEqual(result["positions"], list(range(11)))
            values = [v for layer in result["values"] for head in layer for v in head]
            want = doubles(golden[f"patch/{name}"])
            self.assertEqual(len(values), len(want))
            for got, expected in zip(values, want):
                self.assertLess(abs(got - expected), 2e-5 * max(map(abs, want)), name)
            self.assertLess(abs(result["clean"] - facts["patch"]["logit_diff_clean"]), 3e-5)
            self.assertLess(abs(result["corrupt"] - facts["patch"]["logit_diff_corrupt"]), 3e-5)

    def test_keys(self):
        result = self.json("patch", GPT2, *PAIR)
        self.assertEqual((result["axes"], result["direction"], result["ablation"]), (["layer", "head"], "denoise", "resample"))
        self.assertEqual((result["ids"], result["corrupt_ids"]), ([5, 6, 7, 8], [5, 6, 9, 8]))
        self.assertEqual([len(row) for row in result["values"]], [4] * len(result["values"]))
        self.assertEqual(result["metric"]["target"]["id"], 3)
        span = result["clean"] - result["corrupt"]
        self.assertAlmostEqual(result["normalised"][1][2], (result["values"][1][2] - result["corrupt"]) / span, places=9)
        for key in ("provenance", "assumptions", "cost", "site", "window", "pairs"):
            self.assertIn(key, result)

    def test_positions(self):
        whole = self.json("patch", GPT2, *PAIR, "--site", "resid")
        some = self.json("patch", GPT2, *PAIR, "--site", "resid", "--pos", "2,-1")
        self.assertEqual(some["positions"], [2, 3])
        for row, full in zip(some["values"], whole["values"]):
            for a, b in zip(row, (full[2], full[3])):
                self.assertAlmostEqual(a, b, places=4)

    def test_equal_ends_are_reported_not_divided_by(self):
        same = ("--clean-ids", "5,6,7,8", "--corrupt-ids", "5,6,7,8", *TARGET)
        result = self.json("patch", GPT2, *same)
        self.assertIsNone(result["normalised"])
        self.assertTrue(any("hardly differ" in line for line in result["assumptions"]))
        text = self.ok("patch", GPT2, *same)
        self.assertIn("hardly differ", text)
        self.assertNotIn("nan", text)

    def test_causal_tracing(self):
        options = ("--clean-ids", "5,6,7,8", "--ablation", "noise", "--noise-pos", "2", "--metric", "probability",
                   "--target-id", "3", "--site", "resid", "--samples", "3")
        result = self.json("patch", GPT2, *options)
        self.assertEqual(result["noise"]["samples"], 3)
        self.assertAlmostEqual(result["values"][0][2], result["clean"], places=6)
        self.assertAlmostEqual(result["values"][0][0], result["corrupt"], places=6)
        self.assertEqual(self.json("patch", GPT2, *options)["values"], result["values"])
        self.assertNotEqual(self.json("--seed", "5", "patch", GPT2, *options)["values"], result["values"])

    def test_alignment(self):
        result = self.json("patch", GPT2, "--clean-ids", "5,6,7", "--corrupt-ids", "9,5,6,7", "--align", "0:1,1:2,2:3",
                           *TARGET, "--site", "resid")
        self.assertEqual(result["positions"], [0, 1, 2])

    def test_default_target(self):
        top = self.json("run", GPT2, "--ids", "5,6,7,8")["top"][0]["id"]
        result = self.json("patch", GPT2, "--clean-ids", "5,6,7,8", "--corrupt-ids", "5,6,9,8")
        self.assertEqual(result["metric"]["target"]["id"], top)
        self.assertIn("no target was given", self.ok("patch", GPT2, "--clean-ids", "5,6,7,8", "--corrupt-ids", "5,6,9,8"))


class Data(Case):
    ROWS = [("5,6,7,8", "5,6,9,8", 3, 4), ("1,2,3,4", "1,2,8,4", 3, 4), ("11,12,13,14", "11,12,9,14", 7, 4)]

    def file(self, suffix):
        path = self.directory() / f"pairs{suffix}"
        if suffix == ".csv":
            with open(path, "w", newline="") as stream:
                writer = csv.writer(stream)
                writer.writerow(["", "clean_ids", "corrupted_ids", "correct_idx", "incorrect_idx"])
                for i, row in enumerate(self.ROWS):
                    writer.writerow([i, *row])
        else:
            path.write_text("".join(json.dumps({"clean_ids": list(map(int, c.split(","))), "corrupt_ids": x, "target_id": t,
                                                "foil_id": f}) + "\n" for c, x, t, f in self.ROWS))
        return path

    def test_means_and_intervals(self):
        result = self.json("patch", GPT2, "--data", self.file(".csv"))
        singles = [self.json("patch", GPT2, "--clean-ids", c, "--corrupt-ids", x, "--target-id", t, "--foil-id", f)
                   for c, x, t, f in self.ROWS]
        self.assertEqual(result["pairs"], 3)
        for key in ("clean", "corrupt"):
            self.assertAlmostEqual(result[key], sum(s[key] for s in singles) / 3, places=5)
        for layer, row in enumerate(result["values"]):
            for head, value in enumerate(row):
                own = [s["values"][layer][head] for s in singles]
                self.assertAlmostEqual(value, sum(own) / 3, places=5)
                low, high = result["interval"][layer][head]
                self.assertLessEqual(min(own) - 1e-5, low)
                self.assertLessEqual(low, value + 1e-5)
                self.assertLessEqual(value - 1e-5, high)
                self.assertLessEqual(high, max(own) + 1e-5)
        self.assertEqual(self.json("patch", GPT2, "--data", self.file(".jsonl"))["values"], result["values"])
        self.assertEqual(self.json("patch", GPT2, "--data", self.file(".csv"), "--limit", "1")["values"], singles[0]["values"])

    def test_mean_ablation_is_over_the_corrupt_prompts(self):
        result = self.json("patch", GPT2, "--data", self.file(".csv"), "--ablation", "mean")
        self.assertEqual((result["direction"], result["mean_over"]), ("noise", "prompts"))

    def test_quoted_fields(self):
        path = self.directory() / "pairs.csv"
        path.write_text('clean,corrupt,target,foil\r\n"ab",c,a,b\r\n\r\n"a,b","a""b",a,b\r\n')
        message = self.fails(2, "patch", self.spelling_model(), "--data", path)
        self.assertIn("pairs.csv:4: ", message)
        self.assertEqual(self.json("patch", self.spelling_model(), "--data", path, "--limit", "1")["pairs"], 1)

    def test_errors(self):
        path = self.directory() / "pairs.jsonl"
        path.write_text('{"clean_ids": [5, 6, 7], "corrupt_ids": [5, 6], "target_id": 3}\n'
                        '{"clean_ids": [5, 6, 7], "corrupt_ids": [5, 6, 8], "target_id": 3}\n')
        message = self.fails(2, "patch", GPT2, "--data", path)
        self.assertIn("pairs.jsonl:1: the clean prompt has 3 tokens, the corrupt one 2", message)
        self.assertIn("--skip-unequal", message)
        result = self.json("patch", GPT2, "--data", path, "--skip-unequal")
        self.assertEqual((result["pairs"], result["data"]["skipped"]), (1, 1))
        path.write_text('{"clean_ids": [5, 6, 7]}\n')
        self.assertIn("no 'corrupt'", self.fails(3, "patch", GPT2, "--data", path))
        path.write_text("[1]\n")
        self.assertIn("line 1 is not a JSON object", self.fails(3, "patch", GPT2, "--data", path))
        path.write_text('{"clean_ids": [5, 6, 7], "corrupt_ids": [5, 6, 8]}\n')
        self.assertIn("there is no target", self.fails(2, "patch", GPT2, "--data", path))
        text = path.with_suffix(".txt")
        text.write_text("x")
        self.assertIn("neither a .csv nor a .jsonl", self.fails(2, "patch", GPT2, "--data", text))
        ragged = path.with_suffix(".csv")
        ragged.write_text("clean_ids,corrupt_ids\n1,2,3\n")
        self.assertIn("line 2 has 3 fields", self.fails(3, "patch", GPT2, "--data", ragged))
        self.fails(3, "patch", GPT2, "--data", path.with_suffix(".gone.csv"))


class Files(Case):
    def test_formats_hold_the_same_numbers(self):
        folder = self.directory()
        result = self.json("patch", GPT2, *PAIR, "-o", folder / "grid.npz")
        flat = [v for row in result["values"] for v in row]
        arrays = npz(folder / "grid.npz")
        self.assertEqual(arrays["values"][0], (len(result["values"]), 4))
        self.assertEqual(doubles(("F64", None, arrays["values"][1])), flat)
        self.assertEqual(doubles(("F64", None, arrays["clean"][1])), [result["clean"]])
        rest = json.loads(arrays["json"][1])
        self.assertEqual((rest["axes"], rest["direction"]), (result["axes"], "denoise"))
        self.ok("patch", GPT2, *PAIR, "-o", folder / "grid.json")
        self.assertEqual(json.loads((folder / "grid.json").read_text())["values"], result["values"])
        printed = self.ok("patch", GPT2, *PAIR, "--csv", "-o", folder / "grid.csv")
        self.assertEqual((folder / "grid.csv").read_text(), printed)
        rows = list(csv.DictReader(io.StringIO(printed)))
        self.assertEqual([float(r["value"]) for r in rows], flat)
        self.assertEqual((rows[5]["layer"], rows[5]["head"]), ("1", "1"))
        self.assertEqual(sorted(p.name for p in folder.iterdir()), ["grid.csv", "grid.json", "grid.npz"])

    def test_what_cannot_be_written_is_said_at_once(self):
        self.assertIn(".npz, .csv, .json", self.fails(2, "patch", GPT2, *PAIR, "-o", "grid.txt"))
        self.assertIn("/no/such", self.fails(3, "patch", GPT2, *PAIR, "-o", "/no/such/grid.npz"))

    def test_dry_run(self):
        path = self.directory() / "grid.npz"
        pair = ("--clean-ids", "5,6,7,8", "--corrupt-ids", "9,6,7,8", *TARGET)  # nothing vanishes: all positions differ
        text = self.ok("patch", GPT2, *pair, "--site", "head-pos", "--dry-run", "-o", path)
        self.assertIn("GFLOP", text)
        self.assertFalse(path.exists())
        estimate = self.json("patch", GPT2, *pair, "--site", "head-pos", "--dry-run")
        cost = self.json("patch", GPT2, *pair, "--site", "head-pos")["cost"]
        self.assertEqual(estimate["cost"]["variants"], cost["variants"])
        self.assertLess(abs(estimate["cost"]["flops"] - cost["flops"]), 0.2 * cost["flops"])

    @unittest.skipUnless(SMOLLM2.exists(), f"{SMOLLM2.name} is not there (make models)")
    def test_interrupted(self):
        path = self.directory() / "grid.npz"
        words = " ".join(["one two three four five six seven"] * 12)
        process = subprocess.Popen([KIRCHHOFF, "patch", SMOLLM2, "--clean", words, "--corrupt", words.replace("one", "ten"),
                                    "--target", " two", "--site", "head-pos", "-o", path], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=CLEAN)
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        self.assertEqual((process.returncode, out), (130, b""), err)
        self.assertEqual(os.listdir(path.parent), [])


class Errors(Case):
    def test_usage(self):
        self.assertIn("not one of resid", self.fails(2, "patch", GPT2, *PAIR, "--site", "heads"))
        self.assertIn("not one of denoise", self.fails(2, "patch", GPT2, *PAIR, "--direction", "up"))
        self.assertIn("not one of resample", self.fails(2, "patch", GPT2, *PAIR, "--ablation", "median"))
        self.assertIn("'--clean'", self.fails(2, "patch", GPT2))
        self.assertIn("'--corrupt'", self.fails(2, "patch", GPT2, "--clean-ids", "1,2", *TARGET))
        self.assertIn("'--clean-ids'", self.fails(2, "patch", GPT2, "--clean-ids", "1,x", "--corrupt-ids", "1,2"))
        self.assertIn("given twice", self.fails(2, "patch", GPT2, *PAIR, "--data", "x.csv"))
        self.assertIn("direction", self.fails(2, "patch", GPT2, *PAIR, "--ablation", "zero", "--direction", "denoise"))
        self.assertIn("--noise-pos", self.fails(2, "patch", GPT2, *PAIR, "--ablation", "noise"))
        self.assertIn("belong to", self.fails(2, "patch", GPT2, *PAIR, "--noise-pos", "1"))
        self.assertIn("position", self.fails(2, "patch", GPT2, *PAIR, "--pos", "9"))
        self.assertIn("--window", self.fails(2, "patch", GPT2, *PAIR, "--window", "0"))
        self.assertIn("--align", self.fails(2, "patch", GPT2, *PAIR, "--align", "0-1"))
        self.assertIn("131", self.fails(2, "patch", GPT2, "--clean-ids", "5,6", "--corrupt-ids", "5,7", "--target-id", "131"))
        self.assertIn("has no tokenizer", self.fails(2, "patch", GPT2, "--clean", "a", "--corrupt", "b"))
        self.assertIn("mlp", self.fails(2, "patch", GOLDEN / "tl-attn-only-ln-standard", *PAIR, "--site", "mlp"))

    def test_unequal_prompts_show_both_tokenisations(self):
        message = self.fails(2, "patch", self.spelling_model(), "--clean", "abcab", "--corrupt", "abcaba", "--target", "a")
        self.assertIn("clean", message)
        self.assertIn("0:abc 1:ab", message)
        self.assertIn("0:abc 1:ab 2:a\n", message)
        self.assertIn("--align", message)


class Screen(Case):
    def test_says_what_was_done(self):
        text = self.ok("patch", GPT2, *PAIR)
        for wanted in ("clean", "corrupt", "difference", "direction denoise", "ablation resample", "Largest changes",
                       "normalised", "sampled sha256", "next: kirchhoff attn"):
            self.assertIn(wanted, text)

    def test_folds_on_narrow_screens(self):
        text = self.ok("patch", GOLDEN / "gpt2", *PAIR, "--site", "resid", env={"COLUMNS": "40"})
        for line in text.splitlines():
            if str(GOLDEN) not in line and not line.startswith("next:"):
                self.assertLessEqual(len(line), 40, line)

    def test_the_next_line_runs(self):
        import shlex
        for site in ("head", "resid", "k"):
            last = self.ok("patch", GPT2, *PAIR, "--site", site).splitlines()[-1]
            self.ok(*shlex.split(last.removeprefix("next: kirchhoff ")))

    @unittest.skipUnless(SMOLLM2.exists(), f"{SMOLLM2.name} is not there (make models)")
    def test_a_real_model(self):
        text = self.ok("patch", SMOLLM2, *IOI, "--site", "resid")
        self.assertIn("␣John→␣Mary·9", text)
        self.assertIn("clean +6.1196 · corrupt -5.4853", text)
        result = self.json("patch", SMOLLM2, *IOI, "--site", "resid")
        self.assertAlmostEqual(result["values"][0][9], 6.1196, places=3)


if __name__ == "__main__":
    unittest.main()
