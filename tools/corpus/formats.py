"""Files to documents: each reader yields lists of paragraphs, in the order of the file."""
import gzip
import html.parser
import re
import struct
import zlib

from . import clean


class _HtmlText(html.parser.HTMLParser):
    """The running text of a page, a paragraph per block element; navigation, code and tables left out."""

    BLOCKS = frozenset("p div li ul ol dl dt dd h1 h2 h3 h4 h5 h6 blockquote section article body br hr header "
                       "figure".split())
    SKIPPED = frozenset("head script style nav aside footer pre table form button select svg noscript "
                        "textarea".split())
    SKIPPED_CLASSES = frozenset("""
        navheader navfooter toc related sphinxsidebar footer nosearch headerlink nav-wrapper menu-bar sidebar top up
        toplang bottomlang index-label search highlight programlisting synopsis nav global-nav variablelist-toc
        directive-index relatedtopics embedded sig fancy_toc fancy-toc codetoggle howtogetinfo contents
    """.split())
    SKIPPED_IDS = frozenset("""
        quickview path page-header footer preamble-menu hd ft sidebar TopLeftHeader Index menu-bar search-wrapper
        global-nav table-of-contents searchbox DonationFrame sidebar-toggle langs
    """.split())
    VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.paragraphs = []
        self._text = []
        self._skipping = []  # the open elements since, and with, the one that is left out

    def handle_starttag(self, tag, attrs):
        if self._skipping:
            if tag == self._skipping[0] and tag not in self.VOID:
                self._skipping.append(tag)
            return
        attributes = dict(attrs)
        names = set((attributes.get("class") or "").split())
        if tag in self.BLOCKS:
            self._flush()
        if tag in self.VOID:
            return
        if (tag in self.SKIPPED or names & self.SKIPPED_CLASSES or attributes.get("id") in self.SKIPPED_IDS
                or attributes.get("role") in ("navigation", "search")):
            self._flush()
            self._skipping = [tag]

    def handle_startendtag(self, tag, attrs):
        if not self._skipping and tag in self.BLOCKS:
            self._flush()

    def handle_endtag(self, tag):
        if self._skipping:
            if tag == self._skipping[0]:
                self._skipping.pop()
        elif tag in self.BLOCKS:
            self._flush()

    def handle_data(self, data):
        if not self._skipping:
            self._text.append(data)

    def _flush(self):
        text = "".join(self._text)
        self._text = []
        if text.strip():
            self.paragraphs.append(text)

    def close(self):
        super().close()
        self._flush()


def html_pages(data):
    parser = _HtmlText()
    parser.feed(data.decode("utf-8", "replace"))
    parser.close()
    # Numbers of sections say where a page stands in a book that is not here.
    yield [re.sub(r"^\s*(Chapter )?[\dA-Z]{1,2}(\.\d+)*\.\s+", "", p) for p in parser.paragraphs]


def plain(data):
    """Hard-wrapped text, one document; what Project Gutenberg puts around a book is taken off."""
    yield clean.unwrap(without_gutenberg(data.decode("utf-8")))


def without_gutenberg(text):
    text = text.replace("\r\n", "\n")
    start = re.search(r"^\*\*\* ?START OF .*$", text, re.M)
    end = re.search(r"^(\*\*\* ?END OF .*|End of (the )?Project Gutenberg.*)$", text, re.M)
    text = text[start.end() if start else 0:end.start() if end else len(text)]
    text = re.sub(r"\A\s*Produced by [^\n]*(\n[^\n]+)*", "", text)
    text = re.sub(r"\[Illustration[^\]]*\]", "", text)
    return re.sub(r"(?<![A-Za-z0-9])_([^_]+)_(?![A-Za-z0-9])", r"\1", text)  # _emphasis_


CHAPTER = re.compile(r"^ *(CHAPTER|Chapter) +([IVXLC]+|\d+|[A-Z][a-z-]+)\b.*$"
                     r"|^(ADVENTURE )?[IVX]+\. (THE|A) [A-Z' -]+$", re.M)


