"""kirchhoff ov, qk and compose: a model by its weights alone."""
import json
import unittest
import zipfile

from program import GOLDEN, SMOLLM2, Case, doubles, read_safetensors

TL = GOLDEN / "tl-ln-mlp"
ANALYSIS = read_safetensors(TL / "analysis.safetensors")


def close(test, got, want, tolerance=1e-5):
    scale = max(map(abs, want))
    test.assertEqual(len(got), len(want))
    for g, w in zip(got, want):
        test.assertLessEqual(abs(g - w), tolerance * scale)


class Circuits(Case):
    def test_whole_matrices_are_the_golden_ones(self):
        for name in ("ov", "qk"):
            path = self.directory() / "x.npz"
            result = self.json(name, TL, "--head", "0.0", "--raw", "--full", "-o", path)
            self.assertEqual((result["output"], result["shape"], result["raw"]), (str(path), [53, 53], True))
            self.assertEqual(result["axes"], ["source", "out"] if name == "ov" else ["query", "key"])
            with zipfile.ZipFile(path) as archive:
                self.assertEqual(archive.namelist(), ["circuit.npy"])
                data = archive.read("circuit.npy")
            start = 10 + int.from_bytes(data[8:10], "little")
            self.assertIn("(53, 53)", data[10:start].decode())
            close(self, doubles(("F32", [53, 53], data[start:])), doubles(ANALYSIS[f"circuits/{name}_0.0"]))

    def test_extremes_rows_and_columns_of_the_golden_matrix(self):
        want = doubles(ANALYSIS["circuits/ov_0.0"])
        result = self.json("ov", TL, "--head", "0.0", "--raw", "--top", "4")
        order = sorted(range(len(want)), key=lambda i: -want[i])
        self.assertEqual([(e["source"]["id"], e["out"]["id"]) for e in result["top"]], [divmod(i, 53) for i in order[:4]])
        self.assertEqual([(e["source"]["id"], e["out"]["id"]) for e in result["bottom"]], [divmod(i, 53) for i in order[:-5:-1]])
        result = self.json("ov", TL, "--head", "0.0", "--raw", "--token-id", "7", "--top", "3")
        row, column = want[7 * 53:8 * 53], want[7::53]
        self.assertEqual([t["id"] for t in result["as_source"]["top"]], sorted(range(53), key=lambda i: -row[i])[:3])
        self.assertEqual([t["id"] for t in result["as_out"]["bottom"]], sorted(range(53), key=lambda i: column[i])[:3])
        self.assertNotIn("eigenvalues", result)
        self.assertNotIn("top", result, "a token was asked for, not all of the matrix")

    def test_eigenvalues(self):
        facts = json.loads((TL / "expected.json").read_text())["circuits"]
        result = self.json("ov", TL, "--head", "0.0", "--raw", "--eigen")
        self.assertAlmostEqual(result["positivity"], facts["eigenvalue_positivity_score"], places=5)
        want = doubles(ANALYSIS["circuits/ov_0.0_eigenvalues"])
        want = [complex(re, im) for re, im in zip(want[::2], want[1::2])]
        for re, im in result["eigenvalues"]:
            nearest = min(want, key=lambda value: abs(value - complex(re, im)))
            self.assertLessEqual(abs(nearest - complex(re, im)), 1e-5 * max(map(abs, want)))
            want.remove(nearest)
        self.assertEqual(want, [])
        self.assertGreater(result["positivity_null"]["sd"], 0)

    def test_diagonal_and_singular_directions(self):
        want = doubles(ANALYSIS["circuits/ov_0.0"])
        result = self.json("ov", TL, "--head", "0.0", "--raw", "--diagonal", "--singular", "2")
        diagonal = want[::54]
        self.assertAlmostEqual(result["diagonal"]["trace"], sum(diagonal), places=4)
        own_largest = sum(max(want[i * 53:(i + 1) * 53]) == diagonal[i] for i in range(53))
        self.assertAlmostEqual(result["diagonal"]["top_1"], own_largest / 53, places=9)
        self.assertAlmostEqual(sum(s * s for s in result["singular_values"]), sum(x * x for x in want), delta=1e-4 * sum(x * x for x in want))
        self.assertEqual(len(result["singular"]), 2)
        self.assertEqual(len(result["singular"][0]["source"]["top"]), 10)

    def test_heads_are_listed(self):
        result = self.json("ov", TL, "--raw")
        self.assertEqual([h["head"] for h in result["heads"]], [f"a{layer}.h{head}" for layer in range(3) for head in range(4)])
        one = self.json("ov", TL, "--raw", "--head", "1.2", "--eigen")
        self.assertAlmostEqual(result["heads"][6]["positivity"], one["positivity"], places=9)

    def test_offsets_of_rotary_models(self):
        still, turned = (self.json("qk", GOLDEN / "llama-gqa", "--head", "1.1", "--token-id", "5", "--offset", d) for d in (0, 3))
        self.assertEqual((still["offset"], turned["offset"]), (0, 3))
        self.assertNotEqual(still["as_query"], turned["as_query"])

    def test_what_is_wrong(self):
        self.assertIn("--head", self.fails(2, "ov", TL, "--diagonal"))
        self.assertIn("layer 3 is out of range", self.fails(2, "ov", TL, "--head", "3.0"))
        self.assertIn("selects 4 heads", self.fails(2, "ov", TL, "--head", "L0.*"))
        self.assertIn("-o", self.fails(2, "ov", TL, "--head", "0.0", "--full"))
        self.assertIn(".npz", self.fails(2, "ov", TL, "--head", "0.0", "--full", "-o", "x.txt"))
        self.assertIn("53", self.fails(2, "ov", TL, "--head", "0.0", "--token-id", "53"))
        self.assertIn("tokenizer", self.fails(2, "ov", TL, "--head", "0.0", "--token", "a"))
        self.assertIn("rotary", self.fails(2, "qk", TL, "--head", "0.0", "--offset", "2"))
        self.assertIn("1.0", self.fails(2, "qk", TL, "--head", "0.0", "--through", "1.0"))
        self.assertIn("norm", self.fails(2, "qk", GOLDEN / "qwen3", "--head", "1.0", "--through", "0.0"))
        self.assertIn("--offset", self.fails(2, "ov", TL, "--head", "0.0", "--offset", "1"))

    @unittest.skipUnless(SMOLLM2.exists(), f"{SMOLLM2.name} is not there (make models)")
    def test_a_copying_head_of_a_language_model(self):
        result = self.json("ov", SMOLLM2, "--head", "29.2", "--token", " China", "--top", "3", "--eigen")
        self.assertIn(" China", [token["text"] for token in result["as_source"]["top"]])
        self.assertGreater(result["positivity"], result["positivity_null"]["mean"] + 5 * result["positivity_null"]["sd"])


class Compose(Case):
    def test_golden_scores(self):
        result = self.json("compose", TL, "--raw")
        self.assertAlmostEqual(result["baseline"], 32 ** -0.5, places=12)
        pairs = {(p["from"], p["to"]): p for p in result["pairs"]}
        self.assertEqual(len(pairs), 3 * 16)
        for kind in ("q", "k", "v"):
            want = doubles(ANALYSIS[f"circuits/{kind.upper()}_composition"])
            close(self, [pairs[f"a0.h{i}", f"a1.h{j}"][kind] for i in range(4) for j in range(4)], want)
        self.assertNotIn("induction_match", result["pairs"][0])

    def test_selection(self):
        result = self.json("compose", TL, "--from", "0.1", "--to", "L2.*", "--induction-match")
        self.assertEqual([(p["from"], p["to"]) for p in result["pairs"]], [("a0.h1", f"a2.h{i}") for i in range(4)])
        self.assertGreater(result["pairs"][0]["induction_match"], 0)
        self.assertIn("no pair is left", self.fails(2, "compose", TL, "--from", "2.0"))
        self.assertIn("0.1 → 2.", self.ok("compose", TL, "--from", "0.1", "--to", "L2.*"))


if __name__ == "__main__":
    unittest.main()
