"""Commands that read a text: terms, icl, ablate, heads."""
import json
import math
import random
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


if __name__ == "__main__":
    unittest.main()
