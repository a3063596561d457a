"""kirchhoff curves: histories of trainings."""
import unittest

from program import GOLDEN, Case, run
from trainings import write_training


class Curves(Case):
    def test_one_run(self):
        training = write_training(self.directory() / "two")
        result = self.json("curves", training)
        (only,) = result["runs"]
        self.assertEqual((only["run"], only["seed"], only["step"], only["tokens"], only["records"], only["unfinished"]),
                         ("two", 0, 1000, 8192000, 101, False))
        phase = only["phase_change"]
        self.assertEqual(phase["head"], "1.2")
        self.assertTrue(420 <= phase["from_step"] < 500 < phase["to_step"] <= 580, phase)
        self.assertGreater(phase["icl_before"], -0.05)
        self.assertLess(phase["icl_after"], -0.35)
        self.assertGreaterEqual(phase["prefix_matching_after"] - phase["prefix_matching_before"], 0.4)
        self.assertIsNone(only["no_phase_change"])
        self.assertEqual(len(result["points"]), 101)
        self.assertIsNone(result["points"][1]["held_out"], "not every record is an evaluation")
        last = result["points"][-1]
        self.assertAlmostEqual(last["prefix_matching"]["1"]["mean"], 0.9, places=4)
        self.assertAlmostEqual(last["previous_token"]["0"]["mean"], 0.8, places=3)
        self.assertEqual(last["icl"]["low"], last["icl"]["high"])
        self.assertEqual(len(result["heads"]), 51 * 8)
        screen = self.ok("curves", training)
        for text in ("phase change from step", "held-out", "prefix matching", "━", "1.2", "⠉"):
            self.assertIn(text, screen)

    def test_seeds_are_one_group_and_others_are_not(self):
        root = self.directory()
        runs = [write_training(root / f"two-s{seed}", seed=seed, last=1000 if seed else 600) for seed in range(3)]
        runs.append(write_training(root / "one", layers=1, phase=False))
        result = self.json("curves", *runs)
        self.assertEqual([run["group"] for run in result["runs"]], ["two"] * 3 + ["one"])
        self.assertEqual(result["runs"][3]["no_phase_change"],
                         "no head's prefix matching rises to 0.4 (the highest: 0.05)")
        points = [point for point in result["points"] if point["group"] == "two"]
        self.assertEqual(points[-1]["step"], 600, "the last step of the run that is still going")
        held_out = points[-1]["held_out"]
        self.assertAlmostEqual(held_out["high"] - held_out["low"], 0.02, places=1)
        self.assertTrue(held_out["low"] < held_out["mean"] < held_out["high"])
        screen = self.ok("curves", *runs)
        self.assertEqual(screen.count(": phase change from step"), 3)
        self.assertIn("one: no phase change", screen)
        self.assertIn("two: held-out", screen)

    def test_a_run_that_is_still_going(self):
        training = write_training(self.directory() / "going", last=100, tail='{"step":110,"tok')
        (only,) = self.json("curves", training)["runs"]
        self.assertEqual((only["step"], only["unfinished"]), (100, True))
        self.assertIn("being written", self.ok("curves", training))

    def test_rows_axis_and_bound(self):
        training = write_training(self.directory() / "two")
        def lines(*options):
            return len(self.ok("curves", training, *options).splitlines())

        self.assertEqual(lines("--rows", "0") - lines("--rows", "3"), 51 - 3, "51 evaluations")
        self.assertEqual(lines() - lines("--rows", "3"), 16 - 3)
        self.assertIn("8.19 M", self.ok("curves", training, "--x", "tokens"))
        self.assertNotEqual(self.ok("curves", training, "--log"), self.ok("curves", training))
        self.assertNotIn("1.2\n", self.ok("curves", training, "--bound", "1"), "no head reaches it: the best of its layer")

    def test_pictures_are_the_same_for_the_same_histories(self):
        root = self.directory()
        runs = [write_training(root / f"two-s{seed}", seed=seed) for seed in range(2)]
        for name in ("a.svg", "b.svg"):
            self.assertEqual(run("curves", *runs, "-o", root / name, "-q").returncode, 0)
        svg = (root / "a.svg").read_text()
        self.assertEqual(svg, (root / "b.svg").read_text())
        self.assertIn('fill-opacity:0.18', svg, "bands of the spread")

    def test_errors(self):
        training = write_training(self.directory() / "broken", last=20)
        self.assertIn("history.jsonl", self.fails(3, "curves", GOLDEN / "gpt2"))
        self.assertIn("needs DIR", self.fails(2, "curves"))
        self.assertIn("--bound", self.fails(2, "curves", training, "--bound", "2"))
        self.assertIn("--rows", self.fails(2, "curves", training, "--rows", "-1"))
        self.assertIn("not one of step, tokens", self.fails(2, "curves", training, "--x", "time"))
        (training / "history.jsonl").write_text('{"step":0,"tokens":0}\n{"step":1,"tokens":0,"held_out":3}\n')
        self.assertIn("history.jsonl:2': 'held_out' is number", self.fails(3, "curves", training))


if __name__ == "__main__":
    unittest.main()
