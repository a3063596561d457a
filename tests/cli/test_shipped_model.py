"""The model that ships: it is found, small, says where it comes from, and shows what it is there to show."""
import random
import unittest

from program import ROOT, Case

SHIPPED = ROOT / "share" / "kirchhoff" / "attn-only-2l"


class ShippedModel(Case):
    def test_is_small_and_says_where_it_comes_from(self):
        self.assertLess(sum(file.stat().st_size for file in SHIPPED.iterdir()), 8_000_000)
        card = (SHIPPED / "README.md").read_text()
        for said in ("9513b9fc310af1fe2709f5f0fd18737664607865c468b0e40222996cc5d480c7", "docs/training-corpus.md",
                     "kirchhoff train --preset attn-only-2l"):
            self.assertIn(said, card)

    def test_explains_a_prompt_without_a_model(self):
        result = self.json("explain", "Zephyrine Quill lived by the sea. Every morning, Zephyrine")
        self.assertEqual(result["provenance"]["model"], "attn-only-2l")
        self.assertLess(result["closure"], 1e-5)

    def test_every_command_knows_its_name(self):
        config = self.json("model", "info", "attn-only-2l")["config"]
        self.assertEqual((config["n_layers"], config["n_heads"], config["d_vocab"]), (2, 6, 3072))

    def test_has_the_two_heads_of_an_induction_circuit(self):
        shown = {}
        for head in self.json("heads", "attn-only-2l")["heads"]:
            for role in head["roles"]:
                if role["evidence"] == "causal":
                    shown.setdefault(role["role"], []).append(head["head"])
        self.assertTrue(any(head.startswith("a0.") for head in shown["previous-token"]), shown)
        self.assertTrue(any(head.startswith("a1.") for head in shown["induction"]), shown)

    # Random words that come twice: the second time the model knows them (P1's and P2's test), within a prompt of its length.
    def test_predicts_what_repeats(self):
        random.seed(1)
        ids = random.sample(range(300, 3000), 100)
        losses = self.json("run", "attn-only-2l", "--ids", ",".join(map(str, [0, *ids, *ids])), "--loss")["loss"]["per_token"]
        first, second = losses[:100], losses[101:]  # nothing announces the first token of the copy
        self.assertLess(sum(second) / len(second), sum(first) / len(first) - 3.0)  # nats

    def test_any_text(self):
        for prompt in ("안녕하세요, 세계", "Ελένη καὶ Πάρις", "🙂🙂", "naïve café", "\t\x7f"):
            self.assertTrue(self.json("explain", "-p", prompt, "attn-only-2l")["top"], prompt)


if __name__ == "__main__":
    unittest.main()
