"""Which media type a file name stands for, among those that can be read."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

__all__ = ["MEDIA", "can_be_read", "claim", "claims", "is_text", "language_of", "media_type_of"]

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
"""The media type by the ending of a file name, without its dot, in lower case."""

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
    """Set which endings and media types readers of other packages claim, in place of those claimed before."""
    _claimed.clear()
    _claimed.update(endings)
    _claimed_types.clear()
    _claimed_types.update(media_types)


def claims() -> str | None:
    """What readers of other packages claim, in one line for a cursor: with other claims, other files are chosen."""
    endings = (f".{ending}={media_type}" for ending, media_type in _claimed.items())
    return " ".join(sorted((*endings, *_claimed_types))) or None


def can_be_read(media_type: str) -> bool:
    """Whether there is a reader for a media type, lower case and without parameters."""
    return media_type in _KNOWN or media_type in _claimed_types or is_text(media_type)


def media_type_of(name: str) -> str | None:
    """The media type of a file by its name, if it is one that can be read."""
    base = name.replace("\\", "/").rpartition("/")[2].lower()
    if known := _BY_NAME.get(base):
        return known
    stem, dot, ending = base.rpartition(".")
    if not dot:
        return None
    return (_claimed.get(ending) or MEDIA.get(ending)) if stem else None


def language_of(media_type: str) -> str | None:
    """The programming language that a media type stands for, as it is written at a Markdown fence."""
    if served := _SERVED_AS.get(media_type):
        return served
    language = media_type.removeprefix(_CODE)
    return language if language in _FENCED else None


_FENCED = frozenset(_LANGUAGES) | {"docker", "starlark", "just"}


def is_text(media_type: str) -> bool:
    """Whether a body of this media type is text, of whatever format."""
    essence = media_type.partition(";")[0].strip().lower()
    if essence in _NOT_TEXT:
        return False
    return essence.startswith("text/") or essence in _TEXT or essence in _SERVED_AS or essence.endswith(_TEXT_SUFFIXES)