def chapters(text):
    """A book's chapters; what comes before the first (title page, table of contents) is no prose and left out."""
    starts = [match.start() for match in CHAPTER.finditer(text)] + [len(text)]
    for start, end in zip(starts, starts[1:]):
        paragraphs = clean.unwrap(text[start:end])
        if sum(map(len, paragraphs)) > 1000:  # else a line of the table of contents
            yield paragraphs


def book(data):
    """A novel, or a book of stories: a document for each chapter or story."""
    yield from chapters(without_gutenberg(data.decode("utf-8")))


def dhammapada(data):
    """The verses without their numbers; what was put before and behind them left out."""
    _, _, text = data.decode("utf-8").rpartition("-" * 70 + "\nThe Dhammapada\n")
    text, _, _ = text.partition("\nThe End.")
    yield [re.sub(r"^\d+\. |\s+\d+(, \d+)*\s*$", "", paragraph) for paragraph in clean.unwrap(text)]


def r_data(data):
    """An R package's data base (Rdata.rdb): its character vectors, each a book; 4 bytes of length before each record,
    R's XDR serialisation, compressed by zlib, within."""
    while data:
        unpacker = zlib.decompressobj()
        record = unpacker.decompress(data[4:]) + unpacker.flush()
        data = unpacker.unused_data
        yield from chapters(without_gutenberg("\n".join(r_strings(record))))


def r_strings(record):
    """The strings of a serialised character vector. Format: R Internals, 1.8 "Serialization Formats"."""
    if record[:2] != b"X\n":
        raise ValueError(f"R data: expected the XDR format, X, found {record[:2]!r}")
    version, = struct.unpack_from(">i", record, 2)
    at = 14
    if version == 3:  # the native encoding's name
        length, = struct.unpack_from(">i", record, at)
        at += 4 + length
    flags, count = struct.unpack_from(">ii", record, at)
    at += 8
    if flags & 0xFF != 16:
        raise ValueError(f"R data: expected a character vector (type 16), found type {flags & 0xFF}")
    strings = []
    for _ in range(count):
        kind, length = struct.unpack_from(">ii", record, at)
        if kind & 0xFF != 9:
            raise ValueError(f"R data: expected a string (type 9), found type {kind & 0xFF}")
        at += 8
        strings.append(record[at:at + length].decode("utf-8"))
        at += length
    return strings


def sword_entries(index, blocks, verses):
    """The entries of a SWORD module (zText, zCom: .bzs, .bzz, .bzv): blocks of zlib, and for each verse block, offset
    and length; verses that share an entry give it once."""
    texts = []
    for at in range(0, len(index), 12):
        offset, packed, _ = struct.unpack_from("<III", index, at)
        texts.append(zlib.decompress(blocks[offset:offset + packed]) if packed else b"")
    layout = "<IIH" if _fits(texts, verses, "<IIH") else "<III"  # zText and zCom, or zCom4
    last = None
    for at in range(0, len(verses), struct.calcsize(layout)):
        entry = struct.unpack_from(layout, verses, at)
        if entry[2] and entry != last:
            last = entry
            yield entry[0], texts[entry[0]][entry[1]:entry[1] + entry[2]].decode("utf-8")


def _fits(texts, verses, layout):
    return len(verses) % struct.calcsize(layout) == 0 and all(
        size == 0 or block < len(texts) and offset + size <= len(texts[block])
        for block, offset, size in struct.iter_unpack(layout, verses))


def sword(parts):
    """A testament of a Bible or of a commentary: a document for each block (a book, or a psalm)."""
    documents = {}
    for block, entry in sword_entries(*parts):
        documents.setdefault(block, []).append(entry)
    for entries in documents.values():
        yield osis(" ".join(entries))


