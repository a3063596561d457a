#!/usr/bin/env python3
"""The module diagram of ARCHITECTURE.md, enforced: layering_test.py [ROOT]

Fails on an include that points up, on a third-party header outside the module that wraps it, on a library that prints
or ends the process, on a public header that the umbrella header lacks, on a table in ARCHITECTURE.md that disagrees
with CMake, and on comments or documents that speak of the place where they were written. Reports (without failing)
files past 400 lines. What a module may include is what its CMakeLists.txt links: DEPENDS, and theirs.
"""
import pathlib
import re
import sys

INTRINSICS = r"(?:imm|x86|avx512f|avx|emm|xmm|amx\w*)intrin\.h|cpuid\.h|arm_neon\.h"

# Third-party and system headers: where each may be included. A header that matches no row is an error, so that a new
# dependency is a decision. Paths are prefixes below the root.
HEADER_PLACES = [
    (r"[a-z_]+", None),  # the C++ standard library: no directory, no suffix
    (r"fmt/.*", None),
    (r"nlohmann/json(_fwd)?\.hpp", ["src/io/", "src/text/", "src/model/", "src/study/", "src/train/", "include/kirchhoff/io/",
                                    "include/kirchhoff/text/", "include/kirchhoff/model/", "include/kirchhoff/train/",
                                    "include/kirchhoff/study/",
                                    "apps/"]),
    (r"(oneapi/)?dnnl.*|omp\.h", ["src/kernels/gemm_onednn"]),
    (r"Eigen/.*", ["src/weights/dense.cc"]),
    (r"cairo(-svg)?\.h", ["src/draw/canvas.cc"]),
    (r"zlib\.h", ["src/io/", "apps/"]),  # in apps: its version
    (r"pcre2\.h", ["src/text/"]),
    (r"utf8proc\.h", ["src/text/", "apps/"]),  # in apps: how many columns a character takes
    (r"CLI/.*|spdlog/.*", ["apps/"]),
    (INTRINSICS, ["src/kernels/x86/"]),
    (r"(unistd|sched|pthread|fcntl|dirent)\.h|sys/(mman|stat|types|resource|sysinfo|syscall|file)\.h",
     ["src/base/", "src/tensor/", "src/io/", "src/model/", "src/kernels/x86/", "apps/"]),
    (r"malloc\.h", ["src/tensor/allocate.cc"]),  # glibc: how much freed memory a process keeps
    (r"(signal|termios)\.h|sys/(ioctl|wait|auxv|utsname)\.h", ["src/kernels/x86/", "apps/"]),
]

# What the library must not do: print, end the process.
FORBIDDEN_CALLS = re.compile(
    r"\b(?:(?:std::)?(?:_?exit|quick_exit|abort|terminate|printf|puts|putchar|system)\s*\(|std::(?:cout|cerr|clog)\b"
    r"|fmt::print\b|(?<!\w)std(?:out|err)\b)")

# Documents and comments speak of the product alone: no developer's paths, no addresses but the public ones listed.
FOREIGN_WORDS = re.compile(
    r"(?<![\w.])/(?:work|home|root|Users)/\w+|\b(?:this|the) (?:workplace|sandbox|session|conversation)\b"
    r"|\b(?:AI|coding|language-model) (?:agent|assistant)s?\b", re.IGNORECASE)
URL = re.compile(r"https?://([\w.-]+)")
PUBLIC_HOSTS = {"arxiv.org", "github.com", "huggingface.co", "transformer-circuits.pub", "www.apache.org", "keepachangelog.com",
                "semver.org", "json-schema.org", "localhost", "en.wikipedia.org", "doi.org", "no-color.org"}

SIZE_REPORT = 400
CODE = ("src", "include", "apps", "examples", "bench", "fuzz")


