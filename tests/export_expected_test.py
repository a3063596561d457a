#!/usr/bin/env python3
"""tools/export_expected.py reproduces the expected values of the golden models, which were made by another program.

Runs under the Python named by KIRCHHOFF_TORCH_PYTHON, or else this one; skips (77) where that has no torch.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/data/golden"
MODELS = ("gpt2", "llama-gqa", "gemma3", "falcon-rotary", "gpt2-n-inner")
PYTHON = os.environ.get("KIRCHHOFF_TORCH_PYTHON", sys.executable)

# Relative to the largest magnitude of a tensor: both sides hold float32 roundings of float64, logits in full.
COMPARE = """
import json, sys, torch, safetensors.torch
got, want = (safetensors.torch.load_file(path) for path in sys.argv[1:3])
tolerance = {torch.float32: 1e-7, torch.float64: 1e-12}
assert sorted(got) == sorted(want), sorted(set(got) ^ set(want))
for name, w in want.items():
    g = got[name]
    assert g.shape == w.shape and g.dtype == w.dtype, (name, g.shape, w.shape, g.dtype, w.dtype)
    error = float((g - w).abs().max() / w.abs().max().clamp(min=1e-30))
    assert error <= tolerance[w.dtype], (name, error)
print(len(want), "tensors agree")
"""


def main():
    if subprocess.run([PYTHON, "-c", "import torch, transformers, safetensors"], capture_output=True).returncode != 0:
        print(f"{PYTHON} has no torch, transformers and safetensors")
        sys.exit(77)
    for name in MODELS:
        model = GOLDEN / name
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PYTHON, str(ROOT / "tools/export_expected.py"), str(model), "-o", folder,
                            "--like", str(model / "expected.json")], check=True)
            subprocess.run([PYTHON, "-c", COMPARE, f"{folder}/expected.safetensors", str(model / "expected.safetensors")], check=True)
            got, want = (json.loads(pathlib.Path(path, "expected.json").read_text()) for path in (folder, model))
            for mine, theirs in zip(got["sequences"], want["sequences"], strict=True):
                assert mine["tokens"] == theirs["tokens"]
                assert abs(mine["logit_diff"] - theirs["logit_diff"]) < 1e-12, (name, mine, theirs)
            assert got["grad_params"] == want["grad_params"], (got["grad_params"], want["grad_params"])
            assert abs(got["loss"]["mean_next_token_cross_entropy"] - want["loss"]["mean_next_token_cross_entropy"]) < 1e-12
            assert got["closure"] < 1e-14, got["closure"]


if __name__ == "__main__":
    main()