def osis(text):
    """The paragraphs of OSIS markup: notes and cross references out, verse line by line."""
    text = re.sub(r"<note\b.*?</note>", "", text, flags=re.S)
    text = re.sub(r"<title\b[^>]*>(.*?)</title>", r"\n\1\n", text, flags=re.S)
    text = re.sub(r"<hi type=\"bold\">\s*Verses? [\d, -]+\s*</hi>", "\n", text)
    text = re.sub(r"<(?:div\b[^>]*type=\"(?:x-p|paragraph|book|introduction)\"|lb\b|l\b|lg\b|chapter\b|p\b|/p\b|item\b|milestone\b"
                  r"[^>]*type=\"x-p\")[^>]*>", "\n", text)
    text = re.sub(r"<[^>]+>", "", text)
    text = re.sub(r"^[ \t]*(Verses? [\d, -]+\.?|Chapter Outline[ \t]*$)|\([\d, -]+\)", "", text, flags=re.M)
    return html.unescape(text).split("\n")


def dict_entries(data):
    """A dictd database: entries of a headword and indented lines, a document for each initial letter."""
    text = gzip.decompress(data).decode("utf-8")
    letters = {}
    for entry in re.split(r"\n(?=\S)", text):
        head = entry.split("\n", 1)[0].strip()
        if head[:1].isalpha() and not head.startswith("00-"):
            letters.setdefault(head[0].upper(), []).append(entry)
    return [letters[letter] for letter in sorted(letters)]


def jargon(data):
    for entries in dict_entries(data):
        paragraphs = []
        for entry in entries:
            head, _, body = entry.partition("\n")
            body = re.sub(r"^ [^ \n][^\n]*\n", "", body)  # how it is pronounced
            body = re.sub(r"\{\s*([^}]*?)\s*\}", r"\1", body)
            body = re.sub(r"(?:^|(?<=[.\s]))(?:See(?: also)?|Compare|Syn\.|Cf\.)\s+[^.]{1,160}\.\s*$", "", body)
            lines = clean.unwrap("\n\n".join(re.sub(r"^ {4}", "", block, flags=re.M)
                                             for block in body.strip("\n").split("\n\n")))
            if sum(map(len, lines)) > 80:
                paragraphs += [f"{head.strip()}: {lines[0].strip()}"] + lines[1:]
        yield paragraphs


def devil(data):
    """The Devil's Dictionary: one text, from the preface on."""
    text = gzip.decompress(data).decode("utf-8")
    yield clean.unwrap(without_gutenberg(text[text.index("_The Devil's Dictionary_ was begun"):]))


def word_net(data):
    """WordNet: a line for each meaning that has an example: what only names a plant, a beast or a person has none."""
    seen = set()  # synonyms share their meanings
    for entries in dict_entries(data):
        paragraphs = []
        for entry in entries:
            head, _, body = entry.partition("\n")
            body = re.sub(r"\[(?:syn|ant|also):.*?\]", "", re.sub(r"\s+", " ", body))
            for gloss in re.split(r"(?: (?:n|v|adj|adv))? \d+: ", " " + body)[1:]:
                meaning, *examples = gloss.split("; \"")
                if examples and gloss not in seen:
                    seen.add(gloss)
                    sentences = " ".join(f'"{e.strip()}' for e in examples)
                    paragraphs.append(f"{head.strip()}: {meaning.strip()}; {sentences}")
        yield paragraphs


POD_CODE = re.compile(r"[A-Z]<<+ (.*?) >>+|[A-Z]<([^<>]*)>", re.S)


def pod(data):
    """Perl's documentation: headings and running text; indented blocks are code."""
    paragraphs = []
    for block in re.split(r"\n\s*\n", data.decode("utf-8", "replace")):
        block = block.strip("\n")
        if not block or block[0] in " \t" or re.match(r"=(?!head|item)", block):
            continue
        block = re.sub(r"^=\w+\s*[*\d.]*\s*", "", block)
        block = re.sub(r"[XZ]<[^<>]*>", "", block)
        for _ in range(4):  # as deep as they are nested
            block = re.sub(r"L<(?:([^|<>]*)\|)?([^<>|]*)>", lambda m: (m[1] or m[2]).lstrip("/").strip('"'), block)
            block = re.sub(r"E<(\w+)>", lambda m: {"lt": "<", "gt": ">", "sol": "/", "verbar": "|"}.get(m[1], " "),
                           block)
            block = POD_CODE.sub(lambda m: m[1] or m[2] or "", block)
        paragraphs.append(block)
    yield paragraphs
