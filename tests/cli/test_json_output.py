"""--json: one object with schema and version on stdout, the documented keys, nothing else."""
import json
import math
import struct
import unittest

from program import GOLDEN, HOSTILE, Case, doubles, read_safetensors


def expected(folder):
    return json.loads((GOLDEN / folder / "expected.json").read_text())


def ids_of(tokens):
    return ",".join(map(str, tokens))


class Run(Case):
    def test_logits_and_losses_are_the_golden_ones(self):
        for folder in ("gpt2", "llama-gqa", "gemma2", "bloom"):
            facts = expected(folder)
            tokens = facts["sequences"][2]["tokens"]
            entry = read_safetensors(GOLDEN / folder / "expected.safetensors")["seq2/logits"]
            logits, vocabulary = doubles(entry), entry[1][1]
            last = logits[-vocabulary:]
            result = self.json("run", GOLDEN / folder, "--ids", ids_of(tokens), "--top", "7")
            self.assertEqual(result["ids"], tokens)
            self.assertEqual(len(result["top"]), 7)
            order = sorted(range(vocabulary), key=lambda i: -last[i])[:7]
            self.assertEqual([t["id"] for t in result["top"]], order)
            total = sum(math.exp(x - max(last)) for x in last)
            for token in result["top"]:
                self.assertLess(abs(token["logit"] - last[token["id"]]), 1e-4)
                self.assertAlmostEqual(token["prob"], math.exp(last[token["id"]] - max(last)) / total, places=5)
                self.assertIsNone(token["text"], "no tokenizer, no text")
            self.assertEqual(len(result["loss"]["per_token"]), len(tokens) - 1)
            self.assertAlmostEqual(result["loss"]["mean"], facts["loss"]["mean_next_token_cross_entropy"], places=4)
            self.assertAlmostEqual(sum(result["loss"]["per_token"]) / (len(tokens) - 1), result["loss"]["mean"], places=9)

    def test_one_token_has_no_loss(self):
        self.assertEqual(self.json("run", GOLDEN / "gpt2", "--ids", "5")["loss"], {"mean": 0.0, "per_token": []})

    def test_fields(self):
        text = self.ok("run", GOLDEN / "gpt2", "--ids", "5,6", "--json=loss,top")
        self.assertEqual(list(json.loads(text)), ["schema", "version", "loss", "top"])


