#!/usr/bin/env python3
"""What tools/build_corpus.py makes of small files of each format."""
import gzip
import pathlib
import struct
import sys
import tempfile
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import build_corpus  # noqa: E402
from corpus import clean, formats, sources  # noqa: E402


def read(reader, data):
    return [[clean.tidy(p) for p in paragraphs] for paragraphs in reader(data)]


class Cleaning(unittest.TestCase):
    def test_tidy(self):
        self.assertEqual(clean.tidy("“It’s\u00a0late” —\n  he  said\u2026\u00ad\u0007 ,"), "\"It's late\" -- he said... ,".replace(" ,", ","))
        self.assertEqual(clean.tidy("use ? and . here"), "use ? and . here")

    def test_unwrap(self):
        text = "One line\r\nand another.\n\n  A rose\n  is a rose\n\n   an indented first line of a paragraph that is long, and\nits second.\n"
        self.assertEqual([clean.tidy(p) for p in clean.unwrap(text)],
                         ["One line and another.", "A rose", "is a rose",
                          "an indented first line of a paragraph that is long, and its second."])

    def test_prose(self):
        self.assertTrue(clean.is_prose("He said \"no\", and went."))
        self.assertFalse(clean.is_prose("-----+-----+ 12 | 34 |"))
        self.assertFalse(clean.is_prose("***"))

    def test_english(self):
        english = "It was the best of times, it was the worst of times, and we had all that we could wish for."
        self.assertGreater(clean.english_share([english]), 0.4)
        self.assertLess(clean.english_share(["Der Mond ist aufgegangen, die goldnen Sternlein prangen."]), 0.15)
        self.assertEqual(clean.english_share([]), 0)

    def test_bare_headings(self):
        self.assertEqual(clean.drop_bare_headings(["Title", "Example", "Use", "It is used.", "See also"]),
                         ["Use", "It is used."])

    def test_cut(self):
        paragraphs = [c * 99 for c in "abcdefghij"]  # 100 bytes each with their line ends
        pieces = clean.cut(paragraphs, 400)
        self.assertEqual([len(piece) for piece in pieces], [3, 3, 3, 1])
        self.assertEqual(sum(pieces, []), paragraphs)
        self.assertEqual(clean.cut(["x" * 900], 400), [["x" * 900]])
        self.assertEqual(clean.cut([], 400), [])

    def test_duplicates(self):
        duplicates = clean.Duplicates()
        page = ["Next page", "A paragraph that is long enough to be told from all others, surely.", "Yes."]
        boilerplate = duplicates.boilerplate([page] * 9)
        self.assertEqual(boilerplate, {"Next page", "Yes."})
        self.assertEqual(duplicates.strip(page, boilerplate), page[1:2])
        self.assertEqual(duplicates.strip(page, set()), ["Next page", "Yes."])


