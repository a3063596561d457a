"""--csv and -o FILE: the same result as --json, in the format that the file's name asks for."""
import ast
import csv
import io
import json
import pathlib
import struct
import tempfile
import unittest
import xml.etree.ElementTree
import zipfile

from program import GOLDEN, Case, run
from trainings import write_training

MODEL = GOLDEN / "tl-ln-mlp"
IDS = ("--ids", "3,14,15,9,26,5,3,14")
PROMPT = (MODEL, *IDS)
TEXT_IDS = tempfile.NamedTemporaryFile("w", suffix=".ids")  # goes away with the program
TEXT_IDS.write(" ".join(str(i * i % 29) for i in range(36)))
TEXT_IDS.flush()
TRAININGS = tempfile.TemporaryDirectory()
TRAINING = write_training(pathlib.Path(TRAININGS.name) / "two", last=100)
TEXT = (MODEL, "--data-ids", TEXT_IDS.name, "--context", "9")

# What is asked; the list of the result that its table shows; whether there is a picture.
RESULTS = {
    "dla": (("dla", *PROMPT), "parts", True),
    "dla of all positions": (("dla", *PROMPT, "--pos", "all"), "positions", True),
    "lens": (("lens", *PROMPT, "--pos", "all", "--top", "2"), "positions", True),
    "attn of all heads": (("attn", *PROMPT), "heads", True),
    "attn": (("attn", *PROMPT, "--head", "1.*"), "heads", True),
    "paths": (("paths", *PROMPT), "paths", True),
    "qk-terms": (("qk-terms", *PROMPT, "--head", "1.0"), "keys", False),
    "heads": (("heads", MODEL, "--ids", "3,14,15,9,26,5,3,14,15,9,26,5", "--period", "6", "--no-causal"), "heads", True),
    "terms": (("terms", *TEXT), "orders", True),
    "icl": (("icl", *TEXT, "--late", "5", "--early", "2"), "positions", True),
    "curves": (("curves", TRAINING), "points", True),
    "ablate": (("ablate", *PROMPT, "--all"), "ablations", True),
    "ablate over a text": (("ablate", *TEXT, "--all"), "ablations", True),
    "ov of all heads": (("ov", MODEL), "heads", True),
    "ov": (("ov", MODEL, "--head", "0.1", "--top", "3"), "top", False),
    "ov with eigenvalues": (("ov", MODEL, "--head", "0.1", "--eigen", "--top", "3"), "top", True),
    "qk": (("qk", MODEL, "--head", "1.0", "--top", "2"), "bottom", False),
    "compose": (("compose", MODEL), "pairs", True),
    "virtual": (("virtual", MODEL, "--from", "0.1", "--to", "1.0"), "weights", False),
    "skip-trigrams": (("skip-trigrams", MODEL, "--head", "0.1"), "trigrams", False),
}


def npz(path):
    """name -> (dtype, shape, bytes) of every member."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            data = archive.read(member)
            assert data[:6] == b"\x93NUMPY", member
            size = struct.unpack("<H", data[8:10])[0]
            header = ast.literal_eval(data[10:10 + size].decode())
            arrays[member.removesuffix(".npy")] = (header["descr"], header["shape"], data[10 + size:])
    return arrays


def column_of(item):
    """A key whose value tells the items of a list apart: a number if there is one."""
    scalars = {name: value for name, value in item.items() if isinstance(value, (str, int, float))}
    return next((name for name, value in scalars.items() if isinstance(value, float)), next(iter(scalars)))


def distinct(values, kind):
    return list(dict.fromkeys(kind(value) for value in values))


class Outputs(Case):
    def test_csv_has_the_rows_of_json(self):
        for name, (arguments, key, _) in RESULTS.items():
            with self.subTest(name):
                rows = list(csv.DictReader(io.StringIO(self.ok(*arguments, "--csv"))))
                expected = self.json(*arguments)[key]
                if "list" in rows[0]:
                    rows = [row for row in rows if row["list"] == key]
                self.assertGreaterEqual(len(rows), len(expected))
                column = column_of(expected[0])
                kind = type(expected[0][column])
                self.assertEqual(distinct((row[column] for row in rows), kind),
                                 distinct((item[column] for item in expected), kind))

    def test_files_say_the_same_and_the_screen_stays(self):
        path = self.directory()
        for name, (arguments, _, _) in RESULTS.items():
            with self.subTest(name):
                screen = self.ok(*arguments)
                for ending in ("json", "csv", "npz"):
                    file = path / f"result.{ending}"
                    result = run(*arguments, "-o", file)
                    self.assertEqual((result.returncode, result.stdout), (0, screen))
                    self.assertTrue(result.stderr.endswith(f"wrote {file}\n"), result.stderr)
                self.assertEqual(json.loads((path / "result.json").read_text()), self.json(*arguments))
                self.assertEqual((path / "result.csv").read_text(), self.ok(*arguments, "--csv"))
                self.assertEqual(json.loads(npz(path / "result.npz")["json"][2]), self.json(*arguments))

    def test_arrays_are_the_numbers_of_json(self):
        file = self.directory() / "heads.npz"
        run("ov", MODEL, "-o", file)
        descr, shape, data = npz(file)["heads.positivity"]
        expected = [head["positivity"] for head in self.json("ov", MODEL)["heads"]]
        self.assertEqual((descr, shape), ("<f8", (len(expected),)))
        self.assertEqual(list(struct.unpack(f"<{len(expected)}d", data)), expected)

    def test_patterns_are_arrays_of_head_query_and_key(self):
        file = self.directory() / "patterns.npz"
        run("attn", *PROMPT, "--head", "1.*", "-o", file)
        heads = self.json("attn", *PROMPT, "--head", "1.*")["heads"]
        descr, shape, data = npz(file)["heads.pattern"]
        length = len(heads[0]["pattern"])
        self.assertEqual((descr, shape), ("<f8", (len(heads), length, length)))
        expected = [x for head in heads for row in head["pattern"] for x in row]
        self.assertEqual(list(struct.unpack(f"<{len(expected)}d", data)), expected)

    def test_pictures(self):
        path = self.directory()
        for name, (arguments, _, pictured) in RESULTS.items():
            for ending in ("svg", "png"):
                with self.subTest(name, ending=ending):
                    file = path / f"picture.{ending}"
                    if not pictured:
                        self.assertIn("'--output'", self.fails(2, *arguments, "-o", file))
                        self.assertFalse(file.exists())
                        continue
                    self.assertEqual(run(*arguments, "-o", file).returncode, 0)
                    data = file.read_bytes()
                    file.unlink()
                    if ending == "svg":
                        root = xml.etree.ElementTree.fromstring(data)
                        self.assertTrue(root.tag.endswith("}svg"), root.tag)
                    else:
                        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
                        width, height = struct.unpack(">II", data[16:24])
                        self.assertGreater(min(width, height), 200)

    def test_what_cannot_be_written_is_refused(self):
        for name, (arguments, _, _) in RESULTS.items():
            with self.subTest(name):
                self.assertIn("ends in none of", self.fails(2, *arguments, "-o", "result.txt"))
                self.assertIn("'--csv' and '--json'", self.fails(2, *arguments, "--csv", "--json"))
        self.assertIn("no-such-folder", run("ov", MODEL, "-o", "no-such-folder/x.csv").stderr)
        self.assertFalse(pathlib.Path("result.txt").exists())


if __name__ == "__main__":
    unittest.main()