class Dla(Case):
    def test_parts_sum_to_the_golden_metric(self):
        for folder in ("gpt2", "llama-gqa", "gemma3", "olmo2", "bloom", "gpt_neox-parallel", "falcon-rotary"):
            facts = expected(folder)
            sequence, metric = facts["sequences"][2], facts["metric"]
            result = self.json("dla", GOLDEN / folder, "--ids", ids_of(sequence["tokens"]), "--target-id", metric["a"],
                               "--foil-id", metric["b"])
            parts = {part["node"]: part["value"] for part in result["parts"]}
            self.assertEqual(len(parts), len(result["parts"]), "nodes are unique")
            self.assertAlmostEqual(sum(parts.values()), result["sum"], places=9)
            self.assertLessEqual(result["closure"], 1e-5)
            self.assertAlmostEqual(result["metric"], sequence["logit_diff"], places=4)
            self.assertAlmostEqual(sum(result["totals"].values()), result["sum"], places=9)
            for layer in range(facts["n_layers"]):
                self.assertIn(f"m{layer}", parts)
                for head in range(facts["n_heads"]):
                    self.assertIn(f"a{layer}.h{head}", parts)
            self.assertIn("embed", parts)

    def test_soft_capped_logits_are_attributed_before_the_cap(self):
        facts = expected("gemma2")
        result = self.json("dla", GOLDEN / "gemma2", "--ids", ids_of(facts["sequences"][2]["tokens"]), "--target-id",
                           facts["metric"]["a"], "--foil-id", facts["metric"]["b"])
        self.assertLessEqual(result["closure"], 1e-5)
        self.assertAlmostEqual(result["metric_after_softcap"], facts["sequences"][2]["logit_diff"], places=4)

    def test_golden_parts(self):
        facts = expected("tl-ln-mlp")
        golden = read_safetensors(GOLDEN / "tl-ln-mlp" / "analysis.safetensors")
        result = self.json("dla", GOLDEN / "tl-ln-mlp", "--ids", ids_of(facts["tokens"]), "--target-id",
                           facts["metric"]["a"], "--foil-id", facts["metric"]["b"])
        parts = {part["node"]: part["value"] for part in result["parts"]}
        heads = doubles(golden["dla/heads"])
        for layer in range(3):
            self.assertAlmostEqual(parts[f"a{layer}.b_O"], doubles(golden["dla/attn_b_O"])[layer], places=5)
            self.assertAlmostEqual(parts[f"m{layer}"], doubles(golden["dla/mlps"])[layer], places=5)
            for head in range(4):
                self.assertAlmostEqual(parts[f"a{layer}.h{head}"], heads[4 * layer + head], places=5)
        self.assertAlmostEqual(parts["pos"], doubles(golden["dla/pos_embed"])[0], places=5)
        self.assertAlmostEqual(parts["ln_final.b"], doubles(golden["dla/ln_final_b"])[0], places=5)
        self.assertAlmostEqual(parts["unembed.b"], doubles(golden["dla/unembed_b"])[0], places=5)

    def test_sources_sum_to_their_head(self):
        result = self.json("dla", GOLDEN / "llama-gqa", "--ids", "1,2,3,4,5", "--head", "L1.*", "--target-id", "7")
        parts = {part["node"]: part["value"] for part in result["parts"]}
        self.assertEqual(len(result["sources"]), 4)
        for split in result["sources"]:
            self.assertEqual(len(split["by_source"]), 5)
            self.assertAlmostEqual(sum(split["by_source"]), parts[split["node"]], places=5)

    def test_every_position_explains_its_next_token(self):
        for folder in ("gpt2", "gemma2"):
            facts = expected(folder)
            tokens = facts["sequences"][2]["tokens"]
            losses = self.json("run", GOLDEN / folder, "--ids", ids_of(tokens))["loss"]["per_token"]
            result = self.json("dla", GOLDEN / folder, "--ids", ids_of(tokens), "--pos", "all", "--readout", "loss", "--head", "1.0")
            self.assertEqual(result["metric_name"], "ln(vocabulary) - loss(target)")
            self.assertEqual([p["target"]["id"] for p in result["positions"][:-1]], tokens[1:])
            uniform = math.log(self.json("model", "info", GOLDEN / folder)["config"]["d_vocab_out"])
            for position, loss in zip(result["positions"], losses):
                self.assertAlmostEqual(uniform - position["metric"], loss, places=4)
                self.assertLessEqual(position["closure"], 1e-5)
            sums = [0.0] * len(tokens)
            for part in result["parts"]:
                sums[part["pos"]] += part["value"]
            for position, total in zip(result["positions"], sums):
                self.assertAlmostEqual(total, position["sum"], places=9)
            values = {(part["pos"], part["node"]): part["value"] for part in result["parts"]}
            self.assertEqual(result["heads"][3][1][2], values[3, "a1.h2"])
            for pos, row in enumerate(result["sources"][0]["by_source"]):
                self.assertAlmostEqual(sum(row), values[pos, "a1.h0"], places=5)

    def test_loss_of_one_position_has_removals(self):
        result = self.json("dla", GOLDEN / "gpt2", "--ids", "5,6,7,8", "--readout", "loss", "--target-id", "9")
        self.assertTrue(all("removal" in part for part in result["parts"]))
        self.assertNotIn("removal", self.json("dla", GOLDEN / "gpt2", "--ids", "5,6,7,8")["parts"][0])

    def test_neurons_and_their_rest_sum_to_the_mlp(self):
        for folder in ("gpt2", "gemma3", "olmo2"):
            result = self.json("dla", GOLDEN / folder, "--ids", "5,6,7,8", "--neurons=1", "--top", "3")
            parts = {part["node"]: part["value"] for part in result["parts"]}
            (total,) = result["neuron_sums"]
            self.assertEqual([n["layer"] for n in result["neurons"]], [1, 1, 1])
            listed = sum(n["value"] for n in result["neurons"])
            self.assertAlmostEqual(listed + total["rest"]["sum"] + total["bias"], parts["m1"], places=5)
            self.assertLessEqual(total["closure"], 1e-5)
        self.assertIn("no MLPs", self.fails(3, "dla", GOLDEN / "tl-attn-only-none-standard", "--ids", "1,2", "--neurons"))


