"""Where prompts come from, how they are tokenized, targets, generation."""
import json
import unittest

from program import SMOLLM2, Case, run

needs_model = unittest.skipUnless(SMOLLM2.exists(), f"{SMOLLM2.name} is not there (make models)")


def ids(result):
    return [token["id"] for token in result["provenance"]["tokens"]]


class Sources(Case):
    def test_all_ways_to_give_a_prompt_are_one(self):
        model = self.spelling_model()
        wanted = [4, 0]  # "abc" + "a"
        for arguments, stdin in ((["abca"], b""), (["-p", "abca"], b""), (["--prompt", "abca"], b""), ([], b"abca"),
                                 ([], b"abca\n"), (["-"], b"abca"), (["--ids", "4,0"], b""), (["--ids", "4 0"], b"")):
            result = self.json("run", model, *arguments, stdin=stdin)
            self.assertEqual(ids(result), wanted, arguments)

    def test_only_one_newline_is_dropped(self):
        model = self.spelling_model()
        self.assertIn("no token for", self.fails(2, "run", model, stdin=b"ab\n\n"), "this model cannot spell a newline")

    def test_no_prompt(self):
        model = self.spelling_model()
        message = self.fails(2, "run", model)
        self.assertIn("there is no prompt", message)
        self.assertIn("usage: kirchhoff run", message)
        self.assertIn("empty", self.fails(2, "run", model, ""))
        self.assertIn("given twice", self.fails(2, "run", model, "a", "-p", "b"))

    def test_brackets_and_dashes_are_text(self):
        result = json.loads(self.ok("tokens", self.spelling_model(), "--json", "--", "ab"))
        self.assertEqual(result["ids"], [3])

    def test_bos_that_is_not_there(self):
        self.assertIn("BOS", self.fails(2, "run", self.spelling_model(), "ab", "--bos"))
        self.assertIn("contradict", self.fails(2, "run", self.spelling_model(), "ab", "--bos", "--no-bos"))


class Tokens(Case):
    def test_table_and_json(self):
        model = self.spelling_model()
        self.assertIn("abc", self.ok("tokens", model, "abcab"))
        result = self.json("tokens", model, "abcab")
        self.assertEqual(result["ids"], [4, 3])
        self.assertEqual(result["offsets"], [[0, 3], [3, 5]])
        self.assertEqual(result["bytes"], ["616263", "6162"])
        self.assertEqual([t["text"] for t in result["tokens"]], ["abc", "ab"])
        self.assertEqual(self.json("tokens", model / "tokenizer.json", "abcab")["ids"], [4, 3])

    def test_decode(self):
        model = self.spelling_model()
        self.assertEqual(self.ok("tokens", model, "--decode", "4,3"), "abcab\n")
        self.assertEqual(self.ok("tokens", model, "--decode", "--ids", "4,3"), "abcab\n")
        self.assertEqual(self.json("tokens", model, "--decode", "4 3")["bytes"], "6162636162")
        self.assertIn("token id 9", self.fails(2, "tokens", model, "--decode", "9"))

    def test_filter(self):
        model = self.spelling_model()
        lines = [{"text": "abc"}, {"text": ""}, {"text": "ba", "special": False, "bos": False}]
        out = self.ok("tokens", model, "--jsonl", stdin="\n".join(map(json.dumps, lines)).encode()).splitlines()
        self.assertEqual([json.loads(line) for line in out],
                         [{"ids": [4], "bytes": ["616263"], "offsets": [[0, 3]]},
                          {"ids": [], "bytes": [], "offsets": []},
                          {"ids": [1, 0], "bytes": ["62", "61"], "offsets": [[0, 1], [1, 2]]}])
        back = self.ok("tokens", model, "--jsonl", "--decode", stdin=b'{"ids": [4, 3]}\n[0]\n').splitlines()
        self.assertEqual([json.loads(line) for line in back],
                         [{"text": "abcab", "bytes": "6162636162"}, {"text": "a", "bytes": "61"}])

    def test_filter_names_the_line(self):
        model = self.spelling_model()
        for line in (b"not json", b'{"text": 3}', b'{"txt": "a"}', b'{"text": "a", "bos": 1}'):
            result = run("tokens", model, "--jsonl", stdin=b'{"text": "a"}\n' + line + b"\n")
            self.assertEqual(result.returncode, 2)
            self.assertIn("line 2", result.stderr)
            self.assertEqual(len(result.stdout.splitlines()), 1, "what came before is printed")

    def test_filter_answers_each_line_at_once(self):
        import subprocess
        from program import CLEAN, KIRCHHOFF
        process = subprocess.Popen([KIRCHHOFF, "tokens", str(self.spelling_model()), "--jsonl"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, env=CLEAN)
        for text in ("ab", "abc"):
            process.stdin.write(json.dumps({"text": text}).encode() + b"\n")
            process.stdin.flush()
            self.assertEqual(json.loads(process.stdout.readline())["bytes"], [text.encode().hex()])
        process.stdin.close()
        self.assertEqual(process.wait(30), 0)
        process.stdout.close()


@needs_model
class Targets(Case):
    def test_several_pieces(self):
        message = self.fails(2, "dla", SMOLLM2, "When", "--target", " Maryland is")
        self.assertIn("is not a single token", message)
        self.assertIn("'␣is'", message)

    def test_the_leading_space_matters(self):
        spaced = self.json("dla", SMOLLM2, "When", "--target", " Mary", "--foil", " John")
        self.assertEqual((spaced["target"]["text"], spaced["foil"]["text"]), (" Mary", " John"))
        bare = self.json("dla", SMOLLM2, "When", "--target", "the")
        self.assertEqual(bare["target"]["text"], "the")
        by_id = self.json("dla", SMOLLM2, "When", "--target-id", spaced["target"]["id"], "--foil-id", spaced["foil"]["id"])
        self.assertEqual(by_id["metric"], spaced["metric"])

    def test_invalid_utf8_is_bytes_for_a_byte_level_vocabulary(self):
        result = run("tokens", SMOLLM2, b"a\xe4\xbd", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual("".join(json.loads(result.stdout)["bytes"]), "61e4bd")

    def test_specials(self):
        self.assertEqual(len(self.json("tokens", SMOLLM2, "<|im_start|>")["ids"]), 1)
        self.assertGreater(len(self.json("tokens", SMOLLM2, "<|im_start|>", "--plain")["ids"]), 1)


class Generation(Case):
    def test_greedy_is_repeated_argmax(self):
        model = self.spelling_model()
        wanted, prompt = [], [4, 0]
        for _ in range(4):
            top = self.json("run", model, "--ids", ",".join(map(str, prompt)), "--top", "1")["top"][0]["id"]
            wanted.append(top)
            prompt.append(top)
        result = self.json("run", model, "abca", "-n", "4")
        self.assertEqual(result["generated"]["ids"], wanted)
        self.assertEqual(result["generated"]["stop"], "length")

    def test_seeded(self):
        model = self.spelling_model()
        arguments = ("run", model, "--ids", "4,0", "-n", "8", "--temperature", "2")
        one, again, other = (self.json(*arguments, "--seed", seed)["generated"]["ids"] for seed in (1, 1, 2))
        self.assertEqual(one, again)
        self.assertNotEqual(one, other)

    @needs_model
    def test_text_is_streamed_to_stdout_alone(self):
        text = self.ok("run", SMOLLM2, "The capital of France is", "-n", "5")
        self.assertEqual(text.rstrip("\n"), self.json("run", SMOLLM2, "The capital of France is", "-n", "5")["generated"]["text"])
        self.assertIn("Paris", text)


if __name__ == "__main__":
    unittest.main()
