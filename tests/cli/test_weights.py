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


class SkipTrigrams(Case):
    def test_destinations_are_a_column_and_outs_a_row(self):
        qk, ov = doubles(ANALYSIS["circuits/qk_0.0"]), doubles(ANALYSIS["circuits/ov_0.0"])
        result = self.json("skip-trigrams", TL, "--head", "0.0", "--raw", "--source-id", "7", "--top", "4")
        column, row = qk[7::53], ov[7 * 53:8 * 53]
        for side, values in (("destination", column), ("out", row)):
            entries = [e for e in result["trigrams"] if e["side"] == side]
            self.assertEqual([e["place"] for e in entries], [1, 2, 3, 4])
            self.assertEqual([e["token"]["id"] for e in entries], sorted(range(53), key=lambda i: -values[i])[:4])
            close(self, [e["value"] for e in entries], sorted(values, reverse=True)[:4])
        self.assertNotIn("bugs", result)
        positions = result["heads"][0]["positions"]
        self.assertEqual(positions["kind"], "pattern")
        self.assertEqual(positions["preferred"], max(range(len(positions["by_distance"])), key=positions["by_distance"].__getitem__))

    def test_the_strongest_sources_of_all(self):
        ov, qk = doubles(ANALYSIS["circuits/ov_0.0"]), doubles(ANALYSIS["circuits/qk_0.0"])
        result = self.json("skip-trigrams", TL, "--head", "0.0", "--raw", "--by", "output", "--top", "3", "--bug-deviation", "0.1")
        firsts = [e for e in result["trigrams"] if e["side"] == "out" and e["place"] == 1]
        best = sorted(range(53), key=lambda i: -max(ov[i * 53:(i + 1) * 53]))
        self.assertEqual([e["source"]["id"] for e in firsts], best[:3])
        def sd(values):
            mean = sum(values) / len(values)
            return (sum((x - mean) ** 2 for x in values) / len(values)) ** 0.5
        self.assertAlmostEqual(result["heads"][0]["output_sd"], sd(ov), delta=1e-5 * sd(ov))
        self.assertAlmostEqual(result["heads"][0]["attention_sd"], sd(qk), delta=1e-5 * sd(qk))
        self.assertGreater(len(result["bugs"]), 0)
        for bug in result["bugs"]:
            self.assertGreater(bug["contrast"], 0)
            for place in (0, 1):
                b, c, a = (t["id"] for t in (bug["destinations"][place], bug["outs"][place], bug["source"]))
                self.assertAlmostEqual(bug["attention"][place], qk[b * 53 + a], places=4)
                self.assertAlmostEqual(bug["output"][place], ov[a * 53 + c], places=4)
        self.assertEqual(result["heads"][0]["copying"]["sources"], 53)

    def test_virtual_heads_are_the_ones_of_ov_and_qk(self):
        for name in ("ov", "qk"):
            one, other = (self.json(name, TL, "--top", "3", *heads) for heads in
                          (("--head", "2.1*0.3"), ("--head", "2.1", "--through", "0.3")))
            self.assertEqual(one["top"], other["top"])
            self.assertEqual(one["head"], "a2.h1*a0.h3")
        result = self.json("skip-trigrams", TL, "--head", "2.1*1.0*0.3,1.2")
        self.assertEqual([h["head"] for h in result["heads"]], ["a2.h1*a1.h0*a0.h3", "a1.h2"])
        self.assertIsNone(result["heads"][0]["positions"])
        self.assertIn("layers fall from left to right", self.fails(2, "ov", TL, "--head", "0.3*2.1"))

    def test_bigrams(self):
        ids = self.directory() / "ids.txt"
        ids.write_text(" ".join(map(str, [1, 2, 3, 1, 2, 4] * 20)))
        result = self.json("skip-trigrams", GOLDEN / "llama-gqa", "--bigrams", "--data-ids", ids, "--context", "20")
        self.assertEqual(result["schema"], "kirchhoff.bigrams")
        self.assertEqual([s["source"]["id"] for s in result["sources"]], [1, 2, 3, 4])
        self.assertEqual(sum(s["count"] for s in result["sources"]), result["pairs"])
        self.assertEqual(result["sources"][0]["distinct"], 1)
        self.assertLess(result["entropy"], result["unigram_loss"])
        mean = sum(s["count"] * s["correlation"] for s in result["sources"]) / result["pairs"]
        self.assertAlmostEqual(result["correlation"], mean, places=9)
        for arguments in (("--bigrams",), ("--data-ids", str(ids)), ("--by", "product"), ("--source-id", "7777")):
            self.fails(2, "skip-trigrams", GOLDEN / "llama-gqa", *arguments)

    def test_position_circuits(self):
        result = self.json("qk", GOLDEN / "gpt2", "--head", "0.1", "--query", "position", "--key", "position", "--top", "2")
        self.assertEqual(result["shape"], [32, 32])
        self.assertIn("pos", result["top"][0]["query"])
        half = self.json("qk", GOLDEN / "gpt2", "--head", "0.1", "--key", "position", "--token-id", "5", "--top", "2")
        self.assertIn("pos", half["as_query"]["top"][0])
        self.assertNotIn("as_key", half)
        self.assertIn("no circuit of positions", self.fails(2, "qk", GOLDEN / "llama-gqa", "--head", "0.1", "--key", "position"))


