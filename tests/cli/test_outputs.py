"""--csv and -o FILE: the same result as --json, in the format that the file's name asks for."""
import ast
import csv
import io
import json
import pathlib
import struct
import unittest
import xml.etree.ElementTree
import zipfile

from program import GOLDEN, Case, run

MODEL = GOLDEN / "tl-ln-mlp"
IDS = ("--ids", "3,14,15,9,26,5,3,14")
PROMPT = (MODEL, *IDS)

# What is asked; the list of the result that its table shows; whether there is a picture.
RESULTS = {
    "dla": (("dla", *PROMPT), "parts", True),
    "dla of all positions": (("dla", *PROMPT, "--pos", "all"), "positions", True),
    "ov of all heads": (("ov", MODEL), "heads", True),
    "ov": (("ov", MODEL, "--head", "0.1", "--top", "3"), "top", False),
    "ov with eigenvalues": (("ov", MODEL, "--head", "0.1", "--eigen", "--top", "3"), "top", True),
    "qk": (("qk", MODEL, "--head", "1.0", "--top", "2"), "bottom", False),
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


class Outputs(Case):
    def each(self):
        for name, (arguments, key, pictured) in RESULTS.items():
            with self.subTest(name):
                yield arguments, key, pictured

    def test_csv_has_the_rows_of_json(self):
        for arguments, key, _ in self.each():
            rows = list(csv.DictReader(io.StringIO(self.ok(*arguments, "--csv"))))
            expected = self.json(*arguments)[key]
            if "list" in rows[0]:
                rows = [row for row in rows if row["list"] == key]
            self.assertGreaterEqual(len(rows), len(expected))
            number = next(name for name, value in expected[0].items() if isinstance(value, float))
            seen = list(dict.fromkeys(float(row[number]) for row in rows))
            self.assertEqual(seen, list(dict.fromkeys(item[number] for item in expected)))

    def test_files_say_the_same_and_the_screen_stays(self):
        path = self.directory()
        for arguments, _, _ in self.each():
            screen = self.ok(*arguments)
            for ending in ("json", "csv", "npz"):
                file = path / f"result.{ending}"
                result = run(*arguments, "-o", file)
                self.assertEqual((result.returncode, result.stderr, result.stdout), (0, f"wrote {file}\n", screen))
            self.assertEqual(json.loads((path / "result.json").read_text()), self.json(*arguments))
            self.assertEqual((path / "result.csv").read_text(), self.ok(*arguments, "--csv"))
            arrays = npz(path / "result.npz")
            self.assertEqual(json.loads(arrays["json"][2]), self.json(*arguments))

    def test_arrays_are_the_numbers_of_json(self):
        file = self.directory() / "heads.npz"
        run("ov", MODEL, "-o", file)
        descr, shape, data = npz(file)["heads.positivity"]
        expected = [head["positivity"] for head in self.json("ov", MODEL)["heads"]]
        self.assertEqual((descr, shape), ("<f8", (len(expected),)))
        self.assertEqual(list(struct.unpack(f"<{len(expected)}d", data)), expected)

    def test_pictures(self):
        path = self.directory()
        for arguments, _, pictured in self.each():
            for ending in ("svg", "png"):
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
                    self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
                else:
                    self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
                    width, height = struct.unpack(">II", data[16:24])
                    self.assertGreater(min(width, height), 200)

    def test_what_cannot_be_written_is_refused_before_the_work(self):
        for arguments, _, _ in self.each():
            self.assertIn("ends in none of", self.fails(2, *arguments, "-o", "result.txt"))
            self.assertIn("'--csv' and '--json'", self.fails(2, *arguments, "--csv", "--json"))
        self.assertIn("no-such-folder", run("ov", MODEL, "-o", "no-such-folder/x.csv").stderr)
        self.assertFalse(pathlib.Path("result.txt").exists())


if __name__ == "__main__":
    unittest.main()
