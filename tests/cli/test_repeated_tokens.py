"""kirchhoff train on repeated random tokens: two layers learn to repeat, by a previous-token head and an induction head that reads
it, which the analyses find; one layer cannot."""
import unittest

from program import Case


class RepeatedTokens(Case):
    def trained(self, layers):
        directory = self.directory() / "run"
        result = self.json("train", "--preset", f"repeated-tokens-{layers}l", "-o", directory, "--quiet")
        self.assertTrue(result["finished"])
        return directory, result["history"][-1]["held_out"]["task"]["accuracy"]

    def roles(self, directory):
        return {head["head"]: {role["role"]: role for role in head["roles"]} for head in self.json("heads", directory)["heads"]}

    def test_two_layers(self):
        directory, accuracy = self.trained(2)
        self.assertGreater(accuracy, 0.99)
        roles = self.roles(directory)
        self.assertEqual(set(roles), {"a0.h0", "a1.h0"})
        previous, induction = roles["a0.h0"]["previous-token"], roles["a1.h0"]["induction"]
        self.assertNotIn("induction", roles["a0.h0"])
        self.assertNotIn("previous-token", roles["a1.h0"])
        self.assertGreater(induction["score"], 0.9)
        self.assertGreater(previous["score"], 0.2)
        for role in (previous, induction):
            self.assertEqual(role["evidence"], "causal")
            self.assertGreater(role["ablation"]["loss"], 2.0)  # nats of a repeated token
        # A prompt of its tokens, 5 9 31 7 12 5 9 31: the copy of 31 was followed by 7.
        story = self.json("explain", directory, "5 9 31 7 12 5 9 31")
        self.assertEqual(story["top"][0]["text"], "7")
        self.assertGreater(story["top"][0]["prob"], 0.9)

    def test_one_layer(self):
        directory, accuracy = self.trained(1)
        self.assertLess(accuracy, 0.3)
        self.assertNotIn("induction", self.roles(directory)["a0.h0"])


if __name__ == "__main__":
    unittest.main()