class Formats(unittest.TestCase):
    def test_html(self):
        page = b"""<html><head><title>T</title><style>p{}</style></head><body><nav><ul><li>Home</li></ul></nav>
        <div class="related" role="navigation"><div>Up</div></div><h2>13.1. Locks &amp; keys<a class="headerlink">#</a></h2>
        <p>Some <em>running</em><br/>text,<img src="x"> here.</p><pre>x = <b>1</b></pre><table><tr><td>9</td></tr></table>
        <ul><li>first<li>second</ul></body></html>"""
        self.assertEqual(read(formats.html_pages, page),
                         [["Locks & keys", "Some running", "text, here.", "first", "second"]])

    def test_gutenberg(self):
        book = ("Title page\n*** START OF THIS PROJECT GUTENBERG EBOOK X ***\nProduced by Somebody\nand others\n\n"
                "CHAPTER I\n\n_Really_ a snake_case_name.\n\n*** END OF THIS PROJECT GUTENBERG EBOOK X ***\nLicence\n")
        self.assertEqual(read(formats.plain, book.encode()), [["CHAPTER I", "Really a snake_case_name."]])

    def test_chapters(self):
        text = "TITLE\n\nCHAPTER 1\nCHAPTER 2\n\n" + "".join(f"CHAPTER {n}\n\n{'word ' * 250}\n\n" for n in (1, 2))
        self.assertEqual([paragraphs[0] for paragraphs in formats.chapters(text)], ["CHAPTER 1", "CHAPTER 2"])

    def test_r_data(self):
        def serialised(lines):
            strings = b"".join(struct.pack(">ii", 0x40009, len(line)) + line for line in lines)
            return b"X\n" + struct.pack(">iiii", 3, 0x40201, 0x30500, 5) + b"UTF-8" + struct.pack(">ii", 16, len(lines)) + strings

        record = serialised([b"EMMA", b"", b"CHAPTER I", b""] + [b"Emma Woodhouse, handsome, clever, and rich,"] * 30)
        data = 2 * (struct.pack(">i", len(record)) + zlib.compress(record))
        books = read(formats.r_data, data)
        self.assertEqual(len(books), 2)
        self.assertEqual(books[1][0], "CHAPTER I")
        self.assertEqual(books[1][1][:45], "Emma Woodhouse, handsome, clever, and rich, E")
        self.assertRaises(ValueError, formats.r_strings, b"A\n" + record[2:])

    def test_sword(self):
        entries = [b"<w lemma=\"x\">Now</w> Sarai<note n=\"1\">a <hi>b</hi></note> bore none. ",
                   b"<div sID=\"g\" type=\"x-p\"/>But she had <l level=\"1\"/>a servant."]
        block = b"".join(entries)
        packed = zlib.compress(block)
        index = struct.pack("<III", 0, len(packed), len(block))
        places = [(0, 0, 0), (0, 0, len(entries[0])), (0, 0, len(entries[0])), (0, len(entries[0]), len(entries[1]))]
        for layout in ("<IIH", "<III"):
            verses = b"".join(struct.pack(layout, *place) for place in places)
            document, = read(formats.sword, (index, packed, verses))
            self.assertEqual([line for line in document if line], ["Now Sarai bore none.", "But she had", "a servant."])

    def test_dictionaries(self):
        data = gzip.compress(b"00-database-short\n     The Jargon File\nacme\n /ak'mee/, n.\n\n    The supplier of {bizarre}, "
                             b"elaborate and quite\n    non-functional gadgetry, for hackers everywhere on earth. See {pistol}.\n"
                             b"tiny\n\n    Small.\n")
        self.assertEqual(read(formats.jargon, data)[0],
                         ["acme: The supplier of bizarre, elaborate and quite non-functional gadgetry, for hackers everywhere on earth."])
        data = gzip.compress(b'\nside\n    n 1: a place; "he stood on\n      the side" [syn: {side}, {face}]\nface\n'
                             b'    n 1: a place; "he stood on\n      the side" [syn: {side}, {face}]')
        self.assertEqual(sum(read(formats.word_net, data), []), ['face: a place; "he stood on the side"'])

    def test_pod(self):
        text = b"=head1 NAME\n\nperlx - about C<< L<open|perlfunc/open> >>, B<bold> E<lt>X and more.X<index>\n\n    code();\n\n=over 4\n\n=cut\n"
        self.assertEqual(read(formats.pod, text), [["NAME", "perlx - about open, bold <X and more."]])


class Building(unittest.TestCase):
    def test_documents(self):
        story = "\n\n".join(f"On day {n} it was said that the king of the land had been in his house, and all knew it." for n in range(9))
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            (tree / "a.txt").write_text(story)
            (tree / "b.txt").write_text(story + "\n\nAnd on the last day it was said that there had been no king in the land." * 1)
            (tree / "c.txt").write_text("Der Mond ist aufgegangen, die goldnen Sternlein prangen am Himmel hell und klar. " * 9)
            source = sources.Source("p", "l", "t", ("*.txt",), formats.plain, "narrative")
            found = list(build_corpus.documents(source, tree, clean.Duplicates()))
        self.assertEqual([len(document) for document in found], [9])  # b repeats a, c is German

    def test_shares(self):
        limit = build_corpus.within_share({"a": 1000, "b": 100, "c": 100, "d": 100})
        self.assertLessEqual(limit, 0.3 * (limit + 300))
        self.assertGreater(limit, 120)

    def test_sources_are_described(self):
        for source in sources.SOURCES:
            self.assertTrue(source.package and source.licence and source.what and source.files)
            self.assertIn(source.kind, ("narrative", "essay", "reference"))
            self.assertNotIn("GPL", source.licence.replace("Artistic or GPL-1+", ""))


if __name__ == "__main__":
    unittest.main()
