"""Commands that read a text: terms, icl, ablate, heads."""
import json
import math
import random
import shutil
import tempfile
import unittest
from pathlib import Path

from program import GOLDEN, Case

ATTENTION_ONLY = GOLDEN / "tl-attn-only-ln-standard"


class TextCase(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def ids(self, count, vocabulary=50, seed=1):
        """A file of seeded random token ids."""
        draw = random.Random(seed)
        path = Path(self.folder.name) / f"ids-{count}-{seed}.txt"
        path.write_text(" ".join(str(draw.randrange(vocabulary)) for _ in range(count)))
        return path


class Terms(TextCase):
    def test_orders_end_in_the_loss_of_run(self):
        for folder in (ATTENTION_ONLY, GOLDEN / "gpt2", GOLDEN / "gemma2", GOLDEN / "olmo2"):
            text = self.ids(16)
            result = self.json("terms", folder, "--data-ids", text, "--context", "8")
            losses = [self.json("run", folder, "--ids", ",".join(text.read_text().split()[i:i + 8]))["loss"]["mean"]
                      for i in (0, 8)]
            self.assertAlmostEqual(result["full"], sum(losses) / 2, places=5)
            self.assertAlmostEqual(result["losses"][-1], result["full"], places=5)
            self.assertEqual(result["losses"], [order["loss"] for order in result["orders"]])
            self.assertAlmostEqual(result["uniform"] - sum(order["marginal"] for order in result["orders"]),
                                   result["losses"][-1], places=9)
            self.assertLessEqual(result["closure"], 1e-5)
            self.assertTrue(result["additive"])
            self.assertIsNone(result["longer"])
            self.assertLessEqual(result["cost"]["equivalent"], len(result["orders"]) + 1)
            self.assertEqual((result["windows"], result["predictions"], result["corpus"]["context"]), (2, 14, 8))

    def test_splits_and_cuts(self):
        result = self.json("terms", ATTENTION_ONLY, "--data-ids", self.ids(12), "--context", "6", "--order", "1",
                           "--layers", "--heads", "0.*", "--norms", "recomputed")
        self.assertEqual([s["node"] for s in result["layers"]], [f"a{i}" for i in range(len(result["layers"]))])
        self.assertTrue(all(s["node"].startswith("a0.h") for s in result["heads"]))
        self.assertEqual(result["layers"][0]["terms"], len(result["heads"]))
        self.assertEqual(result["longer"]["order"], 2)
        self.assertFalse(result["additive"])
        self.assertTrue(math.isfinite(result["longer"]["marginal"]))

    def test_what_is_wrong_is_named(self):
        text = self.ids(12)
        self.assertIn("--data", self.fails(2, "terms", ATTENTION_ONLY))
        self.assertIn("--data-ids", self.fails(2, "terms", ATTENTION_ONLY, "--data", text))
        self.assertIn("--context", self.fails(2, "terms", ATTENTION_ONLY, "--data-ids", text, "--context", "1"))
        self.assertIn("12 tokens fill no window of 14",
                      self.fails(2, "terms", ATTENTION_ONLY, "--data-ids", text, "--context", "14"))
        self.assertIn("--tokens", self.fails(2, "terms", ATTENTION_ONLY, "--data-ids", text, "--tokens", "-1"))
        self.assertIn("--norms", self.fails(2, "terms", ATTENTION_ONLY, "--data-ids", text, "--norms", "none"))
        self.assertIn("/no/such/file", self.fails(3, "terms", ATTENTION_ONLY, "--data-ids", "/no/such/file"))


class Icl(TextCase):
    def test_score_is_the_difference_of_two_losses_of_run(self):
        folder, text = GOLDEN / "gpt2", self.ids(32)
        ids = text.read_text().split()
        result = self.json("icl", folder, "--data-ids", text, "--context", "16", "--late", "15", "--early", "3", "--seed", "3")
        windows = [self.json("run", folder, "--ids", ",".join(ids[i:i + 16]))["loss"]["per_token"] for i in (0, 16)]
        scores = [losses[14] - losses[2] for losses in windows]  # entry i is the loss of token i + 1
        self.assertAlmostEqual(result["score"], sum(scores) / 2, places=5)
        self.assertAlmostEqual(result["score_error"], abs(scores[0] - scores[1]) / 2, places=5)
        self.assertEqual([p["position"] for p in result["positions"]], list(range(1, 16)))
        for i, position in enumerate(result["positions"]):
            self.assertAlmostEqual(position["loss"], (windows[0][i] + windows[1][i]) / 2, places=5)
        self.assertEqual([t["window"] for t in result["tokens"]], [0, 1])
        for token in result["tokens"]:
            self.assertEqual(token["id"], int(ids[16 * token["window"] + token["position"]]))
            self.assertAlmostEqual(token["loss"], windows[token["window"]][token["position"] - 1], places=5)
            self.assertIsNone(token["loss_before"])
        self.assertEqual((result["bins"][0]["from"], result["bins"][-1]["to"]), (1, 16))

    def test_before_and_after(self):
        text = self.ids(32)
        arguments = ("--data-ids", text, "--context", "16", "--late", "15", "--early", "3")
        earlier = Path(self.folder.name) / "earlier"  # the same model with some weights at zero
        shutil.copytree(GOLDEN / "gpt2", earlier)
        weights = earlier / "model.safetensors"
        weights.chmod(0o644)
        content = weights.read_bytes()
        weights.write_bytes(content[:-4096] + bytes(4096))
        result = self.json("icl", GOLDEN / "gpt2", *arguments, "--before", earlier, "--ablate", "0.*")
        before = self.json("icl", earlier, *arguments)
        self.assertEqual([t["loss_before"] for t in result["tokens"]], [t["loss"] for t in before["tokens"]])
        self.assertNotEqual([t["loss_before"] for t in result["tokens"]], [t["loss"] for t in result["tokens"]])
        self.assertEqual(result["ablation"]["kind"], "zero")
        for one in result["ablations"]:
            self.assertTrue(math.isfinite(one["along_change"]))
        self.assertIn("no direction of change", self.fails(2, "icl", GOLDEN / "gpt2", *arguments, "--before", GOLDEN / "gpt2"))
        self.assertIn("vocabulary", self.fails(2, "icl", GOLDEN / "gpt2", *arguments, "--before", ATTENTION_ONLY))

    def test_what_is_wrong_is_named(self):
        text = self.ids(32)
        self.assertIn("--late", self.fails(2, "icl", GOLDEN / "gpt2", "--data-ids", text, "--context", "16"))
        self.assertIn("--early", self.fails(2, "icl", GOLDEN / "gpt2", "--data-ids", text, "--early", "0"))
        self.assertIn("--late", self.fails(2, "icl", GOLDEN / "gpt2", "--data-ids", text, "--late", "49"))


class Ablate(TextCase):
    def test_a_prompt(self):
        folder = GOLDEN / "gpt2"
        prompt = ("--ids", "5,6,7,8", "--target-id", "3", "--foil-id", "4")
        result = self.json("ablate", folder, *prompt, "--all", "--mlp", "all")
        names = [one["node"] for one in result["ablations"]]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("a1.h0", names)
        self.assertIn("m0", names)
        self.assertEqual(result["ablation"], {"kind": "zero", "mode": "full", "freeze_norms": False})
        self.assertEqual(result["baseline"], "zero")
        clean = self.json("dla", folder, *prompt)["metric"]
        self.assertAlmostEqual(result["clean"], clean, places=4)
        for one in result["ablations"]:
            self.assertAlmostEqual(one["metric"] - result["clean"], one["metric_change"], places=9)
        kept = self.json("ablate", folder, *prompt, "--all", "--keep-patterns", "--kind", "mean")
        self.assertEqual(kept["ablation"]["mode"], "patterns kept")
        self.assertIn("4 positions", kept["baseline"])
        same = self.json("ablate", folder, *prompt, "--head", "0.*", "--kind", "resample", "--corrupt-ids", "5,6,7,8")
        for one in same["ablations"]:
            self.assertAlmostEqual(one["metric_change"], 0.0, places=5)
        together = self.json("ablate", folder, *prompt, "--head", "0.0,1.1", "--mlp", "1", "--together")
        self.assertEqual([one["node"] for one in together["ablations"]], ["a0.h0+a1.h1+m1"])

    def test_a_text(self):
        folder, text = GOLDEN / "llama-gqa", self.ids(24)
        result = self.json("ablate", folder, "--data-ids", text, "--context", "8", "--head", "0.0", "--mlp", "0,1", "--late",
                           "7", "--early", "2")
        losses = self.json("icl", folder, "--data-ids", text, "--context", "8", "--late", "7", "--early", "2")
        self.assertAlmostEqual(result["icl"], losses["score"], places=5)
        self.assertEqual([one["node"] for one in result["ablations"]], ["a0.h0", "m0", "m1"])
        for one in result["ablations"]:
            self.assertAlmostEqual(one["loss"] - result["loss"], one["loss_change"], places=9)
            self.assertAlmostEqual(one["icl"] - result["icl"], one["icl_change"], places=9)
        short = self.json("ablate", folder, "--data-ids", text, "--context", "8", "--all")
        self.assertIsNone(short["icl"], "no token 499")
        self.assertIsNone(short["ablations"][0]["icl_change"])

    def test_what_is_wrong_is_named(self):
        gpt2, text = GOLDEN / "gpt2", self.ids(24)
        self.assertIn("--head", self.fails(2, "ablate", gpt2, "--ids", "1,2"))
        self.assertIn("--mlp", self.fails(2, "ablate", gpt2, "--ids", "1,2", "--mlp", "99"))
        self.assertIn("--mlp", self.fails(2, "ablate", ATTENTION_ONLY, "--ids", "1,2", "--mlp", "0"))
        self.assertIn("--corrupt", self.fails(2, "ablate", gpt2, "--ids", "1,2", "--all", "--kind", "resample"))
        self.assertIn("--corrupt", self.fails(2, "ablate", gpt2, "--ids", "1,2", "--all", "--corrupt-ids", "1,2"))
        self.assertIn("--data", self.fails(2, "ablate", gpt2, "--ids", "1,2", "--all", "--data-ids", text))
        self.assertIn("--target", self.fails(2, "ablate", gpt2, "--all", "--data-ids", text, "--target-id", "1"))
        self.assertIn("second window", self.fails(2, "ablate", gpt2, "--all", "--data-ids", text, "--context", "16",
                                                   "--kind", "resample"))


class Heads(TextCase):
    def test_scores_of_a_text(self):
        folder = GOLDEN / "gpt2"
        result = self.json("heads", folder, "--data-ids", self.ids(48, vocabulary=9), "--context", "12", "--qk-trace")
        self.assertEqual(result["corpus"]["windows"], 4)
        self.assertFalse(result["causal_check"])
        for head in result["heads"]:
            for score in ("previous_token", "induction", "duplicate_token", "previous_token_shuffled", "induction_per_entry"):
                self.assertTrue(0 <= head[score] <= 1.000001, (score, head[score]))
            for score in ("copying", "copying_weighted", "inhibition"):
                self.assertTrue(-1.000001 <= head[score] <= 1.000001)
            self.assertEqual(head["induction"], head["prefix_matching"])
            self.assertLessEqual(head["induction_per_entry"], head["induction"])
            self.assertEqual(head["qk_trace"] is None, head["head"].startswith("a0."), "layer 0 reads no head")

    def test_both_readings_of_the_attended_token_can_be_listed(self):
        text = self.ids(48, vocabulary=9)
        arguments = ("heads", GOLDEN / "gpt2", "--data-ids", text, "--context", "12", "--all")
        strongest, weighted = (self.ok(*arguments, "--attended", how) for how in ("strongest", "weighted"))
        self.assertNotEqual(strongest, weighted)
        self.assertIn("weighted by attention", " ".join(weighted.split()))

    def test_repeated_tokens_have_the_new_scores(self):
        result = self.json("heads", GOLDEN / "gpt2", "--block", "4", "--repeats", "3", "--samples", "2", "--no-causal")
        for head in result["heads"]:
            self.assertIsNone(head["previous_token_shuffled"])
            self.assertIsNone(head["qk_trace"])
            # Three blocks: 8 rows with 4 + 8 targets.
            self.assertAlmostEqual(head["induction_per_entry"], head["induction"] * 8 / 12, places=9)

    def test_what_is_wrong_is_named(self):
        self.assertIn("--ids", self.fails(2, "heads", GOLDEN / "gpt2", "--ids", "1,2,1,2", "--period", "2", "--data-ids",
                                          self.ids(12)))
        self.assertIn("--attended", self.fails(2, "heads", GOLDEN / "gpt2", "--attended", "none"))


if __name__ == "__main__":
    unittest.main()
