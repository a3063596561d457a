#!/usr/bin/env python3
"""All C++ is formatted as .clang-format says, by the one version that it is written for. Skips (77) where that is absent."""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

if not (tool := shutil.which("clang-format-14")):
    print("clang-format-14 is not installed")
    sys.exit(77)
files = [str(path) for folder in ("src", "include", "apps", "tests", "examples", "bench", "fuzz", "tools")
         for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".cc", ".h")]
sys.exit(subprocess.run([tool, "--dry-run", "--Werror", *files]).returncode)
