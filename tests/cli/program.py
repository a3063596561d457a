"""Runs the program as its users do. Standard library only."""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
GOLDEN = DATA / "golden"
HOSTILE = DATA / "hostile"
SMOLLM2 = ROOT / "models" / "smollm2-135m-instruct-q4_1.gguf"
KIRCHHOFF = os.environ.get("KIRCHHOFF", str(ROOT / "build" / "release" / "kirchhoff"))
SANITIZED = bool(os.environ.get("KIRCHHOFF_SANITIZE"))

# What would change the output of the tests from outside.
CLEAN = {k: v for k, v in os.environ.items()
         if k not in ("COLUMNS", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM", "KIRCHHOFF_ISA")}

# A stage of one or more words, "load weights 51/272, 102/s, 2 s left": which a slow machine sees and a fast one does not.
PROGRESS = re.compile(r"^[a-z]+( [a-z]+)* \d+/\d+, .*\n", re.MULTILINE)


def run(*arguments, stdin=b"", env=None, binary=False, **options):
    """The finished process; text unless `binary`, with what it said on stderr beside progress as `words`."""
    result = subprocess.run([KIRCHHOFF, *(a if isinstance(a, bytes) else str(a) for a in arguments)], input=stdin, capture_output=True, timeout=300,
                            env={**CLEAN, **(env or {})}, **options)
    if not binary:
        result.stdout = result.stdout.decode()
        result.stderr = result.stderr.decode()
        result.words = PROGRESS.sub("", result.stderr)
    return result


class Case(unittest.TestCase):
    maxDiff = None

    def ok(self, *arguments, **options):
        """stdout of a run that must succeed without a word on stderr but progress."""
        result = run(*arguments, **options)
        self.assertEqual((result.returncode, result.words), (0, ""), arguments)
        return result.stdout

    def json(self, *arguments, **options):
        """The object that a --json run prints, which is all that it prints."""
        text = self.ok(*arguments, "--json", **options)
        self.assertEqual(text.count("\n"), 1, "one line")
        result = json.loads(text)
        self.assertRegex(result["schema"], r"^kirchhoff\.[a-z_.]+$")
        self.assertEqual(result["version"], 1)
        return result

    def fails(self, status, *arguments, **options):
        """The error of a run that must fail with this status and print no result."""
        result = run(*arguments, **options)
        self.assertEqual(result.returncode, status, f"{arguments}: {result.stderr}")
        self.assertTrue(result.words.startswith("error: "), result.stderr)
        self.assertEqual(result.stdout, "")
        return result.words

    def directory(self):
        """A directory that goes away after the test."""
        path = tempfile.mkdtemp(prefix="kirchhoff-")
        self.addCleanup(shutil.rmtree, path)
        return pathlib.Path(path)

    def spelling_model(self):
        """golden/gpt2 with a tokenizer, which the golden folders lack: the letters a, b, c, and ab, abc."""
        path = self.directory()
        for name in ("config.json", "model.safetensors"):
            shutil.copy(GOLDEN / "gpt2" / name, path)
        shutil.copy(HOSTILE / "tokenizer" / "ok.tokenizer.json", path / "tokenizer.json")
        return path


def read_safetensors(path):
    """name -> (dtype, shape, bytes)."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    body = data[8 + size:]
    return {name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])])
            for name, entry in header.items() if name != "__metadata__"}


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def doubles(entry):
    dtype, shape, data = entry
    letter, size = {"F64": ("d", 8), "F32": ("f", 4)}[dtype]
    return list(struct.unpack(f"<{len(data) // size}{letter}", data))