class Paths(Case):
    def test_paths_and_the_rest_sum_to_the_golden_metric(self):
        for folder in ("gpt2", "llama-gqa", "gemma3", "olmo2", "bloom", "gpt_neox-parallel", "falcon-rotary"):
            facts = expected(folder)
            sequence, metric = facts["sequences"][2], facts["metric"]
            result = self.json("paths", GOLDEN / folder, "--ids", ids_of(sequence["tokens"]), "--target-id", metric["a"],
                               "--foil-id", metric["b"], "--order", "1", "--top", "5")
            self.assertEqual(len(result["paths"]), 5)
            total = sum(path["value"] for path in result["paths"]) + result["rest"]["sum"]
            self.assertAlmostEqual(total, result["total"], places=9)
            self.assertAlmostEqual(result["total"], sequence["logit_diff"], places=4)
            self.assertLessEqual(result["closure"], 1e-5)
            orders = [*result["orders"], result["longer"]]
            self.assertEqual([order["order"] for order in orders], [0, 1, 2])
            self.assertAlmostEqual(sum(order["sum"] for order in orders), result["total"], places=9)
            self.assertEqual(sum(order["count"] for order in orders), result["rest"]["count"] + 5)

    def test_all_paths_of_two_layers(self):
        result = self.json("paths", GOLDEN / "tl-attn-only-none-standard", "--ids", "3,1,4", "--target-id", "5", "--top",
                           "100000")
        heads = json.loads((GOLDEN / "tl-attn-only-none-standard" / "tl_config.json").read_text())["n_heads"]
        self.assertEqual(result["rest"], {"count": 0, "sum": 0.0})
        self.assertEqual(result["longer"]["count"], 0)
        embedded = [p["path"] for p in result["paths"] if p["path"][0] == "embed"]
        self.assertEqual(len(embedded), (1 + heads) ** 2, "direct, single heads, virtual heads")
        self.assertIn(["embed", "a0.h1", "a1.h2"], embedded)

    def test_mlps_as_nodes(self):
        for folder in ("gpt2", "gemma2", "gpt_neox-parallel"):
            arguments = ("paths", GOLDEN / folder, "--ids", "5,6,7,8", "--target-id", "9", "--order", "1", "--top", "100000")
            recorded, linear = self.json(*arguments), self.json(*arguments, "--mlp", "linear")
            self.assertEqual((recorded["mlp"], linear["mlp"]), ("recorded", "linear"))
            self.assertAlmostEqual(recorded["metric"], linear["metric"], places=5)
            self.assertLessEqual(linear["closure"], 1e-5)
            nodes = [path["path"] for path in linear["paths"]]
            self.assertIn(["embed", "m0"], nodes)
            self.assertIn(["m0.const"], nodes)
            self.assertNotIn(["m0"], nodes)
            last = sum(path["value"] for path in recorded["paths"] if path["path"] == ["m1"])
            through = self.json(*arguments[:-4], "--order", "9", "--top", "100000", "--mlp", "linear")
            self.assertAlmostEqual(last, sum(path["value"] for path in through["paths"]
                                             if path["path"][-1] in ("m1", "m1.const")), places=4)

    def test_losses_and_directions(self):
        folder = GOLDEN / "gpt2"
        loss = self.json("paths", folder, "--ids", "5,6,7,8", "--pos", "1", "--readout", "loss")
        self.assertEqual((loss["metric_name"], loss["target"]["id"]), ("ln(vocabulary) - loss(target)", 7))
        losses = self.json("run", folder, "--ids", "5,6,7,8")["loss"]["per_token"]
        self.assertAlmostEqual(math.log(131) - loss["metric"], losses[1], places=4)
        self.assertLessEqual(loss["closure"], 1e-5)
        direction = self.directory() / "x.npy"
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (32,), }"
        header += b" " * (118 - len(header) - 1) + b"\n"
        direction.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header +
                              struct.pack("<32d", *range(32)))
        paths = self.json("paths", folder, "--ids", "5,6,7,8", "--direction", direction, "--layer", "1")
        self.assertEqual((paths["metric_name"], paths["layer"]), ("stream . direction", 1))
        self.assertLessEqual(paths["closure"], 1e-5)
        self.assertFalse(any("m1" in node for path in paths["paths"] for node in path["path"]))
        self.assertIn("--target", self.fails(2, "paths", folder, "--ids", "5", "--direction", "unembed"))
        self.assertIn("0..2", self.fails(2, "paths", folder, "--ids", "5", "--direction", direction, "--layer", "3"))
        self.assertIn("--direction", self.fails(2, "paths", folder, "--ids", "5", "--layer", "1"))