def strip_comments_and_strings(text):
    """The code with comments, strings and characters blanked, line breaks kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def code_files(root, *folders):
    return sorted(path for folder in folders for path in (root / folder).rglob("*") if path.suffix in (".cc", ".h"))


def module_graph(root):
    """Modules bottom up, as src/CMakeLists.txt lists them, and for each the set of modules that it links itself."""
    listed = re.search(r"foreach\(module ([^)]*)\)", (root / "src/CMakeLists.txt").read_text())
    order = listed.group(1).split()
    direct = {}
    for module in order:
        text = (root / "src" / module / "CMakeLists.txt").read_text()
        call = re.search(r"kirchhoff_add_module\((\w+)([^)]*)\)", text)
        words = call.group(2).split()
        direct[module] = set()
        if "DEPENDS" in words:
            for word in words[words.index("DEPENDS") + 1:]:
                if word.isupper() or word.startswith("PUBLIC_"):
                    break
                direct[module].add(word)
    return order, direct


def check_graph(root, order, direct):
    for module, below in direct.items():
        for other in sorted(below):
            if other not in order[:order.index(module)]:
                yield f"src/{module}/CMakeLists.txt: {module} depends on {other}, which is not below it"
    rows = dict(re.findall(r"^\| (\w+) \| `include/kirchhoff/\w+/` \| ([^|;]*)", (root / "ARCHITECTURE.md").read_text(), re.M))
    for module, below in direct.items():
        said = set(re.findall(r"\w+", rows.get(module, ""))) & set(order)
        if said != below:
            yield (f"ARCHITECTURE.md: the table says that {module} knows {sorted(said) or 'nothing'}, "
                   f"CMake links {sorted(below) or 'nothing'}")


def reachable(direct, module):
    found = {module}
    for below in direct.get(module, ()):
        found |= reachable(direct, below)
    return found


def check_includes(root, order, direct):
    for path in code_files(root, "src", "include", "apps"):
        name = path.relative_to(root).as_posix()
        place = re.match(r"(?:src|include/kirchhoff)/(\w+)/", name)
        module = place.group(1) if place else None
        allowed = reachable(direct, module) if module else set(order)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            include = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if not include:
                continue
            quote, header = include.groups()
            where = f"{name}:{number}: #include {quote}{header}{'>' if quote == '<' else quote}"
            first = header.removeprefix("kirchhoff/").split("/")[0]
            if quote == '"':
                if first in order and first not in allowed:
                    yield f"{where}: {module} may include {sorted(allowed)} only"
                elif module and not header.startswith("kirchhoff/") and first in order and first != module:
                    yield f"{where}: the private headers of {first} are its own"
                elif module and first not in order and header != "kirchhoff/kirchhoff.h":
                    yield f"{where}: write the path from include/ or src/, beginning with a module"
                continue
            rows = [places for pattern, places in HEADER_PLACES if re.fullmatch(pattern, header)]
            if not rows:
                yield f"{where}: not in the list of headers; if it is meant, add it to HEADER_PLACES in tests/layering_test.py"
            elif not any(places is None or any(name.startswith(place) for place in places) for places in rows):
                yield f"{where}: only in {', '.join(sorted({p for places in rows for p in places}))}"


def check_calls(root):
    for path in code_files(root, "src", "include"):
        for number, line in enumerate(strip_comments_and_strings(path.read_text()).splitlines(), 1):
            if match := FORBIDDEN_CALLS.search(line):
                yield f"{path.relative_to(root)}:{number}: '{match.group().strip()}': the library never prints and never exits"


def check_umbrella(root):
    umbrella = root / "include/kirchhoff/kirchhoff.h"
    included = set(re.findall(r'#include "(kirchhoff/[^"]+)"', umbrella.read_text())) if umbrella.exists() else set()
    for path in code_files(root, "include"):
        name = path.relative_to(root / "include").as_posix()
        if path != umbrella and name not in included:
            yield f"include/kirchhoff/kirchhoff.h: lacks {name} (tools/update-umbrella)"


def check_words(root):
    documents = [p for p in sorted(root.rglob("*.md")) if not {".cache", "build", "models", ".git"} & set(p.relative_to(root).parts)
                 and not p.relative_to(root).parts[0].startswith("build")]
    scripts = [p for folder in ("tools", "tests", "cmake", "bench", "examples") for p in sorted((root / folder).rglob("*"))
               if p.suffix in (".py", ".cmake", ".txt", ".in", ".sh") and p.name not in ("layering_test.py", "layering_checker_test.py")]
    for path in documents + scripts + code_files(root, *CODE, "tests"):
        name = path.relative_to(root).as_posix()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if match := FOREIGN_WORDS.search(line):
                yield f"{name}:{number}: '{match.group()}': speak of the product alone"
            for host in URL.findall(line):
                if host not in PUBLIC_HOSTS and not host.startswith(("127.", "example.")):
                    yield f"{name}:{number}: '{host}' is not among the public addresses that the project cites"


def long_files(root):
    for path in code_files(root, *CODE, "tests"):
        lines = path.read_text().count("\n")
        if lines > SIZE_REPORT and "generated" not in path.name and "_table" not in path.name:
            yield f"{path.relative_to(root)}: {lines} lines"


def violations(root):
    order, direct = module_graph(root)
    return [*check_graph(root, order, direct), *check_includes(root, order, direct), *check_calls(root),
            *check_umbrella(root), *check_words(root)]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    for line in long_files(root):
        print(f"long file, ask what the second idea is: {line}")
    found = violations(root)
    for line in found:
        print(line)
    print(f"layering: {len(found)} violations")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
