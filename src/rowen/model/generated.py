"""What documentation generators write beside the pages, for their own search: indexes, and copies of the sources.

They name every word of the documentation, and would be found before the pages that say something about it.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Built", "is_copy", "is_index", "is_mark"]

# mdBook puts the first eight hexadecimal digits of a file's hash into its name.
_DIGEST_DIGITS = 8
_HEXADECIMAL = frozenset("0123456789abcdef")
_RELEASE = "0123456789."


class _Generator(NamedTuple):
    """Known in a folder by all names of one of its `marks`; leaves files and `folders` there that are no pages.

    The files have one of the `names`, or begin and end as `framed` says.
    """

    marks: tuple[frozenset[str], ...]
    names: frozenset[str] = frozenset()
    framed: tuple[tuple[str, str], ...] = ()
    folders: frozenset[str] = frozenset()

    def has_written(self, name: str) -> bool:
        """Whether a file is the generator's own."""
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
# `print.html` is the whole book once more, and `toc.html` its contents: for browsers, and closed to search engines.
_MDBOOK = _Generator(
    (frozenset({"searchindex.js", "elasticlunr.min.js"}), frozenset({"searchindex.json", "elasticlunr.min.js"})),
    frozenset({"searchindex.js", "searchindex.json", "searcher.js", "elasticlunr.min.js", "mark.min.js"})
    | {"print.html", "toc.html", "toc.js"},
)
# The root has one index of all crates, and each module another of its own.
_RUSTDOC = _Generator(
    tuple(map(frozenset, ({"crates.js", "src-files.js"}, {"crates.js", "search-index.js"}, {"sidebar-items.js"}))),
    frozenset({"crates.js", "src-files.js", "source-files.js", "search-index.js", "sidebar-items.js", "all.html"}),
    folders=frozenset({"search.index", "search.desc", "static.files", "trait.impl", "type.impl"}),
)
_GENERATORS = (_SPHINX, _JAVADOC, _DOXYGEN, _TYPEDOC, _MKDOCS, _MDBOOK, _RUSTDOC)

_MARKS = frozenset(name for generator in _GENERATORS for marks in generator.marks for name in marks)

# On a site the names themselves tell: no other page is called so.
_INDEXES = frozenset({"genindex", "modindex", "py-modindex", "index-all"})
_COPIED = (".txt", ".rst", ".md", ".ipynb")


def is_copy(url: str) -> bool:
    """Whether a URL is that of the source of a page, as a generator puts it beside the page."""
    path = url.partition("?")[0]
    return "/_sources/" in path and path.endswith(_COPIED)


def is_index(url: str) -> bool:
    """Whether a URL is that of a generated index, which leads to pages and is none."""
    folder, _, last = url.partition("?")[0].removesuffix("/").rpartition("/")
    name = last.removesuffix(".html").removesuffix(".htm")
    if folder.endswith("/index-files"):
        return name.startswith("index-") and name.removeprefix("index-").isdigit()
    return name in _INDEXES or name.startswith("genindex-")


def is_mark(name: str) -> bool:
    """Whether the folder of a generator may be known by the name of a file in it."""
    return name in _MARKS or _plain(name) in _MARKS


def _plain(name: str) -> str:
    """A name without the digest or release that some generators put into it: `toc-7d3893f2.js`, `crates1.95.0.js`."""
    stem, dash, rest = name.rpartition("-")
    digest, dot, ending = rest.partition(".")
    if dash and len(digest) == _DIGEST_DIGITS and set(digest) <= _HEXADECIMAL:
        return f"{stem}{dot}{ending}"
    stem, dot, ending = name.rpartition(".")
    return f"{stem.rstrip(_RELEASE)}{dot}{ending}" if ending == "js" else name


class Built:
    """Folders that generators have written; paths are relative, with `/` between their parts."""

    def __init__(self, paths: Iterable[str]) -> None:
        """Find them by all paths that there are, or by those whose names are marks."""
        names: dict[str, set[str]] = defaultdict(set)
        for path in paths:
            folder, _, name = path.rpartition("/")
            if is_mark(name):
                names[folder] |= {name, _plain(name)}
        found = {
            folder: [one for one in _GENERATORS if any(marks <= there for marks in one.marks)]
            for folder, there in names.items()
        }
        self._folders = {folder: generators for folder, generators in found.items() if generators}

    def __bool__(self) -> bool:
        return bool(self._folders)

    def leaves_out(self, path: str, *, is_folder: bool = False) -> bool:
        """Whether a file or folder, or what it lies in, is no page."""
        parts = path.split("/") if self._folders else []
        for depth, name in enumerate(parts):
            within = is_folder or depth < len(parts) - 1
            for generator in self._folders.get("/".join(parts[:depth]), ()):
                if name in generator.folders if within else generator.has_written(name):
                    return True
        return False