class QkTerms(Case):
    def test_groups_sides_and_pairs_sum_to_the_score(self):
        for folder in ("gpt2", "llama-gqa", "qwen3", "gemma2", "bloom", "tl-attn-only-none-shortformer"):
            result = self.json("qk-terms", GOLDEN / folder, "--ids", "5,6,7,8,5", "--head", "1.2", "--key", "1", "--top", "3")
            self.assertEqual((result["head"], result["query"], result["key"]), ("1.2", 4, 1))
            self.assertLessEqual(result["closure"], 1e-5)
            self.assertAlmostEqual(sum(result["groups"].values()), result["sum"], places=9)
            products = result["sum"] - result["groups"]["position_bias"]
            self.assertAlmostEqual(sum(w["value"] for w in result["queries"]), products, places=9)
            self.assertAlmostEqual(sum(w["value"] for w in result["keys"]), products, places=9)
            self.assertAlmostEqual(sum(p["value"] for p in result["pairs"]) + result["rest"]["sum"], products, places=9)
            if not result["soft_capped"]:
                self.assertAlmostEqual(result["score"], result["sum"], places=4)

    def test_by_path_and_by_token(self):
        for folder in ("gpt2", "qwen3", "gemma2", "bloom", "tl-attn-only-none-shortformer"):
            arguments = ("qk-terms", GOLDEN / folder, "--ids", "5,6,7,8,5", "--head", "1.2", "--key", "1")
            writers = self.json(*arguments, "--top", "1000")
            products = writers["sum"] - writers["groups"]["position_bias"]
            paths, tokens = (self.json(*arguments, "--by", by, "--top", "100000") for by in ("path", "token"))
            for result in (paths, tokens):
                self.assertEqual((result["score"], result["attention"]), (writers["score"], writers["attention"]))
                self.assertAlmostEqual(result["product"], products, places=4)
                self.assertEqual([side["side"] for side in result["sides"]], ["query", "key"])
                for side in result["sides"]:
                    self.assertLessEqual(side["closure"], 1e-5)
                    self.assertAlmostEqual(side["total"], products, places=4)
            self.assertAlmostEqual(sum(p["value"] for p in paths["pairs"]) + paths["rest"]["sum"], paths["product"], places=9)
            self.assertEqual(paths["rest"]["count"], 0)
            few = self.json(*arguments, "--by", "path", "--top", "3")
            self.assertEqual([len(few["pairs"]), few["rest"]["count"] + 3], [3, len(paths["pairs"])])
            for side, values in (("query", writers["queries"]), ("key", writers["keys"])):
                head = next(w["value"] for w in values if w["node"] == "a0.h1")
                self.assertAlmostEqual(head, sum(p["value"] for p in paths["paths"]
                                                 if p["side"] == side and p["path"][-1] == "a0.h1"), places=4)
                total = next(s for s in tokens["sides"] if s["side"] == side)
                listed = [t for t in tokens["tokens"] if t["side"] == side]
                self.assertEqual([t["pos"] for t in listed], list(range(5 if side == "query" else 2)))
                self.assertAlmostEqual(sum(t["value"] for t in listed) + total["constant"], total["total"], places=9)

    def test_heads_say_what_they_read(self):
        result = self.json("qk-terms", GOLDEN / "gpt2", "--ids", "5,6,7", "--head", "1.0")
        pattern = self.json("attn", GOLDEN / "gpt2", "--ids", "5,6,7", "--head", "L0.*")["heads"]
        for writer in result["keys"]:
            if "reads_from" not in writer:
                self.assertNotIn(".h", writer["node"])
                continue
            row = pattern[int(writer["node"].split(".h")[1])]["pattern"][result["key"]]
            self.assertEqual(writer["attention"], max(row))
            self.assertEqual(row[writer["reads_from"]], max(row))


