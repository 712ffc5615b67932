"""What a heading is called, and the anchor under which a browser finds it."""

import re

from rowen.model.text import LONGEST_HEADING, heading_within

__all__ = ["Slugs", "Trail", "title_and_anchor"]

_ANCHOR = re.compile(r"\s*\{#([^\s{}]+)(?: [^{}]*)?\}\s*$")
_CLOSING = re.compile(r"(?:^|[ \t])#+[ \t]*$")
_IMAGE_OR_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()\s]*(?:\([^()]*\)[^()\s]*)?(?: \"[^\"]*\")?\)|\[[^\[\]]*\])")
_EMPHASIS = re.compile(r"(?<!\\)(\*{1,3})(?=\S)([^*]+)(?<=\S)\1|(?<![\w\\])(_{1,3})(?=\S)([^_]+)(?<=\S)\3(?!\w)")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_MARKED = re.compile(r"[\[*_`\\{]|#$")
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")


def title_and_anchor(source: str) -> tuple[str, str | None]:
    """The plain words of a heading line, and the anchor that it names by `{#id}`, if it does."""
    line = _words(source[: 4 * LONGEST_HEADING].strip())
    if not _MARKED.search(line):
        return heading_within(line), None
    anchor = None
    if line[-1] == "}" and (found := _ANCHOR.search(line)):
        anchor, line = found[1], line[: found.start()]
    return heading_within(_plain(_CLOSING.sub("", line) if line.endswith("#") else line)), anchor


def _plain(line: str) -> str:
    """The words without links, emphasis, code marks and escapes."""
    if "[" in line:
        line = _IMAGE_OR_LINK.sub(r"\1", line)
    if "*" in line or "_" in line:
        line = _EMPHASIS.sub(lambda match: match[2] or match[4], line)
    line = line.replace("`", "")
    return (_ESCAPE.sub(r"\1", line) if "\\" in line else line).strip()


def _words(source: str) -> str:
    """The heading without its hashes or its underline, on one line."""
    words = source.lstrip("#") if source.startswith("#") else source.rpartition("\n")[0] or source
    return " ".join(words.split())


class Slugs:
    """Anchors as GitHub derives them from headings; a repeated one gets a number."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def of(self, title: str) -> str:
        """The anchor of the next heading of the document."""
        slug = _NOT_IN_SLUG.sub("", title.lower()).replace(" ", "-")
        count = self._seen.get(slug, 0)
        self._seen[slug] = count + 1
        return f"{slug}-{count}" if count else slug


class Trail:
    """The headings in force while a document is read from its top."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []
        self._slugs = Slugs()
        self.anchor: str | None = None

    def enter(self, level: int, source: str) -> None:
        """Pass a heading: it ends all headings of its level and below."""
        title, anchor = title_and_anchor(source)
        slug = self._slugs.of(title)
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        self._open.append((level, title))
        self.anchor = anchor or slug or None

    @property
    def path(self) -> tuple[str, ...]:
        """The titles from the outermost heading to the nearest one."""
        return tuple(title for _, title in self._open if title)
