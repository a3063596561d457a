"""From the paragraphs of a document to lines worth learning from.

A document is a list of paragraphs, each a string that becomes one line of the corpus (verse keeps its own lines, each
of them a paragraph).
"""
import collections
import re
import unicodedata

# Typewriter's punctuation, as the older texts have it: one token for what is one thing.
TYPOGRAPHY = str.maketrans({
    "‘": "'", "’": "'", "‚": "'", "‛": "'", "′": "'", "`": "'", "´": "'",
    "“": '"', "”": '"', "„": '"', "‟": '"', "″": '"', "«": '"', "»": '"',
    "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "--", "―": "--", "−": "-",
    "…": "...", "\u00a0": " ", "\u2002": " ", "\u2003": " ", "\u2009": " ", "\u202f": " ", "\u00ad": "",
    "\u200b": "", "\u200c": "", "\u200d": "", "\ufeff": "", "¶": "", "•": "",
})

# Words that make up a third of any English page and next to nothing of one in another language or in code.
FUNCTION_WORDS = frozenset("""
a all an and any are as at be been but by can do for from had has have he her him his i if in into is it its may more
must my no not of on one or our out shall she should so such than that the their them then there these they this those
thou thy to up upon us was we were what when which who will with would you your
""".split())

WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")


def tidy(paragraph):
    """One line: typography made plain, white space collapsed, what is no text removed."""
    text = unicodedata.normalize("NFC", paragraph).translate(TYPOGRAPHY)
    text = "".join(c if unicodedata.category(c)[0] != "C" else " " for c in text)
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r" ([,;:])(?=\s|$)", r"\1", text)


def unwrap(text):
    """Paragraphs of hard-wrapped text: lines between blank lines joined, but verse (indented, short) line by line."""
    paragraphs = []
    for block in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n").expandtabs()):
        lines = [line for line in block.split("\n") if line.strip()]
        if len(lines) > 1 and is_verse(lines):
            paragraphs += lines
        elif lines:
            paragraphs.append(" ".join(lines))
    return paragraphs


def is_verse(lines):
    return all(line.startswith("  ") for line in lines) and max(len(line.strip()) for line in lines) < 56


def is_prose(paragraph):
    """Whether a line is mostly words: no table, no signature, no path, no rule."""
    letters = sum(c.isalpha() or c == " " for c in paragraph)
    return letters >= 0.8 * len(paragraph) and any(c.isalpha() for c in paragraph)


def english_share(paragraphs):
    """The share of function words among the words: about 0.45 in English prose, under 0.1 in other languages."""
    words = [word.lower() for paragraph in paragraphs for word in WORD.findall(paragraph)]
    return sum(word in FUNCTION_WORDS for word in words) / max(len(words), 1)


def is_heading(paragraph):
    return len(paragraph) < 80 and not re.search(r"[.!?;,:\"')]$", paragraph)


def drop_bare_headings(paragraphs):
    """Headings that head nothing: their section was code, a table or a list of links."""
    kept = []
    for paragraph in paragraphs:
        if kept and is_heading(paragraph) and is_heading(kept[-1]):
            kept.pop()
        kept.append(paragraph)
    while kept and is_heading(kept[-1]):
        kept.pop()
    return kept


def cut(paragraphs, limit):
    """Pieces of about equal size, none over `limit` bytes but for a single longer paragraph."""
    sizes = [len(paragraph.encode()) + 1 for paragraph in paragraphs]
    count = -(-sum(sizes) // limit)
    target = sum(sizes) / max(count, 1)
    pieces, piece, size = [], [], 0
    for paragraph, length in zip(paragraphs, sizes):
        if piece and size + length / 2 > target:
            pieces.append(piece)
            piece, size = [], 0
        piece.append(paragraph)
        size += length
    return pieces + [piece] if piece else pieces


class Duplicates:
    """What was said before, word for word: long paragraphs anywhere, short ones where a source says them again and
    again (its boilerplate)."""

    LONG = 60
    OFTEN = 8

    def __init__(self):
        self._seen = set()

    def boilerplate(self, documents):
        """Short lines that more than OFTEN documents of a source have."""
        count = collections.Counter()
        for paragraphs in documents:
            count.update({p for p in paragraphs if len(p) < self.LONG})
        return {p for p, n in count.items() if n > self.OFTEN}

    def strip(self, paragraphs, boilerplate):
        kept = []
        for paragraph in paragraphs:
            if len(paragraph) >= self.LONG:
                if paragraph in self._seen:
                    continue
                self._seen.add(paragraph)
            elif paragraph in boilerplate:
                continue
            kept.append(paragraph)
        return kept
