"""The table of what the corpus is made of: Debian 12's packages, their licences as their copyright files say them, the
files read and how. Nothing under a copyleft or a non-commercial licence: what is trained on this may be given away
under any terms. `limit`: at most so many bytes of a source, so that prose outweighs manuals."""
import dataclasses

from . import formats

MB = 1_000_000


@dataclasses.dataclass(frozen=True)
class Source:
    package: str
    licence: str
    what: str
    files: tuple  # globs below the package's root; formats.sword takes (index, blocks, verses) triples
    read: object
    kind: str  # narrative, essay, reference
    limit: int = 30 * MB
    exclude: str = ""  # regular expression on paths


def sword_files(path, prefix):
    return tuple(tuple(f"usr/share/sword/modules/{path}/{testament}.{prefix}{part}" for part in "szv")
                 for testament in ("ot", "nt"))


RUST_BOOKS = tuple(f"usr/share/doc/rust-doc/html/{book}/**/*.html"
                   for book in ("book", "reference", "nomicon", "edition-guide", "rustc", "rustdoc", "embedded-book",
                                "rust-by-example"))

SOURCES = (
    Source("r-cran-janeaustenr", "public domain (texts); MIT (package)", "Jane Austen's six novels",
           ("usr/lib/R/site-library/janeaustenr/data/Rdata.rdb",), formats.r_data, "narrative"),
    Source("r-cran-tokenizers", "public domain (text); MIT (package)", "Herman Melville: Moby Dick",
           ("usr/lib/R/site-library/tokenizers/data/Rdata.rdb",), formats.r_data, "narrative"),
    Source("golang-github-pierrec-lz4-dev", "public domain (texts); BSD-3-Clause (package)",
           "Mark Twain: The Adventures of Tom Sawyer; Arthur Conan Doyle: The Adventures of Sherlock Holmes",
           ("usr/share/gocode/src/github.com/pierrec/lz4/testdata/Mark.Twain-Tom.Sawyer.txt",
            "usr/share/gocode/src/github.com/pierrec/lz4/testdata/pg1661.txt"), formats.book, "narrative"),
    Source("sword-text-web", "public domain", "the World English Bible with the Apocrypha",
           sword_files("texts/ztext/engWEB2015eb", "bz"), formats.sword, "narrative"),
    Source("sword-text-kjv", "public domain", "the King James Bible",
           sword_files("texts/ztext/engKJV2006eb", "bz"), formats.sword, "narrative"),
    Source("sword-comm-tdavid", "public domain", "C. H. Spurgeon: The Treasury of David (1885)",
           sword_files("comments/zcom/tdavid", "cz"), formats.sword, "essay", 10 * MB),
    Source("sword-comm-mhcc", "public domain", "Matthew Henry's Concise Commentary (1706)",
           sword_files("comments/zcom/mhcc", "bz"), formats.sword, "essay"),
    Source("display-dhammapada", "public domain", "the Dhammapada, two translations",
           ("usr/share/display-dhammapada/dhammapada-english-transl.txt",
            "usr/share/display-dhammapada/dhammapada-alternate.txt"), formats.dhammapada, "essay"),
    Source("golang-1.19-src", "public domain (text); BSD-3-Clause (package)", "Isaac Newton: Opticks (1730)",
           ("usr/share/go-1.19/src/testdata/Isaac.Newton-Opticks.txt",), formats.plain, "essay"),
    Source("dict-devil", "public domain", "Ambrose Bierce: The Devil's Dictionary (1911)",
           ("usr/share/dictd/devil.dict.dz",), formats.devil, "essay"),
    Source("dict-jargon", "public domain", "The Jargon File",
           ("usr/share/dictd/jargon.dict.dz",), formats.jargon, "essay"),
    Source("dict-wn", "WordNet 3.0 (permissive)", "WordNet's glosses that have an example",
           ("usr/share/dictd/wn.dict.dz",), formats.word_net, "reference", 2 * MB),
    Source("sqlite3-doc", "public domain", "SQLite's documentation",
           ("usr/share/doc/sqlite3/**/*.html",), formats.html_pages, "reference", 2 * MB,
           r"changes|/releaselog/|/c3ref/|/session/|keyword_index|doclist|sitemap|requirements|/syntax/|toc\.html"),
    Source("python3.11-doc", "PSF-2.0 (permissive)", "Python's documentation",
           ("usr/share/doc/python3.11/html/*/*.html",), formats.html_pages, "reference", 2 * MB,
           r"genindex|changelog|/_static/|/c-api/"),
    Source("rust-doc", "MIT or Apache-2.0", "the books of Rust", RUST_BOOKS, formats.html_pages, "reference", 2 * MB,
           r"print\.html|/first-edition/|/second-edition/|/2018-edition/|SUMMARY"),
    Source("postgresql-doc-15", "PostgreSQL (permissive)", "PostgreSQL's documentation",
           ("usr/share/doc/postgresql-doc-15/html/*.html",), formats.html_pages, "reference", 2 * MB,
           r"release-|bookindex|/features|sql-keywords|biblio|errcodes"),
    Source("apache2-doc", "Apache-2.0", "the Apache HTTP server's documentation",
           ("usr/share/doc/apache2-doc/manual/en/**/*.html",), formats.html_pages, "reference", 2 * MB,
           r"quickreference|directives\.html|sitemap|license"),
    Source("python-django-doc", "BSD-3-Clause", "Django's documentation",
           ("usr/share/doc/python-django-doc/html/**/*.html",), formats.html_pages, "reference", 2 * MB,
           r"/_modules/|genindex|py-modindex|/releases/"),
    Source("perl-doc", "Artistic or GPL-1+ (taken under the Artistic License)", "Perl's manual",
           ("usr/share/perl/*/pod/*.pod",), formats.pod, "reference", 3 * MB // 2,
           r"delta\.pod|perl(cn|jp|ko|tw|toc|gpl|artistic|api|intern|uniprops|modlib|hist|ebcdic)\.pod"),
)