class Heads(Case):
    SCORES = ("previous_token", "current_token", "first_token", "induction", "duplicate_token")

    def test_given_tokens(self):
        result = self.json("heads", GOLDEN / "gpt2", "--ids", "9,5,6,7,5,6,7", "--period", "3", "--offset", "1")
        patterns = {h: self.json("attn", GOLDEN / "gpt2", "--ids", "9,5,6,7,5,6,7", "--head", h)["heads"][0]["pattern"]
                    for h in ("0.1", "1.2")}
        by_head = {head["head"]: head for head in result["heads"]}
        self.assertEqual(len(by_head), 8)
        for name, pattern in patterns.items():
            layer, head = name.split(".")
            scores = by_head[f"a{layer}.h{head}"]
            self.assertAlmostEqual(scores["induction"], sum(pattern[i][i - 2] for i in (4, 5, 6)) / 3, places=6)
            self.assertAlmostEqual(scores["duplicate_token"], sum(pattern[i][i - 3] for i in (4, 5, 6)) / 3, places=6)
            self.assertAlmostEqual(scores["prefix_matching"], scores["induction"], places=9)
            self.assertAlmostEqual(scores["previous_token"], sum(pattern[i][i - 1] for i in range(1, 7)) / 6, places=6)
            self.assertAlmostEqual(scores["first_token"], sum(pattern[i][0] for i in range(1, 7)) / 6, places=6)

    def test_random_text(self):
        arguments = ("heads", GOLDEN / "gpt2", "--block", "6", "--repeats", "3", "--samples", "2", "--threshold", "0.05")
        result = self.json(*arguments)
        self.assertEqual(result, self.json(*arguments), "seeded")
        self.assertEqual(result["sequences"]["count"], 2)
        self.assertEqual(result["sequences"]["ids"][:6], result["sequences"]["ids"][6:12])
        self.assertTrue(result["causal_check"])
        for head in result["heads"]:
            for score in self.SCORES:
                self.assertGreaterEqual(head[score], 0.0)
                self.assertLessEqual(head[score], 1.0)
                self.assertIn("high", head["null"][score])
            for role in head["roles"]:
                self.assertGreaterEqual(role["score"], 0.05)
                self.assertGreater(role["score"], role["null"]["high"])
                checked = role["role"] in ("induction", "previous-token")
                self.assertIn(role["evidence"], ("observational", "causal") if checked else
                              ("observational", "attributional"))
        plain = self.json(*arguments, "--no-causal")
        self.assertFalse(plain["causal_check"])
        self.assertTrue(all(role["ablation"] is None for head in plain["heads"] for role in head["roles"]))


class Verify(Case):
    def test_agreement(self):
        for folder, precision, bound in (("gpt2", "f32", 1e-5), ("gpt2", "f64", 1e-7), ("tl-ln-mlp", "f32", 1e-5)):
            result = self.json("model", "verify", GOLDEN / folder, "--precision", precision)
            self.assertEqual(result["failures"], [])
            self.assertGreater(result["sites"], 30)
            self.assertLessEqual(result["max_rel_error"], bound)
            self.assertIsInstance(result["worst"], str)

    def test_disagreement(self):
        import shutil
        from program import run, write_safetensors
        path = self.directory()
        shutil.copy(GOLDEN / "gpt2" / "expected.json", path)
        tensors = read_safetensors(GOLDEN / "gpt2" / "expected.safetensors")
        dtype, shape, data = tensors["seq1/hidden.1"]
        tensors["seq1/hidden.1"] = (dtype, shape, data[4:] + data[:4])
        write_safetensors(path / "expected.safetensors", tensors)
        result = run("model", "verify", GOLDEN / "gpt2", path, "--json")
        self.assertEqual(result.returncode, 4)
        report = json.loads(result.stdout)
        self.assertEqual(report["worst"], "seq1/hidden.1")
        self.assertEqual(len(report["failures"]), 1)
        text = run("model", "verify", GOLDEN / "gpt2", path)
        self.assertEqual(text.returncode, 4)
        self.assertIn("seq1/hidden.1", text.stdout)
        self.assertEqual(run("model", "verify", GOLDEN / "gpt2", path, "--tolerance", "10").returncode, 0)


