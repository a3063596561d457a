"""kirchhoff reproduce: what it says before and around the work; the chains themselves are tests/reproduce's."""
import json
import unittest

from program import Case


class Reproduce(Case):
    def text(self):
        path = self.directory() / "text.txt"
        path.write_text("one document\n<|endoftext|>\nand another\n")
        return path

    def test_the_plan_says_what_there_is_to_do(self):
        text = self.text()
        work = text.parent / "work"
        plan = self.json("reproduce", "framework", "--plan", "--data", text, "-o", work)
        self.assertEqual((plan["chain"], plan["quick"], plan["finished"], plan["report"]), ("framework", False, False, None))
        self.assertEqual(plan["directory"], str(work / "framework"))
        names = [stage["stage"] for stage in plan["stages"]]
        self.assertEqual(names[:4], ["corpus", "train/0l", "train/1l", "train/2l"])
        self.assertEqual({stage["state"] for stage in plan["stages"]}, {"to be done"})
        self.assertTrue(20 * 60 < sum(stage["estimate"] for stage in plan["stages"]) < 80 * 60)
        self.assertFalse(work.exists(), "a plan does nothing")

    def test_the_induction_chain_has_four_kinds_and_three_seeds(self):
        names = [stage["stage"] for stage in
                 self.json("reproduce", "induction", "--plan", "--data", self.text())["stages"]]
        self.assertEqual([name for name in names if name.startswith("train/")],
                         [f"train/{kind}-s{seed}" for seed in range(3) for kind in ("1l", "2l", "3l", "1l-smeared")])
        screen = self.ok("reproduce", "induction", "--quick", "--plan", "--data", self.text())
        self.assertIn("kirchhoff reproduce induction --quick", screen)
        self.assertIn("train/1l-smeared-s0", screen)

    def test_errors(self):
        text = self.text()
        self.assertIn("expected framework or induction", self.fails(2, "reproduce", "all", "--plan", "--data", text))
        self.assertIn("'make corpus'", self.fails(3, "reproduce", "framework", "--plan", cwd=text.parent))
        self.assertIn("nowhere.txt", self.fails(3, "reproduce", "framework", "--data", text.parent / "nowhere.txt"))
        self.assertIn("'--minutes'", self.fails(2, "reproduce", "framework", "--data", text, "--minutes", "-1"))
        work = text.parent / "work"
        error = self.fails(2, "-q", "reproduce", "framework", "--quick", "--data", text, "-o", work)
        self.assertIn("is held out", error)
        record = json.loads((work / "framework" / "stages" / "corpus.json").read_text())
        self.assertNotIn("result", record)


if __name__ == "__main__":
    unittest.main()
