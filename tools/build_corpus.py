#!/usr/bin/env python3
"""Builds the plain-English training text from Debian 12's packages: build_corpus.py OUTPUT [--cache DIR] [--seed N]

Downloads the packages named in tools/corpus/sources.py with `apt-get download` into the cache (nothing is installed),
unpacks them there, cleans what they hold and writes

    OUTPUT          UTF-8, a paragraph per line, documents separated by lines <|endoftext|>
    OUTPUT.json     per package: version, licence, documents, bytes, SHA-256; the same for the whole
    OUTPUT.md       the same as a table

Documents are cut to at most 48 KiB and put into a seeded random order, so that any stretch is a mix of everything.
The same packages give the same bytes.
"""
import argparse
import collections
import glob
import hashlib
import json
import pathlib
import random
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from corpus import clean, formats  # noqa: E402
from corpus.sources import SOURCES  # noqa: E402

SEPARATOR = "<|endoftext|>"
LONGEST = 48 * 1024  # bytes of a document
SHORTEST = 400
ENGLISH = 0.25  # of a document's words are function words
SHARE = 0.30  # of the whole that one source may be


def fetch(package, cache):
    """The unpacked files of a package, downloaded when the cache has none; its version."""
    archives = sorted(cache.glob(f"{package}_*.deb"))
    if not archives:
        subprocess.run(["apt-get", "download", "-q", package], cwd=cache, check=True, stdout=subprocess.DEVNULL)
        archives = sorted(cache.glob(f"{package}_*.deb"))
    archive = archives[-1]
    tree = cache / "unpacked" / archive.stem
    if not tree.exists():
        partial = tree.with_name(tree.name + ".part")
        subprocess.run(["rm", "-rf", str(partial)], check=True)
        partial.mkdir(parents=True)
        subprocess.run(["dpkg-deb", "-x", str(archive), str(partial)], check=True)
        partial.rename(tree)
    version = subprocess.run(["dpkg-deb", "-f", str(archive), "Version"], check=True, capture_output=True, text=True)
    return tree, version.stdout.strip()


def inputs(source, tree):
    """What the source's reader takes, one after the other: the bytes of a file, or of a triple of files."""
    for pattern in source.files:
        if isinstance(pattern, tuple):
            if (tree / pattern[0]).exists():  # a commentary on the Psalms has no New Testament
                yield [(tree / name).read_bytes() for name in pattern]
            continue
        for name in sorted(glob.glob(pattern, root_dir=tree, recursive=True)):
            if not (source.exclude and re.search(source.exclude, name)) and (tree / name).is_file():
                yield (tree / name).read_bytes()


def documents(source, tree, duplicates):
    """The cleaned documents of a source: lists of lines."""
    read = [[clean.tidy(paragraph) for paragraph in paragraphs]
            for data in inputs(source, tree) for paragraphs in source.read(data)]
    if not read:
        raise SystemExit(f"{source.package}: no file matches {source.files}")
    boilerplate = duplicates.boilerplate(read) if source.read in (formats.html_pages, formats.pod) else set()
    for paragraphs in read:
        lines = [line for line in duplicates.strip(paragraphs, boilerplate) if line and clean.is_prose(line)]
        lines = clean.drop_bare_headings(lines)
        if lines and clean.english_share(lines) < ENGLISH:
            continue
        for piece in clean.cut(lines, LONGEST):
            if sum(map(len, piece)) >= SHORTEST:
                yield piece


def size(document):
    return sum(len(line.encode()) + 1 for line in document)


def sample(pieces, limit, rng):
    """A random choice of documents, up to `limit` bytes."""
    rng.shuffle(pieces)
    total, kept = 0, []
    for piece in pieces:
        if total + size(piece) <= limit:
            kept.append(piece)
            total += size(piece)
    return kept


def within_share(sizes):
    """Limits that keep each source within SHARE of what remains of them all."""
    limit = max(sizes.values())
    while limit > SHARE * sum(min(n, limit) for n in sizes.values()):
        limit = int(limit * 0.99)
    return limit


def build(cache, seed, say):
    """(source, version, documents) of each source, and all documents in their final order."""
    duplicates = clean.Duplicates()
    parts = []
    for source in SOURCES:
        tree, version = fetch(source.package, cache)
        pieces = list(documents(source, tree, duplicates))
        kept = sample(pieces, source.limit, random.Random(f"{seed} {source.package}"))
        say(f"{source.package} {version}: {len(kept)} of {len(pieces)} documents, {sum(map(size, kept)):,} bytes")
        parts.append((source, version, kept))
    limit = within_share({source.package: sum(map(size, kept)) for source, _, kept in parts})
    parts = [(source, version, sample(kept, limit, random.Random(f"{seed} {source.package} share")))
             for source, version, kept in parts]
    everything = [document for _, _, kept in parts for document in kept]
    random.Random(f"{seed} order").shuffle(everything)
    return parts, everything


def text_of(documents_in_order):
    return "".join("".join(line + "\n" for line in document) + SEPARATOR + "\n" for document in documents_in_order)


def report(parts, text, seed):
    rows = []
    for source, version, kept in parts:
        body = text_of(kept).encode()
        rows.append({"package": source.package, "version": version, "licence": source.licence, "text": source.what,
                     "kind": source.kind, "documents": len(kept), "bytes": len(body),
                     "sha256": hashlib.sha256(body).hexdigest()})
    data = text.encode()
    return {"sources": rows, "seed": seed, "separator": SEPARATOR, "documents": sum(row["documents"] for row in rows),
            "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def table(summary):
    """The summary as the table of a model card."""
    lines = ["| package | version | text | licence | documents | bytes | share |", "| --- | --- | --- | --- | ---: | ---: | ---: |"]
    for row in summary["sources"]:
        lines.append(f"| {row['package']} | {row['version']} | {row['text']} | {row['licence']} | {row['documents']} | "
                     f"{row['bytes']:,} | {row['bytes'] / summary['bytes']:.1%} |")
    kinds = collections.Counter()
    for row in summary["sources"]:
        kinds[row["kind"]] += row["bytes"]
    lines.append(f"| all | | | | {summary['documents']} | {summary['bytes']:,} | |")
    mix = ", ".join(f"{kind} {count / summary['bytes']:.0%}" for kind, count in kinds.most_common())
    return "\n".join(lines) + f"\n\nKinds: {mix}. SHA-256 of the whole: `{summary['sha256']}`.\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--cache", type=pathlib.Path, default=pathlib.Path(".cache/corpus"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    parts, everything = build(options.cache.resolve(), options.seed, lambda line: print(line, file=sys.stderr))
    text = text_of(everything)
    summary = report(parts, text, options.seed)
    for suffix, content in (("", text), (".json", json.dumps(summary, indent=1) + "\n"), (".md", table(summary))):
        partial = options.output.with_name(options.output.name + suffix + ".part")
        partial.write_bytes(content.encode())
        partial.rename(options.output.with_name(options.output.name + suffix))
    print(table(summary), end="")


if __name__ == "__main__":
    main()