class Others(Case):
    def test_lens(self):
        result = self.json("lens", GOLDEN / "gpt2", "--ids", "5,6,7", "--pos", "all", "--target-id", "9", "--mid")
        self.assertEqual([p["pos"] for p in result["positions"]], [0, 1, 2])
        labels = [row["label"] for row in result["positions"][0]["layers"]]
        self.assertEqual(labels, ["0_pre", "0_mid", "1_pre", "1_mid", "final_post"])
        top = self.json("run", GOLDEN / "gpt2", "--ids", "5,6,7")["top"][0]
        last = result["positions"][2]["layers"][-1]
        self.assertEqual(last["top"][0]["id"], top["id"])
        self.assertAlmostEqual(last["top"][0]["logit"], top["logit"], places=4)
        self.assertEqual(last["tokens"][0]["id"], 9)

    def test_readings_of_the_lens(self):
        def rows(reading):
            result = self.json("lens", GOLDEN / "llama-gqa", "--ids", "5,6,7", "--target-id", "9", "--reading", reading)
            self.assertEqual(result["reading"], reading)
            return [row["tokens"][0] for row in result["positions"][0]["layers"]], result["norm"]
        (lens, recomputed), (prefix, held), (plain, none) = rows("lens"), rows("prefix"), rows("plain")
        self.assertEqual((recomputed, held, none), ("recomputed", "held", "none"))
        self.assertEqual([t["rank"] for t in lens], [t["rank"] for t in prefix], "no biases: the same ranking")
        self.assertNotAlmostEqual(lens[0]["logit"], prefix[0]["logit"], places=4)
        self.assertAlmostEqual(lens[-1]["logit"], prefix[-1]["logit"], places=5)
        self.assertNotAlmostEqual(plain[-1]["logit"], lens[-1]["logit"], places=4)

    def test_attn(self):
        result = self.json("attn", GOLDEN / "gpt2", "--ids", "5,6,7", "--head", "1.2", "--pos", "0,2")
        head = result["heads"][0]
        golden = self.json("attn", GOLDEN / "gpt2", "--ids", "5,6,7", "--head", "L1.*")["heads"][2]
        self.assertEqual(head["head"], "1.2")
        self.assertEqual(head["pattern"], golden["pattern"])
        for query, row in enumerate(head["pattern"]):
            self.assertAlmostEqual(sum(row), 1.0, places=5)
            self.assertEqual(row[query + 1:], [0.0] * (2 - query))
        self.assertEqual([len(read["sources"]) for read in head["reads"]], [1, 3])
        self.assertEqual(len(self.json("attn", GOLDEN / "gpt2", "--ids", "5,6,7")["heads"]), 8)

    def test_a_tuned_lens_is_trained_saved_and_applied(self):
        directory = self.directory()
        text = directory / "ids.txt"
        text.write_text(" ".join(str(i * i % 61) for i in range(400)))
        lens = directory / "lens"
        train = ("lens", GOLDEN / "gpt2", "--train-tuned", lens, "--data-ids", text, "--context", "16", "--steps", "30",
                 "--step-tokens", "64")
        result = self.json(*train)
        self.assertEqual(result["schema"], "kirchhoff.lens.training")
        self.assertEqual((len(result["losses"]), result["held_out_windows"]), (30, 2))
        for layer in result["layers"]:
            self.assertLess(layer["tuned_lens"], layer["logit_lens"])
        self.assertEqual(json.loads((lens / "config.json").read_text())["lens_type"], "linear_tuned_lens")
        again = self.json(*train, "--resume")
        self.assertEqual((again["losses"], again["layers"]), ([], result["layers"]))
        prompt = ("lens", GOLDEN / "gpt2", "--ids", "5,6,7")
        tuned, plain = self.json(*prompt, "--tuned", lens), self.json(*prompt)
        self.assertEqual(tuned["tuned"]["directory"], str(lens))
        rows, others = tuned["positions"][0]["layers"], plain["positions"][0]["layers"]
        self.assertEqual([r["label"] for r in rows], [r["label"] for r in others])
        self.assertEqual(rows[-1], others[-1], "the model's own prediction has no translator")
        self.assertNotEqual(rows[0], others[0])
        self.assertIn("holds a lens already", self.fails(2, *train))
        self.assertIn("steps = 30, not 31", self.fails(2, *train[:8], "--steps", "31", *train[10:], "--resume"))
        self.assertIn("'--data-ids' belongs", self.fails(2, *prompt, "--data-ids", text))
        self.assertIn("'--tuned'", self.fails(2, *prompt, "--tuned", lens, "--mid"))
        self.assertIn("config.json", self.fails(3, *prompt, "--tuned", directory))
        self.assertIn("translators of width", self.fails(2, "lens", GOLDEN / "tl-ln-mlp", "--ids", "1,2", "--tuned",
                                                         lens))

    def test_attn_scores_are_before_the_softmax(self):
        head = self.json("attn", GOLDEN / "gpt2", "--ids", "5,6,7", "--head", "1.2", "--scores")["heads"][0]
        for query, (row, scores) in enumerate(zip(head["pattern"], head["scores"])):
            self.assertEqual(scores[query + 1:], [None] * (2 - query))
            total = sum(math.exp(x) for x in scores[:query + 1])
            for attention, score in zip(row, scores[:query + 1]):
                self.assertAlmostEqual(attention, math.exp(score) / total, places=5)
            self.assertAlmostEqual(head["entropies"][query], -sum(p * math.log(p) for p in row if p > 0), places=5)
        self.assertEqual(head["reads"][0]["sources"][1]["score"], head["scores"][2][1])

    def test_attn_compares_with_an_expected_pattern(self):
        ids = ("--ids", "5,6,5,7")
        result = self.json("attn", GOLDEN / "gpt2", *ids, "--expect", "induction")
        self.assertEqual(result["expected"], {"pattern": "induction", "exclude_first": False, "exclude_current": False})
        one = self.json("attn", GOLDEN / "gpt2", *ids, "--expect", "induction", "--head", "1.2")["heads"][0]
        same = next(h for h in result["heads"] if h["head"] == "1.2")
        self.assertEqual((same["rows"], same["overlap"]), (1, one["overlap"]))
        self.assertAlmostEqual(one["overlap"], one["pattern"][2][1], places=6)
        self.assertAlmostEqual(one["difference"][2][1], one["pattern"][2][1] - 1, places=6)
        self.assertEqual(one["difference"][0], [None] * 4)
        none = self.json("attn", GOLDEN / "gpt2", "--ids", "5,6", "--expect", "duplicate")["heads"][0]
        self.assertEqual((none["rows"], none["overlap"], none["agreement"]), (0, None, None))

    def test_attn_flow(self):
        flow = self.json("attn", GOLDEN / "gpt2", "--ids", "5,6,7", "--flow", "--threshold", "0")
        self.assertEqual(flow["schema"], "kirchhoff.attn.flow")
        self.assertLessEqual(flow["closure"], 1e-5)
        self.assertEqual(flow["nodes"][0]["pos"], 2)
        into = {}
        for edge in flow["edges"]:
            into[edge["to"]] = into.get(edge["to"], 0) + edge["value"]
            self.assertEqual(edge["kind"] == "attention", "heads" in edge)
        for total in into.values():
            self.assertAlmostEqual(total, 1.0, places=9)
        self.assertTrue(all(e["value"] >= 0.2 for e in self.json("attn", GOLDEN / "gpt2", "--ids", "5,6,7", "--flow",
                                                                 "--threshold", "0.2")["edges"]))

    def test_explain(self):
        result = self.json("explain", GOLDEN / "gpt2", "--ids", "5,6,7")
        for key in ("provenance", "top", "dla", "closure", "lens", "heads", "assumptions"):
            self.assertIn(key, result)
        self.assertEqual(result["dla"]["target"]["id"], result["top"][0]["id"], "without a target, the top token")
        self.assertLessEqual(result["closure"], 1e-5)
        self.assertEqual(len(result["heads"]), 5)
        self.assertEqual(result["ablation"], "mean")
        self.assertIsNone(result["induction"])
        self.assertIn("has not appeared before", result["induction_none"])

    def test_explain_ablates_heads_as_patch_does(self):
        ids = "5,6,7,8"
        folder = GOLDEN / "gpt2"
        target = ("--target-id", "3", "--foil-id", "4")
        heads = {h["node"]: h for h in self.json("explain", folder, "--ids", ids, *target)["heads"]}
        grid = self.json("patch", folder, "--clean-ids", ids, *target, "--ablation", "mean")
        for node, head in heads.items():
            layer, number = map(int, node[1:].split(".h"))
            self.assertAlmostEqual(head["ablated"], grid["clean"] - grid["values"][layer][number], places=4)
            self.assertIsInstance(head["disagrees"], bool)

    def test_explain_is_the_same_when_patterns_come_from_a_second_run(self):
        short = ",".join(str(i % 7) for i in range(40))
        long = ",".join(str(i % 7) for i in range(150))
        folder = GOLDEN / "bloom"  # no limit of the context
        self.assertEqual(len(self.json("explain", folder, "--ids", short)["heads"][0]["read"]["sources"]), 40)
        read = self.json("explain", folder, "--ids", long)["heads"][0]
        layer, head = read["read"]["head"].split(".")
        again = self.json("attn", folder, "--ids", long, "--head", f"{layer}.{head}")["heads"][0]["reads"][0]
        self.assertEqual(read["read"], again)

    def test_model_info(self):
        result = self.json("model", "info", GOLDEN / "gpt2")
        self.assertEqual(result["config"]["n_heads"], 4)
        self.assertEqual(result["config"]["d_vocab"], 131)
        self.assertIsNone(result["sha256"])
        import hashlib
        digest = hashlib.sha256((GOLDEN / "gpt2" / "model.safetensors").read_bytes()).hexdigest()
        self.assertEqual(self.json("model", "info", GOLDEN / "gpt2", "--hash")["sha256"], digest)
        no_mlp = self.json("model", "info", GOLDEN / "tl-attn-only-ln-shortformer")
        self.assertEqual((result["config"]["d_mlp"], no_mlp["config"]["d_mlp"]), (128, None))

    def test_inspect(self):
        result = self.json("inspect", GOLDEN / "gpt2" / "model.safetensors", "--stats")
        golden = read_safetensors(GOLDEN / "gpt2" / "model.safetensors")
        self.assertEqual({t["name"]: (t["dtype"], t["shape"]) for t in result["tensors"]},
                         {name: entry[:2] for name, entry in golden.items()})
        for tensor in result["tensors"]:
            values = doubles(golden[tensor["name"]])
            self.assertEqual((tensor["stats"]["min"], tensor["stats"]["max"]), (min(values), max(values)))
            self.assertEqual((tensor["stats"]["nans"], tensor["stats"]["infinities"]), (0, 0))
        self.assertEqual(self.json("inspect", HOSTILE / "tokenizer" / "ok.tokenizer.json")["format"], "tokenizer")
        self.assertEqual(self.json("inspect", GOLDEN / "gpt2" / "config.json")["format"], "config")

    def test_doctor_and_bench(self):
        doctor = self.json("doctor")
        self.assertGreater(doctor["gemm_gflops"], 0)
        for feature in doctor["features"]:
            self.assertLessEqual(feature["works"], feature["advertised"])
        bench = self.json("bench", "forward", "--tokens", "4", "--repeats", "1")
        for key in ("gemm_gflops", "gflops", "ratio", "tokens_per_s", "peak_mib"):
            self.assertGreater(bench[key], 0, key)
        self.assertAlmostEqual(bench["ratio"], bench["gflops"] / bench["gemm_gflops"], places=6)
        patch = self.json("bench", "patch", "--tokens", "2", "--sites", "resid", "--repeats", "1")
        self.assertEqual(patch["variants"], 12 * 2)
        for key in ("gemm_gflops", "gflops", "ratio", "seconds", "base_seconds", "flops", "peak_mib"):
            self.assertGreater(patch[key], 0, key)
        for weights in ([], ["--weights"]):
            bench = self.json("bench", "backward", "--tokens", "4", "--repeats", "1", *weights)
            self.assertEqual(bench["weights"], bool(weights))
            self.assertAlmostEqual(bench["ratio"], bench["seconds"] / bench["forward_seconds"], places=6)
        bench = self.json("bench", "train", "--layers", "1", "--d-model", "16", "--heads", "2", "--context", "8", "--vocabulary", "32",
                          "--batch", "2", "--repeats", "2")
        # Embeddings of tokens and positions, W_U and b_U, four matrices and biases, two norms.
        self.assertEqual(bench["parameters"], 32 * 16 + 8 * 16 + 32 * 16 + 32 + 4 * (16 * 16 + 16) + 2 * 2 * 16)
        # Forward and backward, thrice the products of 16 tokens: four matrices, W_U, scores and mix over 4.5 keys on average.
        self.assertEqual(bench["flops"], 3 * 16 * (2 * (4 * 16 * 16 + 16 * 32) + 2 * 2 * 4.5 * 16))
        self.assertAlmostEqual(bench["ratio"], bench["gflops"] / bench["gemm_gflops"], places=9)
        self.assertAlmostEqual(bench["tokens_per_s"], 16 / bench["seconds"], places=3)
        self.fails(2, "bench", "train", "--heads", "3")
        one, two = (self.json("--threads", n, "bench", "signature")["signature"] for n in (1, 2))
        self.assertEqual(one, two)
        self.assertEqual(self.ok("bench", "signature"), one + "\n")


if __name__ == "__main__":
    unittest.main()
