"""File names: the media type of each, and files that documentation generators wrote."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

_DOCUMENTS = {
    "text/markdown": "md markdown mdown mkd mdx qmd rmd",
    "text/plain": "txt text log adoc asciidoc org pod textile me",
    "text/html": "html htm xhtml shtml",
    "text/x-rst": "rst rest",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv tab",
    "application/json": "json geojson jsonld topojson webmanifest",
    "application/x-ndjson": "jsonl ndjson",
    "application/json5": "json5 jsonc",
    "application/yaml": "yaml yml",
    "application/toml": "toml",
    "application/xml": "xml xsd xsl xslt rdf wsdl rss atom owl plist",
    "application/x-ipynb+json": "ipynb",
}

_PACKED = {
    "application/pdf": "pdf",
    "application/rtf": "rtf",
    "application/epub+zip": "epub",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx docm",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx xlsm",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx pptm ppsx",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.presentation": "odp",
}

_LANGUAGES = {
    "ada": "adb ads",
    "assembly": "asm s",
    "awk": "awk",
    "bash": "sh bash zsh ksh bats",
    "batch": "bat cmd",
    "c": "c h",
    "clojure": "clj cljs cljc edn",
    "cmake": "cmake",
    "cpp": "cc cpp cxx hh hpp hxx ino",
    "crystal": "cr",
    "csharp": "cs",
    "css": "css",
    "cuda": "cu cuh",
    "cython": "pyx pxd",
    "d": "d",
    "dart": "dart",
    "diff": "diff patch",
    "elixir": "ex exs",
    "elm": "elm",
    "erlang": "erl hrl",
    "fish": "fish",
    "fortran": "f f90 f95 f03",
    "fsharp": "fs fsx fsi",
    "gleam": "gleam",
    "glsl": "glsl vert frag",
    "go": "go",
    "graphql": "graphql gql",
    "groovy": "groovy gradle",
    "haskell": "hs lhs",
    "hcl": "hcl tf tfvars",
    "ini": "ini cfg conf properties env editorconfig",
    "java": "java",
    "javascript": "js mjs cjs jsx",
    "jinja": "j2 jinja jinja2",
    "julia": "jl",
    "kotlin": "kt kts",
    "latex": "tex sty cls bib",
    "less": "less",
    "lisp": "lisp lsp cl el",
    "lua": "lua",
    "make": "mk mak",
    "nim": "nim",
    "nix": "nix",
    "objectivec": "m mm",
    "ocaml": "ml mli",
    "pascal": "pas pp",
    "perl": "pl pm",
    "php": "php",
    "powershell": "ps1 psm1 psd1",
    "prolog": "pro",
    "protobuf": "proto",
    "python": "py pyi pyw",
    "r": "r",
    "ruby": "rb rake gemspec",
    "rust": "rs",
    "scala": "scala sc sbt",
    "scheme": "scm ss rkt",
    "scss": "scss sass",
    "solidity": "sol",
    "sparql": "sparql rq",
    "sql": "sql ddl psql",
    "svelte": "svelte",
    "swift": "swift",
    "tcl": "tcl",
    "thrift": "thrift",
    "turtle": "ttl nt nq n3 trig",
    "typescript": "ts tsx mts cts",
    "vb": "vb vbs bas",
    "verilog": "v sv svh",
    "vhdl": "vhd vhdl",
    "vim": "vim",
    "vue": "vue",
    "wgsl": "wgsl",
    "zig": "zig",
}

_CODE = "text/x-"

MEDIA: Mapping[str, str] = MappingProxyType(
    {ending: media for media, endings in (_DOCUMENTS | _PACKED).items() for ending in endings.split()}
    | {ending: _CODE + language for language, endings in _LANGUAGES.items() for ending in endings.split()}
)
"""The media types by the ending of the file name, in lower case and without the dot."""

_KNOWN = frozenset(MEDIA.values())
_NAMES = {
    "text/markdown": "readme changelog changes contributing code_of_conduct security llms.txt llms-full.txt",
    "text/plain": "license licence copying copyright notice authors contributors maintainers news todo install history"
    " credits thanks codeowners version",
    "text/x-make": "makefile gnumakefile",
    "text/x-docker": "dockerfile containerfile",
    "text/x-cmake": "cmakelists.txt",
    "text/x-ruby": "rakefile gemfile podfile vagrantfile brewfile",
    "text/x-groovy": "jenkinsfile",
    "text/x-bash": "configure .bashrc .profile .zshrc",
    "text/x-ini": ".gitignore .gitattributes .dockerignore .editorconfig .env .npmrc .gitmodules",
    "text/x-starlark": "build workspace build.bazel",
    "text/x-just": "justfile",
}
_BY_NAME = {name: media for media, names in _NAMES.items() for name in names.split()}

_SERVED_AS: Mapping[str, str] = {
    "application/javascript": "javascript",
    "application/x-javascript": "javascript",
    "application/x-httpd-php": "php",
    "application/x-perl": "perl",
    "application/x-python": "python",
    "application/x-ruby": "ruby",
    "application/x-sh": "bash",
    "application/x-shellscript": "bash",
    "application/typescript": "typescript",
    "application/sql": "sql",
    "application/graphql": "graphql",
    "application/sparql-query": "sparql",
    "application/n-triples": "turtle",
    "application/trig": "turtle",
    "text/css": "css",
    "text/javascript": "javascript",
    "text/ecmascript": "javascript",
    "text/turtle": "turtle",
    "text/x-c++": "cpp",
    "text/x-c++src": "cpp",
    "text/x-chdr": "c",
    "text/x-csrc": "c",
    "text/x-java-source": "java",
    "text/x-script.python": "python",
    "text/x-sh": "bash",
    "text/x-shellscript": "bash",
}
_TEXT_SUFFIXES = ("+json", "+xml", "+yaml")
_TEXT = frozenset(_DOCUMENTS) | {
    "application/ndjson",
    "application/jsonlines",
    "application/x-jsonlines",
    "application/x-yaml",
    "application/x-toml",
}
_NOT_TEXT = frozenset({"image/svg+xml", "text/rtf"})


_claimed: dict[str, str] = {}
_claimed_types: set[str] = set()


def claim(endings: Mapping[str, str], media_types: Iterable[str]) -> None:
    """Set the endings and media types that readers of other packages support; earlier ones are replaced."""
    _claimed.clear()
    _claimed.update(endings)
    _claimed_types.clear()
    _claimed_types.update(media_types)


def claims() -> str | None:
    """Return the endings and media types of other packages' readers as one line; None if there are none.

    The line is part of a cursor, since these readers determine which files are selected.
    """
    endings = (f".{ending}={media_type}" for ending, media_type in _claimed.items())
    return " ".join(sorted((*endings, *_claimed_types))) or None


def can_be_read(media_type: str) -> bool:
    """Return whether a reader supports a media type; `media_type` is in lower case and without parameters."""
    return media_type in _KNOWN or media_type in _claimed_types or is_text(media_type)


def media_type_of(name: str) -> str | None:
    """Return the media type of a file by its name; None if no reader supports the file."""
    base = name.replace("\\", "/").rpartition("/")[2].lower()
    if known := _BY_NAME.get(base):
        return known
    stem, dot, ending = base.rpartition(".")
    if not dot:
        return None
    return (_claimed.get(ending) or MEDIA.get(ending)) if stem else None


def language_of(media_type: str) -> str | None:
    """Return the programming language of a media type, as named in a Markdown fence; None if it is not source code."""
    if served := _SERVED_AS.get(media_type):
        return served
    language = media_type.removeprefix(_CODE)
    return language if language in _FENCED else None


_FENCED = frozenset(_LANGUAGES) | {"docker", "starlark", "just"}


def is_text(media_type: str) -> bool:
    """Return whether a media type is a text format."""
    essence = media_type.partition(";")[0].strip().lower()
    if essence in _NOT_TEXT:
        return False
    return essence.startswith("text/") or essence in _TEXT or essence in _SERVED_AS or essence.endswith(_TEXT_SUFFIXES)


# mdBook puts the first eight hexadecimal digits of a file's hash into its name.
_DIGEST_DIGITS = 8
_HEXADECIMAL = frozenset("0123456789abcdef")
_RELEASE = "0123456789."


class _Generator(NamedTuple):
    """A documentation generator. A folder is its output if the folder has all names of one set in `marks`.

    Its `folders` contain no pages. Files with a name in `names`, or with a prefix and suffix in `framed`, are no
    pages.
    """

    marks: tuple[frozenset[str], ...]
    names: frozenset[str] = frozenset()
    framed: tuple[tuple[str, str], ...] = ()
    folders: frozenset[str] = frozenset()

    def has_written(self, name: str) -> bool:
        """Return whether a file is an auxiliary file of the generator rather than a page."""
        if name in self.names or _plain(name) in self.names:
            return True
        return any(name.startswith(begin) and name.endswith(end) for begin, end in self.framed)


_SPHINX = _Generator(
    (frozenset({"objects.inv"}), frozenset({"searchindex.js", "search.html"})),
    frozenset({"searchindex.js", "genindex.html", "modindex.html", "py-modindex.html", "search.html"}),
    (("genindex-", ".html"),),
    frozenset({"_sources"}),
)
_JAVADOC = _Generator(
    (frozenset({"element-list"}), frozenset({"package-list"})),
    frozenset({"index-all.html", "search.html", "search.js", "search-page.js"}),
    (("", "-search-index.js"), ("allclasses", ".html"), ("allpackages", ".html")),
    frozenset({"index-files"}),
)
_DOXYGEN = _Generator(
    (frozenset({"doxygen.css"}),), framed=(("navtree", ".js"), ("menu", ".js")), folders=frozenset({"search"})
)
_TYPEDOC = _Generator((frozenset({"search.js", "highlight.css"}),), frozenset({"search.js", "navigation.js"}))
_MKDOCS = _Generator((frozenset({"search_index.json"}),), frozenset({"search_index.json"}))
# `print.html` is the whole book on one page, and `toc.html` its contents; both are excluded from search engines.
_MDBOOK = _Generator(
    (frozenset({"searchindex.js", "elasticlunr.min.js"}), frozenset({"searchindex.json", "elasticlunr.min.js"})),
    frozenset({"searchindex.js", "searchindex.json", "searcher.js", "elasticlunr.min.js", "mark.min.js"})
    | {"print.html", "toc.html", "toc.js"},
)
# The root has one index of all crates, and each module has its own index.
_RUSTDOC = _Generator(
    tuple(map(frozenset, ({"crates.js", "src-files.js"}, {"crates.js", "search-index.js"}, {"sidebar-items.js"}))),
    frozenset({"crates.js", "src-files.js", "source-files.js", "search-index.js", "sidebar-items.js", "all.html"}),
    folders=frozenset({"search.index", "search.desc", "static.files", "trait.impl", "type.impl"}),
)
_GENERATORS = (_SPHINX, _JAVADOC, _DOXYGEN, _TYPEDOC, _MKDOCS, _MDBOOK, _RUSTDOC)

_MARKS = frozenset(name for generator in _GENERATORS for marks in generator.marks for name in marks)

# On a website the name is sufficient, since no other page has such a name.
_INDEXES = frozenset({"genindex", "modindex", "py-modindex", "index-all"})
_COPIED = (".txt", ".rst", ".md", ".ipynb")


def is_copy(url: str) -> bool:
    """Return whether a URL is the source text of a page, which some generators publish beside the page."""
    path = url.partition("?")[0]
    return "/_sources/" in path and path.endswith(_COPIED)


def is_index(url: str) -> bool:
    """Return whether a URL is a generated index rather than a page."""
    folder, _, last = url.partition("?")[0].removesuffix("/").rpartition("/")
    name = last.removesuffix(".html").removesuffix(".htm")
    if folder.endswith("/index-files"):
        return name.startswith("index-") and name.removeprefix("index-").isdigit()
    return name in _INDEXES or name.startswith("genindex-")


def is_mark(name: str) -> bool:
    """Return whether a file name may identify the output folder of a generator."""
    return name in _MARKS or _plain(name) in _MARKS


def _plain(name: str) -> str:
    """Return a name without the digest or release that some generators add: `toc-7d3893f2.js`, `crates1.95.0.js`."""
    stem, dash, rest = name.rpartition("-")
    digest, dot, ending = rest.partition(".")
    if dash and len(digest) == _DIGEST_DIGITS and set(digest) <= _HEXADECIMAL:
        return f"{stem}{dot}{ending}"
    stem, dot, ending = name.rpartition(".")
    return f"{stem.rstrip(_RELEASE)}{dot}{ending}" if ending == "js" else name


class Built:
    """The output folders of documentation generators; paths are relative, with `/` as separator."""

    def __init__(self, paths: Iterable[str]) -> None:
        """Find the folders in `paths`: all paths of a tree, or only the paths for whose names `is_mark` is true."""
        names: dict[str, set[str]] = defaultdict(set)
        for path in paths:
            folder, _, name = path.rpartition("/")
            if is_mark(name):
                names[folder] |= {name, _plain(name)}
        generators_by_folder = {
            folder: [generator for generator in _GENERATORS if any(marks <= there for marks in generator.marks)]
            for folder, there in names.items()
        }
        self._folders = {folder: generators for folder, generators in generators_by_folder.items() if generators}

    def __bool__(self) -> bool:
        return bool(self._folders)

    def leaves_out(self, path: str, *, is_folder: bool = False) -> bool:
        """Return whether a path is an auxiliary file or folder of a generator, or is in such a folder."""
        parts = path.split("/") if self._folders else []
        for depth, name in enumerate(parts):
            within = is_folder or depth < len(parts) - 1
            for generator in self._folders.get("/".join(parts[:depth]), ()):
                if name in generator.folders if within else generator.has_written(name):
                    return True
        return False