class Virtual(Case):
    def test_one_pair_is_the_score_of_compose(self):
        pairs = {(p["from"], p["to"]): p for p in self.json("compose", TL)["pairs"]}
        result = self.json("virtual", TL, "--from", "0.1", "--to", "2.3", "--directions", "2", "--top", "3")
        self.assertEqual([w["input"] for w in result["weights"]], ["q", "k", "v"])
        for weights in result["weights"]:
            self.assertAlmostEqual(weights["score"], pairs["a0.h1", "a2.h3"][weights["input"]], places=5)
            singular = result["singular_values"][weights["input"]]
            self.assertAlmostEqual(sum(s * s for s in singular), weights["norm"] ** 2, delta=1e-4 * weights["norm"] ** 2)
            self.assertAlmostEqual(weights["norm"], weights["score"] * weights["from_norm"] * weights["to_norm"], delta=1e-5 * weights["norm"])
        self.assertEqual(len(result["directions"]), 3 * 2 * 4 * 3)

    def test_neurons_and_tokens(self):
        result = self.json("virtual", TL, "--from", "m0", "--to", "unembed", "--directions", "1", "--top", "2")
        weights = result["weights"][0]
        self.assertEqual((weights["from_axis"], weights["to_axis"], weights["columns"]), ("neuron", "out", 53))
        self.assertIn("neuron", result["directions"][0]["label"])
        self.assertIn("id", result["directions"][-1]["label"])

    def test_compose_with_other_parties(self):
        result = self.json("compose", TL, "--parties", "all")
        self.assertEqual(len(result["pairs"]), 3 * 16)
        scores = {(p["from"], p["to"], p["input"]): p for p in result["parties"]}
        self.assertEqual(len(scores), len(result["parties"]))
        # embed, pos: 12 heads by 3, 3 MLPs, unembed; heads to MLPs and unembed; MLPs to heads, MLPs, unembed
        self.assertEqual(len(scores), 2 * (36 + 3 + 1) + (4 * 3 + 4 * 2 + 4 * 1 + 12) + (24 + 12 + 3 + 3))
        one = self.json("virtual", TL, "--from", "m0", "--to", "1.2", "--input", "k", "--directions", "0")["weights"][0]
        self.assertAlmostEqual(scores["m0", "a1.h2", "k"]["score"], one["score"], places=5)
        self.assertAlmostEqual(scores["m0", "a1.h2", "k"]["chance_sd"], one["chance_sd"], places=5)
        chosen = self.json("compose", TL, "--from", "embed,2.1*0.3", "--to", "unembed")
        self.assertEqual([p["from"] for p in chosen["parties"]], ["embed", "a2.h1*a0.h3"])
        self.assertNotIn("parties", self.json("compose", TL))

    def test_bandwidth(self):
        result = self.json("virtual", TL, "--top", "3")
        self.assertEqual(result["schema"], "kirchhoff.bandwidth")
        cosines = [n["cosine"] for n in result["neurons"]]
        self.assertEqual((len(cosines), cosines), (3, sorted(cosines)))
        self.assertEqual(len(result["layers"]), 3)
        self.assertEqual(sum(result["dimensions"].values()), len(result["joint"]))

    def test_a_virtual_head_on_a_prompt_is_its_paths(self):
        folder = GOLDEN / "tl-attn-only-none-standard"
        prompt = ("--ids", "3,1,4,1", "--target-id", "5")
        paths = self.json("paths", folder, *prompt, "--top", "100000")["paths"]
        result = self.json("virtual", folder, *prompt, "--head", "1.2*0.1")
        self.assertEqual(result["head"], "a1.h2*a0.h1")
        want = sum(p["value"] for p in paths if p["path"][-2:] == ["a0.h1", "a1.h2"])
        self.assertAlmostEqual(result["sum"], want, places=5)
        self.assertAlmostEqual(sum(s["value"] for s in result["sources"]), result["sum"], places=9)
        self.assertEqual([s["pattern"] for s in result["sources"]], result["pattern"][-1])

    def test_what_is_wrong(self):
        for arguments in (("--from", "0.1"), ("--from", "0.*", "--to", "1.1"), ("--from", "1.1", "--to", "1.2"),
                          ("--from", "unembed", "--to", "1.1"), ("--from", "0.1", "--to", "1.1", "--input", "in"),
                          ("--head", "1.1*0.1"), ("--ids", "1,2"), ("--from", "m9", "--to", "unembed")):
            self.fails(2, "virtual", TL, *arguments)


if __name__ == "__main__":
    unittest.main()
