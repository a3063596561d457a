"""What the screens say."""
import unittest

from program import GOLDEN, SMOLLM2, Case

IOI = "When Mary and John went to the store, John gave a drink to"


class Screens(Case):
    def test_verify(self):
        text = self.ok("model", "verify", GOLDEN / "gpt2")
        self.assertIn("logits", text)
        self.assertIn("agrees", text)

    def test_info(self):
        text = self.ok("model", "info", GOLDEN / "gpt2")
        self.assertIn("tokenizer   none", text)
        self.assertIn("fingerprint", text)

    def test_gemm(self):
        self.assertIn("GFLOP/s", self.ok("bench", "gemm", "--m", "8", "--k", "16", "--n", "32"))

    def test_quiet_and_verbose_change_only_stderr(self):
        plain = self.ok("run", GOLDEN / "gpt2", "--ids", "1,2")
        self.assertEqual(self.ok("-q", "run", GOLDEN / "gpt2", "--ids", "1,2"), plain)
        self.assertEqual(self.ok("run", GOLDEN / "gpt2", "--ids", "1,2", "--threads", "1"), plain)

    def test_packed_weights_say_the_same(self):
        one = self.json("dla", GOLDEN / "llama-gqa", "--ids", "1,2,3", "--weights", "packed")
        two = self.json("dla", GOLDEN / "llama-gqa", "--ids", "1,2,3", "--weights", "float32")
        self.assertEqual(one["parts"], two["parts"])
        self.assertEqual((one["provenance"]["weights"], two["provenance"]["weights"]), ("packed", "float32"))


@unittest.skipUnless(SMOLLM2.exists(), f"{SMOLLM2.name} is not there (make models)")
class Explain(Case):
    def test_one_screen(self):
        text = self.ok("explain", SMOLLM2, IOI, "--target", " Mary", "--foil", " John")
        lines = text.splitlines()
        self.assertLessEqual(len(lines), 54)
        for wanted in ("no BOS", "13:␣to", "logit(␣Mary) − logit(␣John)", "closure", "Logit lens", "Strongest heads",
                       "ablated", "≠", "sampled sha256", "next: kirchhoff attn"):
            self.assertIn(wanted, text)
        self.assertIn("␣Mary  11.0", text)
        self.assertIn("sum", text)
        self.assertIn("+6.120", text)

    def test_without_a_target_it_says_so(self):
        self.assertIn("no target was given", self.ok("explain", SMOLLM2, IOI))

    def test_the_induction_story(self):
        prompt = "Zephyrine Quill lived by the sea. Every morning, Zephyrine"
        story = self.json("explain", SMOLLM2, prompt)["induction"]
        head = story["heads"][0]
        self.assertEqual((head["head"], story["copies"], head["key_pos"]), ("a23.h2", [3], 4))
        self.assertGreater(head["pattern"]["attention"], 2 * head["pattern"]["null"]["high"])
        self.assertEqual(head["key"]["head"], "a16.h0")
        self.assertGreater(head["key"]["share"], head["key"]["null"]["high"])
        self.assertEqual(head["copying"]["rank"], 1)
        self.assertGreater(head["ablation"]["logit"], head["ablation"]["null"]["high"])
        self.assertEqual([head[clause]["evidence"] for clause in ("pattern", "key", "copying", "ablation")],
                         ["observational", "attributional", "attributional", "causal"])
        text = self.ok("explain", SMOLLM2, prompt)
        for wanted in ("Induction  rine·17 stood before at 3", "to ␣Qu·4, the token after the earlier rine",
                       "its OV copies: +", "[causal]", "no key clause"):
            self.assertIn(wanted, text)

    def test_the_next_line_runs(self):
        import shlex
        last = self.ok("explain", SMOLLM2, "It's \"late\"", "--target", " the").splitlines()[-1]
        words = shlex.split(last.removeprefix("next: kirchhoff "))
        self.assertIn("Head", self.ok(*words))


if __name__ == "__main__":
    unittest.main()
